"""Interface of both engines: their input and output, in integers only.

``docs/semantics.md`` defines what a run means; this module defines the form in which an engine
reads it. The reference engine (``sim/reference/engine.py``) and the compiled engine
(``sim/core/``) take the same :class:`ComponentTable` and :class:`EngineGraph`, offer the same
methods, and must agree in every number, event and error.

Units: time in ticks; rates and capacities in 2^-K work units per second; weights in 2^-40;
remaining work in rate units x ticks (up to 127 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..facts.eviction.rule import EvictionRule
    from .medium_api import Medium
    from .queue_table import QueueTable

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
    """State of an op, at the end of the run or when it is observed."""

    PENDING = 0  # submitted; waiting, queued or holding places
    RUNNING = 1
    ENDED = 2
    STOPPED = 3  # by a failure or by `stop`
    CANCELLED = 4
    DROPPED = 5  # it found the queue of its component full


OVER = frozenset({State.ENDED, State.CANCELLED, State.DROPPED})
"""States that an op does not leave."""


@dataclass(frozen=True)
class ComponentTable:
    """Components of a run as columns, in engine units.

    Parameters
    ----------
    names : name of each component
    slots : (c,) int32 number of slots, -1 for a component without slots
    rate : (c,) int64 rate in rate units, -1 for a component without a rate
    top : (c,) int64 highest rate that ``set_rate`` accepts
    unit : unit of each component's rate; () if all have the same
    capacity : (c,) int64 total of each capacity, -1 for none; shape (0,) if no component has one
    medium : plugged-in medium that replaces max-min sharing on some components, or None
    plugged : (c,) True for each component in that medium; shape (0,) if there are none
    stores : eviction rule of each component whose capacity is a store, by component
    queues : bounded queues in front of slots; None if there are none
    """

    names: Sequence[str]
    slots: NDArray[np.int32]
    rate: NDArray[np.int64]
    top: NDArray[np.int64]
    unit: Sequence[str] | NDArray[Any] = ()
    capacity: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    medium: Medium | None = None
    plugged: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    stores: Mapping[int, type[EvictionRule]] = field(default_factory=dict)
    queues: QueueTable | None = None

    def is_plugged(self, components: Iterable[int]) -> bool:
        """True if components belong to the plugged-in medium; only the first one is checked."""
        first = next(iter(components), None)
        return first is not None and len(self.plugged) > 0 and bool(self.plugged[first])

    def units(self, components: Iterable[int]) -> set[str]:
        """Set of the rate units of the given components."""
        return {self.unit[c] if len(self.unit) else "" for c in components}

    def __len__(self) -> int:
        return len(self.names)

    def take(self, components: NDArray[np.integer]) -> ComponentTable:
        """Table of selected components, in the given order, without a plugged-in medium."""
        return ComponentTable(
            tuple(self.names[c] for c in components.tolist()),
            self.slots[components],
            self.rate[components],
            self.top[components],
            [self.unit[c] for c in components.tolist()] if len(self.unit) else (),
            self.capacity[components] if len(self.capacity) else self.capacity,
            None,
            self.plugged[components] if len(self.plugged) else self.plugged,
        )

    def capacity_of(self, component: int) -> int:
        """Total amount of a component's capacity; -1 if it has none."""
        return int(self.capacity[component]) if len(self.capacity) else -1


