"""Rules that change selected ops of a graph: their time, stream or rank, or that remove them.

Rows keep their numbers, so the random draws of all other ops stay the same. A removed op takes no
time and no slot, and its successors wait for its predecessors.
"""

from __future__ import annotations

import difflib
import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from ..units import Seconds
from .csr import Csr
from .flat_graph import FlatGraph, Participants
from .graph import Graph
from .kind import kind_names
from .op_time_overrides import OpTimeOverrides
from .ops import Kind
from .roles import assign_slots

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class OpFilter:
    """Selection of ops by label, signature or kind; an op must match every key that is given.

    Parameters
    ----------
    name, module, source : str or None
        Parts of the op's label, exact or as a glob: ``aten::addmm``, ``DataLoader*``. ``source`` is
        a line of a file.
    signature : str or None
        Signature, exact or as a glob: ``compute:mm(*)``; for the grammar see
        ``docs/signatures.md``.
    kind : str or None
        Kind of op: ``compute``, ``host``, ``copy``, ``send``, ``collective`` …
    """

    name: str | None = None
    module: str | None = None
    signature: str | None = None
    kind: str | None = None
    source: str | None = None

    def criteria(self) -> dict[str, str]:
        """Keys of the filter that are given, with their patterns."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: pattern for key, pattern in told.items() if pattern is not None}


@dataclass(frozen=True)
class OpRule:
    """Change to apply to the selected ops of a graph.

    Parameters
    ----------
    where : Filter that selects the ops.
    time : Seconds or None
        New time of each op, whatever its backend returns; None keeps it.
    scale : float or None
        Factor on the time of each op; None keeps it.
    stream, rank : int or None
        New stream or rank of each op; None keeps it. The op keeps its dependencies. On its old
        stream, the op after it then waits for the op before it.
    remove : bool
        True to remove the ops; their successors wait for their predecessors.
    """

    where: OpFilter
    time: Seconds | None = None
    scale: float | None = None
    stream: int | None = None
    rank: int | None = None
    remove: bool = False


class RuleEffect(NamedTuple):
    """Number of ops that a rule changed, and their fraction of the recorded time of all ops.

    The fraction is NaN if no op of the graph has a recorded time.
    """

    ops: int
    share: float


def apply_op_rules(graph: Graph, rules: Sequence[OpRule]) -> tuple[Graph, tuple[RuleEffect, ...]]:
    """Apply rules to a graph one after the other; returns the graph and the effect of each rule.

    All filters apply to the ops of the given graph. An op that one rule removes is not changed by
    another.

    Raises
    ------
    GraphError
        A rule selects no op, or moves an op to a rank where it cannot be.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> build = Builder("step")
    >>> load = build.op(Kind.HOST, name="DataLoader.next", duration=3.0)
    >>> _ = build.op(Kind.COMPUTE, name="mm", duration=1.0, after=[load])
    >>> rule = OpRule(OpFilter(name="DataLoader*"), time=0.0)
    >>> graph, effects = apply_op_rules(build.graph(), [rule])
    >>> graph.times.time.tolist(), effects
    ([0.0, nan], (RuleEffect(ops=1, share=0.75),))
    """
    rows = [matching_rows(graph, rule.where) for rule in rules]
    gone = np.unique(np.concatenate([r for x, r in zip(rules, rows, strict=True) if x.remove]
                                    or [np.empty(0, np.int64)]))  # fmt: skip
    duration = np.nan_to_num(graph.ops.duration)
    whole = float(duration.sum())
    effects = tuple(
        RuleEffect(len(r), float(duration[r].sum()) / whole if whole else np.nan) for r in rows
    )
    for rule, own in zip(rules, rows, strict=True):
        graph = _apply_rule(graph, rule, np.setdiff1d(own, gone))
    if len(gone):
        times = graph.times or OpTimeOverrides.none(len(graph))
        graph = replace(_without_ops(graph, gone), times=times.with_time(gone, 0.0))
    return _placed_again(graph), effects


def _placed_again(graph: Graph) -> Graph:
    """Recompute the slot component of each op, if the graph was placed before."""
    if graph.system is None or graph.gpus is None:
        return graph
    block = assign_slots(graph.explicit, graph.system, graph.gpus, graph.streams)
    return replace(graph, blocks=(block,))


def _apply_rule(graph: Graph, rule: OpRule, rows: Rows) -> Graph:
    times = graph.times or OpTimeOverrides.none(len(graph))
    if rule.time is not None:
        times = times.with_time(rows, rule.time)
    if rule.scale is not None:
        times = times.with_factor(rows, rule.scale)
    if rule.stream is not None or rule.rank is not None:
        graph = _with_ops_moved(graph, rows, rule.rank, rule.stream)
    return replace(graph, times=times)


# Selection of ops.


def matching_rows(graph: Graph, where: OpFilter) -> Rows:
    """Rows of the ops that match a filter.

    Raises
    ------
    GraphError
        No op matches; the message names the key without a match and the nearest text.
    """
    found, counts = np.ones(len(graph), bool), {}
    for key, pattern in where.criteria().items():
        texts, of = _texts(graph, key)
        fitting = matching_texts(pattern, texts)
        fits = np.array([text in fitting for text in texts], bool)
        own = fits[of] if len(texts) else np.zeros(len(graph), bool)
        if not own.any():
            raise GraphError(
                "ops", f"no op has {key} '{pattern}'{_nearest_text_hint(pattern, texts, of)}"
            )
        counts[key] = int(own.sum())
        found &= own
    if not found.any():
        each = ", ".join(f"{key} matches {n} ops" for key, n in counts.items())
        raise GraphError("ops", f"no op matches all keys together ({each}); remove a key")
    return np.flatnonzero(found)


def matching_texts(pattern: str, texts: Sequence[str]) -> set[str]:
    """Texts that a pattern selects: an equal text if there is one, else all glob matches.

    >>> sorted(matching_texts("mm*", ["mm", "mm2", "add"])), matching_texts("a[0]", ["a[0]", "a0"])
    (['mm', 'mm2'], {'a[0]'})
    """
    return {pattern} if pattern in texts else {t for t in texts if fnmatchcase(t, pattern)}


def _texts(graph: Graph, key: str) -> tuple[list[str], NDArray[np.integer]]:
    """Distinct texts of a filter key, and the index of each op's text among them."""
    ops = graph.ops
    if key == "kind":
        return kind_names().tolist(), ops.kind
    if key == "signature":
        return [*ops.signatures, ""], ops.signature  # index -1 is the last element
    texts = [str(getattr(label, key)) for label in graph.labels]
    kinds = kind_names().tolist() if key == "name" else [""] * len(Kind)
    unlabelled = len(texts) + ops.kind.astype(np.int64)  # these have the name of their kind
    return [*texts, *kinds], np.where(ops.label >= 0, ops.label, unlabelled)


