"""Check that the dependencies of a graph have no cycle."""

from __future__ import annotations

import numpy as np

from ..engine_api.interface import EngineGraph
from ..kernel.jit import Int, jit_without_refcounts
from ..reference.op_state import cycle_error
from .memory.state_layout import NONE, Array, Links


def refuse_cycle(graph: EngineGraph) -> None:
    """Raise an error for a graph whose dependencies form a cycle.

    Raises
    ------
    GraphError
        Names a shortest cycle.

    Examples
    --------
    >>> from ..engine_api.engine_literal import LiteralOp, literal_graph
    >>> after = [LiteralOp(), LiteralOp(((-1, (0, 2)),)), LiteralOp(((-1, (1,)),))]
    >>> refuse_cycle(literal_graph("loop", after))
    Traceback (most recent call last):
    ...
    foretrace.sim.errors.GraphError: cycle: graph 'loop': op 1 -> op 2 -> op 1; remove a dependency
    """
    n = len(graph)
    links = np.require(graph.successors, np.int32, ["C", "W"])
    indptr = np.require(graph.indptr, np.int64, ["C", "W"])
    further = np.require(graph.further, np.int32, ["C", "W"])
    unmet = np.zeros(n, np.int32)
    if count_topologically_reached(indptr, links, further, unmet) == n:
        return
    op = np.concatenate([np.arange(n), further])
    stuck = np.flatnonzero(unmet > 0).tolist()
    bounds = {i: slice(indptr[i], indptr[i + 1]) for i in stuck}
    raise cycle_error(graph.name, {i: op[links[at]].tolist() for i, at in bounds.items()})


@jit_without_refcounts
def count_topologically_reached(indptr: Array, links: Links, further: Links, unmet: Links) -> Int:
    """Number of ops that a topological sort reaches; smaller than the graph if it has a cycle.

    Afterwards ``unmet`` is the number of unmet dependencies of each op. Ready ops form a stack that
    is linked through this array.
    """
    n = len(unmet)
    for e in range(len(links)):
        p = np.int64(links[e])
        unmet[p if p < n else further[p - n]] += 1
    top = np.int64(NONE)
    for i in range(n):
        if unmet[i] == 0:
            unmet[i] = top
            top = np.int64(i)
    done = np.int64(0)
    while top != NONE:
        op = top
        top = np.int64(unmet[op])
        unmet[op] = 0
        done += 1
        for e in range(indptr[op], indptr[op + 1]):
            p = np.int64(links[e])
            v = p if p < n else np.int64(further[p - n])
            unmet[v] -= 1
            if unmet[v] == 0:
                unmet[v] = top
                top = v
    return done
