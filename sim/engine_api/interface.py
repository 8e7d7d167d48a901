"""Interface of both engines: their input and output, in integers only.

``docs/semantics.md`` says what a run means; this page says in which form an engine reads it.
The reference (``sim/reference/engine.py``) and the compiled core (``sim/core/``) take the same
:class:`ComponentTable` and :class:`EngineGraph` graphs, offer the same verbs, and must agree
in every number, event and error.

Units: time in ticks; a rate, level or capacity in 2^-K work units a second; a weight in 2^-40;
work left in rate units x ticks (up to 127 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .medium_api import Medium

ONE = 1 << 40  # the weight 1
MOST_WEIGHT = 1 << 62  # weights of what is in flight on one component sum to less: 2^22
NO_LIMIT = -1
NEVER = -1  # value in columns for an event that did not happen
MAX_TICK = 2**63 - 1
MAX_TURNS = 10**6  # at one tick; more is a zero-time loop
MAX_EVENTS = 10**7  # SimPy events at one tick; more is a zero-time loop
MAX_IDLE = 2**20  # SimPy events without an open op or a submission; more is an endless process

FIRST, LATER = -1, 2  # SimPy priorities: a tick's first turn and all wake-ups; further turns


class State(IntEnum):
    """State of an op, at the end of the run or when observed."""

    PENDING = 0  # submitted; waiting, queued or holding places
    RUNNING = 1
    ENDED = 2
    STOPPED = 3  # by a failure or by `stop`
    CANCELLED = 4


@dataclass(frozen=True)
class ComponentTable:
    """The components of a run.

    Parameters
    ----------
    names : of each component
    slots : (c,) int32, -1 for a component without slots
    rate : (c,) int64 rate units, -1 for a component without a rate
    top : (c,) int64, what ``set_rate`` may reach
    unit : of each, what its rate counts; () where all count the same
    capacity : (c,) int64, the whole of each capacity, -1 for none; or (0,) where all are -1
    medium : that is plugged in beside max-min, or None
    plugged : (c,) whether a component is in that medium; or (0,) where none is
    """

    names: Sequence[str]
    slots: NDArray[np.int32]
    rate: NDArray[np.int64]
    top: NDArray[np.int64]
    unit: Sequence[str] | NDArray[Any] = ()
    capacity: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    medium: Medium | None = None
    plugged: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    def is_plugged(self, components: Iterable[int]) -> bool:
        """Whether the first of some components is in the plugged medium, hence all of them."""
        first = next(iter(components), None)
        return first is not None and len(self.plugged) > 0 and bool(self.plugged[first])

    def units(self, components: Iterable[int]) -> set[str]:
        """Units that the rates of some components count."""
        return {self.unit[c] if len(self.unit) else "" for c in components}

    def __len__(self) -> int:
        return len(self.names)

    def capacity_of(self, component: int) -> int:
        """Whole amount of a capacity; -1 for a component that has none."""
        return int(self.capacity[component]) if len(self.capacity) else -1


@dataclass(frozen=True)
class Flows:
    """Work of ops that use rate components or have a limit; one row each, ascending by op.

    Parameters
    ----------
    op : (f,) int32 row of the op
    work_hi, work_lo : (f,) int64, uint64
        Work in rate units x ticks: ``hi * 2**64 + lo``.
    limit : (f,) int64 rate units, -1 for none
    indptr : (f + 1,) int64
    component : (u,) int32
    weight : (u,) int64 in 2^-40
    """

    op: NDArray[np.int32]
    work_hi: NDArray[np.int64]
    work_lo: NDArray[np.uint64]
    limit: NDArray[np.int64]
    indptr: NDArray[np.int64]
    component: NDArray[np.int32]
    weight: NDArray[np.int64]

    @classmethod
    def none(cls) -> Flows:
        """Flows of a graph whose ops share nothing."""
        none, rows = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls(rows, none, none.astype(np.uint64), none, np.zeros(1, np.int64), rows, none)

    def __len__(self) -> int:
        return len(self.op)

    def take(self, rows: NDArray[np.integer]) -> Flows:
        """Chosen flows as those of ops 0, 1 and so on, in that order."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        at = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - self.indptr[:-1][rows], counts)
        return Flows(
            np.arange(len(rows), dtype=np.int32), self.work_hi[rows], self.work_lo[rows],
            self.limit[rows], indptr, self.component[at], self.weight[at],
        )  # fmt: skip

    def work(self, i: int) -> int:
        """Work of flow ``i`` as one Python integer."""
        return (int(self.work_hi[i]) << 64) + int(self.work_lo[i])

    def usage(self, i: int) -> dict[int, int]:
        """``{component: weight}`` of flow ``i``."""
        at = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
        return dict(zip(self.component[at].tolist(), self.weight[at].tolist(), strict=True))


