"""Graph transform that replaces each collective with the sends of its algorithm.

At fidelity ``flow`` a collective is one activity. This transform replaces it with messages that
depend on each other, so that stragglers, unequal links and lost members have their effect inside
the collective. It adds ``steps x members`` ops per collective.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import GraphError
from ....sim.facts.csr import Csr
from ....sim.facts.flat_graph import FlatGraph, Participants
from ....sim.facts.graph import Graph, Label
from ....sim.facts.op_time_overrides import OpTimeOverrides
from ....sim.facts.ops import Kind, Ops
from ....sim.facts.signature import parse_signature
from ....sim.facts.splits import Splits, parse_collective_name
from .algorithms import ALGORITHMS
from .messages import Messages, Waits
from .steps import FROM_SWITCH, SWITCH, TO_SWITCH, Algorithm

Numbers = NDArray[np.int64]

ALONE = Algorithm("any", "alone", lambda n: ())
"""Algorithm for a group of one member, for any collective."""

SIDES = ("", TO_SWITCH, FROM_SWITCH)
"""Suffixes of the names of sends that stay on one side of the switch."""


def expand(
    graph: Graph,
    algorithms: str = "ring, pairwise, chain, linear",
    node_of_rank: Sequence[str] = (),
) -> Graph:
    """Replace every collective of a graph with sends.

    A send waits for what its sender received and sent in the previous step. The first sends wait
    for the dependencies of both ends. Ops that waited for the collective wait for its last
    messages.

    Parameters
    ----------
    graph : Graph
        The graph; it must not be placed yet.
    algorithms : str
        Algorithm names in order of preference; each collective uses the first one that supports its
        group.
    node_of_rank : (ranks,) machine name of each rank
        Needed for algorithms that distinguish nodes; () otherwise.

    Raises
    ------
    GraphError
        The graph is placed, an algorithm is unknown, or no algorithm supports a collective.

    Examples
    --------
    >>> from ....sim.facts.graph import Builder, Member
    >>> build = Builder("pair")
    >>> _ = build.collective([Member(0), Member(1)], bytes=1e6, signature="collective:all-reduce")
    >>> sends = expand(build.graph())
    >>> [sends.ops.kind_names[r] for r in range(len(sends))], sends.ops.bytes[:4].tolist()
    (['send', 'send', 'send', 'send', 'delay'], [500000.0, 500000.0, 500000.0, 500000.0])
    """
    if graph.placed:
        raise GraphError(
            "placed", f"{graph.name!r} is already placed on a machine; expand it before place()"
        )
    names = tuple(a.strip() for a in algorithms.split(","))
    able = {a.name for named in ALGORITHMS.values() for a in named.values()}
    for name in names:
        if name not in able:
            cure = f"no algorithm {name!r} can be expanded; write some of {sorted(able)}"
            raise GraphError("expand", cure)
    return _Expansion(graph, names, node_of_rank).graph()


class _WrittenCollective(NamedTuple):
    """Messages that replace one collective.

    Parameters
    ----------
    places : (members,) index of each member's participation in the old graph, in algorithm order
    """

    collective: str
    places: Numbers
    messages: Messages
    waits: Waits


class _Expansion:
    """Expanded graph: the new rows of each old op are consecutive, and the last one marks its end.

    The rows of a collective are its messages and a join. Old ops are in topological order.
    """

    def __init__(self, graph: Graph, algorithms: tuple[str, ...], node_of_rank: Sequence[str]):
        self.old, self.algorithms, self.node_of_rank = graph, algorithms, node_of_rank
        self.block: FlatGraph = graph.explicit
        after, places = self.block.successors, len(self.block.op_of_place)
        self.waits = Csr.from_pairs(after.values, after.owner, places)  # predecessor ops
        order = np.array(self._topological_order(), np.int64)
        self._known: dict[tuple[object, ...], tuple[Messages, Waits]] = {}
        self.collectives = order[self.block.ops.kind[order] == Kind.COLLECTIVE]
        self.written = {op: self._write_out(op) for op in self.collectives.tolist()}
        size = np.ones(len(self.block), np.int64)
        for op, one in self.written.items():
            size[op] += len(one.messages.round)
        self.op = np.repeat(order, size[order])  # values of every new row
        self.last = np.empty_like(size)
        self.last[order] = np.cumsum(size[order]) - 1
        self.first = self.last - size + 1

    def graph(self) -> Graph:
        """The expanded graph."""
        ops, release = self.block.ops.take(self.op), self.block.release[self.op]
        peer, labels = self.block.peer[self.op], self.old.labels
        ours, ends = ops.kind == Kind.COLLECTIVE, self.last[self.collectives]
        stream = 1 + int(self.block.stream.max(initial=0))
        ops.kind[ours], ops.stream[ours], peer[ours] = Kind.SEND, stream, -1
        ops.flop[ours], ops.duration[ours] = np.nan, np.nan
        unnamed, name = ours & (ops.label < 0), Label("collective")
        if unnamed.any():
            labels = labels if name in labels else (*labels, name)
            ops.label[unnamed] = labels.index(name)
        texts = [*ops.signatures]
        for op, (collective, places, messages, _) in self.written.items():
            rows, ranks = slice(self.first[op], self.last[op]), self.block.rank[places]
            ops.rank[rows], peer[rows], side = _ends_of_sends(messages, ranks)
            ops.bytes[rows] = np.where(messages.share > 0, ops.bytes[rows] * messages.share, 0.0)
            ops.signature[rows] = len(texts) + side
            texts += [f"send:{collective}{side}" for side in SIDES]
            release[rows][messages.round > 0] = 0.0
            ops.rank[self.last[op]] = ranks[0]
        ops.kind[ends], ops.duration[ends], ops.bytes[ends] = Kind.DELAY, 0.0, np.nan
        ops.signature[ends] = -1
        own = {(rank, stream): "network" for rank in range(self.old.ranks)}
        block = FlatGraph(
            _with_unique_signatures(replace(ops, signatures=tuple(texts))),
            self._successors(),
            Participants.none(),
            release,
            peer,
        )
        return replace(
            self.old,
            blocks=(block,),
            labels=labels,
            streams={**self.old.streams, **own},
            times=self._times(),
        )

    def _times(self) -> OpTimeOverrides | None:
        """Times that rules set for ops, moved to the row that ends each op."""
        if self.old.times is None:
            return None
        said = OpTimeOverrides.none(len(self.op))
        said.time[self.last], said.factor[self.last] = self.old.times.time, self.old.times.factor
        return said

    def _successors(self) -> Csr:
        """Successor rows of each new row."""
        waiting = self.block.op_of_place[self.waits.owner]
        copied = self.block.ops.kind[waiting] != Kind.COLLECTIVE
        before = [self.last[self.waits.values[copied]]]
        after = [self.first[waiting[copied]]]
        for op, (_, places, _, waits) in self.written.items():
            own = self.waits.take(places)
            everyone = Csr(np.append(own.indptr, 2 * own.indptr[-1]), np.tile(own.values, 2))
            begun = everyone.take(waits.member)
            before += [self.first[op] + waits.before, self.last[begun.values]]
            after += [self.first[op] + waits.after, self.first[op] + waits.first[begun.owner]]
        n = len(self.op)
        pairs = np.sort(np.concatenate(before) * n + np.concatenate(after))
        once = pairs[np.diff(pairs, prepend=-1) > 0]
        return Csr.from_pairs(*np.divmod(once, max(n, 1)), n)

    def _topological_order(self) -> list[int]:
        """Old ops in topological order."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for place, op in enumerate(self.block.op_of_place.tolist()):
            sorter.add(op, *self.waits[place].tolist())
        try:
            return list(sorter.static_order())
        except CycleError as error:
            ring = error.args[1]
            said = " -> ".join(f"op {op}" for op in ring)
            raise GraphError("cycle", f"{said}; remove a dependency", tuple(ring[1:])) from error

    def _write_out(self, op: int) -> _WrittenCollective:
        """Expand one collective into its messages."""
        times = self.old.times
        if times is not None and (times.is_given[op] or times.factor[op] != 1):
            raise GraphError(
                "expand",
                f"op {op} ({self.old.label(op).name}): a rule sets its time, but the sends that "
                "replace it have times of their own; leave out 'expand', or the rule",
                (op,),
            )
        first, last = np.searchsorted(self.block.places.op, [op, op + 1]).tolist()
        places = np.append(op, len(self.block) + np.arange(first, last))
        name, algorithm, shape, order = self._chosen_algorithm(op, self.block.rank[places].tolist())
        if (algorithm, shape) not in self._known:
            messages = Messages.of(algorithm, *shape)
            self._known[algorithm, shape] = messages, Waits.of(messages, len(places))
        return _WrittenCollective(name, places[order], *self._known[algorithm, shape])

    def _chosen_algorithm(
        self, op: int, ranks: list[int]
    ) -> tuple[str, Algorithm, tuple[int, ...], Sequence[int]]:
        """Collective's name, first supporting algorithm, its arguments, and member order."""
        said = parse_signature(self.block.ops.signature_text(op) or "collective:unknown").name
        n = len(ranks)
        try:
            name, splits, kernel = parse_collective_name(said, n)
        except ValueError as error:
            what = said.partition(" ")[0]
            raise GraphError(
                "expand", f"op {op} ({what} of {n} members): {error}", (op,)
            ) from error
        if kernel:
            raise GraphError(
                "expand",
                f"op {op} ({name} of {n} members): its kernel, {kernel}, is timed as one op; "
                "leave out 'expand', or use the library's all-to-all "
                "(workload.execution.experts.exchange: normal)",
                (op,),
            )
        if n < 2:
            return name, ALONE, (n,), range(n)
        able = ALGORITHMS.get(name, {})
        order, width = self._order_by_nodes(ranks)
        for algorithm in self.algorithms:
            if algorithm in able and able[algorithm].usable(n):
                one = able[algorithm]
                if splits is not None and not one.uneven:
                    continue
                if not one.nested:
                    return name, one.split(splits), (n,), range(n)
                if width:
                    return name, one.split(splits and splits.ordered(order)), (n, width), order
        raise GraphError(
            "expand",
            f"op {op} ({name} of {n} members): none of {list(self.algorithms)} can expand it; "
            f"add one of {_usable_names(able.values(), width, splits)}",
            (op,),
        )

    def _order_by_nodes(self, ranks: list[int]) -> tuple[list[int], int]:
        """Member order node by node, and members per node; 0 for a single node or unequal nodes."""
        nodes: dict[str, list[int]] = {}
        for member, rank in enumerate(ranks if self.node_of_rank else ()):
            nodes.setdefault(self.node_of_rank[rank], []).append(member)
        widths = {len(members) for members in nodes.values()}
        width = widths.pop() if len(nodes) > 1 and len(widths) == 1 else 0
        return [m for members in nodes.values() for m in members], width


