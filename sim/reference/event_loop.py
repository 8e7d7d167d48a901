"""Event loop of the reference engine: turns, and rounds within a turn.

This file defines the order of all events of one tick (``docs/semantics.md``, section 4).
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence
from functools import partial

import simpy

from ..engine_api import interface as engine_api
from ..engine_api.capacity_ledger import Grant
from ..engine_api.engine_control import EngineControl
from ..engine_api.interface import FIRST, MAX_TICK, Answer, ComponentTable, State
from ..engine_api.medium_api import Flow
from ..engine_api.queue_table import DROPPED
from ..engine_api.remaining_work import ALL
from ..engine_api.simpy_clock import fire_in_this_turn
from ..engine_api.validation import check_answer, excess_weight_error
from .capacity import HELD as GRANTED
from .capacity import CapacityQueues, Claim
from .medium import MaxMin
from .op_state import HELD, QUEUED, READY, WAITING, ComponentState, OpState, SubmittedGraph
from .two_media import TwoMedia


class EventLoop(EngineControl):
    """State of a run in the reference engine, and the turns that change it.

    Parameters
    ----------
    parts : table of the system's components, one row each
    env : SimPy environment of the processes; None to create one
    per_second : int
        Number of ticks per second; used in messages.
    """

    def __init__(
        self, parts: ComponentTable, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        super().__init__(parts, env, per_second)
        self.at = [
            ComponentState(int(s), int(r), parts.capacity_of(c))
            for c, (s, r) in enumerate(zip(parts.slots, parts.rate, strict=True))
        ]
        if parts.queues is not None:
            for part, bound in zip(self.at, parts.queues.length.tolist(), strict=True):
                part.bound = bound
        self.lines = CapacityQueues(self.at)
        self.medium = (
            MaxMin(part.rate for part in self.at)
            if parts.medium is None
            else TwoMedia(parts, parts.medium)
        )
        self.rows: dict[int, OpState] = {}  # by id, ascending
        self.batches: list[SubmittedGraph] = []  # that are held
        self.open = 0
        self.over: set[OpState] = set()  # what ends now
        self.arriving: set[tuple[int, int]] = set()  # (op, place) to join a queue in this round
        self.joining: set[tuple[int, int]] = set()  # those that have all that they hold
        self.fired: list[Grant] = []  # what processes were granted in this turn
        self.turned_away: list[OpState] = []  # ops that are dropped in this round
        self.moving: set[int] = set()  # components whose queue may move
        self.granted: set[int] = set()  # ops that hold all their places and have not started
        self.releases: list[tuple[int, int, int]] = []  # heap of (tick, op, place)
        self.timers: list[tuple[int, int, int]] = []  # heap of (end of fixed, op, attempt)
        self.round = 0

    @property
    def held_graphs(self) -> int:
        """Number of graphs in memory: submitted and not yet freed."""
        return len(self.batches)

    def has_open_ops(self) -> bool:
        """True if some op has neither ended nor been cancelled."""
        return self.open > 0

    def open_ops(self) -> tuple[int, ...]:
        """Ids of ops that have neither ended nor been cancelled."""
        return tuple(row.id for row in self.rows.values() if row.live)

    def _run_turn(self, now: int) -> None:
        self.round = 0
        self._advance()
        todo, self.todo = self.todo, []
        for action in todo:
            action()
        while self._run_round():
            self.round += 1
        if self.medium.stale and (
            heavy := excess_weight_error(self.parts, self.medium.usage_by_flow(), self.open_ops)
        ):
            raise heavy
        soonest = self._next_tick()  # settles the rates of this turn
        self._wake()
        if soonest <= MAX_TICK:
            self._plan_turn(soonest, FIRST)

    def _advance(self) -> None:
        """Advance to the current tick: flows progress at the last rates, and fixed times elapse."""
        for op in self.medium.advance(self.tick):
            row = self.rows[op]
            row.flowing, row.work_left = False, 0
            self.over.add(row)
        while self.timers and self.timers[0][0] <= self.tick:
            until, op, attempt = heapq.heappop(self.timers)
            if self._is_still_running(until, op, attempt):
                row = self.rows[op]
                row.until, row.fixed_left = None, 0
                self._work(row)

    def _run_round(self) -> bool:
        """Run one round: ops end, participants arrive, capacities and slots are granted, ops start.

        True if anything changed.
        """
        over, self.over = sorted(self.over, key=lambda row: row.id), set()
        for row in over:
            self._end(row)
        arrived = self._arrivals()
        for op, place in arrived:
            self._arrive(self.rows[op], place)
        given = self.lines.grant(self.tick)
        for claim in given:
            self._grant_claim(claim)
        for op, place in sorted(self.joining):
            self._queue(self.rows[op], place)
        self.joining.clear()
        for row in self.turned_away:
            self._cancel_with_dependents([row], State.DROPPED)
        self.turned_away.clear()
        granted = [self._grant_slots(c) for c in sorted(self.moving)]
        self.moving.clear()
        started = [
            self.rows[op]
            for op in sorted(self.granted)
            if not self._uses_failed_component(self.rows[op])
        ]
        self._start(started)
        return bool(over or arrived or given or any(granted) or started)

    def _arrivals(self) -> list[tuple[int, int]]:
        """Participants whose dependencies have ended and whose release time is reached, in order.

        Each is (op, index of the participant).
        """
        while self.releases and self.releases[0][0] <= self.tick:
            self.arriving.add(heapq.heappop(self.releases)[1:])
        found = [(op, k) for op, k in sorted(self.arriving) if self._is_unreleased(0, op, k)]
        self.arriving.clear()
        return found

    def _arrive(self, row: OpState, place: int) -> None:
        if row.arrived[place] == engine_api.NEVER:
            row.arrived[place] = self.tick
            if engine_api.NEVER not in row.arrived:
                row.ready = self.tick
        if not row.claims:
            self.joining.add((row.id, place))
            return
        row.at[place] = READY
        if all(at == READY for at in row.at):
            for claim in row.claims:
                self.lines.request(claim, self.tick)

    def _grant_claim(self, claim: Claim) -> None:
        """Grant an amount to an op or process; an op with all its amounts queues for slots."""
        if claim.grant is not None:
            self.fired.append(claim.grant)
        if claim.row is not None:
            row = self.rows[claim.row.id]
            if all(c.state == GRANTED for c in row.claims):
                self.joining.update((row.id, k) for k in range(len(row.at)))

    def _queue(self, row: OpState, place: int) -> None:
        slot = row.slots[place]
        if slot >= 0 and row.start == engine_api.NEVER and not self.at[slot].has_room:
            slot = self._find_room(row, place)
            if slot == DROPPED:
                self.turned_away.append(row)
                return
        if slot < 0:
            self._grant(row, place)
        else:
            row.at[place] = QUEUED
            insort(self.at[slot].queue, (self.tick, self.turn, self.round, row.id, place))
            self.moving.add(slot)

    def _find_room(self, row: OpState, place: int) -> int:
        """Component at which an op queues that found the queue of its own full; or `DROPPED`."""
        queues, own = self.parts.queues, row.slots[place]
        assert queues is not None  # noqa: S101
        self.at[own].found_full += 1
        others = (c for c in queues.elsewhere[own].tolist() if self.at[c].has_room)
        to = next(others, int(queues.last[own]))
        if to not in (own, DROPPED):
            row.slots[place] = to
            row.move(partial(self._time_elsewhere, row), ALL)
        return to

    def _time_elsewhere(self, row: OpState, rows: Sequence[int], now: int) -> Sequence[Answer]:
        """Timing of an op that starts where a full queue sent it."""
        there = self.elsewhere(row.id, row.slots[0])
        if isinstance(there, Answer):
            row.there, row.fixed, row.work = None, there.fixed, there.work
            return [there]
        row.there = there
        return there(rows, now)

    def _grant_slots(self, component: int) -> bool:
        """Grant free slots of a component, first come, first served; True if any was granted."""
        part, moved = self.at[component], False
        while part.queue and not part.failed and part.held < part.slots:
            *_, op, place = part.queue.pop(0)
            part.held += 1
            self._grant(self.rows[op], place)
            moved = True
        return moved

    def _grant(self, row: OpState, place: int) -> None:
        row.at[place] = HELD
        if all(at == HELD for at in row.at):
            self.granted.add(row.id)

    def _uses_failed_component(self, row: OpState) -> bool:
        """True if an op uses a failed component."""
        return any(self.at[c].failed for c in row.usage)

    def _start(self, rows: list[OpState]) -> None:
        """Start ops; ask their online backends, one call each, in the order of first rows."""
        asked: dict[tuple[int, int], list[OpState]] = {}
        for row in rows:
            self.granted.discard(row.id)
            row.state, row.start, row.attempts = State.RUNNING, self.tick, row.attempts + 1
            if row.asks:
                own = (row.batch.index, row.online) if row.there is None else (-1, row.id)
                asked.setdefault(own, []).append(row)
        for group in asked.values():
            self._ask_backend(group)
        for row in rows:
            self._begin(row)

    def _ask_backend(self, rows: list[OpState]) -> None:
        batch = rows[0].batch
        backend = rows[0].there or batch.backends[rows[0].online]
        answers = backend([row.id - batch.first for row in rows], self.tick)
        for row, answer in zip(rows, answers, strict=True):
            check_answer(self.parts, row.id, answer)
            row.set_answer(answer, row.share)

    def _begin(self, row: OpState) -> None:
        if row.fixed_left:
            row.until = self.tick + row.fixed_left
            heapq.heappush(self.timers, (row.until, row.id, row.attempts))
        else:
            self._work(row)

    def _work(self, row: OpState) -> None:
        if row.work_left:
            row.flowing = True
            self.medium.start([Flow(row.id, row.work_left, row.usage, row.limit)])
        else:
            self.over.add(row)

    def _next_tick(self) -> int:
        """Tick of the next event; beyond the range of ticks if there is none."""
        while self.timers and not self._is_still_running(*self.timers[0]):
            heapq.heappop(self.timers)
        while self.releases and not self._is_unreleased(*self.releases[0]):
            heapq.heappop(self.releases)
        ends = self.medium.next()
        found = [heap[0][0] for heap in (self.timers, self.releases) if heap]
        return min([*found, *([] if ends is None else [ends])], default=MAX_TICK + 1)

    def _is_still_running(self, until: int, op: int, attempt: int) -> bool:
        row = self.rows.get(op)
        return row is not None and row.until == until and row.attempts == attempt

    def _is_unreleased(self, _: int, op: int, place: int) -> bool:
        row = self.rows.get(op)
        return row is not None and row.state == State.PENDING and row.at[place] == WAITING

    def _wake(self) -> None:
        """Wake processes in this order: ends, losses, grants, messages, thresholds, settled."""
        for event, value in self.news:
            fire_in_this_turn(self.env, event, value)
        self.news = []
        for event, losses in self._losses_by_graph():
            fire_in_this_turn(self.env, event, losses)
        for grant in self.ledger.note_grants(self.tick, self.fired):
            fire_in_this_turn(self.env, grant, None)
        self.fired = []
        for event, message in self.mail.deliveries():
            fire_in_this_turn(self.env, event, message)
        for event in self.thresholds.reached():
            fire_in_this_turn(self.env, event, None)

    # What happens to one op.

    def _await_release(self, row: OpState) -> None:
        """Let participants without unmet dependencies arrive, at their op's release or later."""
        for k, unmet in enumerate(row.unmet):
            if not unmet:
                self._arrive_at_release(row, k)

    def _arrive_at_release(self, row: OpState, place: int) -> None:
        if row.release <= self.tick:
            self.arriving.add((row.id, place))
        else:
            heapq.heappush(self.releases, (row.release, row.id, place))

    def _end(self, row: OpState) -> None:
        self._free_slots_and_queues(row)
        row.state, row.end = State.ENDED, self.tick
        self._close_op(row)
        for dependent, k in row.dependents:
            dependent.unmet[k] -= 1
            if not dependent.unmet[k]:
                self._arrive_at_release(dependent, k)

    def _close_op(self, row: OpState) -> None:
        self.open -= 1
        for claim in (*row.claims, *row.ends):
            if claim.over:
                self.lines.withdraw(claim, self.tick)
        if row.done is not None:
            self.news.append((row.done, row.state.name.lower()))
        row.batch.open -= 1
        if not row.batch.open:
            self.news.append((row.batch.done, None))

    def _cancel_with_dependents(self, todo: list[OpState], state: State = State.CANCELLED) -> None:
        """Remove ops, which get the given state, and cancel all ops that depend on them."""
        final = dict.fromkeys(todo, state)
        gone: set[OpState] = set()
        while todo:
            row = todo.pop()
            if row.live and row not in gone:
                gone.add(row)
                todo += [dependent for dependent, _ in row.dependents]
        for row in sorted(gone, key=lambda r: r.id):
            self._leave(row)
            row.state = final.get(row, State.CANCELLED)
            self._close_op(row)

    def _leave(self, row: OpState) -> None:
        """Withdraw an op from slots, queues and flows; its remaining work is stored."""
        for claim in row.claims:
            self.lines.withdraw(claim, self.tick)
        self._free_slots_and_queues(row)

    def _free_slots_and_queues(self, row: OpState) -> None:
        """Release an op's slots, remove it from queues, and free the components that it uses."""
        self.granted.discard(row.id)
        self.over.discard(row)
        if row.until is not None:
            row.fixed_left, row.until = row.until - self.tick, None
        if row.flowing:
            row.work_left, row.flowing = self.medium.stop(row.id), False
        for k, slot in enumerate(row.slots):
            if slot >= 0 and row.at[k] == HELD:
                self.at[slot].held -= 1
                self.moving.add(slot)
            elif row.at[k] == QUEUED:
                queue = self.at[slot].queue
                queue.remove(next(s for s in queue if s[3:] == (row.id, k)))
            row.at[k] = WAITING