def _nearest_text_hint(pattern: str, texts: Sequence[str], of: NDArray[np.integer]) -> str:
    """End of an error message that names the texts nearest to a pattern."""
    count = Counter(texts[i] for i in of.tolist())
    known = [text for text, _ in count.most_common() if text]
    if not known:
        return "; no op has one"
    wanted = pattern.strip("*?")
    inside = [text for text in known if wanted and wanted.lower() in text.lower()]
    near = inside or difflib.get_close_matches(wanted, known, 3, 0.5)
    said = ", ".join(f"'{text}'" for text in (near or known)[:3])
    return f"; the nearest is {said}" if near else f"; examples are {said}"


# Removal.


class _Edges:
    """Editable dependencies of a block: the ops before each place, and the places after each op."""

    def __init__(self, block: FlatGraph):
        self.before: list[set[int]] = [set() for _ in range(len(block.op_of_place))]
        self.after: list[set[int]] = [set() for _ in range(len(block))]
        pairs = zip(block.successors.owner.tolist(), block.successors.values.tolist(), strict=True)
        for op, place in pairs:
            self.add(op, place)

    def add(self, op: int, place: int) -> None:
        self.after[op].add(place)
        self.before[place].add(op)

    def drop(self, op: int, place: int) -> None:
        self.after[op].discard(place)
        self.before[place].discard(op)

    def successors(self, numbers: Callable[[int], int]) -> Csr:
        """Dependencies as a CSR table, with place numbers mapped by a function."""
        return Csr.of([sorted(map(numbers, places)) for places in self.after])


def _without_ops(graph: Graph, rows: Rows) -> Graph:
    """Replace some ops by delays without slot, work or peer."""
    block = graph.explicit
    gone = np.isin(block.places.op, rows)
    if gone.any():
        block = _with_single_places(block, rows, gone)
    kind, peer = block.ops.kind.copy(), block.peer.copy()
    signature = block.ops.signature.copy()
    flop, moved = block.ops.flop.copy(), block.ops.bytes.copy()
    kind[rows], peer[rows], signature[rows] = Kind.DELAY, -1, -1
    flop[rows], moved[rows] = 0.0, 0.0
    ops = block.ops.replace(kind=kind, signature=signature, flop=flop, bytes=moved)
    return replace(graph, blocks=(replace(block, ops=ops, peer=peer),))


