"""Meaning of the profiler's categories: the kind of event that each stands for.

The names are those of Kineto's activity types (``libkineto/src/ActivityType.cpp``) and of the
profilers of other vendors. An event of any other category is *not read*: it is kept and counted,
but no op is made of it, unless the user states what the category means. ``hpu_op`` and
``collective_comm`` are not read, because some profilers use them for host calls, others for work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..sim.errors import TraceError
from .event_columns import Event
from .recorded_events import RecordedEvents

CATEGORIES: dict[str, Event] = {  # lower case, as PyTorch 1.8 to 2.13 and its backends write them
    "cpu_op": Event.OP,
    "operator": Event.OP,
    "user_annotation": Event.ANNOTATION,
    "python_function": Event.PYTHON,
    "cuda_runtime": Event.RUNTIME,
    "cuda_driver": Event.RUNTIME,
    "runtime": Event.RUNTIME,
    "driver": Event.RUNTIME,
    "hip_runtime": Event.RUNTIME,
    "xpu_runtime": Event.RUNTIME,
    "xpu_driver": Event.RUNTIME,
    "privateuse1_runtime": Event.RUNTIME,
    "privateuse1_driver": Event.RUNTIME,
    "mtia_runtime": Event.RUNTIME,
    "gcu_runtime": Event.RUNTIME,
    "gcu_driver": Event.RUNTIME,
    "glow_runtime": Event.RUNTIME,
    "cann": Event.RUNTIME,
    "kernel": Event.KERNEL,
    "concurrent_kernel": Event.KERNEL,
    "mtia_ccp_events": Event.KERNEL,  # "on-device CCP events": the work of the accelerator
    "ascend hardware": Event.KERNEL,
    "gpu_memcpy": Event.COPY,
    "gpu_memset": Event.COPY,
    "memcpy": Event.COPY,
    "memset": Event.COPY,
    "gcu_memcpy": Event.COPY,
    "gcu_memset": Event.COPY,
    "cuda_sync": Event.SYNC,
}
NO_WORK = frozenset(
    (
        "external_correlation", "cpu_instant_event", "overhead", "cuda_profiler_range",
        "cuda_event", "trace", "gpu_user_annotation", "gcu_user_annotation", "ac2g", "fwdbwd",
        "async_gpu", "async_npu", "xpu_sync", "gcu_sync", "xpu_scope_profiler", "gpu_pm_counter",
        "mtia_counters", "overlap analysis",
    )
)  # fmt: skip
"""Categories of events that mark or repeat work of other events."""

KINDS = {
    "kernel": Event.KERNEL,
    "copy": Event.COPY,
    "runtime": Event.RUNTIME,
    "operator": Event.OP,
    "ignore": None,
}
"""Kinds that a user may give a category; None leaves its events out."""
UNNAMED = "none"
"""How events without category and without the name of a process are called."""
Recorded = TypeVar("Recorded", bound=RecordedEvents)


def category_kind(category: str) -> Event:
    """Kind of event of a category; `Event.OTHER` if it is no work or not known.

    >>> category_kind("Kernel").name, category_kind("hpu_op").name
    ('KERNEL', 'OTHER')
    """
    return CATEGORIES.get(category.lower(), Event.OTHER)


def is_unread(trace: RecordedEvents) -> NDArray[np.bool_]:
    """True where an event lasts, but its category is not known, shape (n,).

    >>> trace = RecordedEvents.of(strings=("hpu_op", "overhead"), category=[0, 1], dur=5)
    >>> is_unread(trace).tolist()
    [True, False]
    """
    unknown = np.array([s.lower() not in NO_WORK for s in (*trace.strings, "")], np.bool_)
    other = trace.events["kind"] == Event.OTHER
    return np.asarray(other & (trace.events["dur"] > 0) & unknown[trace.events["category"]])


def with_categories(trace: Recorded, kinds: Mapping[str, str]) -> Recorded:
    """Copy of a trace in which categories stand for the given kinds of events.

    Parameters
    ----------
    kinds : by category (in any case), one of ``kernel``, ``copy``, ``runtime``, ``operator`` and
        ``ignore``

    Raises
    ------
    TraceError
        No event has a category, or a kind is none of these.

    Examples
    --------
    >>> trace = RecordedEvents.of(strings=("hpu_op",), category=[0], dur=5)
    >>> with_categories(trace, {"hpu_op": "kernel"}).events["kind"].tolist()
    [4]
    """
    for category, kind in kinds.items():
        trace = _with_category(trace, category, kind)
    return trace


def _with_category(trace: Recorded, category: str, kind: str) -> Recorded:
    if kind not in KINDS:
        raise TraceError(
            f"category {category}: the kind is '{kind}'; choose from {', '.join(KINDS)}"
        )
    rows = _rows_of_category(trace, category)
    to = KINDS[kind]
    if to is None:
        return _without_rows(trace, rows, category)
    kinds = trace.events["kind"].copy()
    kinds[rows] = to
    return replace(trace, events=trace.events.replace(kind=kinds))


def _rows_of_category(trace: RecordedEvents, category: str) -> NDArray[np.int64]:
    wanted = "" if category.lower() == UNNAMED else category.lower()
    same = np.array([s.lower() == wanted for s in (*trace.strings, "")], np.bool_)
    rows = np.flatnonzero(same[trace.events["category"]])
    if not len(rows):
        known = sorted({s or UNNAMED for s in np.unique(trace.text("category")).tolist()})
        close = get_close_matches(category, known, 1)
        raise TraceError(
            f"category {category}: no event has it; choose from {', '.join(close or known)}"
        )
    return rows


def _without_rows(trace: Recorded, rows: NDArray[np.int64], category: str) -> Recorded:
    """Copy of a trace without some events, with a note that they were left out."""
    kept = np.ones(len(trace), np.bool_)
    kept[rows] = False
    number = np.cumsum(kept) - 1
    tables = {}
    for name in ("collectives", "syncs", "allocations"):
        table = getattr(trace, name)
        table = table.take(np.flatnonzero(kept[table["event"]]))
        tables[name] = table.replace(event=number[table["event"]])
    note = f"{len(rows)} events of category {category} were left out, as requested"
    return replace(
        trace,
        events=trace.events.take(np.flatnonzero(kept)),
        notes=(*trace.notes, note),
        **tables,
    )
