"""Diagnosis of a run that cannot go on: the ops that cause it, and a shortest cycle of waits.

It works on plain dicts and lists, so that both engines report the same diagnosis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import SimulationError

SHOWN = 8  # ops listed in an error message
MOST_STEPS = 1 << 21  # of the search for the shortest cycle; then the shortest so far is reported


class CapacityShare(NamedTuple):
    """Amount of a capacity that an op waits for or holds; op -1 stands for a process."""

    op: int
    who: str
    amount: int


class CapacityQueue(NamedTuple):
    """State of a capacity in a deadlock: its queue and its holders.

    Parameters
    ----------
    capacity : total amount
    waiting : requests in the queue, the first to be served first
    holding : amounts held; an amount held until another op ends is listed under that op
    failed : True if the component has failed
    """

    capacity: int
    waiting: Sequence[CapacityShare]
    holding: Sequence[CapacityShare]
    failed: bool = False

    def describe(self, name: str) -> str:
        """Sentence for an error message that names the waiters and the holders."""
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
    """Final state of a run with open ops or waiting processes, but without any event left.

    Parameters
    ----------
    names : names of the components
    open_ops : ops that have not ended, ascending
    stopped : cause of each op that was stopped and not resumed, by op
    beyond : ops whose release or end exceeds the range of ticks
    starved : reason why an op makes no progress although it was granted its resources, by op
    unmet : ops that each op still depends on, by op
    queues : ops in the queue of each component's slots, in order, by component
    holders : ops that hold a slot, by component
    lines : queue of each capacity that has one, by component
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
    """Error that states why a run is stuck: lost ops, time overflow, starvation or deadlock.

    The first cause that applies, in this order, is reported.

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
    waits = list(_waits_at_failed_capacities(stuck))
    if stuck.starved or waits:
        ops = [_list_ops(stuck.starved, lambda op: stuck.starved[op])] if stuck.starved else []
        cure = "raise the rate, restore the component, or cancel the op"
        message = "; ".join([*ops, *waits, cure])
        return SimulationError("starvation", message, tuple(sorted(stuck.starved)), every)
    in_line = {c: _owning_ops(line.waiting) for c, line in stuck.lines.items()}
    holding = {c: _owning_ops(line.holding) for c, line in stuck.lines.items()}
    ring = shortest_cycle(stuck.unmet, {**stuck.queues, **in_line}, {**stuck.holders, **holding})
    if not ring and not stuck.lines:
        raise AssertionError(
            f"ops {every[:SHOWN]} are open, but no reason was found; report this error"
        )
    why = [" waits for ".join(f"op {i}" for i in (*ring, ring[0]))] if ring else []
    why += [line.describe(stuck.names[c]) for c, line in sorted(stuck.lines.items())]
    cure = "use the same order on all members, or a separate slot"
    if stuck.lines:
        cure = "release what is held, or give it a larger capacity"
    roots = ring or sorted({op for ops in in_line.values() for op in ops})
    return SimulationError("deadlock", "; ".join([*why, cure]), tuple(roots), every)


def _waits_at_failed_capacities(stuck: StuckState) -> Iterator[str]:
    """Processes that wait in the lines of failed capacities, as texts."""
    for c, line in sorted(stuck.lines.items()):
        names = [share.who for share in line.waiting if line.failed and share.op < 0]
        if names:
            shown = ", ".join(names[:SHOWN])
            yield f"{shown}{_more_text(len(names))} waits for failed {stuck.names[c]}"


def _owning_ops(shares: Iterable[CapacityShare]) -> list[int]:
    """Ops in a list of capacity shares, without the processes."""
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
    """Shortest cycle in a wait-for graph, with the smallest numbers if several; [] for none.

    After :data:`MOST_STEPS` search steps, the shortest cycle so far is returned, since a full
    search over thousands of ops that all wait for each other would take hours.

    Parameters
    ----------
    waits : ops that each op waits for, by op
    queues : queued ops of each component, in order; each waits for those ahead of it and for the
        holders of the component
    holders : ops that hold each component, with the same keys as ``queues``

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
    """Wait-for graph without the nodes that are on no cycle."""

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
        """Number of nodes that wait for each node."""
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

        For this, each op in a queue is connected only to the one right before it, which suffices.
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
        """Remaining nodes, ascending; nodes may be removed during the iteration."""
        return (i for i in sorted(self._all_nodes()) if i not in self.gone)

    def remove(self, ops: Iterable[int]) -> None:
        """Remove nodes, and then all nodes that no remaining node waits for."""
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
        """Nodes that lose one waiter when ``op`` is removed."""
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
        """Shortest cycle through ``start`` with at most ``longest`` nodes; [] for none."""
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
        """Nodes that ``op`` waits for and that the search has not visited yet."""
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
