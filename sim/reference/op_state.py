"""State of ops, graphs and components in the reference engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from ..engine_api.deadlock import shortest_cycle
from ..engine_api.interface import (
    NEVER,
    NO_LIMIT,
    OVER,
    Answer,
    EngineColumns,
    EngineGraph,
    HeldOpTimes,
    OnlineTiming,
    State,
    TimingElsewhere,
)
from ..engine_api.queue_table import UNBOUNDED
from ..engine_api.remaining_work import ALL, RemainingWork
from ..engine_api.simpy_adapter import GraphHandle
from ..errors import GraphError
from .capacity import Claim

NOTHING = Answer(0, 0, {})
# State of a participant; READY: its op waits for amounts of capacities.
WAITING, READY, QUEUED, HELD = "waiting", "ready", "queued", "held"


@dataclass
class ComponentState:
    """State of a component: its slots and queue, its rate, or its capacity."""

    slots: int
    rate: int
    whole: int = -1
    failed: bool = False
    held: int = 0
    queue: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # sorted stamps
    line: list[Claim] = field(default_factory=list)  # who waits for an amount
    bound: int = UNBOUNDED  # number of ops that may wait for a slot
    found_full: int = 0  # ops that were turned away, or wait outside

    @property
    def has_room(self) -> bool:
        """True if one more op may join the queue; slots that are free now count as room."""
        free = 0 if self.failed else self.slots - self.held
        return self.bound == UNBOUNDED or len(self.queue) < self.bound + free


class SubmittedGraph(GraphHandle):
    """Submitted graph, with the number of its open ops."""

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        first: int,
        count: int,
        backends: tuple[OnlineTiming, ...],
    ):
        super().__init__(env, index, first, count)
        self.open, self.backends, self.joined = count, backends, False


@dataclass(frozen=True)
class PreparedGraph:
    """Graph that was checked once and can be submitted many times."""

    lowered: EngineGraph


class OpState:
    """State of one op: pending, running, ended, stopped or cancelled."""

    def __init__(self, id: int, batch: SubmittedGraph, fixed: int, release: int, online: int):
        self.id, self.batch = id, batch
        self.fixed, self.release, self.online = fixed, release, online
        self.there: OnlineTiming | None = (
            None  # an online backend of its own, where it was moved to
        )
        self.asks = online >= 0  # at its next start
        self.share = ALL  # fraction left of its next timing
        self.whole = fixed, 0  # fixed time and work of its last timing
        self.work = 0
        self.fixed_left, self.work_left = fixed, 0
        self.usage: dict[int, int] = {}
        self.limit = NO_LIMIT
        self.slots: list[int] = []
        self.unmet: list[int] = []  # dependencies of each place that have not ended
        self.at: list[str] = []
        self.arrived: list[int] = []
        self.dependents: list[tuple[OpState, int]] = []
        self.claims: list[Claim] = []  # what it holds of capacities
        self.ends: list[Claim] = []  # what others hold until it has ended
        self.state, self.attempts = State.PENDING, 0
        self.until: int | None = None  # the end of its fixed time, while that runs
        self.flowing = False
        self.stopped_by = ""
        self.counted = False  # its end was reported
        self.done: simpy.Event | None = None
        self.ready = self.start = self.end = NEVER

    @property
    def is_online(self) -> bool:
        """True if an online backend times the op when it starts."""
        return self.online >= 0 or self.there is not None

    @property
    def left(self) -> RemainingWork:
        """Remaining fraction of the op's fixed time and work."""
        if self.asks:
            return self.share
        fixed, work = self.whole
        return RemainingWork(self.fixed_left, fixed, self.work_left, work)

    def set_answer(self, answer: Answer, left: RemainingWork) -> None:
        """Set the timing of the op, of which only the given fraction is left to do."""
        self.whole, self.asks, self.share = (answer.fixed, answer.work), False, ALL
        self.fixed_left, self.work_left = left.apply_to(answer.fixed, answer.work)
        self.usage, self.limit = dict(answer.usage), answer.limit

    def move(self, there: TimingElsewhere, left: RemainingWork) -> None:
        """Continue the op on other components, with the given fraction left to do."""
        self.online = -1
        if isinstance(there, Answer):
            self.there, self.fixed, self.work = None, there.fixed, there.work
            self.set_answer(there, left)
        else:
            self.there, self.fixed, self.work = there, 0, 0
            self.set_answer(NOTHING, ALL)
            self.asks, self.share = True, left

    @property
    def live(self) -> bool:
        """True if the op can still end."""
        return self.state not in OVER

    def add_place(self, slot: int) -> None:
        """Add a slot that the op must hold before it can start."""
        self.slots.append(slot)
        self.unmet.append(0)
        self.at.append(WAITING)
        self.arrived.append(NEVER)