@dataclass(frozen=True)
class Claims:
    """Amounts of capacities that ops hold; one row each, ascending by op.

    Parameters
    ----------
    op : (h,) int32 row of the op
    component : (h,) int32
    amount : (h,) int64, 1 or more
    until : (h,) int32 row of another op that has to end first, -1 for none
    """

    op: NDArray[np.int32]
    component: NDArray[np.int32]
    amount: NDArray[np.int64]
    until: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.op)


_ROWS = np.empty(0, np.int32)
NO_CLAIMS = Claims(_ROWS, _ROWS, np.empty(0, np.int64), _ROWS)  # of ops that hold nothing


class Answer(NamedTuple):
    """Answer of an online backend for one op; ``usage`` and ``limit`` replace the op's."""

    fixed: int
    work: int
    usage: dict[int, int]
    limit: int = NO_LIMIT


OnlineTiming = Callable[[Sequence[int], int], Sequence[Answer]]
"""``timing(rows of the graph, now)``: one answer an op, asked when they start."""

TimingElsewhere = Answer | OnlineTiming
"""What an op takes at another place: the answer of the backend there, or who is asked for it."""


@dataclass(frozen=True)
class EngineGraph:
    """One placed and timed graph, ready for an engine.

    Places: ``p < n`` is the first place of op ``p``; ``n + j`` is further place ``j``, of op
    ``further[j]`` (ascending; place ``k`` of an op is its ``k - 1``-th further place).

    Parameters
    ----------
    name : str
    further : (e,) int32
    slot : (n + e,) int32 component whose slots each place queues for, -1 for none
    indptr : (n + 1,) int64
    successors : (m,) int32 places that wait for op ``i``: ``successors[indptr[i]:indptr[i+1]]``
    release : (n,) int64 ticks after the submission, or (0,) where all are 0
    fixed : (n,) int64 ticks
    flows : Flows
    online : (n,) int16 index into ``backends``, -1 for none; (0,) where all are -1
    backends : of online ops
    claims : Claims
    """

    name: str
    further: NDArray[np.int32]
    slot: NDArray[np.int32]
    indptr: NDArray[np.int64]
    successors: NDArray[np.int32]
    release: NDArray[np.int64]
    fixed: NDArray[np.int64]
    flows: Flows
    online: NDArray[np.int16]
    backends: tuple[OnlineTiming, ...] = ()
    claims: Claims = NO_CLAIMS

    @classmethod
    def of_independent_ops(
        cls, name: str, fixed: NDArray[np.int64], flows: Flows, claims: Claims = NO_CLAIMS
    ) -> EngineGraph:
        """Graph of unconnected ops that queue for nothing."""
        none, n = np.empty(0, np.int32), len(fixed)
        slot, indptr, release = np.full(n, -1, np.int32), np.zeros(n + 1, np.int64), fixed[:0]
        online = none.astype(np.int16)
        return cls(
            name, none, slot, indptr, none, release, fixed, flows, online, claims=claims
        )  # fmt: skip

    def scattered(self, count: int, rows: NDArray[np.int64]) -> EngineGraph:
        """Graph of ``count`` ops: these at ``rows``, empty ones elsewhere, for error messages."""
        fixed, to = np.zeros(count, np.int64), rows.astype(np.int32)
        fixed[rows] = self.fixed
        until = self.claims.until
        until = np.where(until < 0, until, to[until])
        flows = replace(self.flows, op=to[self.flows.op])
        claims = replace(self.claims, op=to[self.claims.op], until=until)
        return EngineGraph.of_independent_ops(self.name, fixed, flows, claims)

    def __len__(self) -> int:
        return len(self.fixed)


