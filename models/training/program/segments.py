"""Segments of a rank program: op chains, built once and repeated many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.csr import Csr
from ....sim.facts.graph import Label, OpTexts
from ....sim.facts.ops import Kind, Ops
from ....sim.facts.spmd.spmd_graph import RankProgram
from ..layer.operations import Work

Rows = NDArray[np.int64]
NONE: Rows = np.empty(0, np.int64)
NO_EDGES: Rows = np.empty((0, 2), np.int64)
NO_QUEUES: Mapping[int, tuple[int, int]] = MappingProxyType({})
COMPUTE, EXCHANGE, GRADIENTS, TO_HOST, ON_HOST, FROM_HOST, MESSAGES = range(7)
"""Streams of a rank; messages have one for each family of peers."""
DISPATCH = MESSAGES + 8  # stream of the host thread, after those of messages


class StepOp(NamedTuple):
    """One distinct op of a step.

    Parameters
    ----------
    kind, stream, family : kind of the op, its stream, and its family of groups (collective) or of
        peers (send or recv); -1 for no family
    work : the op's signature, flop and bytes
    module : phase and layer of the op
    """

    kind: Kind
    stream: int
    family: int
    work: Work
    module: str


class OpTable:
    """Table of the distinct ops of a step, each stored once and numbered.

    Examples
    --------
    >>> table = OpTable()
    >>> row = StepOp(Kind.COMPUTE, 0, -1, Work("mm", "compute:mm"), "forward layer")
    >>> table.number(row), table.number(row)
    (0, 0)
    """

    def __init__(self) -> None:
        self._rows: dict[StepOp, int] = {}
        self._columns: dict[str, NDArray[np.generic]] = {}
        self.texts = OpTexts()

    def number(self, row: StepOp) -> int:
        """Index of an op in the table; a new op is added to the table."""
        return self._rows.setdefault(row, len(self._rows))

    @property
    def rows(self) -> list[StepOp]:
        """Distinct ops, by index."""
        return list(self._rows)

    def computes(self, numbers: Rows) -> NDArray[np.bool_]:
        """Mask of compute ops, by their indices, shape (n,)."""
        every = np.array([row.kind == Kind.COMPUTE for row in self._rows], bool)
        return np.asarray(every[numbers])

    def exchanges_by_group(self, numbers: Rows) -> list[NDArray[np.bool_]]:
        """Mask of collectives off the chain for each family of groups, each of shape (n,)."""
        family = np.array([r.family if r.stream == EXCHANGE else -1 for r in self._rows])[numbers]
        return [np.asarray(family == group) for group in np.unique(family[family >= 0])]

    def columns(self) -> Mapping[str, NDArray[np.generic]]:
        """Columns of the table by name, including ``family``; cached until an op is added."""
        if not self._columns or len(self._columns["kind"]) < len(self._rows):
            self._columns = self._written_columns()
        return self._columns

    def _written_columns(self) -> dict[str, NDArray[np.generic]]:
        rows = list(self._rows)
        label = [self.texts.label(Label(r.work.label, r.module)) for r in rows]
        return {
            "kind": np.array([r.kind for r in rows], np.uint8),
            "stream": np.array([r.stream for r in rows], np.int32),
            "family": np.array([r.family for r in rows], np.int16),
            "flop": np.array([r.work.flop for r in rows]),
            "bytes": np.array([r.work.bytes for r in rows]),
            "signature": np.array([self.texts.signature(r.work.signature) for r in rows], np.int32),
            "label": np.array(label, np.int32),
        }


class Segment(NamedTuple):
    """Part of a rank program.

    Parameters
    ----------
    ops : (n,) indices in the op table
    edges : (e, 2) pairs of rows: a row, and a later row that depends on it
    entries : rows that wait for the previous segment
    ends : rows that the next segment waits for
    open : rows outside the chain that only the end of the step waits for
    queues : first and last row of each queue: ops outside the chain that run one after another
    """

    ops: Rows
    edges: Rows
    entries: Rows
    ends: Rows
    open: Rows
    queues: Mapping[int, tuple[int, int]] = NO_QUEUES


class SegmentBuilder:
    """Builder of a segment: a chain of ops, and ops that run in parallel with it.

    Examples
    --------
    >>> table, build = OpTable(), SegmentBuilder()
    >>> for name in "ab":
    ...     build.op(table.number(StepOp(Kind.COMPUTE, 0, -1, Work(name, ""), "")))
    >>> build.segment().edges.tolist()
    [[0, 1]]
    """

    def __init__(self) -> None:
        self._ops: list[Rows] = []
        self._edges: list[Rows] = []
        self._entries: list[Rows] = []
        self._open: list[Rows] = []
        self._queues: dict[int, tuple[int, int]] = {}
        self._begun = False
        self.count = 0
        self.ends: Rows = NONE

    def op(self, number: int) -> None:
        """Append an op to the chain."""
        self.append(_one(number))

    def append(self, part: Segment) -> None:
        """Append a segment to the chain; an empty one changes nothing."""
        if not len(part.ops):
            return
        base = self.count
        self._add(part, self.ends, base)
        self.ends, self._begun = part.ends + base, True
        for queue, (first, last) in part.queues.items():
            self._queue(queue, first + base, last + base)

    def append_each(self, parts: Sequence[Segment]) -> None:
        """Append segments to the chain in order; efficient if they repeat often.

        >>> part, build = works_segment([(7, 0), (8, 0)]), SegmentBuilder()
        >>> build.append_each([part, part])
        >>> sorted(build.segment().edges.tolist())
        [[0, 1], [1, 2], [2, 3]]
        """
        parts = [part for part in parts if len(part.ops)]
        if not parts:
            return
        self.append(parts[0])
        more = parts[1:]
        if not more:
            return
        begins = np.cumsum([self.count - len(parts[0].ops), *(len(part.ops) for part in parts)])
        since, here = begins[:-2], begins[1:-1]
        joints = _edges_between(parts)
        moved = np.stack([since, here], axis=1).repeat([len(joint) for joint in joints], axis=0)
        self._ops += [part.ops for part in more]
        self._edges.append(_shifted([part.edges for part in more], here))
        self._edges.append(np.concatenate(joints) + moved)
        self._open.append(_shifted([part.open for part in more], here))
        for queue in {queue: None for part in more for queue in part.queues}:
            self._queue_each(queue, [part.queues.get(queue) for part in more], here)
        self.ends, self.count = more[-1].ends + here[-1], int(begins[-1])

    def _queue_each(self, queue: int, spans: Sequence[tuple[int, int] | None], bases: Rows) -> None:
        """Chain the rows of a queue in consecutive parts, given each part's rows and offset."""
        there = np.array([span is not None for span in spans])
        rows = np.array([span for span in spans if span is not None]) + bases[there][:, None]
        self._queue(queue, int(rows[0, 0]), int(rows[-1, 1]))
        self._edges.append(np.stack([rows[:-1, 1], rows[1:, 0]], axis=1))

    def _queue(self, queue: int, first: int, last: int) -> None:
        """Append rows to a queue, after those already in it."""
        if queue in self._queues:
            begun, before = self._queues[queue]
            self._edges.append(np.array([[before, first]]))
            first = begun
        self._queues[queue] = first, last

    def add_parallel_op(self, number: int, queue: int) -> int:
        """Add an op off the chain; it waits for the chain and for the previous op of its queue.

        No op of the chain waits for it. Returns its row.

        Parameters
        ----------
        queue : queue number; ops of one queue run one after another
        """
        base = self.count
        self._add(_one(number), self.ends, base, entered=not self._begun)
        self._queue(queue, base, base)
        return base

    def wait(self, rows: Iterable[int]) -> None:
        """Make the chain wait for more rows."""
        self.ends = np.unique(np.concatenate([self.ends, np.array(list(rows), np.int64)]))

    def leave_open(self, row: int) -> None:
        """Make the end of the step wait for a row."""
        self._open.append(np.array([row]))

    @property
    def open(self) -> Rows:
        """Rows that the end of the step waits for, in the order in which they were added."""
        return np.concatenate([NONE, *self._open])

    def wait_for_open_rows(self) -> None:
        """Make the chain wait for all open rows."""
        self.wait(self.open.tolist())
        self._open = []

    def _add(self, part: Segment, after: Rows, base: int, entered: bool | None = None) -> None:
        entered = not self._begun if entered is None else entered
        if entered:
            self._entries.append(part.entries + base)
        pairs = np.empty((len(after), len(part.entries), 2), np.int64)
        pairs[:, :, 0] = after[:, None]
        pairs[:, :, 1] = part.entries + base
        self._ops.append(part.ops)
        self._edges += [pairs.reshape(-1, 2), part.edges + base]
        self._open.append(part.open + base)
        self.count += len(part.ops)

    def segment(self) -> Segment:
        """Segment of all ops that were added."""
        return Segment(
            np.concatenate([NONE, *self._ops]),
            np.concatenate([NO_EDGES, *self._edges]),
            np.concatenate([NONE, *self._entries]),
            self.ends,
            self.open,
            self._queues,
        )

    def program(self, table: OpTable, periods: Rows | None = None) -> RankProgram:
        """Finished program of a rank.

        Parameters
        ----------
        periods : (n,) iteration of each row; default: all 0
        """
        built = self.segment()
        zero = np.zeros(len(built.ops), np.int64)
        return program_of_rows(built.ops, built.edges, table, zero if periods is None else periods)