def _with_single_places(block: FlatGraph, rows: Rows, gone: NDArray[np.bool_]) -> FlatGraph:
    """Reduce collectives to one rank; other ranks keep their order without the collective."""
    edges, release = _Edges(block), block.release.copy()
    n, rank, op_of = len(block), block.rank.tolist(), block.op_of_place.tolist()
    further: dict[int, list[int]] = {}
    for k in np.flatnonzero(gone).tolist():
        further.setdefault(op_of[n + k], []).append(n + k)
    for op, places in further.items():
        others = {rank[p] for p in places} - {rank[op]}
        for after in sorted(edges.after[op]):
            alone = rank[after] in others  # an op on another rank waits for all of them
            own = [p for p in places if rank[p] == rank[after] or rank[after] not in
                   {rank[op], *others}]  # fmt: skip
            for before in sorted({b for p in own for b in edges.before[p]}):
                edges.add(before, after)
            if alone:
                edges.drop(op, after)
                release[op_of[after]] = max(release[op_of[after]], release[op])
        for p in places:
            for before in list(edges.before[p]):
                edges.drop(before, p)
    kept = np.flatnonzero(~gone)
    to = np.concatenate([np.arange(n), np.cumsum(~gone) - 1 + n])
    of = block.places
    return replace(
        block,
        successors=edges.successors(lambda place: int(to[place])),
        places=Participants(of.op[kept], of.rank[kept], of.stream[kept]),
        release=release,
    )


# Moving to another stream or rank.


def _with_ops_moved(graph: Graph, rows: Rows, rank: int | None, stream: int | None) -> Graph:
    """Move some ops to another stream or rank, and keep the order of ops in time."""
    block = graph.explicit
    _check_rank(graph, block, rows, rank)
    turn = {op: i for i, op in enumerate(_topological_rows(block))}
    edges, op_of = _Edges(block), block.op_of_place
    moved = np.flatnonzero(np.isin(op_of, rows))
    was = list(zip(block.rank.tolist(), block.stream.tolist(), strict=True))
    now = list(was)
    for p in moved.tolist():
        r, s = was[p]
        now[p] = (r if rank is None else rank, s if stream is None else stream)
    moved = moved[[was[p] != now[p] for p in moved.tolist()]]
    goes = set(moved.tolist())
    for line in _places_by_stream(was, {was[p] for p in goes}, turn, op_of):
        _reconnect_stream(line, goes, edges, op_of)
    for line in _places_by_stream(now, {now[p] for p in goes}, turn, op_of):
        for a, b in pairwise(line):
            if a in goes or b in goes:
                edges.add(int(op_of[a]), b)
    ranks, streams = (np.array(column, np.int32) for column in zip(*now, strict=True))
    n = len(block)
    kinds = {now[p]: graph.streams[was[p]] for p in sorted(goes) if was[p] in graph.streams}
    made = replace(
        block,
        ops=block.ops.replace(rank=ranks[:n], stream=streams[:n]),
        places=Participants(block.places.op, ranks[n:], streams[n:]),
        successors=edges.successors(int),
    )
    return replace(graph, blocks=(made,), streams={**kinds, **graph.streams})


def _check_rank(graph: Graph, block: FlatGraph, rows: Rows, rank: int | None) -> None:
    if rank is None:
        return
    if not 0 <= rank < graph.ranks:
        raise GraphError("ops", f"there is no rank {rank}; ranks are 0 to {graph.ranks - 1}")
    for row in rows.tolist():
        wide = np.any(block.places.op == row) or block.peer[row] == rank
        if wide:
            name = graph.label(row).name
            raise GraphError(
                "ops",
                f"op {row} ({name}) involves several ranks and cannot move to rank {rank}; "
                f"choose ops of one rank",
            )


def _topological_rows(block: FlatGraph) -> Iterator[int]:
    """Rows in topological order; among rows that are ready, the smallest first."""
    waits = np.bincount(block.op_of_place[block.successors.values], minlength=len(block)).tolist()
    due = [op for op, count in enumerate(waits) if not count]
    while due:
        op = heapq.heappop(due)
        yield op
        for after in block.op_of_place[block.successors[op]].tolist():
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(due, after)


def _places_by_stream(
    at: Sequence[tuple[int, int]],
    wanted: set[tuple[int, int]],
    turn: dict[int, int],
    op_of: Rows,
) -> list[list[int]]:
    """Places (ops on one rank) of each selected (rank, stream), in topological order."""
    found: dict[tuple[int, int], list[int]] = {}
    for place, where in enumerate(at):
        if where in wanted:
            found.setdefault(where, []).append(place)
    return [sorted(found[w], key=lambda p: turn[int(op_of[p])]) for w in sorted(found)]


def _reconnect_stream(line: Sequence[int], goes: set[int], edges: _Edges, op_of: Rows) -> None:
    """Connect the ops that stay on a stream to each other, where a moved op was between them."""
    last: int | None = None  # last op that stays
    between: list[int] = []
    for place in line:
        if place in goes:
            between.append(place)
            continue
        chain = [p for p in (*([last] if last is not None else []), *between, place)]
        linked = all(int(op_of[a]) in edges.before[b] for a, b in pairwise(chain))
        if between:
            edges.drop(int(op_of[between[-1]]), place)
            if linked and last is not None:
                edges.add(int(op_of[last]), place)
        last, between = place, []
