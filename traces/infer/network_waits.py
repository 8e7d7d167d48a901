"""Who waits for collectives that run on threads of their own (gloo on CPUs).

DistributedDataParallel waits for its buckets in the order in which it issued them, each just
before it copies that bucket's gradients back; the sizes tell which copy belongs to which bucket.
Any other collective is waited for by the pause of the issuing thread in which it ended.
"""

from __future__ import annotations

import re
from collections import deque
from math import prod
from typing import NamedTuple

import numpy as np

from ..column_table import Integers
from ..event_columns import Event
from .cpu_segments import WaitSpans
from .launches import Launches
from .rank_trace import RankTrace
from .thread_waits import busy

COPY_BACK = re.compile(r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad")


class NetworkWaits(NamedTuple):
    """Waits of threads for collectives.

    Parameters
    ----------
    waits : Waits
    work : (w,) position of the collective that each waits for
    end : (n,) when each launched work was over for those who wait: never after they went on
    unresolved : collectives that nobody was seen to wait for
    """

    waits: WaitSpans
    work: Integers
    end: Integers
    unresolved: int


def network_waits(view: RankTrace, work: Launches) -> NetworkWaits:
    """Find who waits for gloo's collectives."""
    mine = np.flatnonzero(view.network[work.row] & (work.call >= 0))
    mine = mine[np.argsort(view.start[work.call[mine]], kind="stable")]
    found: list[tuple[int, int, int, int]] = []  # line, start, until, work
    for line in np.unique(view.lines[work.call[mine]]).tolist():
        issued = mine[view.lines[work.call[mine]] == line].tolist()
        found += _of_thread(view, work, line, issued)
    end = work.end.copy()
    for _, _, until, k in found:
        end[k] = min(end[k], until)
    table = np.array(found, np.int64).reshape(-1, 4)
    waits = WaitSpans(table[:, 0], table[:, 1], table[:, 2])
    return NetworkWaits(waits, table[:, 3], end, len(mine) - len(set(table[:, 3].tolist())))


def _of_thread(
    view: RankTrace, work: Launches, line: int, issued: list[int]
) -> list[tuple[int, int, int, int]]:
    own = busy(view, line)
    resumed = _copied_back(view, work, line, issued)
    found = []
    for k in issued:
        if k in resumed:
            at = int(np.searchsorted(own.start, resumed[k], side="right")) - 1
        else:  # the pause in which it ended
            at = int(np.searchsorted(own.start, work.end[k]))
        if not 0 < at < len(own.start):
            continue
        before, after = int(own.end[at - 1]), int(own.start[at])
        if k in resumed or before < work.end[k] <= after:
            found.append((line, before, min(max(int(work.end[k]), before), after), k))
    return found


def _copied_back(view: RankTrace, work: Launches, line: int, issued: list[int]) -> dict[int, int]:
    """When the gradients of each bucket began to be copied back."""
    copies = np.flatnonzero((view.kind == Event.OP) & (view.lines == line) & view.named(COPY_BACK))
    events = [(int(view.start[work.call[k]]), 0, k) for k in issued]
    events += [(int(view.start[c]), 1, c) for c in copies.tolist()]
    waiting: deque[int] = deque()
    left, found = 0, {}
    for time, copy, row in sorted(events):
        if not copy:
            waiting.append(row)
            continue
        if left <= 0 and waiting:
            bucket = waiting.popleft()
            found[bucket], left = time, elements(view, int(work.row[bucket]))
        left -= elements(view, row)
    return found


def elements(view: RankTrace, row: int) -> int:
    """Numbers in the largest input of an event; 0 where shapes were not recorded."""
    text = int(view.events["shapes"][row])
    if text < 0:
        return 0
    shapes = re.findall(r"\[([\d, ]+)\]", view.trace.strings[text])
    return max((prod(int(s) for s in shape.split(",")) for shape in shapes), default=0)
