"""Waits of GPU work for free multiprocessors on a GPU that other streams keep busy.

A kernel whose stream is free can start late because all multiprocessors are busy. No event records
this. Work is assumed to have waited for occupancy if nothing else explains its late start and other
streams were busy during all of the delay. It waited for the work of another stream that ended last
before it started. The two may overlap a little, because the last blocks of one kernel still run
while the first blocks of the next start. If it started in the middle of a long kernel, the rest of
the delay counts as GPU time, which scales with the GPU's speed.
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
    """GPU work that waited for free multiprocessors, as indices of launched work.

    Parameters
    ----------
    work, awaited : work that waited, and work that freed the GPU when it ended, shape (e,)
    mid_kernel : work that started late while other kernels were still running, shape (m,)
    """

    work: Ints
    awaited: Ints
    mid_kernel: Ints


def occupancy_waits(events: RankTrace, work: Launches, streams: StreamWaits) -> OccupancyWaits:
    """Find the GPU work that waited for free multiprocessors."""
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
    """True where the GPU was busy during the delay of a piece of work, shape (rows,).

    `rows` is the delayed work, `busy` the work that may have occupied the GPU, and `late` the delay
    in ticks.
    """
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
    """Ticks from when work was ready to its start, shape (work,); 0 if that is unknown."""
    before = work.previous_on_lane()
    ready = np.where(work.issued == EARLIER, EARLIER, work.issued + work.latency)
    ready = np.maximum(ready, np.where(before >= 0, work.end[before], EARLIER))
    np.maximum.at(ready, streams.work, work.end[streams.awaited])
    known = events.is_gpu_work[work.row] & (ready > EARLIER)
    return np.where(known, np.maximum(work.start - np.where(known, ready, 0), 0), 0)


def _work_that_freed_the_gpu(work: Launches, by_end: Ints, k: int, late: int, drain: int) -> int:
    """Index of the work on another stream that ended last during the delay of work `k`.

    -1 if none.
    """
    begins = int(work.start[k])
    until = min(begins + drain, int(work.end[k]) - 1)
    at = int(np.searchsorted(work.end[by_end], until, side="right")) - 1
    while at >= 0 and work.end[by_end[at]] > begins - late:
        j = int(by_end[at])
        if work.lane[j] != work.lane[k] and work.start[j] < begins:
            return j
        at -= 1
    return -1
