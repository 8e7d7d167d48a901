"""Waits of GPU work for room on a GPU that other streams keep busy.

A kernel whose stream is free begins late where the multiprocessors are full: no event says so.
Work is taken to have waited for room if nothing else explains when it began, and other streams were
busy all that time.  Where it began as one of them ended its work (whose last blocks drain while the
next kernel's first ones begin, so that the two overlap a little) it waited for that; where it began
amid a long kernel, its delay is time of the GPU, as much slower or quicker as the GPU is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..column_table import Ints
from .launches import EARLIER, Launches
from .rank_trace import RankTrace
from .stream_waits import StreamWaits
from .thread_waits import union

LEAST = 1e-5  # s: shorter delays are the launch's own
DRAIN = 5e-5  # s: how much two kernels overlap at most while one makes room for the other
BUSY = 0.9  # share of the delay in which other streams worked


class RoomWaits(NamedTuple):
    """GPU work that waited for room; positions of launched work.

    Parameters
    ----------
    work, awaited : (e,) work that waited, and work that made room by its end
    amid : (m,) work that found room while others went on
    """

    work: Ints
    awaited: Ints
    amid: Ints


def room_waits(events: RankTrace, work: Launches, streams: StreamWaits) -> RoomWaits:
    """Find the GPU work that waited for room."""
    late = _late(events, work, streams)
    gpu = np.flatnonzero(events.on_gpu[work.row])
    busy = union(work.start[gpu], work.end[gpu])
    done = np.concatenate([[0], np.cumsum(busy.end - busy.start)])

    def busy_until(time: Ints) -> Ints:
        at = np.searchsorted(busy.start, time, side="right")
        inside = np.minimum(time, busy.end[at - 1]) - busy.start[at - 1]
        return np.where(at > 0, done[np.maximum(at - 1, 0)] + inside, 0)

    rows = np.flatnonzero(late > LEAST * events.trace.resolution)
    begins = work.start[rows]
    covered = busy_until(begins) - busy_until(begins - late[rows])
    rows = rows[covered >= BUSY * late[rows]]
    by_end = gpu[np.argsort(work.end[gpu], kind="stable")]
    made = np.array([_made_room(events, work, by_end, k) for k in rows.tolist()], np.int64)
    return RoomWaits(rows[made >= 0], made[made >= 0], rows[made < 0])


def _late(events: RankTrace, work: Launches, streams: StreamWaits) -> Ints:
    """(work,) Ticks for which nothing explains why each began no earlier; 0 where all is known."""
    before = work.previous()
    ready = np.where(work.issued == EARLIER, EARLIER, work.issued + work.latency)
    ready = np.maximum(ready, np.where(before >= 0, work.end[before], EARLIER))
    np.maximum.at(ready, streams.work, work.end[streams.awaited])
    known = events.on_gpu[work.row] & (ready > EARLIER)
    return np.where(known, np.maximum(work.start - np.where(known, ready, 0), 0), 0)


def _made_room(events: RankTrace, work: Launches, by_end: Ints, k: int) -> int:
    """The work of another stream that ended last as work `k` began, and before it ended; or -1."""
    drain = int(DRAIN * events.trace.resolution)
    begins = int(work.start[k])
    until = min(begins + drain, int(work.end[k]) - 1)
    at = int(np.searchsorted(work.end[by_end], until, side="right")) - 1
    while at >= 0 and work.end[by_end[at]] > begins - drain:
        j = int(by_end[at])
        if work.lane[j] != work.lane[k] and work.start[j] < begins:
            return j
        at -= 1
    return -1
