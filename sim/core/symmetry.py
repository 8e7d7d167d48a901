"""Equivalence classes of ops, participants and components of a graph, by colour refinement.

An op's colour depends on its times, its uses and its participants. A participant's colour depends
on its slot, its position among all participants of that slot, and its dependencies. A component's
colour depends on its properties and its users. One pass in dependency order colours all ops for
given colours of components. Then components are coloured again, until no colour splits. Ops of one
colour do the same at the same ticks.

The position keeps two ops of one queue in different classes. Colours are 64-bit hashes, so the
partition is verified afterwards by comparison.
(Weisfeiler and Leman 1968; Godsil and Royle, Algebraic Graph Theory, 9.3.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import ComponentTable, EngineGraph
from ..facts.csr import Csr
from ..facts.sampling import GOLDEN, mix_bits, random_bits
from ..kernel.jit import jit

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

_mix = jit(mix_bits)


@dataclass(frozen=True)
class Symmetry:
    """Class numbers of ops, participants and components, in order of first appearance."""

    op: Numbers
    place: Numbers
    component: Numbers


@dataclass(frozen=True)
class SymmetryTables:
    """Dependencies and resource uses of a graph, as tables for colour refinement."""

    parts: ComponentTable
    graph: EngineGraph
    op_of: Numbers  # of every place
    number: Numbers  # of every place within its op
    places: Csr  # of every op, ascending
    waits: Csr  # ops that each place waits for
    position: Numbers  # of every place among those on its component, by id
    order: Numbers  # ops, each after those that it waits for
    user: Numbers  # op of every use

    @classmethod
    def of(cls, parts: ComponentTable, graph: EngineGraph) -> SymmetryTables:
        """Build the tables of a graph; ``order`` is shorter than the graph if it has a cycle."""
        n = len(graph)
        op_of = np.concatenate([np.arange(n), graph.further]).astype(np.int64)
        places = Csr.from_pairs(op_of, np.arange(len(op_of)), n)
        number = np.arange(len(op_of)) - n + 1
        number[n:] -= places.indptr[graph.further] - graph.further
        number[:n] = 0
        source = np.repeat(np.arange(n), np.diff(graph.indptr))
        waits = Csr.from_pairs(graph.successors, source, len(op_of))
        queue = np.lexsort((number, op_of, graph.slot))
        slot = graph.slot[queue]
        begins = np.searchsorted(slot, slot)
        position = np.empty(len(op_of), np.int64)
        position[queue] = np.arange(len(op_of)) - begins
        position[graph.slot < 0] = 0
        order = _topological_order(
            op_of, graph.indptr, graph.successors.astype(np.int64), waits.counts
        )
        user = np.repeat(graph.flows.op, np.diff(graph.flows.indptr)).astype(np.int64)
        return cls(parts, graph, op_of, number, places, waits, position, order, user)

    def refine(self) -> Symmetry:
        """Refine the classes (colours) of ops, participants and components until none splits."""
        parts, flows = self.parts, self.graph.flows
        static = _hash_static_facts(self.graph)
        component = _number_classes(random_bits(parts.slots, parts.rate, parts.top))
        while True:
            uses = random_bits(component[flows.component], flows.weight)
            op, place = self._propagate_hashes(
                static + _sum_hashes(uses, self.user, len(self.graph)), component
            )
            on = _sum_hashes(place[self._slotted], self.graph.slot[self._slotted], len(parts))
            by = _sum_hashes(random_bits(op[self.user], flows.weight), flows.component, len(parts))
            finer = _number_classes(random_bits(component, on, by))
            if finer.max(initial=-1) == component.max(initial=-1):
                return Symmetry(_number_classes(op), _number_classes(place), component)
            component = finer

    @property
    def _slotted(self) -> NDArray[np.bool_]:
        return np.asarray(self.graph.slot >= 0)

    def _propagate_hashes(self, own: Hashes, component: Numbers) -> tuple[Hashes, Hashes]:
        """Hashes of ops and their participants, computed in topological order."""
        slot = np.where(self._slotted, component[self.graph.slot], -1)
        place = random_bits(slot, self.position)
        op = own.copy()
        with np.errstate(over="ignore"):
            _hash_along_dependencies(
                self.order,
                self.places.indptr,
                self.places.values.astype(np.int64),
                self.waits.indptr,
                self.waits.values.astype(np.int64),
                op,
                place,
            )
        return op, place

    def is_exact(self, of: Symmetry) -> bool:
        """True if all members of each class agree in every property that determines their times."""
        graph, flows, parts = self.graph, self.graph.flows, self.parts
        slot = np.where(self._slotted, of.component[graph.slot], -1)
        rows = np.flatnonzero(self._slotted)
        on = Csr.from_pairs(graph.slot[rows], of.place[rows], len(parts))
        weight = (
            _number_classes(flows.weight.astype(np.uint64)) if len(flows.weight) else flows.weight
        )
        many = int(weight.max(initial=0)) + 1
        uses = Csr.from_pairs(self.user, of.component[flows.component] * many + weight, len(graph))
        users = Csr.from_pairs(flows.component, of.op[self.user] * many + weight, len(parts))
        waits = Csr(self.waits.indptr, of.op[self.waits.values].astype(np.int32))
        members = Csr(self.places.indptr, of.place[self.places.values].astype(np.int32))
        return (
            _members_agree(of.op, *_op_facts(graph))
            and _members_agree(of.place, slot, self.position, of.op[self.op_of])
            and _members_agree(of.component, parts.slots, parts.rate, parts.top)
            and _same_rows(of.op, uses)
            and _same_rows(of.op, members)
            and _same_rows(of.place, waits)
            and _same_rows(of.component, on)
            and _same_rows(of.component, users)
        )


def _op_facts(graph: EngineGraph) -> tuple[NDArray[Any], ...]:
    """Properties of each op that do not depend on other ops, as columns of equal length."""
    n, flows = len(graph), graph.flows
    release = graph.release if len(graph.release) else np.zeros(n, np.int64)
    hi, lo = np.zeros(n, np.int64), np.zeros(n, np.uint64)
    limit, shares = np.zeros(n, np.int64), np.zeros(n, bool)
    hi[flows.op], lo[flows.op], limit[flows.op] = flows.work_hi, flows.work_lo, flows.limit
    shares[flows.op] = True
    return graph.fixed, release, hi, lo, limit, shares


def _hash_static_facts(graph: EngineGraph) -> Hashes:
    return random_bits(*_op_facts(graph)) if len(graph) else np.empty(0, np.uint64)


def _sum_hashes(hashes: Hashes, row: NDArray[Any], n: int) -> Hashes:
    """Sum of the hashes in each row; the order does not matter."""
    total = np.zeros(n, np.uint64)
    np.add.at(total, row, hashes[: len(row)])
    return total


def _number_classes(hashes: NDArray[Any]) -> Numbers:
    """Class number of each hash, in order of first appearance."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def first_members(numbers: Numbers) -> Numbers:
    """Index of the first member of each class, ascending.

    >>> first_members(np.array([0, 1, 0, 2])).tolist()
    [0, 1, 3]
    """
    return np.unique(numbers, return_index=True)[1].astype(np.int64)


