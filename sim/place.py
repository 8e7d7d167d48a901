"""From ranks and streams to components: which slots each op queues for, and who is asked.

Program order stays a dependency, so slots bind only where they are exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .errors import GraphError
from .graph import Explicit, Graph
from .ops import Kind
from .system import System

ROLE = {  # who runs an op of each kind, as a role of the rank's GPU; "" is the GPU itself
    Kind.COMPUTE: "",
    Kind.HOST: "host",
    Kind.COPY: "dma",
}
STREAM_ROLE = {"compute": "", "host": "host", "copy": "dma"}  # of a communication op's stream
NETWORK = (Kind.SEND, Kind.RECV, Kind.COLLECTIVE)


def place(graph: Graph, system: System, placement: Sequence[str] | None = None) -> Graph:
    """Give every op the component that it needs.

    A compute op queues for its rank's GPU, a host op for the host, a copy for the DMA engines;
    a send or collective for what its stream is (a kernel on the GPU, a thread of the host), or
    for nothing on a stream of kind ``network``; delays and gaps need nothing.

    Parameters
    ----------
    placement : names of GPUs, or None
        The GPU of each rank; None puts rank r on the r-th GPU of the system.

    Raises
    ------
    GraphError
        More ranks than GPUs, or a name that is no component.

    Examples
    --------
    >>> from foretrace.sim.graph import Builder
    >>> from foretrace.sim.system import Component
    >>> build = Builder("one")
    >>> _ = build.op(Kind.COMPUTE, duration=1.0)
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    >>> place(build.graph(), system).explicit.slot.tolist()
    [0]
    """
    names = system.gpus if placement is None else placement
    if graph.ranks > len(names):
        raise GraphError(
            "placement",
            f"{graph.name!r} has {graph.ranks} ranks, but there are {len(names)} GPUs to place "
            f"them on; add machines, or scale the workload to {len(names)} ranks",
        )
    gpus = np.array([system.number(n) for n in names[: graph.ranks]], np.int32)
    block = graph.explicit
    return replace(
        graph,
        blocks=(replace(block, slot=_slots(block, graph, system, gpus)),),
        system=system,
        gpus=gpus,
    )


def asked(graph: Graph) -> NDArray[np.int32]:
    """(n,) The component whose backend answers for each op; -1 where none is asked.

    Sends and collectives are the fabric's, delays and gaps nobody's: they last as recorded.
    """
    system, gpus = _machine(graph)
    ops = graph.ops
    roles = _roles(system, gpus)
    found = np.full(len(ops), -1, np.int32)
    for kind, role in ROLE.items():
        rows = np.flatnonzero(ops.kind == kind)
        found[rows] = roles[role][ops.rank[rows]]
    if system.fabric:
        found[np.isin(ops.kind, NETWORK)] = system.number(system.fabric)
    return found


def _machine(graph: Graph) -> tuple[System, NDArray[np.int32]]:
    if graph.system is None or graph.gpus is None:
        raise GraphError("unplaced", f"graph {graph.name!r} has no machine; call place() first")
    return graph.system, graph.gpus


def _roles(system: System, gpus: NDArray[np.int32]) -> dict[str, NDArray[np.int32]]:
    """Component by role and rank; a GPU without a part of that role plays it itself."""
    own = {"": gpus}
    for role in ("host", "dma"):
        part = np.array([system.part(int(g), role) for g in gpus], np.int32)
        own[role] = np.where(part >= 0, part, gpus).astype(np.int32)
    return own


def _slots(
    block: Explicit, graph: Graph, system: System, gpus: NDArray[np.int32]
) -> NDArray[np.int32]:
    """(n + e,) whose slots each place queues for."""
    roles = _roles(system, gpus)
    kind = block.ops.kind[block.op_of_place]
    slot = np.full(len(kind), -1, np.int32)
    for k, role in ROLE.items():
        rows = np.flatnonzero(kind == k)
        slot[rows] = roles[role][block.rank[rows]]
    network = np.flatnonzero(np.isin(kind, NETWORK))
    for p in network.tolist():
        rank = int(block.rank[p])
        stream = graph.streams.get((rank, int(block.stream[p])), "network")
        if stream in STREAM_ROLE:
            slot[p] = roles[STREAM_ROLE[stream]][rank]
    has = np.array([c.slots is not None for c in system.components], bool)
    slot[(slot >= 0) & ~has[slot]] = -1
    return slot
