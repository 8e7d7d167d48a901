"""Exact folding of an explicit graph: identical ops are simulated once.

Colour refinement (:mod:`.symmetry`) finds ops that do the same at the same ticks. One op of each
class runs; the usage of the others is added to its weight on shared components. A graph is not
folded if the classes fail the exactness check, if a queue would be served in another order, if ops
hold amounts of a capacity, or if a driver times ops during the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engine_api.interface import MOST_WEIGHT, ComponentTable, EngineColumns, EngineGraph, Flows
from ..facts.csr import Csr
from .symmetry import Numbers, Symmetry, SymmetryTables, first_members

WORTH = 0.75  # of the ops: with more classes it takes longer to fold a graph than to run it


@dataclass(frozen=True)
class Quotient:
    """Folded graph: one op of each class of identical ops, on one component of each class.

    Parameters
    ----------
    parts, graph : component table and graph after folding, in the form that both engines take
    op : (n,) for each op of the original graph, its row in the folded graph
    place : (n + e,) for each participant of an op, its index in the folded graph
    component : (c,) for each component, its index in the folded system
    """

    parts: ComponentTable
    graph: EngineGraph
    op: Numbers
    place: Numbers
    component: Numbers

    def expand(self, columns: EngineColumns) -> EngineColumns:
        """Times of all ops, from the times of one op of each class."""
        return EngineColumns(
            columns.ready[self.op],
            columns.start[self.op],
            columns.end[self.op],
            columns.state[self.op],
            columns.attempts[self.op],
            columns.arrived[self.place],
        )


def fold_identical_ops(parts: ComponentTable, graph: EngineGraph) -> Quotient | None:
    """Fold a graph that runs alone and without processes; None if that does not save much.

    Examples
    --------
    >>> none = np.empty(0, np.int32)
    >>> two = ComponentTable(("a", "b"), np.array([1, 1]), np.array([-1, -1]), np.array([-1, -1]))
    >>> twins = EngineGraph(
    ...     "twins", none, np.array([0, 1]), np.zeros(3, np.int64), none,
    ...     np.empty(0, np.int64), np.array([5, 5]), Flows.none(), none,
    ... )
    >>> folded = fold_identical_ops(two, twins)
    >>> len(folded.graph), folded.op.tolist(), folded.component.tolist()
    (1, [0, 0], [0, 0])
    """
    if np.any(graph.online >= 0) or len(graph.claims):
        return None
    tables = SymmetryTables.of(parts, graph)
    if len(tables.order) < len(graph):
        return None  # a cycle: the engine says which
    colours = tables.refine()
    if colours.op.max(initial=-1) + 1 > WORTH * len(graph):
        return None  # a draw of jitter leaves hardly two ops alike
    if not tables.is_exact(colours):
        return None
    return _quotient(tables, colours)


def _quotient(of: SymmetryTables, colours: Symmetry) -> Quotient | None:
    """Build the quotient from classes whose members are sorted by their first op."""
    graph, parts = of.graph, of.parts
    ops, components = first_members(colours.op), first_members(colours.component)
    mine = np.concatenate([ops, len(graph) + np.flatnonzero(np.isin(graph.further, ops))])
    rows = mine[np.sort(np.unique(colours.place[mine], return_index=True)[1])]
    extra = of.op_of[rows[len(ops) :]]
    place = np.empty(len(rows), np.int64)
    place[colours.place[rows]] = np.arange(len(rows))
    slot = np.where(graph.slot[rows] < 0, -1, colours.component[graph.slot[rows]])
    if not _keeps_queue_order(of, colours, components, place):
        return None
    flows = _quotient_flows(graph.flows, colours, ops, components)
    if flows is None:
        return None
    waits = of.waits.take(rows)
    pairs = np.unique(np.column_stack([colours.op[waits.values], waits.owner]), axis=0)
    after = Csr.from_pairs(pairs[:, 0], pairs[:, 1], len(ops))
    folded = EngineGraph(
        graph.name,
        colours.op[extra].astype(np.int32),
        slot.astype(np.int32),
        after.indptr,
        after.values,
        graph.release[ops] if len(graph.release) else graph.release,
        graph.fixed[ops],
        flows,
        np.empty(0, np.int16),
    )
    names = tuple(parts.names[c] for c in components)
    machine = ComponentTable(
        names, parts.slots[components], parts.rate[components], parts.top[components]
    )
    return Quotient(machine, folded, colours.op, place[colours.place], colours.component)


def _keeps_queue_order(
    of: SymmetryTables, colours: Symmetry, components: Numbers, place: Numbers
) -> bool:
    """True if queues of the quotient serve classes in the order of the full graph's ops."""
    mine = np.flatnonzero(of.graph.slot >= 0)
    mine = mine[np.isin(of.graph.slot[mine], components)]
    mine = mine[np.lexsort((of.position[mine], of.graph.slot[mine]))]
    number = place[colours.place[mine]]
    key = np.column_stack([of.graph.slot[mine], colours.op[of.op_of[mine]], number])
    return bool(np.array_equal(np.lexsort(key.T[::-1]), np.arange(len(key))))


def _quotient_flows(
    flows: Flows, colours: Symmetry, ops: Numbers, components: Numbers
) -> Flows | None:
    """Flows of the first op of each class, weighted by the usage of the complete class.

    None if a weight exceeds its integer range.
    """
    user = colours.op[np.repeat(flows.op, np.diff(flows.indptr))]
    seen = np.zeros(len(colours.component), bool)
    seen[components] = True
    at = seen[flows.component]
    pairs = np.column_stack([user[at], colours.component[flows.component[at]]])
    pairs, which = np.unique(pairs, axis=0, return_inverse=True)
    if np.any(np.bincount(which.ravel(), flows.weight[at]) >= 0.99 * MOST_WEIGHT):
        return None
    weight = np.zeros(len(pairs), np.int64)
    np.add.at(weight, which.ravel(), flows.weight[at])
    rows = np.flatnonzero(np.isin(flows.op, ops))
    classes = colours.op[flows.op[rows]]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=len(ops))[classes])])
    return Flows(
        classes.astype(np.int32),
        flows.work_hi[rows],
        flows.work_lo[rows],
        flows.limit[rows],
        indptr,
        pairs[:, 1].astype(np.int32),
        weight,
    )
