"""Launches that waited because the GPU's launch queue was full.

A GPU queues a limited number of launches (about 1,020 with CUDA). Once the queue is full, each
further launch returns only when an earlier one has ended, so it is also a wait. The capacity is
read from the trace: most long launch calls return with the same number of launches in the queue.
"""

from __future__ import annotations

import numpy as np

from ...column_table import Ints
from ..events.rank_trace import RankTrace
from .launches import Launches

LEAST_FULL = 768  # launches under way; no shorter queue was ever seen to be full
LEAST_CALLS = 10  # long calls with a full queue, before it is believed to be full
LONG = 4.0  # times the median launch


def full_queue_launches(events: RankTrace, work: Launches) -> tuple[Ints, Ints]:
    """Launches that waited for a full queue: (work launched, work whose end freed a queue entry).

    Both are indices in `work`; empty if the queue was never full.
    """
    calls, last = _last_work_of_calls(events, work)
    begun, returned, ended = events.start[calls], events.end[calls], np.sort(work.end[last])
    under_way = np.arange(1, len(calls) + 1) - np.searchsorted(ended, returned, side="right")
    long = returned - begun > LONG * np.median(returned - begun) if len(calls) else begun > 0
    waiting = np.flatnonzero(long & (under_way >= LEAST_FULL))
    if len(waiting) < LEAST_CALLS:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    depth = int(np.median(under_way[waiting]))
    full = waiting[under_way[waiting] >= depth - depth // 64]
    by_end = last[np.argsort(work.end[last], kind="stable")]
    awaited = by_end[np.searchsorted(ended, returned[full], side="right") - 1]
    waited = work.end[awaited] > begun[full]
    if len(full) * 2 < len(waiting):  # no number at which most of them return
        waited[:] = False
    return last[full[waited]], awaited[waited]


def _last_work_of_calls(events: RankTrace, work: Launches) -> tuple[Ints, Ints]:
    """Calls that launched GPU work, sorted by start, and for each the work that ended last.

    A CUDA graph of many kernels is one launch.
    """
    known = np.flatnonzero((work.call >= 0) & events.is_gpu_work[work.row])
    known = known[np.lexsort((work.end[known], work.call[known]))]
    call = work.call[known]
    last = known[np.append(call[1:] != call[:-1], True)[: len(call)]]
    last = last[np.argsort(events.start[work.call[last]], kind="stable")]
    return work.call[last], last
