"""Columns of the tables of a recorded trace; code, files and documentation are derived from them.

Rows are events in the order of their file. -1 means "not recorded" (0 in columns that count bytes
or elements).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Event(IntEnum):
    """Kind of an event."""

    OP = 0
    """An operator on a host thread (``cpu_op``)."""
    ANNOTATION = 1
    """A range that somebody named (``user_annotation``): ``ProfilerStep#3``, ``DataLoader``."""
    PYTHON = 2
    """A Python function on a host thread."""
    RUNTIME = 3
    """A call into the GPU's runtime or driver, which may launch, record, wait or copy."""
    KERNEL = 4
    """A kernel on a GPU stream."""
    COPY = 5
    """A copy or fill on a GPU stream."""
    SYNC = 6
    """A synchronisation that the profiler resolved (``cuda_sync``)."""
    MEMORY = 7
    """An allocation (bytes > 0) or a release (bytes < 0); takes no time."""
    OTHER = 8
    """Anything else that has a duration."""


ON_HOST = (Event.OP, Event.ANNOTATION, Event.PYTHON, Event.RUNTIME)
ON_GPU = (Event.KERNEL, Event.COPY)


class EventColumn(NamedTuple):
    """One column: NumPy type, value for "not recorded", and meaning."""

    dtype: str
    absent: int
    meaning: str


_TEXT = "number of the text in `strings`"

EVENTS: dict[str, EventColumn] = {
    "rank": EventColumn("i4", -1, "rank of the process that recorded it"),
    "kind": EventColumn("u1", 8, "number of an `Event`"),
    "category": EventColumn("i4", -1, f"category, or the event's process; {_TEXT}"),
    "name": EventColumn("i4", -1, _TEXT),
    "ts": EventColumn("i8", 0, "start, ticks after the trace's origin"),
    "dur": EventColumn("i8", 0, "duration, ticks"),
    "track": EventColumn(
        "i4", -1, "number of the process and thread (or GPU and stream) in `tracks`"
    ),
    "correlation": EventColumn("i8", -1, "joins a runtime call to the GPU work it launched"),
    "external": EventColumn(
        "i8", -1, "joins GPU work and runtime calls to the operator around them"
    ),
    "device": EventColumn("i4", -1, "number of the GPU in its machine"),
    "stream": EventColumn("i4", -1, "GPU stream"),
    "bytes": EventColumn("i8", 0, "bytes copied, allocated or (negative) released"),
    "shapes": EventColumn("i4", -1, f"shapes of the inputs, as JSON; {_TEXT}"),
    "dtypes": EventColumn("i4", -1, f"element types of the inputs, as JSON; {_TEXT}"),
    "scalars": EventColumn("i4", -1, f"arguments other than tensors, as JSON; {_TEXT}"),
    "stack": EventColumn("i4", -1, f"call stack; {_TEXT}"),
    "module": EventColumn("i4", -1, f"module hierarchy; {_TEXT}"),
    "sequence": EventColumn("i8", -1, "joins a forward operator to its backward operators"),
    "forward": EventColumn("i8", -1, "thread of the forward operator, as the profiler numbers it"),
    "python": EventColumn("i8", -1, "number of the Python call"),
    "caller": EventColumn("i8", -1, "number of the Python call around it"),
    "function": EventColumn(
        "i8", -1, "number of the profiler's record; joins it to an execution trace"
    ),
    "graph_node": EventColumn("i8", -1, "node of the CUDA or HIP graph that launched it"),
}

COLLECTIVES: dict[str, EventColumn] = {
    "event": EventColumn("i8", -1, "row of the event that it belongs to"),
    "name": EventColumn("i4", -1, f"collective; {_TEXT}"),
    "dtype": EventColumn("i4", -1, f"element type; {_TEXT}"),
    "sent": EventColumn("i8", 0, "elements of the input buffer"),
    "received": EventColumn("i8", 0, "elements of the output buffer"),
    "sent_splits": EventColumn("i4", -1, f"input rows for each rank, as JSON; {_TEXT}"),
    "size": EventColumn("i8", -1, "ranks in the group"),
    "group": EventColumn("i4", -1, f"name of the process group; {_TEXT}"),
    "ranks": EventColumn("i4", -1, f"ranks of the group, as JSON; {_TEXT}"),
    "sequence": EventColumn("i8", -1, "number of the collective in its group"),
}

SYNCS: dict[str, EventColumn] = {
    "event": EventColumn("i8", -1, "row of the event that it belongs to"),
    "kind": EventColumn("i4", -1, f"kind of synchronisation; {_TEXT}"),
    "stream": EventColumn("i8", -1, "stream that waits, or that the host waits for"),
    "awaited_stream": EventColumn("i8", -1, "stream that is waited for"),
    "awaited_record": EventColumn(
        "i8", -1, "correlation of the call that recorded the awaited event"
    ),
}

ALLOCATIONS: dict[str, EventColumn] = {
    "event": EventColumn("i8", -1, "row of the memory event"),
    "allocated": EventColumn("i8", 0, "bytes in use on that device afterwards"),
    "reserved": EventColumn("i8", 0, "bytes that the allocator holds afterwards"),
    "device_type": EventColumn("i8", -1, "0 for host memory, otherwise a GPU's"),
    "address": EventColumn("i8", -1, "address"),
}

TABLES: dict[str, dict[str, EventColumn]] = {
    "events": EVENTS,
    "collectives": COLLECTIVES,
    "syncs": SYNCS,
    "allocations": ALLOCATIONS,
}

TEXTS = tuple(
    (table, name)
    for table, columns in TABLES.items()
    for name, column in columns.items()
    if column.meaning.endswith(_TEXT)
)
"""(table, column) of every column that holds numbers of texts."""
