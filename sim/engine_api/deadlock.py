"""Diagnosis of a run that cannot go on: the ops at its root, a shortest cycle of waits.

A function over plain dicts and lists, so that both engines tell the same story of their last
state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import SimulationError

SHOWN = 8  # ops listed in an error message
MOST_STEPS = 1 << 21  # of the search for the shortest cycle; then the shortest so far is reported


class CapacityShare(NamedTuple):
    """Amount of a capacity that an op, or a process (-1), waits for or holds."""

    op: int
    who: str
    amount: int


class CapacityQueue(NamedTuple):
    """Queue of a capacity: who waits, who holds.

    Parameters
    ----------
    capacity : int
    waiting : of CapacityShare, first in line first
    holding : of CapacityShare; of what is held until another op has ended, that op
    failed : bool
    """

    capacity: int
    waiting: Sequence[CapacityShare]
    holding: Sequence[CapacityShare]
    failed: bool = False

    def describe(self, name: str) -> str:
        """Sentence that names who waits and who holds."""
        held = sum(share.amount for share in self.holding)
        holders = ", ".join(f"{s.who} {s.amount}" for s in self.holding[:SHOWN])
        waits = ", ".join(f"{s.who} for {s.amount}" for s in self.waiting[:SHOWN])
        return (
            f"{'failed ' * self.failed}{name}: {held} of {self.capacity} held"
            f"{f' ({holders}{_more_text(len(self.holding))})' if held else ''}, "
            f"waiting: {waits}{_more_text(len(self.waiting))}"
        )


def _more_text(count: int) -> str:
    return f" and {count - SHOWN} more" if count > SHOWN else ""


@dataclass(frozen=True)
class StuckState:
    """Last state of a run in which ops are open, or somebody waits, and no event is left.

    Parameters
    ----------
    names : of components
    open_ops : ascending
    stopped : what stopped an op that was not resumed, by op
    beyond : ops whose release or end lies beyond the range of ticks
    starved : why an op cannot go on though it is its turn, by op
    unmet : ops that the waiting places of an op wait for, by op
    queues : ops in line, first first, by component
    holders : ops that hold a slot, by component
    lines : CapacityQueue of each capacity that somebody waits for, by component
    """

    names: Sequence[str]
    open_ops: Sequence[int]
    stopped: Mapping[int, str] = field(default_factory=dict)
    beyond: Sequence[int] = ()
    starved: Mapping[int, str] = field(default_factory=dict)
    unmet: Mapping[int, Sequence[int]] = field(default_factory=dict)
    queues: Mapping[int, Sequence[int]] = field(default_factory=dict)
    holders: Mapping[int, Sequence[int]] = field(default_factory=dict)
    lines: Mapping[int, CapacityQueue] = field(default_factory=dict)


def diagnose(stuck: StuckState) -> SimulationError:
    """Error that says why: lost, time overflow, starvation or deadlock, the first that applies.

    Examples
    --------
    >>> crossed = StuckState(("a", "b"), [4, 5], queues={0: [5], 1: [4]}, holders={0: [4], 1: [5]})
    >>> error = diagnose(crossed)
    >>> error.kind, error.ops
    ('deadlock', (4, 5))
    >>> line = CapacityQueue(4, [CapacityShare(7, "op 7", 3)], [CapacityShare(-1, "server", 2)])
    >>> diagnose(StuckState(("hbm",), [7], lines={0: line})).message.split("; ")[0]
    'hbm: 2 of 4 held (server 2), waiting: op 7 for 3'
    """
    every = tuple(stuck.open_ops)
    if stuck.stopped:
        said = _list_ops(stuck.stopped, lambda op: f"was stopped by {stuck.stopped[op]}")
        cure = "resume or cancel it (for a flapping link use set_rate)"
        return SimulationError("lost", f"{said}; {cure}", tuple(sorted(stuck.stopped)), every)
    if stuck.beyond:
        said = _list_ops(stuck.beyond, lambda _: "would end beyond the range of ticks")
        return SimulationError(
            "time overflow", f"{said}; use a coarser tick", tuple(sorted(stuck.beyond)), every
        )
    if stuck.starved:
        said = _list_ops(stuck.starved, lambda op: stuck.starved[op])
        cure = "raise the rate, restore the component, or cancel the op"
        return SimulationError("starvation", f"{said}; {cure}", tuple(sorted(stuck.starved)), every)
    in_line = {c: _owning_ops(line.waiting) for c, line in stuck.lines.items()}
    holding = {c: _owning_ops(line.holding) for c, line in stuck.lines.items()}
    ring = shortest_cycle(stuck.unmet, {**stuck.queues, **in_line}, {**stuck.holders, **holding})
    if not ring and not stuck.lines:
        raise AssertionError(f"ops {every[:SHOWN]} are open without a reason")
    why = [" waits for ".join(f"op {i}" for i in (*ring, ring[0]))] if ring else []
    why += [line.describe(stuck.names[c]) for c, line in sorted(stuck.lines.items())]
    cure = "use the same order on all members, or a separate slot"
    if stuck.lines:
        cure = "release what is held, or give it a larger capacity"
    roots = ring or sorted({op for ops in in_line.values() for op in ops})
    return SimulationError("deadlock", "; ".join([*why, cure]), tuple(roots), every)


def _owning_ops(shares: Iterable[CapacityShare]) -> list[int]:
    """Ops among owners, processes left out."""
    return [share.op for share in shares if share.op >= 0]


def _list_ops(ops: Iterable[int], why: Callable[[int], str]) -> str:
    found = sorted(ops)
    said = "; ".join(f"op {i} {why(i)}" for i in found[:SHOWN])
    return said + (f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else "")


def shortest_cycle(
    waits: Mapping[int, Sequence[int]],
    queues: Mapping[int, Sequence[int]] | None = None,
    holders: Mapping[int, Sequence[int]] | None = None,
) -> list[int]:
    """A shortest cycle of waits, of several the one that comes first by number; [] for none.

    Of thousands of ops that all wait for each other, to look through everything would take hours:
    after :data:`MOST_STEPS` it is the shortest of those that were seen.

    Parameters
    ----------
    waits : those that each waits for
    queues : each in line waits for all others ahead of it and for the holders
    holders : of the same keys

    Examples
    --------
    >>> shortest_cycle({0: [1], 1: [2], 2: [0, 1], 3: [0]})
    [1, 2]
    """
    graph = _WaitForGraph(waits, queues or {}, holders or {})
    best: list[int] = []
    for start in graph.nodes():
        if best and graph.steps > MOST_STEPS:
            break
        found = graph.cycle(start, len(best) - 1 if best else None)
        best = found or best
        if len(best) == 1:
            break
        graph.remove([start])
    return best


class _WaitForGraph:
    """Wait-for graph, from which nodes on no cycle are removed."""

    def __init__(
        self,
        waits: Mapping[int, Sequence[int]],
        queues: Mapping[int, Sequence[int]],
        holders: Mapping[int, Sequence[int]],
    ):
        self.waits = {i: sorted(set(w)) for i, w in waits.items()}
        self.queues = {c: list(q) for c, q in queues.items() if q}
        self.holders = {c: sorted(set(holders.get(c, ()))) for c in self.queues}
        self.last: dict[int, dict[int, int]] = {}  # position in each queue, by op
        self.first: dict[int, dict[int, int]] = {}
        for c, queue in self.queues.items():
            for at, op in enumerate(queue):
                self.last.setdefault(op, {})[c] = at
                self.first.setdefault(op, {}).setdefault(c, at)
        self.gone: set[int] = set()
        self.steps = 0  # of all searches
        self.wanted = self._count_waits()
        self.remove(self._all_nodes() - self._nodes_on_cycles())

    def _all_nodes(self) -> set[int]:
        named: list[Iterable[int]] = [self.waits, self.last]
        named += [*self.waits.values(), *self.holders.values()]
        return {i for some in named for i in some}

    def _count_waits(self) -> dict[int, int]:
        """Number of waits for each node."""
        wanted: dict[int, int] = {}
        for reasons in (*self.waits.values(), *self.holders.values()):
            for i in reasons:
                wanted[i] = wanted.get(i, 0) + 1
        for queue in self.queues.values():
            for i in queue[:-1]:
                wanted[i] = wanted.get(i, 0) + 1
        return wanted

    def _nodes_on_cycles(self) -> set[int]:
        """Nodes on a cycle: in a strongly connected component, or waiting for themselves.

        Who stands in a line reaches all before it through the one right before it.
        """
        from rustworkx import PyDiGraph, strongly_connected_components

        edges = [(i, j) for i, reasons in self.waits.items() for j in reasons]
        for c, queue in self.queues.items():
            edges += [(i, j) for i, j in zip(queue[1:], queue, strict=False) if i != j]
            edges += [(queue[0], j) for j in self.holders[c]]
        number = {op: n for n, op in enumerate(sorted(self._all_nodes()))}
        ops = list(number)
        graph: Any = PyDiGraph()
        graph.add_nodes_from(ops)
        graph.add_edges_from_no_data([(number[i], number[j]) for i, j in edges])
        knots = (knot for knot in strongly_connected_components(graph) if len(knot) > 1)
        return {ops[n] for knot in knots for n in knot} | {i for i, j in edges if i == j}

    def nodes(self) -> Iterable[int]:
        """Remaining nodes, ascending; some may be removed meanwhile."""
        return (i for i in sorted(self._all_nodes()) if i not in self.gone)

    def remove(self, ops: Iterable[int]) -> None:
        """Remove nodes, and those that no remaining node waits for."""
        todo = list(ops)
        while todo:
            op = todo.pop()
            if op in self.gone:
                continue
            self.gone.add(op)
            for freed in self._freed_by(op):
                self.wanted[freed] -= 1
                if not self.wanted[freed]:
                    todo.append(freed)

    def _freed_by(self, op: int) -> Iterable[int]:
        """Nodes with one wait less, now that ``op`` is removed."""
        yield from self.waits.get(op, ())
        for c in self.last.get(op, ()):
            queue = self.queues[c]
            while queue and queue[-1] in self.gone:
                queue.pop()
                if queue:
                    yield queue[-1]
                else:
                    yield from self.holders[c]

    def cycle(self, start: int, longest: int | None) -> list[int]:
        """First of the shortest cycles through ``start`` of at most ``longest`` nodes."""
        back: dict[int, int | None] = {start: None}
        depth = {start: 1}
        seen = dict.fromkeys(self.queues, 0)  # queue positions that the search has visited
        todo = deque([start])
        while todo:
            op = todo.popleft()
            self.steps += 1
            if longest is not None and depth[op] > longest:
                return []
            if self._waits_for(op, start):
                return _path_to(back, op)
            new = self._new_blockers(op, seen)
            self.steps += len(new)
            for other in sorted(new):
                if other not in back and other not in self.gone:
                    back[other], depth[other] = op, depth[op] + 1
                    todo.append(other)
        return []

    def _waits_for(self, op: int, other: int) -> bool:
        if other in self.waits.get(op, ()):
            return True
        ahead = self.first.get(other, {}) if other != op else {}
        return any(
            other in self.holders[c] or ahead.get(c, at) < at
            for c, at in self.last.get(op, {}).items()
        )

    def _new_blockers(self, op: int, seen: dict[int, int]) -> set[int]:
        """Nodes that ``op`` waits for and none before it in the search did."""
        found = set(self.waits.get(op, ()))
        for c, at in self.last.get(op, {}).items():
            found.update(self.queues[c][seen[c] : at])
            found.update(self.holders[c] if seen[c] == 0 else ())
            seen[c] = max(seen[c], at)
        return found


def _path_to(back: Mapping[int, int | None], op: int) -> list[int]:
    found: list[int] = []
    at: int | None = op
    while at is not None:
        found.append(at)
        at = back[at]
    return found[::-1]
