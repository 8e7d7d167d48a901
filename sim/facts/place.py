"""Placement: the component that each op queues for, and the component whose backend times it.

Ops of one stream depend on each other also after placement, so slots delay an op only when more
ops are ready than there are slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from .flat_graph import FlatGraph
from .graph import Graph
from .roles import (
    NETWORK,
    assign_slots,
    components_by_role,
    place_without_role,
    rows_by_role,
)
from .system import System


def place(graph: Graph, system: System, placement: Sequence[str] | None = None) -> Graph:
    """Place a graph on a system: choose the GPU of each rank and the slot component of each op.

    A compute op queues for its rank's GPU, a host op for the host, a copy for the DMA engines. An
    op of a plug-in's kind, or on a stream named after a plug-in's role, queues for the part in that
    role. A send or collective queues for what runs its stream (the GPU for a kernel, the host for a
    thread), or for nothing on a stream of kind ``network``. Delays and gaps queue for nothing.

    Parameters
    ----------
    placement : names of GPUs, or None
        GPU of each rank; None puts rank r on the r-th GPU of the system.

    Raises
    ------
    GraphError
        There are more ranks than GPUs, a rank is below 0, or a name is not a component.

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
            f"them on; {_cure_for_ranks(system, len(names))}",
        )
    count = graph.ranks
    chosen = system.numbers[:count] if placement is None else map(system.number, names[:count])
    gpus = np.array(list(chosen), np.int32)
    blocks = graph.blocks
    if all(isinstance(block, FlatGraph) for block in blocks):
        blocks = (graph.explicit,)
    for block in blocks:
        if isinstance(block, FlatGraph):
            _require_roles(graph, block, system, gpus)
    # An SPMD graph gets its slots when it is expanded.
    placed = (
        assign_slots(block, system, gpus, graph.streams) if isinstance(block, FlatGraph) else block
        for block in blocks
    )
    return replace(graph, system=system, gpus=gpus, blocks=tuple(placed))


def _require_roles(graph: Graph, block: FlatGraph, system: System, gpus: NDArray[np.int32]) -> None:
    """Raise an error for an op on a stream of a plug-in's role that its rank has no part for."""
    found = place_without_role(block, system, gpus, graph.streams)
    if found is not None:
        role, p = found
        op, rank = int(block.op_of_place[p]), int(block.rank[p])
        part = system.components[gpus[rank]]
        where = part.node or part.name
        raise GraphError(
            "role",
            f"{graph.name!r} op {op}: runs on the role {role!r} of rank {rank}, but {where} has no "
            f"component of that role; give {where} one, or move the rank",
            (op,),
        )


def _cure_for_ranks(system: System, places: int) -> str:
    """What to do about ranks that have no place."""
    if places:
        return f"add machines, or scale the workload to {places} ranks"
    having = [part.name for part in system.components.parts if part.slots is not None]
    named = f"such as [{having[0]}]" if having else "on components with slots"
    return f"give the machines GPUs, or name the component of each rank in placement.ranks, {named}"


def timing_component_per_op(graph: Graph) -> NDArray[np.int32]:
    """Component whose backend times each op, shape (n,); -1 for delays and gaps.

    Sends and collectives belong to the fabric. Delays and gaps last as recorded.
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