def program_of_rows(numbers: Rows, edges: Rows, table: OpTable, periods: Rows) -> RankProgram:
    """Program of a rank, from its rows and edges.

    Parameters
    ----------
    numbers : (n,) indices of its ops in the table
    edges : (e, 2) pairs of rows: a row, and a later row that depends on it
    periods : (n,) iteration of each row
    """
    chosen = {name: values[numbers] for name, values in table.columns().items()}
    family = chosen.pop("family").astype(np.int16)
    ops = Ops.of(
        signatures=table.texts.signatures,
        period=periods.astype(np.int32),
        **chosen,
    )
    return RankProgram(ops, Csr.from_pairs(edges[:, 0], edges[:, 1], len(ops)), family)


def _edges_between(parts: Sequence[Segment]) -> list[Rows]:
    """Edges from the ends of each part to the entries of the next, by row within its part.

    They are cached for repeated pairs of parts.
    """
    made: dict[tuple[int, int], Rows] = {}
    for one, other in pairwise(parts):
        key = id(one), id(other)
        if key not in made:
            made[key] = np.stack(
                [np.repeat(one.ends, len(other.entries)), np.tile(other.entries, len(one.ends))],
                axis=1,
            )
    return [made[id(one), id(other)] for one, other in pairwise(parts)]


