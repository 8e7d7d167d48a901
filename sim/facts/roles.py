"""Role that runs each op: the part of its rank's GPU whose slots it queues for.

Next to a GPU there is a host, DMA engines, and parts that plug-ins add. If the system has no such
part, the GPU itself takes the role. The kind of an op implies its role, unless its stream is named
after a role.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .flat_graph import FlatGraph
from .kind import DMA, GPU, HOST, OUR_ROLES, ROLES, kinds_with_role
from .ops import Kind
from .system import System

NETWORK = (Kind.SEND, Kind.RECV, Kind.COLLECTIVE)
Stream = tuple[int, int]  # (rank, stream)
_STREAM_ROLE = {"compute": GPU, "host": HOST, "copy": DMA}  # of communication, by kind of stream


def stream_role(streams: Mapping[Stream, str], stream: Stream) -> str | None:
    """Role that runs the communication ops of a stream; None for a stream of kind ``network``.

    Parameters
    ----------
    streams : kind of each stream; streams that are not listed are of kind ``network``

    Examples
    --------
    >>> stream_role({(0, 1): "copy"}, (0, 1)), stream_role({}, (0, 1))
    ('dma', None)
    """
    name = streams.get(stream, "network")
    return _STREAM_ROLE.get(name) or role_named_by_stream(name)


def role_named_by_stream(name: str) -> str | None:
    """Plug-in role that runs all ops of a stream of that name; None if there is none.

    >>> role_named_by_stream("host")
    """
    return name if name in ROLES and name not in OUR_ROLES else None


def role_of_op(kind: Kind, streams: Mapping[Stream, str], stream: Stream) -> str | None:
    """Role that runs an op of a given kind and stream; None if the op occupies nothing.

    >>> role_of_op(Kind.COPY, {}, (0, 1)), role_of_op(Kind.SEND, {(0, 1): "host"}, (0, 1))
    ('dma', 'host')
    """
    if not kind.role:
        return stream_role(streams, stream) if kind in NETWORK else None
    return role_named_by_stream(streams.get(stream, "")) or kind.role


def rows_by_role(
    kind: NDArray[np.uint8],
    rank: NDArray[np.int32],
    stream: NDArray[np.int32],
    streams: Mapping[Stream, str],
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Iterator over (role, rows of ops that it runs); later items replace earlier ones."""
    for one in kinds_with_role():
        yield one.role, np.flatnonzero(kind == one)
    yield from rows_of_named_streams(kind, rank, stream, streams).items()


def rows_of_named_streams(
    kind: NDArray[np.uint8],
    rank: NDArray[np.int32],
    stream: NDArray[np.int32],
    streams: Mapping[Stream, str],
) -> dict[str, NDArray[np.int64]]:
    """Rows of ops on streams named after a plug-in's role, by role; without communication."""
    theirs = {name for name in {*streams.values()} if role_named_by_stream(name)}
    if not theirs:
        return {}
    named = {s: name for s, name in streams.items() if name in theirs}
    rows = np.flatnonzero(np.isin(kind, kinds_with_role()))
    return _rows_on_streams(rank, stream, rows, named)


def components_by_role(system: System, gpus: NDArray[np.int32]) -> dict[str, NDArray[np.int32]]:
    """For each role, the component of each rank, shape (ranks,); by default its GPU.

    A rank on a component that is no GPU finds hosts and the parts of plug-ins in its machine.

    Parameters
    ----------
    gpus : (ranks,) GPU component of each rank, or another component that it is on
    """
    own, others = {GPU: gpus}, np.flatnonzero(~system.is_gpu[gpus])
    for role in ROLES.keys() - {GPU}:
        part = system.components_in_role(role)[gpus]
        own[role] = np.where(part >= 0, part, gpus).astype(np.int32)
        if len(others) and role != DMA:
            own[role][others] = _parts_in_machine(system, gpus[others], role)
    return own


def _parts_in_machine(
    system: System, components: NDArray[np.int32], role: str
) -> NDArray[np.int32]:
    """For each component: itself if it has the role, else the first of its machine that does."""
    has = _has_role(system, role)
    first = system.first_in_machine(role)[components]
    return np.where(has[components] | (first < 0), components, first).astype(np.int32)


def place_without_role(
    block: FlatGraph, system: System, gpus: NDArray[np.int32], streams: Mapping[Stream, str]
) -> tuple[str, int] | None:
    """Role and first place of an op on a stream of a plug-in's role, if its rank has no such part.

    None if all such ops have a part.
    """
    named = {s: role for s, kind in streams.items() if (role := role_named_by_stream(kind))}
    if not named:
        return None
    played = components_by_role(system, gpus)
    every = np.arange(len(block.rank))
    for role, places in _rows_on_streams(block.rank, block.stream, every, named).items():
        rank = block.rank[places]
        lost = (played[role][rank] == gpus[rank]) & ~_has_role(system, role)[gpus[rank]]
        if lost.any():
            return role, int(places[np.argmax(lost)])
    return None


def _has_role(system: System, role: str) -> NDArray[np.bool_]:
    """(components,) True for components in a role."""
    return system.components.column(lambda part: part.role == role, bool)


def assign_slots(
    block: FlatGraph, system: System, gpus: NDArray[np.int32], streams: Mapping[Stream, str]
) -> FlatGraph:
    """Set the component whose slots each place (op on one rank) queues for; -1 for none.

    Parameters
    ----------
    gpus : (ranks,) GPU component of each rank
    streams : kind of each stream, see :func:`stream_role`
    """
    played = components_by_role(system, gpus)
    kind = block.ops.kind[block.op_of_place]
    slot = np.full(len(kind), -1, np.int32)
    for role, rows in rows_by_role(kind, block.rank, block.stream, streams):
        slot[rows] = played[role][block.rank[rows]]
    network = np.flatnonzero(np.isin(kind, NETWORK))
    held = {s: of for s in streams if (of := stream_role(streams, s)) is not None}
    occupied = _rows_on_streams(block.rank, block.stream, network, held)
    for role, places in occupied.items():
        slot[places] = played[role][block.rank[places]]
    slot[(slot >= 0) & ~system.has_slots[slot]] = -1
    return replace(block, slot=slot)


def _rows_on_streams(
    rank: NDArray[np.int32],
    stream: NDArray[np.int32],
    rows: NDArray[np.int64],
    roles: Mapping[Stream, str],
) -> dict[str, NDArray[np.int64]]:
    """Select the rows that are on streams with a role, and group them by role."""
    rank, stream = rank[rows].astype(np.int64), stream[rows].astype(np.int64)
    least, most = int(stream.min(initial=0)), int(stream.max(initial=0))
    many = most - least + 1
    found: dict[str, list[int]] = {}
    for (r, s), role in roles.items():
        if least <= s <= most:
            found.setdefault(role, []).append(r * many + s)
    key = rank * many + stream
    return {role: rows[np.isin(key, there)] for role, there in found.items()}