def _usable_names(algorithms: Iterable[Algorithm], width: int, splits: Splits | None) -> list[str]:
    """Names of the algorithms that support this number of members per node and these splits."""
    return [a.name for a in algorithms if (width or not a.nested) and (a.uneven or splits is None)]


def _ends_of_sends(
    messages: Messages, ranks: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], Numbers]:
    """Sender and receiver rank of each message, and its ``SIDES`` index.

    A message to or from the switch stays on one side of it. Its other end is any other member,
    which only names the switch.
    """
    source, target = messages.source, messages.target
    out, back = target == SWITCH, source == SWITCH
    sender = np.where(back, target + 1, source) % len(ranks)
    receiver = np.where(out, source + 1, target) % len(ranks)
    return ranks[sender], ranks[receiver], np.where(out, 1, 2 * back)


def _with_unique_signatures(ops: Ops) -> Ops:
    """Copy of the ops that stores each used signature once."""
    used = np.flatnonzero(np.bincount(ops.signature + 1)[1:])
    number: dict[str, int] = {}
    again = np.full(len(ops.signatures) + 1, -1, np.int32)  # also for no splits
    for old in used.tolist():
        again[old] = number.setdefault(ops.signatures[old], len(number))
    return replace(ops, signature=again[ops.signature], signatures=tuple(number))