def _members_agree(classes: Numbers, *facts: NDArray[Any]) -> bool:
    """True if every member has the same properties as the first member of its class."""
    first = first_members(classes)[classes]
    return all(np.array_equal(fact, fact[first]) for fact in facts)


def _same_rows(classes: Numbers, table: Csr) -> bool:
    """True if the row of every member equals, as a set, the row of its class's first member."""
    first = first_members(classes)[classes]
    if not np.array_equal(table.counts, table.counts[first]):
        return False
    ordered = Csr(table.indptr, table.values[np.lexsort((table.values, table.owner))])
    return np.array_equal(ordered.values, ordered.take(first).values)


@jit
def _topological_order(op_of: Any, indptr: Any, successors: Any, waits: Any) -> Any:
    """Topological order of ops; shorter than the graph if it has a cycle."""
    open_waits = np.zeros(len(indptr) - 1, np.int64)
    for place in range(len(op_of)):
        open_waits[op_of[place]] += waits[place]
    order = np.empty(len(open_waits), np.int64)
    n = 0
    for op in range(len(open_waits)):
        if open_waits[op] == 0:
            order[n] = op
            n += 1
    i = 0
    while i < n:
        for at in range(indptr[order[i]], indptr[order[i] + 1]):
            op = op_of[successors[at]]
            open_waits[op] -= 1
            if open_waits[op] == 0:
                order[n] = op
                n += 1
        i += 1
    return order[:n]


@jit
def _hash_along_dependencies(
    order: Any, places_at: Any, places: Any, waits_at: Any, waits: Any, op: Any, place: Any
) -> None:
    """Hash the dependencies of each participant, and the participants of each op, in order."""
    for i in order:
        total = op[i]
        for at in range(places_at[i], places_at[i + 1]):
            p = places[at]
            before: Any = np.uint64(0)
            for d in waits[waits_at[p] : waits_at[p + 1]]:
                before += _mix(op[d])
            place[p] = _mix(place[p] + _mix(before + GOLDEN))
            total += _mix(place[p])
        op[i] = _mix(total)
        for at in range(places_at[i], places_at[i + 1]):
            place_of = places[at]
            place[place_of] = _mix(place[place_of] + op[i])