def op_states(graph: EngineGraph, batch: SubmittedGraph, now: int) -> list[OpState]:
    """Create the state of each op of a new graph.

    Raises
    ------
    GraphError
        The dependencies of the ops form a cycle.
    """
    n = len(graph)
    release = graph.release.tolist() or [0] * n
    online = graph.online.tolist() or [-1] * n
    fixed = graph.fixed.tolist()
    rows = [
        OpState(batch.first + i, batch, fixed[i], now + release[i], online[i]) for i in range(n)
    ]
    places = [(i, 0) for i in range(n)]
    for i, slot in zip([*range(n), *graph.further.tolist()], graph.slot.tolist(), strict=True):
        if len(rows[i].slots):
            places.append((i, len(rows[i].slots)))
        rows[i].add_place(slot)
    for i, row in enumerate(rows):
        for p in graph.successors[graph.indptr[i] : graph.indptr[i + 1]].tolist():
            dependent, k = places[p]
            rows[dependent].unmet[k] += 1
            row.dependents.append((rows[dependent], k))
    for f, i in enumerate(graph.flows.op.tolist()):
        row = rows[i]
        row.work = row.work_left = graph.flows.work(f)
        row.whole = row.fixed, row.work
        row.usage, row.limit = graph.flows.usage(f), int(graph.flows.limit[f])
    claims = graph.claims
    columns = (claims.op, claims.component, claims.amount, claims.until)
    for i, component, amount, until in zip(*(c.tolist() for c in columns), strict=True):
        claim = Claim(component, amount, rows[i], rows[until] if until >= 0 else None)
        rows[i].claims.append(claim)
        if until >= 0:
            rows[until].ends.append(claim)
    _refuse_cycle(graph.name, rows)
    return rows


def op_columns(rows: list[OpState]) -> EngineColumns:
    """Times and states of ops as columns, ascending by op id."""
    arrived = [r.arrived[0] for r in rows] + [a for r in rows for a in r.arrived[1:]]
    return EngineColumns(
        np.array([r.ready for r in rows], np.int64),
        np.array([r.start for r in rows], np.int64),
        np.array([r.end for r in rows], np.int64),
        np.array([r.state for r in rows], np.uint8),
        np.array([r.attempts for r in rows], np.int32),
        np.array(arrived, np.int64),
        *claim_times(rows),
    )


def claim_times(rows: list[OpState]) -> NDArray[np.int64]:
    """(3, claims) ticks at which each capacity claim was requested, granted and released."""
    times = [(c.asked, c.granted, c.returned) for row in rows for c in row.claims]
    return np.array(times, np.int64).reshape(-1, 3).T


def held_op_times(
    batches: Sequence[SubmittedGraph], rows: Sequence[Sequence[OpState]]
) -> HeldOpTimes:
    """Times of all participants of the ops of some graphs, and which ops newly ended."""
    places = [
        [*((row, a, True) for row in own for a in row.arrived[:1]),
         *((row, a, False) for row in own for a in row.arrived[1:])]
        for own in rows
    ]  # fmt: skip
    flat = [place for own in places for place in own]
    made = HeldOpTimes(
        np.array([b.first for b in batches], np.int64),
        np.array([b.index for b in batches], np.int64),
        np.cumsum([0, *map(len, places)])[:-1],
        np.array([not b.open and b.joined and not b.unreported for b in batches], np.bool_),
        np.array([a for _, a, _ in flat], np.int64),
        np.array([row.start if first else NEVER for row, _, first in flat], np.int64),
        np.array([row.end if first else NEVER for row, _, first in flat], np.int64),
        np.array([row.state if first else 0 for row, _, first in flat], np.uint8),
        np.array([f and r.state == State.ENDED and not r.counted for r, _, f in flat], np.bool_),
        np.cumsum([0, *(sum(len(row.claims) for row in own) for own in rows)])[:-1],
        *claim_times([row for own in rows for row in own]),
    )
    for row, _, _ in flat:
        row.counted = row.state == State.ENDED
    return made


def _refuse_cycle(name: str, rows: list[OpState]) -> None:
    unmet = {row: sum(row.unmet) for row in rows}
    todo = [row for row, count in unmet.items() if not count]
    for row in todo:
        for dependent, _ in row.dependents:
            unmet[dependent] -= 1
            if not unmet[dependent]:
                todo.append(dependent)
    if len(todo) < len(rows):
        raise cycle_error(name, {r.id - r.batch.first: _successors_of(r) for r in rows if unmet[r]})


def _successors_of(row: OpState) -> list[int]:
    return [dependent.id - row.batch.first for dependent, _ in row.dependents]


def cycle_error(name: str, dependents: dict[int, list[int]]) -> GraphError:
    """Error for a graph with a dependency cycle; it names a shortest cycle.

    Examples
    --------
    >>> cycle_error("ring", {0: [1], 1: [0, 2], 2: [1]}).ops
    (0, 1)
    """
    ring = shortest_cycle(dependents)
    said = " -> ".join(f"op {i}" for i in (*ring, ring[0]))
    return GraphError("cycle", f"graph {name!r}: {said}; remove a dependency", tuple(ring))
