"""A graph transform: collectives written out as the sends of their algorithm.

What is one activity at fidelity ``flow`` becomes messages that wait for one another, so that
stragglers, unequal links and lost members show inside the collective.  It costs
``steps x members`` ops for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter

import numpy as np

from ...sim.errors import GraphError
from ...sim.flat_graph import FlatGraph
from ...sim.graph import Builder, Graph
from ...sim.ops import DTYPES, Kind
from ...sim.signature import parse
from .algorithms import ALGORITHMS
from .patterns import depth

Sends = list[tuple[int, int, float]]
"""(from, to, share of S) of one step."""


def _ring(laps: int) -> Callable[[int], Iterator[Sends]]:
    def steps(n: int) -> Iterator[Sends]:
        for _ in range(laps * (n - 1)):
            yield [(i, (i + 1) % n, 1 / n) for i in range(n)]

    return steps


def _doubling(back: bool, out: bool) -> Callable[[int], Iterator[Sends]]:
    def steps(n: int) -> Iterator[Sends]:
        near = list(range(depth(n)))
        for k in near * out + near[::-1] * back:
            yield [(i, i ^ (1 << k), 1 / (2 << k)) for i in range(n)]

    return steps


def _pairs(shares: tuple[Callable[[int], float], ...]) -> Callable[[int], Iterator[Sends]]:
    def steps(n: int) -> Iterator[Sends]:
        for share in shares:
            yield [(i, j, share(n)) for i in range(n) for j in range(n) if i != j]

    return steps


def _pairwise(n: int) -> Iterator[Sends]:
    for k in range(1, n):
        yield [(i, (i + k) % n, 1 / n) for i in range(n)]


def _star(into: bool) -> Callable[[int], Iterator[Sends]]:
    def steps(n: int) -> Iterator[Sends]:
        yield [(i, 0, 1 / n) if into else (0, i, 1 / n) for i in range(1, n)]

    return steps


SEGMENTS = 16


def _chain(into: bool) -> Callable[[int], Iterator[Sends]]:
    """Segments follow each other along the chain."""

    def steps(n: int) -> Iterator[Sends]:
        for t in range(n - 1 + SEGMENTS - 1):
            hops = [i for i in range(n - 1) if 0 <= t - i < SEGMENTS]
            ends = [(n - 1 - i, n - 2 - i) if into else (i, i + 1) for i in hops]
            yield [(a, b, 1 / SEGMENTS) for a, b in ends]

    return steps


def _part(n: int) -> float:
    return 1 / n


def _whole(n: int) -> float:
    return 1.0


STEPS: dict[tuple[str, str], Callable[[int], Iterator[Sends]]] = {
    ("all-reduce", "ring"): _ring(2),
    ("all-reduce", "halving-doubling"): _doubling(back=True, out=True),
    ("all-reduce", "two-shot"): _pairs((_part, _part)),
    ("all-reduce", "one-shot"): _pairs((_whole,)),
    ("all-gather", "ring"): _ring(1),
    ("all-gather", "doubling"): _doubling(back=True, out=False),
    ("all-gather", "direct"): _pairs((_part,)),
    ("reduce-scatter", "ring"): _ring(1),
    ("reduce-scatter", "halving"): _doubling(back=False, out=True),
    ("reduce-scatter", "direct"): _pairs((_part,)),
    ("all-to-all", "grouped"): _pairs((_part,)),
    ("all-to-all", "pairwise"): _pairwise,
    ("broadcast", "chain"): _chain(into=False),
    ("reduce", "chain"): _chain(into=True),
    ("gather", "linear"): _star(into=True),
    ("scatter", "linear"): _star(into=False),
}
"""The algorithms of ``algorithms.py`` that can be written out, step by step."""


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
        A placed graph, or a collective that none of the algorithms can do.

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
    return _Expansion(graph, tuple(a.strip() for a in algorithms.split(","))).graph()


class _Expansion:
    """Copies a graph op by op; rows move, so what they wait for is looked up."""

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
        """The new graph."""
        for op in self._order():
            if self.block.ops.kind[op] == Kind.COLLECTIVE:
                self._collective(op)
            else:
                self._copy(op)
        for (rank, stream), kind in self.old.streams.items():
            self.build.describe(rank, stream, kind)
        for rank in range(self.old.ranks):
            self.build.describe(rank, self.stream, "network")
        return self.build.graph(**self.old.facts)

    def _order(self) -> list[int]:
        """Rows, each after what it waits for."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for place, op in enumerate(self.block.op_of_place.tolist()):
            sorter.add(op, *self.waits[place])
        try:
            return list(sorter.static_order())
        except CycleError as error:
            ring = error.args[1]
            said = " -> ".join(f"op {op}" for op in ring)
            raise GraphError("cycle", f"{said}; remove a dependency", tuple(ring[1:])) from error

    def _places(self, op: int) -> list[int]:
        first, last = np.searchsorted(self.block.places.op, [op, op + 1]).tolist()
        return [op, *range(len(self.block) + first, len(self.block) + last)]

    def _after(self, place: int) -> list[int]:
        return [self.new[w] for w in self.waits[place]]

    def _copy(self, op: int) -> None:
        ops = self.block.ops
        columns = {c: getattr(ops, c)[op].item() for c in DTYPES if c not in ("label", "signature")}
        self.new[op] = self.build.op(
            Kind(columns.pop("kind")),
            **columns,
            after=self._after(op),
            label=self.old.label(op) if ops.label[op] >= 0 else None,
            signature=ops.signature_text(op),
            release=float(self.block.release[op]),
            peer=int(self.block.peer[op]),
        )

    def _collective(self, op: int) -> None:
        """Its sends, and a join that stands for its end."""
        block, places = self.block, self._places(op)
        ranks = [int(block.rank[p]) for p in places]
        name, steps = self._steps(op, len(ranks))
        got = [self._after(p) for p in places]
        label, iteration = self.old.label(op), int(block.ops.iteration[op])
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
                    bytes=float(block.ops.bytes[op]) * share,
                    label=label,
                    signature=f"send:{name}",
                    iteration=iteration,
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
            iteration=iteration,
            release=release,
            label=label,
        )

    def _steps(self, op: int, n: int) -> tuple[str, Iterator[Sends]]:
        name = parse(self.block.ops.signature_text(op) or "collective:unknown").name
        if n < 2:
            return name, iter(())
        for algorithm in self.algorithms:
            if (name, algorithm) in STEPS and ALGORITHMS[name][algorithm].usable(n):
                return name, STEPS[name, algorithm](n)
        able = [a for c, a in STEPS if c == name]
        raise GraphError(
            "expand",
            f"op {op} ({name} of {n} members): none of {list(self.algorithms)} writes it out; "
            f"add one of {able}",
            (op,),
        )
