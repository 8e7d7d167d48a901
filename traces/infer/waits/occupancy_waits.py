"""Waits of GPU work for room on a GPU that other streams keep busy.

A kernel whose stream is free begins late where the multiprocessors are full: no event says so.
Work is taken to have waited for room if nothing else explains when it began, and other streams were
busy all that time.  It waited for the work of theirs that ended last before it (whose last blocks
drain while the next kernel's first ones begin, so that the two overlap a little); where it began
amid a long kernel, what is left of its delay is time of the GPU, as much slower or quicker as that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ..events.rank_trace import RankTrace
from .launches import EARLIER, Launches
from .stream_waits import StreamWaits
from .thread_waits import union_of_spans

LEAST = 1e-5  # s: shorter delays are the launch's own
DRAIN = 1.5e-5  # s: how much two kernels overlap at most while one makes room for the other
BUSY = 0.9  # share of the delay in which other streams worked


class OccupancyWaits(NamedTuple):
    """GPU work that waited for room; positions of launched work.

    Parameters
    ----------
    work, awaited : (e,) work that waited, and work that made room by its end
    mid_kernel : (m,) work that found room while other kernels went on
    """

    work: Ints
    awaited: Ints
    mid_kernel: Ints


def occupancy_waits(events: RankTrace, work: Launches, streams: StreamWaits) -> OccupancyWaits:
    """Find the GPU work that waited for room."""
    late = _unexplained_lateness(events, work, streams)
    gpu = np.flatnonzero(events.is_gpu_work[work.row])
    rows = np.flatnonzero(late > LEAST * events.trace.resolution)
    rows = rows[_gpu_busy_while_late(work, gpu, rows, late)]
    by_end = gpu[np.argsort(work.end[gpu], kind="stable")]
    drain = int(DRAIN * events.trace.resolution)
    made = np.array(
        [_work_that_freed_the_gpu(work, by_end, k, late[k], drain) for k in rows.tolist()], np.int64
    )
    waiting, awaited = rows[made >= 0], made[made >= 0]
    late[waiting] = np.minimum(
        late[waiting], np.maximum(work.start[waiting] - work.end[awaited], 0)
    )
    full = gpu[~events.is_communication_kernel[work.row[gpu]]]  # collectives leave room
    amid = rows[late[rows] > LEAST * events.trace.resolution]
    return OccupancyWaits(waiting, awaited, amid[_gpu_busy_while_late(work, full, amid, late)])


def _gpu_busy_while_late(work: Launches, busy: Ints, rows: Ints, late: Ints) -> NDArray[np.bool_]:
    """(rows,) Whether any of the work `busy` was on the GPU while each of `rows` was late."""
    spans = union_of_spans(work.start[busy], work.end[busy])
    done = np.concatenate([[0], np.cumsum(spans.end - spans.start)])

    def busy_until(time: Ints) -> Ints:
        at = np.searchsorted(spans.start, time, side="right")
        inside = np.minimum(time, spans.end[at - 1]) - spans.start[at - 1]
        return np.where(at > 0, done[np.maximum(at - 1, 0)] + inside, 0)

    if not len(busy):
        return np.zeros(len(rows), np.bool_)
    begins = work.start[rows]
    covered = busy_until(begins) - busy_until(begins - late[rows])
    return np.asarray(covered >= BUSY * late[rows])


def _unexplained_lateness(events: RankTrace, work: Launches, streams: StreamWaits) -> Ints:
    """(work,) Ticks for which nothing explains why each began no earlier; 0 where all is known."""
    before = work.previous_on_lane()
    ready = np.where(work.issued == EARLIER, EARLIER, work.issued + work.latency)
    ready = np.maximum(ready, np.where(before >= 0, work.end[before], EARLIER))
    np.maximum.at(ready, streams.work, work.end[streams.awaited])
    known = events.is_gpu_work[work.row] & (ready > EARLIER)
    return np.where(known, np.maximum(work.start - np.where(known, ready, 0), 0), 0)


def _work_that_freed_the_gpu(work: Launches, by_end: Ints, k: int, late: int, drain: int) -> int:
    """The work of another stream that ended last while work `k` was late; -1 for none."""
    begins = int(work.start[k])
    until = min(begins + drain, int(work.end[k]) - 1)
    at = int(np.searchsorted(work.end[by_end], until, side="right")) - 1
    while at >= 0 and work.end[by_end[at]] > begins - late:
        j = int(by_end[at])
        if work.lane[j] != work.lane[k] and work.start[j] < begins:
            return j
        at -= 1
    return -1