@dataclass(frozen=True)
class Flows:
    """Flows: the work of ops that share rates or have a rate limit; one row each, ascending by op.

    Parameters
    ----------
    op : (f,) int32 row of the flow's op
    work_hi, work_lo : (f,) int64, uint64
        Work in rate units x ticks: ``hi * 2**64 + lo``.
    limit : (f,) int64 rate limit in rate units, -1 for none
    indptr : (f + 1,) int64 first use of each flow, and the number of uses
    component : (u,) int32 component of each use
    weight : (u,) int64 weight of each use in 2^-40
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
        """Empty table, for a graph whose ops share no rate."""
        none, rows = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls(rows, none, none.astype(np.uint64), none, np.zeros(1, np.int64), rows, none)

    def __len__(self) -> int:
        return len(self.op)

    def take(self, rows: NDArray[np.integer]) -> Flows:
        """Selected flows in the given order, with ops renumbered 0, 1, 2 and so on."""
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
        """``{component: weight}`` of flow ``i``; weights in 2^-40."""
        at = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
        return dict(zip(self.component[at].tolist(), self.weight[at].tolist(), strict=True))


@dataclass(frozen=True)
class Claims:
    """Claims: the capacity amounts that ops hold; one row each, ascending by op.

    Parameters
    ----------
    op : (h,) int32 row of the op
    component : (h,) int32 component of each claim
    amount : (h,) int64 amount of each claim, 1 or more
    until : (h,) int32 row of another op that must end before the amount is released, -1 for none
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
    """Timing of one op from an online backend; ``usage`` and ``limit`` replace the op's own."""

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
    """Placed and timed graph in the integer form that an engine runs.

    A place is one op on one rank: ``p < n`` is the first place of op ``p``; ``n + j`` is further
    place ``j``, of op ``further[j]`` (ascending).

    Parameters
    ----------
    name : Name of the graph, for error messages and random draws.
    further : (e,) int32 op of each further place of a collective
    slot : (n + e,) int32 component whose slots each place queues for, -1 for none
    indptr : (n + 1,) int64 first successor of each op, and the number of successors
    successors : (m,) int32 places that wait for op ``i``: ``successors[indptr[i]:indptr[i+1]]``
    release : (n,) int64 earliest start in ticks after the submission, or (0,) if all are 0
    fixed : (n,) int64 fixed time in ticks
    flows : work of the ops that share rates
    online : (n,) int16 index into ``backends`` of each online op, -1 for others; (0,) if all are -1
    backends : functions that time the online ops
    claims : capacity amounts that ops hold
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
        """Graph of ops without dependencies and slots."""
        none, n = np.empty(0, np.int32), len(fixed)
        slot, indptr, release = np.full(n, -1, np.int32), np.zeros(n + 1, np.int64), fixed[:0]
        online = none.astype(np.int16)
        return cls(
            name, none, slot, indptr, none, release, fixed, flows, online, claims=claims
        )  # fmt: skip

    def scattered(self, count: int, rows: NDArray[np.int64]) -> EngineGraph:
        """Graph of ``count`` ops with this graph's ops at ``rows`` and empty ops elsewhere.

        It gives ops their usual row numbers in error messages.
        """
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
    """Durations, work and amounts of one submission of a prepared graph; its structure is fixed.

    Parameters
    ----------
    fixed : (n,) int64 fixed time of each op in ticks
    work_hi, work_lo : (f,) int64, uint64 work of each flow, as high and low word
    limit : (f,) int64 rate limit of each flow, -1 for none
    amount : (h,) int64 amount of each claim
    backends : functions that time the online ops
    """

    fixed: NDArray[np.int64]
    work_hi: NDArray[np.int64]
    work_lo: NDArray[np.uint64]
    limit: NDArray[np.int64]
    amount: NDArray[np.int64]
    backends: tuple[OnlineTiming, ...] = ()

    @classmethod
    def of(cls, graph: EngineGraph) -> Numbers:
        """Durations, work, limits and amounts of a graph, as one ``Numbers`` tuple."""
        flows = graph.flows
        amount = graph.claims.amount
        return cls(graph.fixed, flows.work_hi, flows.work_lo, flows.limit, amount, graph.backends)

    def copy(self) -> Numbers:
        """Copy with its own arrays."""
        hi, lo, limit = self.work_hi.copy(), self.work_lo.copy(), self.limit.copy()
        return Numbers(self.fixed.copy(), hi, lo, limit, self.amount.copy(), self.backends)

    def put_into(self, graph: EngineGraph) -> EngineGraph:
        """Copy of a graph with its durations, work, limits and amounts replaced by these."""
        flows = replace(graph.flows, work_hi=self.work_hi, work_lo=self.work_lo, limit=self.limit)
        claims = replace(graph.claims, amount=self.amount)
        return replace(graph, fixed=self.fixed, flows=flows, backends=self.backends, claims=claims)


class LostOp(NamedTuple):
    """Op that a component's failure stopped, with its remaining time and work."""

    op: int
    fixed: int  # ticks left
    work: int  # rate units x ticks left
    component: int  # whose failure it was


class Submitted(Protocol):
    """Handle of a submitted graph: its number, its op ids, and the event of its end."""

    index: int  # number of earlier submissions
    first: int  # id of its row 0; row r has the id first + r
    count: int
    done: simpy.Event  # fires when every op has ended or was cancelled


@dataclass(frozen=True)
class EngineColumns:
    """Times and states of all ops, one row per op in the order of ids; -1 for what did not happen.

    Parameters
    ----------
    ready, start, end : (n,) int64 ticks
        ``ready`` is the first time the op was ready, ``start`` the start of its last attempt.
    state : (n,) uint8 number of the op's :class:`State`
    attempts : (n,) int32 number of starts
    arrived : Tick at which each place (op on one rank) first became ready: the first places by row,
        then the further ones.
    asked, granted, returned : (h,) int64 ticks
        Ticks at which each capacity claim last joined its queue, was granted and was released.
        Claims are in the order of graphs and of their rows.
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
    """Structure of a prepared graph in an engine: checked once, then submitted with new numbers."""

    @property
    def lowered(self) -> EngineGraph:
        """Engine graph from which the structure was prepared."""


@dataclass(frozen=True)
class HeldOpTimes:
    """Times of all ops in memory, one row per place (op on one rank), in the order of submission.

    Parameters
    ----------
    first : (g,) id of the op in row 0 of each graph that is in memory
    index : (g,) number of earlier submissions of each
    base : (g,) first row of each graph; its first places come first, then its further places
    over : (g,) True if all ops of the graph have ended or were cancelled
    arrived, start, end : (p,) arrival, start and end tick, -1 if it did not happen; start and end
        are stored at the first place of an op
    state : (p,) uint8 number of the op's :class:`State`, at its first place
    fresh : (p,) True for an op that ended since the previous call
    claim : (g,) index of the first capacity claim of each graph
    asked, granted, returned : (h,) ticks at which each capacity claim was requested, granted and
        released
    """

    first: NDArray[np.int64]
    index: NDArray[np.int64]
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
