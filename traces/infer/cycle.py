"""Cycles of dependencies, refused: ranks that entered collectives in different orders."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.ops import Kind, Ops


def refuse_cycles(
    place: str, ops: Ops, source: NDArray[np.int64], target: NDArray[np.int64]
) -> None:
    """Refuse a graph in which ops wait for each other.

    Parameters
    ----------
    place : names the file in the message
    source, target : (e,) op `target` waits for op `source`

    Raises
    ------
    TraceError
        There is a cycle; the message names the collectives in it.

    Examples
    --------
    >>> refuse_cycles("rank0.json", Ops.of(kind=[0, 0]), np.array([0]), np.array([1]))
    """
    import rustworkx as rx

    graph = rx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(range(len(ops)))
    graph.extend_from_edge_list(list(zip(source.tolist(), target.tolist(), strict=True)))
    if rx.is_directed_acyclic_graph(graph):
        return
    inside = {op for edge in rx.digraph_find_cycle(graph) for op in edge}
    together = sorted(op for op in inside if ops.kind[op] == Kind.COLLECTIVE)
    if not together:
        named = " and ".join(f"op {op}" for op in sorted(inside)[:3])
        what = f"{named} wait for each other" if len(inside) > 1 else f"{named} waits for itself"
        raise TraceError(f"{place}: {what}; the trace is damaged, record or export it again")
    named = " and ".join(f"{ops.signature_text(op)} (op {op})" for op in together[:3])
    raise TraceError(
        f"{place}: {named} wait for each other: ranks enter them in "
        "different orders; the files are of different runs, record them together"
    )
