"""Checks that refuse impossible dependencies: cycles, and waits for ops of a later step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.facts.ops import Kind, Ops


def refuse_cycles(
    place: str, ops: Ops, source: NDArray[np.int64], target: NDArray[np.int64]
) -> None:
    """Refuse a graph whose dependencies form a cycle.

    Parameters
    ----------
    place : prefix of the error message that names the file
    source, target : dependencies, shape (e,): op `target` waits for op `source`

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


def refuse_later_steps(
    place: str, ops: Ops, source: NDArray[np.int64], target: NDArray[np.int64]
) -> None:
    """Refuse a graph in which an op waits for an op of a later step.

    One exception: a stream may wait for data that the next step prefetches (a DLRM on V100s does so
    ten times in six steps). A host thread may not, and nothing may wait for a step after the next.

    Parameters
    ----------
    place : prefix of the error message that names the file
    source, target : dependencies, shape (e,): op `target` waits for op `source`

    Raises
    ------
    TraceError
        The message names both ops.

    Examples
    --------
    >>> ops = Ops.of(kind=[0, 0], period=[2, 0])
    >>> refuse_later_steps("x", ops, np.array([0]), np.array([1]))
    Traceback (most recent call last):
    foretrace.sim.errors.TraceError: x: op 1 of step 0 waits for op 0 of step 2; ...
    """
    ahead = np.where(ops.period[target] >= 0, ops.period[source] - ops.period[target], 0)
    wrong = np.flatnonzero(ahead > (ops.kind[target] != Kind.HOST))
    if len(wrong):
        first, then = (int(column[wrong[0]]) for column in (source, target))
        raise TraceError(
            f"{place}: op {then} of step {ops.period[then]} waits for op {first} of step "
            f"{ops.period[first]}; the trace is damaged, record or export it again"
        )
