"""Component whose slot an op queues for, as a role of the GPU of its rank.

A GPU has a host and DMA engines beside it; where the system names none, the GPU plays their roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .flat_graph import FlatGraph
from .ops import Kind
from .system import System

ROLE = {  # who runs an op of each kind, as a role of the rank's GPU; "" is the GPU itself
    Kind.COMPUTE: "",
    Kind.HOST: "host",
    Kind.COPY: "dma",
}
NETWORK = (Kind.SEND, Kind.RECV, Kind.COLLECTIVE)
Stream = tuple[int, int]  # (rank, stream)
_STREAM_ROLE = {"compute": "", "host": "host", "copy": "dma"}  # of a communication op's stream


def stream_role(streams: Mapping[Stream, str], stream: Stream) -> str | None:
    """Role that communication on a stream occupies; None on a stream of kind ``network``.

    Parameters
    ----------
    streams : kind of each stream; one that is not listed is of kind ``network``

    Examples
    --------
    >>> stream_role({(0, 1): "copy"}, (0, 1)), stream_role({}, (0, 1))
    ('dma', None)
    """
    return _STREAM_ROLE.get(streams.get(stream, "network"))


def components_by_role(system: System, gpus: NDArray[np.int32]) -> dict[str, NDArray[np.int32]]:
    """(ranks,) components by role; a GPU without a part of that role plays it itself.

    Parameters
    ----------
    gpus : (ranks,) component of the GPU of each rank
    """
    own = {"": gpus}
    for role in ("host", "dma"):
        part = system.played(role)[gpus]
        own[role] = np.where(part >= 0, part, gpus).astype(np.int32)
    return own


def with_slots(
    block: FlatGraph, system: System, gpus: NDArray[np.int32], streams: Mapping[Stream, str]
) -> FlatGraph:
    """Block with the component that each place queues for; -1 where it queues for none.

    Parameters
    ----------
    gpus : (ranks,) component of the GPU of each rank
    streams : kind of each stream, see :func:`stream_role`
    """
    played = components_by_role(system, gpus)
    kind = block.ops.kind[block.op_of_place]
    slot = np.full(len(kind), -1, np.int32)
    for k, role in ROLE.items():
        rows = np.flatnonzero(kind == k)
        slot[rows] = played[role][block.rank[rows]]
    network = np.flatnonzero(np.isin(kind, NETWORK))
    for role, places in _occupying(block, network, streams).items():
        slot[places] = played[role][block.rank[places]]
    has = system.components.column(lambda part: part.slots is not None, bool)
    slot[(slot >= 0) & ~has[slot]] = -1
    return replace(block, slot=slot)


def _occupying(
    block: FlatGraph, network: NDArray[np.int64], streams: Mapping[Stream, str]
) -> dict[str, NDArray[np.int64]]:
    """Places of communication that occupy each role."""
    rank, stream = block.rank[network].astype(np.int64), block.stream[network].astype(np.int64)
    least, most = int(stream.min(initial=0)), int(stream.max(initial=0))
    many = most - least + 1
    found: dict[str, list[int]] = {}
    for r, s in streams:
        role = stream_role(streams, (r, s))
        if role is not None and least <= s <= most:
            found.setdefault(role, []).append(r * many + s)
    key = rank * many + stream
    return {role: network[np.isin(key, there)] for role, there in found.items()}