def _shifted(rows: Sequence[Rows], by: Rows) -> Rows:
    """Rows of all parts, each shifted to the offset of its part."""
    moved = np.repeat(by, [len(each) for each in rows])
    found = np.concatenate(rows)
    return found + (moved[:, None] if found.ndim > 1 else moved)


def _one(number: int) -> Segment:
    zero = np.zeros(1, np.int64)
    return Segment(np.array([number]), NO_EDGES, zero, zero, NONE)


def pipelined_segment(parts: Sequence[Sequence[int]]) -> Segment:
    """Segment in which all parts pass through the same stations, which serve one part at a time.

    Parameters
    ----------
    parts : for each part, the op-table index of its op at each station

    Examples
    --------
    >>> sorted(pipelined_segment([(7, 8), (7, 8)]).edges.tolist())
    [[0, 1], [0, 2], [1, 3], [2, 3]]
    """
    if not parts:
        return Segment(NONE, NO_EDGES, NONE, NONE, NONE)
    row = np.arange(len(parts) * len(parts[0])).reshape(len(parts), -1)
    pairs = [(row[:, :-1], row[:, 1:]), (row[:-1], row[1:])]
    edges = [np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]
    numbers = np.array(parts, np.int64).ravel()
    return Segment(numbers, np.concatenate(edges), row[0, :1], row[-1, -1:], NONE)


