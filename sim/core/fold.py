"""A graph that is written out, with identical ops folded into one: a quotient that is exact.

Ops, places and components are coloured: an op by its times, its uses and its places; a place by
its slots, its position among all places there, and what it waits for; a component by its facts
and by who uses it.  One pass in the order of dependencies colours everything, given the colours
of components; components are then coloured again, until no colour splits.  Ops of one colour do
the same at the same ticks, so one of each is enough: what the others take of a shared component
is added to its weight.

The position keeps ops of one colour out of one queue, and the queue in its order.  Colours are
64-bit hashes, so the partition is checked by comparison afterwards; what the check does not
pass, and what a driver answers during the run, is not folded.
(Weisfeiler and Leman 1968; Godsil and Royle, Algebraic Graph Theory, 9.3.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..csr import Csr
from ..draws import GOLDEN, bits, mix
from ..machine import Columns, Flows, Lowered, Parts
from .jit import jit

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

_mix = jit(mix)


@dataclass(frozen=True)
class Folded:
    """One op of each class on one component of each class.

    Parameters
    ----------
    parts, graph : the quotient, for either engine
    op : (n,) class of every op: its row in the quotient
    place : (n + e,) class of every place: its place there
    component : (c,) class of every component: its number there
    """

    parts: Parts
    graph: Lowered
    op: Numbers
    place: Numbers
    component: Numbers

    def expand(self, columns: Columns) -> Columns:
        """What happened to every op, from what happened to one of each class."""
        return Columns(
            columns.ready[self.op],
            columns.start[self.op],
            columns.end[self.op],
            columns.state[self.op],
            columns.attempts[self.op],
            columns.arrived[self.place],
        )


def fold(parts: Parts, graph: Lowered) -> Folded | None:
    """The quotient of a graph that runs alone, without processes; None where there is none.

    Examples
    --------
    >>> none = np.empty(0, np.int32)
    >>> two = Parts(("a", "b"), np.array([1, 1]), np.array([-1, -1]), np.array([-1, -1]))
    >>> flows = Flows(none, *[np.empty(0, np.int64)] * 3, np.zeros(1, np.int64), none, none)
    >>> twins = Lowered(
    ...     "twins", none, np.array([0, 1]), np.zeros(3, np.int64), none,
    ...     np.empty(0, np.int64), np.array([5, 5]), flows, none,
    ... )
    >>> folded = fold(two, twins)
    >>> len(folded.graph), folded.op.tolist(), folded.component.tolist()
    (1, [0, 0], [0, 0])
    """
    if np.any(graph.online >= 0):
        return None
    tables = _Tables.of(parts, graph)
    if len(tables.order) < len(graph):
        return None  # a cycle: the engine says which
    colours = tables.refine()
    if not tables.is_exact(colours):
        return None
    return _quotient(tables, colours)


@dataclass(frozen=True)
class _Colours:
    """A number for the class of each, in the order in which classes first appear."""

    op: Numbers
    place: Numbers
    component: Numbers


@dataclass(frozen=True)
class _Tables:
    """The graph from the side of those who wait."""

    parts: Parts
    graph: Lowered
    op_of: Numbers  # of every place
    number: Numbers  # of every place within its op
    places: Csr  # of every op, ascending
    waits: Csr  # ops that each place waits for
    position: Numbers  # of every place among those on its component, by id
    order: Numbers  # ops, each after those that it waits for
    user: Numbers  # op of every use

    @classmethod
    def of(cls, parts: Parts, graph: Lowered) -> _Tables:
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
        order = _order(op_of, graph.indptr, graph.successors.astype(np.int64), waits.counts)
        user = np.repeat(graph.flows.op, np.diff(graph.flows.indptr)).astype(np.int64)
        return cls(parts, graph, op_of, number, places, waits, position, order, user)

    def refine(self) -> _Colours:
        """Colour until no component's colour splits."""
        parts, flows = self.parts, self.graph.flows
        static = _static(self.graph)
        component = _numbers(bits(parts.slots, parts.rate, parts.top))
        while True:
            uses = bits(component[flows.component], flows.weight)
            op, place = self._forward(static + _sum(uses, self.user, len(self.graph)), component)
            on = _sum(place[self._slotted], self.graph.slot[self._slotted], len(parts))
            by = _sum(bits(op[self.user], flows.weight), flows.component, len(parts))
            finer = _numbers(bits(component, on, by))
            if finer.max(initial=-1) == component.max(initial=-1):
                return _Colours(_numbers(op), _numbers(place), component)
            component = finer

    @property
    def _slotted(self) -> NDArray[np.bool_]:
        return np.asarray(self.graph.slot >= 0)

    def _forward(self, own: Hashes, component: Numbers) -> tuple[Hashes, Hashes]:
        """Hashes of ops and places, in the order of dependencies."""
        slot = np.where(self._slotted, component[self.graph.slot], -1)
        place = bits(slot, self.position)
        op = own.copy()
        with np.errstate(over="ignore"):
            _colour(
                self.order,
                self.places.indptr,
                self.places.values.astype(np.int64),
                self.waits.indptr,
                self.waits.values.astype(np.int64),
                op,
                place,
            )
        return op, place

    def is_exact(self, of: _Colours) -> bool:
        """Whether members of a class agree in everything that decides what they do."""
        graph, flows, parts = self.graph, self.graph.flows, self.parts
        slot = np.where(self._slotted, of.component[graph.slot], -1)
        rows = np.flatnonzero(self._slotted)
        on = Csr.from_pairs(graph.slot[rows], of.place[rows], len(parts))
        weight = _numbers(flows.weight.astype(np.uint64)) if len(flows.weight) else flows.weight
        many = int(weight.max(initial=0)) + 1
        uses = Csr.from_pairs(self.user, of.component[flows.component] * many + weight, len(graph))
        users = Csr.from_pairs(flows.component, of.op[self.user] * many + weight, len(parts))
        waits = Csr(self.waits.indptr, of.op[self.waits.values].astype(np.int32))
        members = Csr(self.places.indptr, of.place[self.places.values].astype(np.int32))
        return (
            _agree(of.op, *_facts(graph))
            and _agree(of.place, slot, self.position, of.op[self.op_of])
            and _agree(of.component, parts.slots, parts.rate, parts.top)
            and _same_rows(of.op, uses)
            and _same_rows(of.op, members)
            and _same_rows(of.place, waits)
            and _same_rows(of.component, on)
            and _same_rows(of.component, users)
        )


