"""Placement: the component that each op queues for, and the one whose backend is asked.

Program order stays a dependency, so slots bind only where they are exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from .flat_graph import FlatGraph
from .graph import Graph
from .roles import NETWORK, assign_slots, components_by_role, rows_by_role
from .system import System


def place(graph: Graph, system: System, placement: Sequence[str] | None = None) -> Graph:
    """Graph placed on a system: with the component of each rank and of each op's slot.

    A compute op queues for its rank's GPU, a host op for the host, a copy for the DMA engines, an
    op of a plug-in's kind, or on a stream named after a plug-in's role, for the part of that role;
    a send or collective for what its stream is (a kernel on the GPU, a thread of the host), or
    for nothing on a stream of kind ``network``; delays and gaps need nothing.

    Parameters
    ----------
    placement : names of GPUs, or None
        The GPU of each rank; None puts rank r on the r-th GPU of the system.

    Raises
    ------
    GraphError
        More ranks than GPUs, a rank below 0, or a name that is no component.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> from foretrace.sim.facts.system import Component
    >>> build = Builder("one")
    >>> _ = build.op(Kind.COMPUTE, duration=1.0)
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    >>> place(build.graph(), system).explicit.slot.tolist()
    [0]
    """
    names = system.gpus if placement is None else placement
    for block in graph.blocks:
        if isinstance(block, FlatGraph) and block.rank.min(initial=0) < 0:
            p = int(np.argmin(block.rank))
            op = int(block.op_of_place[p])
            raise GraphError(
                "placement",
                f"{graph.name!r} op {op}: is on rank {block.rank[p]}; give a rank of 0 or more",
                (op,),
            )
    if graph.ranks > len(names):
        raise GraphError(
            "placement",
            f"{graph.name!r} has {graph.ranks} ranks, but there are {len(names)} GPUs to place "
            f"them on; add machines, or scale the workload to {len(names)} ranks",
        )
    count = graph.ranks
    chosen = system.numbers[:count] if placement is None else map(system.number, names[:count])
    gpus = np.array(list(chosen), np.int32)
    blocks = graph.blocks
    if all(isinstance(block, FlatGraph) for block in blocks):
        blocks = (graph.explicit,)
    # An SPMD graph gets its slots when it is expanded.
    placed = (
        assign_slots(block, system, gpus, graph.streams) if isinstance(block, FlatGraph) else block
        for block in blocks
    )
    return replace(graph, system=system, gpus=gpus, blocks=tuple(placed))


def timing_component_per_op(graph: Graph) -> NDArray[np.int32]:
    """(n,) component whose backend times each op; -1 for delays and gaps, which last as recorded.

    Sends and collectives are the fabric's, delays and gaps nobody's: they last as recorded.
    """
    system, gpus = _machine_of(graph)
    ops = graph.ops
    played = components_by_role(system, gpus)
    found = np.full(len(ops), -1, np.int32)
    for role, rows in rows_by_role(ops.kind, ops.rank, ops.stream, graph.streams):
        found[rows] = played[role][ops.rank[rows]]
    if system.fabric:
        found[np.isin(ops.kind, NETWORK)] = system.number(system.fabric)
    return found


def _machine_of(graph: Graph) -> tuple[System, NDArray[np.int32]]:
    if graph.system is None or graph.gpus is None:
        raise GraphError(
            "unplaced", f"graph {graph.name!r} is not placed on a system; call place() first"
        )
    return graph.system, graph.gpus