class Numbers(NamedTuple):
    """Times and amounts of one submission of a prepared graph; its shape and usage stay.

    Parameters
    ----------
    fixed : (n,) int64 ticks
    work_hi, work_lo : (f,) int64, uint64 of each flow of the graph
    limit : (f,) int64 rate units, -1 for none
    amount : (h,) int64 of each claim
    backends : of online ops
    """

    fixed: NDArray[np.int64]
    work_hi: NDArray[np.int64]
    work_lo: NDArray[np.uint64]
    limit: NDArray[np.int64]
    amount: NDArray[np.int64]
    backends: tuple[OnlineTiming, ...] = ()

    @classmethod
    def of(cls, graph: EngineGraph) -> Numbers:
        """Numbers as they stand in a graph."""
        flows = graph.flows
        amount = graph.claims.amount
        return cls(graph.fixed, flows.work_hi, flows.work_lo, flows.limit, amount, graph.backends)

    def copy(self) -> Numbers:
        """Numbers in arrays of their own."""
        hi, lo, limit = self.work_hi.copy(), self.work_lo.copy(), self.limit.copy()
        return Numbers(self.fixed.copy(), hi, lo, limit, self.amount.copy(), self.backends)

    def put_into(self, graph: EngineGraph) -> EngineGraph:
        """Graph with these numbers in place of its own."""
        flows = replace(graph.flows, work_hi=self.work_hi, work_lo=self.work_lo, limit=self.limit)
        claims = replace(graph.claims, amount=self.amount)
        return replace(graph, fixed=self.fixed, flows=flows, backends=self.backends, claims=claims)


class LostOp(NamedTuple):
    """Op that a failure stopped."""

    op: int
    fixed: int  # ticks left
    work: int  # rate units x ticks left
    component: int  # whose failure it was


class Submitted(Protocol):
    """Graph that was handed in."""

    index: int  # number of earlier submissions
    first: int  # id of its row 0; row r has the id first + r
    count: int
    done: simpy.Event  # fires when every op has ended or was cancelled


@dataclass(frozen=True)
class EngineColumns:
    """Times and states of all ops, one row per op in the order of ids; -1 where never reached.

    Parameters
    ----------
    ready, start, end : (n,) int64 ticks
        ``ready`` of the first time, ``start`` of the last attempt.
    state : (n,) uint8, a :class:`State`
    attempts : (n,) int32 starts
    arrived : (n + e,) int64 ticks
        When each place first became ready: those of row ``p < n``, then the further ones.
    asked, granted, returned : (h,) int64 ticks
        When each claim on a capacity joined its line, was granted and was given back, the last
        time; claims in the order of graphs and of their rows.
    """

    ready: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    state: NDArray[np.uint8]
    attempts: NDArray[np.int32]
    arrived: NDArray[np.int64]
    asked: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    granted: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    returned: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class PreparedShape(Protocol):
    """Prepared graph in an engine: structure checked once, submitted with new numbers each time."""

    @property
    def lowered(self) -> EngineGraph:
        """Graph as it was prepared."""


@dataclass(frozen=True)
class HeldOpTimes:
    """Times of all ops in memory, one row per place (op on one rank), in order of submission.

    Parameters
    ----------
    graphs : that are held
    base : (g,) first place of each; its first places by row, then its further places
    over : (g,) whether all of its ops have ended or were cancelled
    arrived, start, end : (p,) ticks, as in :class:`EngineColumns`; of an op, at its first place
    state : (p,) uint8, a :class:`State`, likewise
    fresh : (p,) whether it is an op that has ended since this was asked last
    claim : (g,) first claim of each
    asked, granted, returned : (h,) ticks of claims, as in :class:`EngineColumns`
    """

    graphs: Sequence[Submitted]
    base: NDArray[np.int64]
    over: NDArray[np.bool_]
    arrived: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    state: NDArray[np.uint8]
    fresh: NDArray[np.bool_]
    claim: NDArray[np.int64]
    asked: NDArray[np.int64]
    granted: NDArray[np.int64]
    returned: NDArray[np.int64]
