"""Signs that a rank used a GPU: work on it, launches, or work of a category that is not read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ...event_category import is_unread
from ...event_columns import Event
from ...recorded_events import FileHeader
from .rank_trace import RankTrace
from .runtime_calls import CAPTURE, KERNEL_LAUNCH, OTHER_LAUNCH
from .steps import Steps

GPU_BACKENDS = ("nccl", "rccl", "hccl", "xccl")
HOUR = 3600  # s: GPU work this much before all host events has no time, or a wrong one


def gpu_in_header(header: FileHeader) -> str:
    """Text on the GPU, or the backend of GPUs, that a file's header names; "" if it names none.

    >>> gpu_in_header(FileHeader(0, "rank0.json", backend="cpu:gloo,cuda:nccl"))
    'backend nccl'
    """
    backend = next((b for b in GPU_BACKENDS if b in header.backend.lower()), "")
    return header.device or (f"backend {backend}" if backend else "")


def uses_device(events: RankTrace) -> bool:
    """True if a rank used a GPU, even if none of its work was recorded or read."""
    return events.has_gpu or bool(
        is_launch(events, all_kinds=True).any() or unread_device_work(events).any()
    )


def is_launch(events: RankTrace, all_kinds: bool = False) -> NDArray[np.bool_]:
    """True where a runtime call launches one kernel, or with `all_kinds` any work, shape (n,)."""
    named = events.name_matches(KERNEL_LAUNCH)
    if all_kinds:
        named = named | events.name_matches(OTHER_LAUNCH)
    return np.asarray((events.kind == Event.RUNTIME) & named)


def unread_events(events: RankTrace) -> NDArray[np.bool_]:
    """True where an event lasts but has no known category, shape (n,)."""
    return np.asarray(is_unread(events.trace)[events.rows])


def unread_device_work(events: RankTrace) -> NDArray[np.bool_]:
    """True where an event without known category is work of a device, shape (n,).

    Such work has a stream or a device, or is on a track without host events.
    """
    unread = unread_events(events)
    placed = (events.table["stream"] >= 0) | (events.table["device"] >= 0)
    hosts = np.unique(events.track[events.is_host_work])
    return np.asarray(unread & (placed | ~np.isin(events.track, hosts)))


def lost_launches(events: RankTrace, steps: Steps) -> tuple[Ints, Ints]:
    """Rows of the kernel launches within the steps, and of those of them without work.

    Launches of graphs, copies and fills are not counted, because not each has work of its own; nor
    are launches that a stream captured.
    """
    counted = is_launch(events) & ~_while_capturing(events)
    if steps.marked:
        counted &= (events.start >= steps.start[0]) & (events.start < steps.end[-1])
    rows = np.flatnonzero(counted)
    lost = ~_has_work(events, rows)
    return rows, rows[lost]


def _has_work(events: RankTrace, launch: Ints) -> NDArray[np.bool_]:
    """True where a launch has GPU work with its number, shape (launch,)."""
    gpu = events.is_gpu_work
    found = np.zeros(len(launch), np.bool_)
    for column in ("correlation", "external"):
        number = events.table[column][launch]
        known = number > 0
        here = known & np.isin(number, events.table[column][gpu])
        if column == "external":
            here &= events.correlation[launch] <= 0
        found |= here
    return found


def _while_capturing(events: RankTrace) -> NDArray[np.bool_]:
    """True where an event lies between the begin and the end of a capture, shape (n,)."""
    rows = np.flatnonzero((events.kind == Event.RUNTIME) & events.name_matches(CAPTURE))
    if not len(rows):
        return np.zeros(len(events.rows), np.bool_)
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    begins = np.array(["Begin" in events.text(row) for row in rows.tolist()])
    depth = np.cumsum(np.where(begins, 1, -1))
    last = np.searchsorted(events.start[rows], events.start, side="right") - 1
    return np.asarray((last >= 0) & (depth[last] > 0))


def misplaced_work(events: RankTrace) -> Ints:
    """Rows of GPU work that starts an hour or more before the first event of the host."""
    host = events.start[events.is_host_work]
    if not len(host):
        return np.empty(0, np.int64)
    early = events.start < int(host.min()) - HOUR * events.trace.resolution
    return np.flatnonzero(events.is_gpu_work & early)
