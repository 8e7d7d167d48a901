"""Perfetto timeline (ui.perfetto.dev): one process per rank, one track per stream.

Field numbers and flags are those of Perfetto's ``protos/perfetto/trace/perfetto_trace.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...sim.engine_api.interface import NEVER
from ...sim.facts.kind import kind_names
from ...sim.run.result import Result
from .op_labels import op_labels
from .op_places import op_places
from .protobuf import Bytes, join_fields, length_delimited_field, utf8_text, varint_field

MOST_SLICES = 40_000  # of all variants together; the first in time are kept, and it is said

PACKET = 1  # of a trace
TIMESTAMP, SEQUENCE, EVENT, INTERNED, FLAGS, TRACK = 8, 10, 11, 12, 13, 60  # of a packet
TYPE, NAME_ID, ON_TRACK = 9, 10, 11  # of an event
BEGIN, END = 1, 2  # types of event
CLEARED, NEEDED = 1, 2  # flags: names begin anew here, names are needed
EVENT_NAME, ID, NAME = 2, 1, 2  # of interned data; of an event's name
UUID, TRACK_NAME, PROCESS, PARENT = 1, 2, 3, 5  # of a track
PID, PROCESS_NAME = 1, 6  # of a process


def write_perfetto_timeline(path: Path, results: Mapping[str, Result]) -> int:
    """Write the timelines of all variants into one file; returns the number of slices left out."""
    share = MOST_SLICES // max(len(results), 1)
    names: dict[str, int] = {}
    parts: list[Bytes] = []
    left_out, uuid = 0, 1
    drawn = {variant: result for variant, result in results.items() if result.count}
    for variant, result in drawn.items():
        timeline = _Timeline(result.detail, share)
        parts += timeline.tracks(variant, uuid)
        parts.append(timeline.slices(uuid, names))
        uuid += timeline.size
        left_out += timeline.left_out
    path.write_bytes(b"".join(p.tobytes() for p in (_interned_names_packet(names), *parts)))
    return left_out


class _Timeline:
    """The first slices of one run, and the tracks that they are on.

    Track numbers of ranks follow their order in ``ranks``; tracks of streams come after them.
    """

    def __init__(self, result: Result, most: int):
        where = op_places(result)
        rows = np.flatnonzero(result.columns.end[where.op] != NEVER)
        rows = rows[np.argsort(result.columns.start[where.op[rows]], kind="stable")]
        kept = rows[:most]
        self.result, self.left_out, self.op = result, len(rows) - len(kept), where.op[kept]
        on = np.stack([where.rank[kept], where.stream[kept]], axis=1)
        self.ranks = np.unique(on[:, 0])
        self.streams, stream = np.unique(on, axis=0, return_inverse=True)
        self.stream = stream.reshape(-1)
        self.size = len(self.ranks) + len(self.streams)

    def tracks(self, variant: str, uuid: int) -> Iterator[Bytes]:
        """Track descriptors: one process per rank, one track in it per stream."""
        for process, rank in enumerate(self.ranks.tolist(), uuid):
            name = length_delimited_field(PROCESS_NAME, utf8_text(f"{variant}: rank {rank}"))
            whole = length_delimited_field(PROCESS, varint_field(PID, [process]), name)
            yield _packet(length_delimited_field(TRACK, varint_field(UUID, [process]), whole))
        processes = uuid + np.searchsorted(self.ranks, self.streams[:, 0])
        both = zip(processes.tolist(), self.streams[:, 1].tolist(), strict=True)
        for track, (process, stream) in enumerate(both, uuid + len(self.ranks)):
            name = length_delimited_field(TRACK_NAME, utf8_text(f"stream {stream}"))
            parent = varint_field(PARENT, [process])
            yield _packet(length_delimited_field(TRACK, varint_field(UUID, [track]), parent, name))

    def slices(self, uuid: int, names: dict[str, int]) -> Bytes:
        """Begin and end packets of each op on its track; adds the ops' names to ``names``.

        At equal times, ends come before beginnings.
        """
        called = [names.setdefault(n, len(names) + 1) for n in _op_names(self.result, self.op)]
        track = varint_field(ON_TRACK, uuid + len(self.ranks) + self.stream)
        begin = join_fields(varint_field(TYPE, [BEGIN]), track, varint_field(NAME_ID, called))
        columns = self.result.columns
        return join_fields(
            _event_packet(self._nanoseconds(columns.start), begin),
            _event_packet(
                self._nanoseconds(columns.end), join_fields(varint_field(TYPE, [END]), track)
            ),
        )

    def _nanoseconds(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.rint(ticks[self.op] * self.result.tick * 1e9), np.int64)


def _packet(*parts: Bytes) -> Bytes:
    return length_delimited_field(PACKET, *parts)


def _event_packet(time: NDArray[np.int64], event: Bytes) -> Bytes:
    sequence = join_fields(varint_field(SEQUENCE, [1]), varint_field(FLAGS, [NEEDED]))
    return _packet(varint_field(TIMESTAMP, time), sequence, length_delimited_field(EVENT, event))


def _interned_names_packet(names: Mapping[str, int]) -> Bytes:
    """Packet that assigns numbers to slice names; it precedes all slices."""
    entries = [
        length_delimited_field(
            EVENT_NAME, varint_field(ID, [i]), length_delimited_field(NAME, utf8_text(n))
        )
        for n, i in names.items()
    ]
    flags = varint_field(FLAGS, [CLEARED])
    return _packet(
        varint_field(SEQUENCE, [1]),
        flags,
        length_delimited_field(INTERNED, *entries) if entries else flags,
    )


def _op_names(result: Result, rows: NDArray[np.int64]) -> list[str]:
    """Names of the ops of some rows; the op kind for an op without a label."""
    texts, every = op_labels(result)
    label = every[rows]
    kinds = kind_names()[result.ops.kind[rows]]
    chosen: list[str] = np.where(label >= 0, np.array([*texts, ""], object)[label], kinds).tolist()
    return chosen
