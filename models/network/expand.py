"""Graph transform that replaces collectives by the sends of their algorithm.

What is one activity at fidelity ``flow`` becomes messages that wait for one another, so that
stragglers, unequal links and lost members show inside the collective.  It costs
``steps x members`` ops for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np

from ...sim.errors import GraphError
from ...sim.flat_graph import FlatGraph
from ...sim.graph import Builder, Graph
from ...sim.op_times import OpTimes
from ...sim.ops import DTYPES, Kind
from ...sim.signature import parse_signature
from ...sim.splits import Splits, read_collective
from .algorithms import ALGORITHMS
from .steps import FROM_SWITCH, SWITCH, TO_SWITCH, Algorithm
from .steps import SEGMENTS as SEGMENTS

Sends = list[tuple[int, int, float]]
"""(from, to, share of S) of one round."""


def expansion_rounds(algorithm: Algorithm, *n: int) -> Iterator[Sends]:
    """Steps one after the other; of a pipelined algorithm, segments that follow each other.

    A nested algorithm is also given how many members a node has.

    Examples
    --------
    >>> next(expansion_rounds(ALGORITHMS["all-gather"]["ring"], 2))
    [(0, 1, 0.5), (1, 0, 0.5)]
    """
    steps = [step for step in algorithm.steps(*n) for _ in range(step.times)]
    segments = SEGMENTS if algorithm.pipelined else 1
    for now in range(len(steps) + segments - 1):
        sends: Sends = []
        for step in steps[max(now - segments + 1, 0) : now + 1]:
            share = np.broadcast_to(step.parts / step.of / segments, len(step.source))
            sends += zip(step.source.tolist(), step.target.tolist(), share.tolist(), strict=True)
        yield sends


def expand(
    graph: Graph,
    algorithms: str = "ring, pairwise, chain, linear",
    node_of_rank: Sequence[str] = (),
) -> Graph:
    """Replace every collective by sends.

    A send waits for what its sender got and sent in the step before, the first one for both ends'
    own dependencies; what waited for the collective waits for all that its last messages bring.

    Parameters
    ----------
    graph : Graph
        Not placed yet.
    algorithms : str
        Of each collective, the first of these that can do it for the group.
    node_of_rank : (ranks,) names of machines
        For algorithms that know nodes; () where none of them does.

    Raises
    ------
    GraphError
        A placed graph, an algorithm that there is not, or a collective that none of them can do.

    Examples
    --------
    >>> from ...sim.graph import Member
    >>> build = Builder("pair")
    >>> _ = build.collective([Member(0), Member(1)], bytes=1e6, signature="collective:all-reduce")
    >>> sends = expand(build.graph())
    >>> [sends.ops.kind_names[r] for r in range(len(sends))], sends.ops.bytes[:4].tolist()
    (['send', 'send', 'send', 'send', 'delay'], [500000.0, 500000.0, 500000.0, 500000.0])
    """
    if graph.placed:
        raise GraphError("placed", f"{graph.name!r} has its machine; expand it before place()")
    names = tuple(a.strip() for a in algorithms.split(","))
    able = {a.name for named in ALGORITHMS.values() for a in named.values()}
    for name in names:
        if name not in able:
            cure = f"no algorithm {name!r} can be written out; take of {sorted(able)}"
            raise GraphError("expand", cure)
    return _Expansion(graph, names, node_of_rank).graph()


class _Expansion:
    """A copy of a graph under way; maps old rows to new ones for dependencies."""

    def __init__(self, graph: Graph, algorithms: tuple[str, ...], node_of_rank: Sequence[str]):
        self.old, self.algorithms, self.node_of_rank = graph, algorithms, node_of_rank
        self.block: FlatGraph = graph.explicit
        self.build = Builder(graph.name)
        self.new: dict[int, int] = {}  # the row that stands for the end of an old row
        self.stream = 1 + int(self.block.stream.max(initial=0))
        self.waits: list[list[int]] = [[] for _ in range(len(self.block.op_of_place))]
        for op in range(len(self.block)):
            for place in self.block.successors[op].tolist():
                self.waits[place].append(op)

    def graph(self) -> Graph:
        """The expanded graph."""
        for op in self._topological_order():
            if self.block.ops.kind[op] == Kind.COLLECTIVE:
                self._expand_collective(op)
            else:
                self._copy_op(op)
        for (rank, stream), kind in self.old.streams.items():
            self.build.describe(rank, stream, kind)
        for rank in range(self.old.ranks):
            self.build.describe(rank, self.stream, "network")
        made = self.build.graph(**self.old.facts)
        times = self.old.times
        if times is None:
            return made
        said = OpTimes.none(len(made))
        rows = np.array([self.new[op] for op in range(len(self.block))], np.int64)
        said.time[rows], said.factor[rows] = times.time, times.factor
        return replace(made, times=said)

    def _topological_order(self) -> list[int]:
        """Rows in topological order."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for place, op in enumerate(self.block.op_of_place.tolist()):
            sorter.add(op, *self.waits[place])
        try:
            return list(sorter.static_order())
        except CycleError as error:
            ring = error.args[1]
            said = " -> ".join(f"op {op}" for op in ring)
            raise GraphError("cycle", f"{said}; remove a dependency", tuple(ring[1:])) from error

    def _place_numbers(self, op: int) -> list[int]:
        first, last = np.searchsorted(self.block.places.op, [op, op + 1]).tolist()
        return [op, *range(len(self.block) + first, len(self.block) + last)]

    def _dependencies_of(self, place: int) -> list[int]:
        return [self.new[w] for w in self.waits[place]]

    def _copy_op(self, op: int) -> None:
        ops = self.block.ops
        columns = {c: getattr(ops, c)[op].item() for c in DTYPES if c not in ("label", "signature")}
        self.new[op] = self.build.op(
            Kind(columns.pop("kind")),
            **columns,
            after=self._dependencies_of(op),
            label=self.old.label(op) if ops.label[op] >= 0 else None,
            signature=ops.signature_text(op),
            release=float(self.block.release[op]),
            peer=int(self.block.peer[op]),
        )

    def _expand_collective(self, op: int) -> None:
        """Add the sends of a collective, and a join that stands for its end."""
        block, places, times = self.block, self._place_numbers(op), self.old.times
        if times is not None and (times.told[op] or times.factor[op] != 1):
            raise GraphError(
                "expand",
                f"op {op} ({self.old.label(op).name}): its time is said, and sends have times of "
                "their own; leave 'expand' out, or the rule",
                (op,),
            )
        ranks = [int(block.rank[p]) for p in places]
        chosen, order = self._chosen_algorithm(op, ranks)
        places, ranks = [places[m] for m in order], [ranks[m] for m in order]
        own = [self._dependencies_of(p) for p in places]
        got = [*own, [row for rows in own for row in rows]]  # the last one is the switch
        label, period = self.old.label(op), int(block.ops.period[op])
        release = float(block.release[op])
        first = True
        for sends in chosen.rounds:
            came: list[list[int]] = [[] for _ in got]
            for a, b, share in sends:
                sender, receiver, way = _ends_of_send(a, b, ranks)
                row = self.build.op(
                    Kind.SEND,
                    rank=sender,
                    peer=receiver,
                    stream=self.stream,
                    after=[*got[a], *got[b]] if first else got[a],
                    bytes=float(block.ops.bytes[op]) * share if share else 0.0,
                    label=label,
                    signature=f"send:{chosen.collective}{way}",
                    period=period,
                    release=release if first else 0.0,
                )
                came[a].append(row)
                came[b].append(row)
            got = [new or old for new, old in zip(came, got, strict=True)]
            first = False
        self.new[op] = self.build.op(
            Kind.DELAY,
            rank=ranks[0],
            stream=self.stream,
            after={r for rows in got for r in rows},
            duration=0.0,
            period=period,
            release=release,
            label=label,
        )

    def _chosen_algorithm(self, op: int, ranks: list[int]) -> tuple[_Chosen, Sequence[int]]:
        """The first algorithm that can do a collective, and the order of its members."""
        said = parse_signature(self.block.ops.signature_text(op) or "collective:unknown").name
        n = len(ranks)
        try:
            name, splits = read_collective(said, n)
        except ValueError as error:
            what = said.partition(" ")[0]
            raise GraphError(
                "expand", f"op {op} ({what} of {n} members): {error}", (op,)
            ) from error
        if n < 2:
            return _Chosen(name, iter(())), range(n)
        able = ALGORITHMS.get(name, {})
        order, width = self._order_by_nodes(ranks)
        for algorithm in self.algorithms:
            if algorithm in able and able[algorithm].usable(n):
                one = able[algorithm]
                if splits is not None and not one.uneven:
                    continue
                if not one.nested:
                    return _Chosen(name, expansion_rounds(one.split(splits), n)), range(n)
                if width:
                    one = one.split(splits and splits.ordered(order))
                    return _Chosen(name, expansion_rounds(one, n, width)), order
        raise GraphError(
            "expand",
            f"op {op} ({name} of {n} members): none of {list(self.algorithms)} writes it out; "
            f"add one of {_able_names(able.values(), width, splits)}",
            (op,),
        )

    def _order_by_nodes(self, ranks: list[int]) -> tuple[list[int], int]:
        """Members node by node, and how many each has; 0 for one node, or unequally many."""
        nodes: dict[str, list[int]] = {}
        for member, rank in enumerate(ranks if self.node_of_rank else ()):
            nodes.setdefault(self.node_of_rank[rank], []).append(member)
        widths = {len(members) for members in nodes.values()}
        width = widths.pop() if len(nodes) > 1 and len(widths) == 1 else 0
        return [m for members in nodes.values() for m in members], width


def _able_names(algorithms: Iterable[Algorithm], width: int, splits: Splits | None) -> list[str]:
    """Names of those that know nodes of so many members, and such parts."""
    return [a.name for a in algorithms if (width or not a.nested) and (a.uneven or splits is None)]


class _Chosen(NamedTuple):
    """What a collective is written out as."""

    collective: str
    rounds: Iterator[Sends]


def _ends_of_send(a: int, b: int, ranks: list[int]) -> tuple[int, int, str]:
    """Ranks of a message's ends, and on which side of the switch it stays; "" for both.

    What the switch sends comes from any other member, of which it takes nothing.
    """
    if b == SWITCH:
        return ranks[a], ranks[(a + 1) % len(ranks)], TO_SWITCH
    if a == SWITCH:
        return ranks[(b + 1) % len(ranks)], ranks[b], FROM_SWITCH
    return ranks[a], ranks[b], ""
