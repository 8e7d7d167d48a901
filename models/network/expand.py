"""Graph transform that replaces collectives by the sends of their algorithm.

What is one activity at fidelity ``flow`` becomes messages that wait for one another, so that
stragglers, unequal links and lost members show inside the collective.  It costs
``steps x members`` ops for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import numpy as np

from ...sim.errors import GraphError
from ...sim.flat_graph import FlatGraph
from ...sim.graph import Builder, Graph
from ...sim.op_times import OpTimes
from ...sim.ops import DTYPES, Kind
from ...sim.signature import parse_signature
from .algorithms import ALGORITHMS
from .steps import SEGMENTS as SEGMENTS
from .steps import Algorithm

Sends = list[tuple[int, int, float]]
"""(from, to, share of S) of one round."""


def can_expand(algorithm: Algorithm) -> bool:
    """Whether an algorithm can be expanded: no reduction in the switch, no knowledge of nodes.

    >>> can_expand(ALGORITHMS["all-reduce"]["in-switch"])
    False
    """
    return not (algorithm.in_switch or algorithm.nested)


def expansion_rounds(algorithm: Algorithm, n: int) -> Iterator[Sends]:
    """Steps one after the other; of a pipelined algorithm, segments that follow each other.

    >>> next(expansion_rounds(ALGORITHMS["all-gather"]["ring"], 2))
    [(0, 1, 0.5), (1, 0, 0.5)]
    """
    steps = [step for step in algorithm.steps(n) for _ in range(step.times)]
    segments = SEGMENTS if algorithm.pipelined else 1
    for now in range(len(steps) + segments - 1):
        sends: Sends = []
        for step in steps[max(now - segments + 1, 0) : now + 1]:
            share = np.broadcast_to(step.parts / step.of / segments, len(step.source))
            sends += zip(step.source.tolist(), step.target.tolist(), share.tolist(), strict=True)
        yield sends


def expand(graph: Graph, algorithms: str = "ring, pairwise, chain, linear") -> Graph:
    """Replace every collective by sends.

    A send waits for what its sender got and sent in the step before, the first one for both ends'
    own dependencies; what waited for the collective waits for all that its last messages bring.

    Parameters
    ----------
    graph : Graph
        Not placed yet.
    algorithms : str
        Of each collective, the first of these that can do it for the group.

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
    able = {a.name for named in ALGORITHMS.values() for a in named.values() if can_expand(a)}
    for name in names:
        if name not in able:
            cure = f"no algorithm {name!r} can be written out; take of {sorted(able)}"
            raise GraphError("expand", cure)
    return _Expansion(graph, names).graph()


class _Expansion:
    """A copy of a graph under way; maps old rows to new ones for dependencies."""

    def __init__(self, graph: Graph, algorithms: tuple[str, ...]):
        self.old, self.algorithms = graph, algorithms
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
        name, steps = self._expansion_steps(op, len(ranks))
        got = [self._dependencies_of(p) for p in places]
        label, period = self.old.label(op), int(block.ops.period[op])
        release = float(block.release[op])
        first = True
        for sends in steps:
            came: list[list[int]] = [[] for _ in ranks]
            for a, b, share in sends:
                row = self.build.op(
                    Kind.SEND,
                    rank=ranks[a],
                    peer=ranks[b],
                    stream=self.stream,
                    after=[*got[a], *got[b]] if first else got[a],
                    bytes=float(block.ops.bytes[op]) * share if share else 0.0,
                    label=label,
                    signature=f"send:{name}",
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

    def _expansion_steps(self, op: int, n: int) -> tuple[str, Iterator[Sends]]:
        name = parse_signature(self.block.ops.signature_text(op) or "collective:unknown").name
        if n < 2:
            return name, iter(())
        able = {a.name: a for a in ALGORITHMS.get(name, {}).values() if can_expand(a)}
        for algorithm in self.algorithms:
            if algorithm in able and able[algorithm].usable(n):
                return name, expansion_rounds(able[algorithm], n)
        raise GraphError(
            "expand",
            f"op {op} ({name} of {n} members): none of {list(self.algorithms)} writes it out; "
            f"add one of {list(able)}",
            (op,),
        )