def works_segment(works: Iterable[tuple[int, int]]) -> Segment:
    """Segment of a chain in which some ops overlap with the next few ops.

    Parameters
    ----------
    works : for each op: its index in the op table, and the number of following ops that do not wait
        for it

    Examples
    --------
    >>> sorted(works_segment([(7, 0), (8, 1), (9, 0), (7, 0)]).edges.tolist())
    [[0, 1], [0, 2], [1, 3], [2, 3]]
    """
    return _chain_of_works(tuple(works))


@lru_cache(maxsize=1024)  # layers of a model repeat
def _chain_of_works(works: tuple[tuple[int, int], ...]) -> Segment:
    numbers, edges, entries = [], [], []
    ends: list[int] = []
    pending: list[tuple[int, int]] = []
    for row, (number, beside) in enumerate(works):
        due = [r for r, left in pending if left == 0]
        pending = [(r, left - 1) for r, left in pending if left]
        before = ends + due
        edges += [(b, row) for b in before]
        if not before:
            entries.append(row)
        numbers.append(number)
        if beside:
            ends = before
            pending.append((row, beside))
        else:
            ends = [row]
    # Compute ops form the chain: a row follows the last row before it that it depends on.
    order = np.argsort([row + (beside and beside + 0.5) for row, (_, beside) in enumerate(works)])
    place = np.argsort(order)
    return Segment(
        np.array(numbers, np.int64)[order],
        place[np.array(edges, np.int64).reshape(-1, 2)],
        place[np.array(entries, np.int64)],
        place[np.array(ends + [r for r, _ in pending], np.int64)],
        NONE,
    )


def interleave_segments(first: Segment, second: Segment, table: OpTable) -> Segment:
    """Run two segments of one rank concurrently: one computes while the other communicates.

    A segment computes up to its next collective, then the other one does. One computes at a time,
    in this order. Collectives of one group also run one after another, as those of one communicator
    do.

    Examples
    --------
    >>> table = OpTable()
    >>> a, b = (table.number(StepOp(Kind.COMPUTE, 0, -1, Work(w, ""), "")) for w in "ab")
    >>> x = table.number(StepOp(Kind.COLLECTIVE, 1, 0, Work("x", ""), ""))
    >>> first, second = works_segment([(a, 0), (x, 0), (a, 0)]), works_segment([(b, 0)])
    >>> both = interleave_segments(first, second, table)
    >>> both.ops.tolist() == [a, x, b, a], both.edges.tolist()
    (True, [[0, 1], [1, 3], [0, 2], [2, 3]])
    """
    computes = [table.computes(part.ops) for part in (first, second)]
    run = np.concatenate([np.cumsum(~own) - ~own for own in computes])
    which = np.repeat([0, 1], [len(first.ops), len(second.ops)])
    order = np.lexsort((np.arange(len(run)), which, run))
    place = np.argsort(order)
    base = len(first.ops)
    ops = np.concatenate([first.ops, second.ops])[order]
    queues = [table.computes(ops), *table.exchanges_by_group(ops)]
    handed = [_handover_edges(np.flatnonzero(queue), which[order]) for queue in queues]
    edges = np.concatenate([first.edges, second.edges + base])
    return Segment(
        ops,
        np.concatenate([place[edges], *handed]),
        *(
            place[np.concatenate([mine, other + base])]
            for mine, other in (
                (first.entries, second.entries),
                (first.ends, second.ends),
                (first.open, second.open),
            )
        ),
    )


def _handover_edges(rows: Rows, which: Rows) -> Rows:
    """Edges (e, 2) between consecutive rows of a queue that belong to different segments."""
    turns = np.flatnonzero(np.diff(which[rows]) != 0)
    return np.stack([rows[turns], rows[turns + 1]], axis=1)