def _quotient(of: _Tables, colours: _Colours) -> Folded | None:
    """One of each class, ascending by its first member."""
    graph, parts = of.graph, of.parts
    ops, components = _firsts(colours.op), _firsts(colours.component)
    mine = np.concatenate([ops, len(graph) + np.flatnonzero(np.isin(graph.further, ops))])
    rows = mine[np.sort(np.unique(colours.place[mine], return_index=True)[1])]
    extra = of.op_of[rows[len(ops) :]]
    place = np.empty(len(rows), np.int64)
    place[colours.place[rows]] = np.arange(len(rows))
    slot = np.where(graph.slot[rows] < 0, -1, colours.component[graph.slot[rows]])
    if not _keeps_queues(of, colours, components, place):
        return None
    waits = of.waits.take(rows)
    pairs = np.unique(np.column_stack([colours.op[waits.values], waits.owner]), axis=0)
    after = Csr.from_pairs(pairs[:, 0], pairs[:, 1], len(ops))
    folded = Lowered(
        graph.name,
        colours.op[extra].astype(np.int32),
        slot.astype(np.int32),
        after.indptr,
        after.values,
        graph.release[ops] if len(graph.release) else graph.release,
        graph.fixed[ops],
        _flows(graph.flows, colours, ops, components),
        np.empty(0, np.int16),
    )
    names = tuple(parts.names[c] for c in components)
    machine = Parts(names, parts.slots[components], parts.rate[components], parts.top[components])
    return Folded(machine, folded, colours.op, place[colours.place], colours.component)


def _keeps_queues(of: _Tables, colours: _Colours, components: Numbers, place: Numbers) -> bool:
    """Whether ids and place numbers of the quotient order every queue as those of the graph do."""
    mine = np.flatnonzero(of.graph.slot >= 0)
    mine = mine[np.isin(of.graph.slot[mine], components)]
    mine = mine[np.lexsort((of.position[mine], of.graph.slot[mine]))]
    number = place[colours.place[mine]]
    key = np.column_stack([of.graph.slot[mine], colours.op[of.op_of[mine]], number])
    return bool(np.array_equal(np.lexsort(key.T[::-1]), np.arange(len(key))))


def _flows(flows: Flows, colours: _Colours, ops: Numbers, components: Numbers) -> Flows:
    """The flows of first members, with what their classes take of a component of each class."""
    user = colours.op[np.repeat(flows.op, np.diff(flows.indptr))]
    seen = np.zeros(len(colours.component), bool)
    seen[components] = True
    at = seen[flows.component]
    pairs = np.column_stack([user[at], colours.component[flows.component[at]]])
    pairs, which = np.unique(pairs, axis=0, return_inverse=True)
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


def _facts(graph: Lowered) -> tuple[NDArray[Any], ...]:
    """What an op has of its own, as columns of equal length."""
    n, flows = len(graph), graph.flows
    release = graph.release if len(graph.release) else np.zeros(n, np.int64)
    hi, lo = np.zeros(n, np.int64), np.zeros(n, np.uint64)
    limit, shares = np.zeros(n, np.int64), np.zeros(n, bool)
    hi[flows.op], lo[flows.op], limit[flows.op] = flows.work_hi, flows.work_lo, flows.limit
    shares[flows.op] = True
    return graph.fixed, release, hi, lo, limit, shares


def _static(graph: Lowered) -> Hashes:
    return bits(*_facts(graph)) if len(graph) else np.empty(0, np.uint64)


def _sum(hashes: Hashes, row: NDArray[Any], n: int) -> Hashes:
    """The hashes of each row, added: the same in any order."""
    total = np.zeros(n, np.uint64)
    np.add.at(total, row, hashes[: len(row)])
    return total


def _numbers(hashes: NDArray[Any]) -> Numbers:
    """The same classes, numbered by first appearance."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def _firsts(numbers: Numbers) -> Numbers:
    """The first member of each class; ascending, because of how classes are numbered."""
    return np.unique(numbers, return_index=True)[1].astype(np.int64)


def _agree(classes: Numbers, *facts: NDArray[Any]) -> bool:
    """Whether every member has the facts of the first of its class."""
    first = _firsts(classes)[classes]
    return all(np.array_equal(fact, fact[first]) for fact in facts)


def _same_rows(classes: Numbers, table: Csr) -> bool:
    """Whether every member's row holds what the row of the first of its class holds."""
    first = _firsts(classes)[classes]
    if not np.array_equal(table.counts, table.counts[first]):
        return False
    ordered = Csr(table.indptr, table.values[np.lexsort((table.values, table.owner))])
    return np.array_equal(ordered.values, ordered.take(first).values)


@jit
def _order(op_of: Any, indptr: Any, successors: Any, waits: Any) -> Any:
    """Ops, each after those that it waits for; fewer than all if there is a cycle."""
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
def _colour(
    order: Any, places_at: Any, places: Any, waits_at: Any, waits: Any, op: Any, place: Any
) -> None:
    """Hash what each place waits for into it, and an op's places into it, in order."""
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
