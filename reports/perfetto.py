"""A timeline that opens in ui.perfetto.dev: a process for each rank, a track for each stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sim.machine import NEVER
from ..sim.ops import KIND_NAMES
from ..sim.result import Result
from .places import placed

MOST_SLICES = 40_000  # of all variants together; the first in time are kept, and it is said


def write_timeline(path: Path, results: Mapping[str, Result]) -> int:
    """Write the runs of all variants side by side; returns how many slices were left out."""
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    builder = TraceProtoBuilder()
    left_out, uuid = 0, 1
    share = MOST_SLICES // max(len(results), 1)
    for variant, result in results.items():
        uuid, cut = _run(builder, variant, result.detail, uuid, share)
        left_out += cut
    path.write_bytes(builder.serialize())
    return left_out


def _run(builder: Any, variant: str, result: Result, uuid: int, most: int) -> tuple[int, int]:
    """One variant; returns the next free track number and how many slices were left out."""
    where = placed(result)
    rows = np.flatnonzero(result.columns.end[where.op] != NEVER)
    rows = rows[np.argsort(result.columns.start[where.op[rows]], kind="stable")]
    kept = rows[:most]
    op, on, stream_of = where.op[kept], where.rank[kept], where.stream[kept]
    tracks: dict[tuple[int, int], int] = {}
    for rank in np.unique(on).tolist():
        uuid += 1
        process = uuid
        _process(builder, process, rank, f"{variant}: rank {rank}")
        streams = np.unique(stream_of[on == rank])
        for stream in streams.tolist():
            uuid += 1
            tracks[rank, stream] = uuid
            _track(builder, uuid, process, f"stream {stream}")
    slices = zip(op.tolist(), on.tolist(), stream_of.tolist(), _names(result, op), strict=True)
    for i, rank, stream, name in slices:
        track = tracks[rank, stream]
        start = _nanoseconds(result, int(result.columns.start[i]))
        end = _nanoseconds(result, int(result.columns.end[i]))
        _slice(builder, track, name, start, end)
    return uuid, len(rows) - len(kept)


def _names(result: Result, rows: NDArray[np.int64]) -> list[str]:
    """What some ops are called; their kind where they have no name."""
    texts, labels, base = [], [], 0
    for run in result.runs:
        texts += [label.name for label in run.graph.labels]
        own = run.graph.ops.label.astype(np.int64)
        labels.append(np.where(own >= 0, own + base, -1))
        base = len(texts)
    label = np.concatenate(labels)[rows]
    kinds = KIND_NAMES[result.ops.kind[rows]]
    found: list[str] = np.where(label >= 0, np.array([*texts, ""], object)[label], kinds).tolist()
    return found


def _nanoseconds(result: Result, tick: int) -> int:
    return round(tick * result.tick * 1e9)


def _process(builder: Any, uuid: int, pid: int, name: str) -> None:
    packet = builder.add_packet()
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.process.pid = uuid
    packet.track_descriptor.process.process_name = name


def _track(builder: Any, uuid: int, parent: int, name: str) -> None:
    packet = builder.add_packet()
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.parent_uuid = parent
    packet.track_descriptor.name = name


def _slice(builder: Any, track: int, name: str, start: int, end: int) -> None:
    for at, kind in ((start, 1), (end, 2)):  # TYPE_SLICE_BEGIN, TYPE_SLICE_END
        packet = builder.add_packet()
        packet.timestamp = at
        packet.track_event.track_uuid = track
        packet.track_event.type = kind
        packet.trusted_packet_sequence_id = 1
        if kind == 1:
            packet.track_event.name = name
