"""The engine, written plainly in SimPy: what a run means (``docs/semantics.md`` as a program).

The machine is one citizen of the SimPy environment.  What a process does is noted and applied,
in order, at the start of the machine's next turn; so whatever a process observes is the machine
as its last turn left it.  All numbers are Python integers.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Sequence

import numpy as np
import simpy

from . import machine
from .check import check_answer, check_component, check_graph, check_rate, check_resume
from .clock import Turn, drive, wake, zero_time_loop
from .deadlock import Stuck, diagnose
from .errors import GraphError, SimulationError
from .life import HELD, QUEUED, WAITING, Batch, Part, Row, rows_of
from .machine import FIRST, LATER, MAX_TICK, Columns, Loss, Lowered, Parts, State
from .medium import Flow, MaxMin
from .threshold import Thresholds

Stamp = tuple[int, int, int, int, int]  # tick, turn, round, op, place


class ReferenceMachine:
    """The reference engine.

    Parameters
    ----------
    parts : Parts
    env : simpy.Environment or None
    per_second : int
        Ticks in a second; for messages.

    Examples
    --------
    >>> from foretrace.sim.testing import Case, Script, lowered
    >>> engine = ReferenceMachine(Script((1,), (-1,), ()).parts)
    >>> _ = engine.submit(lowered("two on one slot", [Case(((0, ()),), fixed=5)] * 2))
    >>> engine.run()
    >>> engine.columns().start.tolist(), engine.columns().end.tolist()
    ([0, 5], [5, 10])
    """

    def __init__(
        self, parts: Parts, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        self.env = env or simpy.Environment(initial_time=0)
        self.parts, self.per_second = parts, per_second
        self.watchers: set[simpy.Process] = set()
        self.at = [Part(int(s), int(r)) for s, r in zip(parts.slots, parts.rate, strict=True)]
        self.medium = MaxMin(part.rate for part in self.at)
        self.thresholds = Thresholds(self)
        self.rows: list[Row] = []
        self.batches: list[Batch] = []
        self.open = 0
        self.over: set[Row] = set()  # what ends now
        self.arriving: set[tuple[int, int]] = set()  # (op, place) to join a queue in this round
        self.moving: set[int] = set()  # components whose queue may move
        self.granted: set[int] = set()  # ops that hold all their places and have not started
        self.releases: list[tuple[int, int, int]] = []  # heap of (tick, op, place)
        self.timers: list[tuple[int, int, int]] = []  # heap of (end of fixed, op, attempt)
        self.todo: list[Callable[[], None]] = []
        self.news: list[tuple[simpy.Event, object]] = []
        self.actor = "nobody"
        self.tick, self.turn, self.round = -1, 0, 0
        self.planned: tuple[int, int] | None = None
        self.next_turn: Turn | None = None
        self._plan(self._now, FIRST)

    # What a process may do: noted now, applied at the start of the next turn.

    def submit(self, graph: Lowered) -> Batch:
        """Hand in a graph; it joins at the next turn."""
        check_graph(self.parts, graph)
        batch = Batch(self.env, len(self.batches), len(self.rows), len(graph), graph.backends)
        rows = rows_of(graph, batch, self._now)
        self.rows += rows
        self.batches.append(batch)
        self.open += len(rows)
        self._note(lambda: self._join(batch))
        return batch

    def set_rate(self, component: int, rate: int) -> None:
        """Change a rate; flows keep their progress."""
        check_rate(self.parts, component, rate)
        self._note(lambda: self._set_rate(component, rate))

    def fail(self, component: int) -> None:
        """Stop what runs on it, uses it, or holds a place on it."""
        check_component(self.parts, component)
        self._note(lambda: self._fail(component))

    def restore(self, component: int) -> None:
        """Let its queue move again; resumes nothing."""
        check_component(self.parts, component)
        self._note(lambda: self._restore(component))

    def stop(self, op: int) -> None:
        """Take an op out of its queue, place and components."""
        row = self._row(op)
        who = self._who()
        self._note(lambda: self._stop(row, who))

    def resume(
        self,
        op: int,
        keep: bool = True,
        slots: Sequence[int] | None = None,
        usage: dict[int, int] | None = None,
    ) -> None:
        """Let a stopped op queue again."""
        row = self._row(op)
        check_resume(self.parts, op, len(row.slots), slots, usage)
        self._note(lambda: self._resume(row, keep, slots, usage))

    def cancel(self, ops: Sequence[int]) -> None:
        """Remove ops and all that depends on them."""
        rows = [self._row(op) for op in ops]
        self._note(lambda: self._cancel(rows))

    # What a process may wait for.

    def ended(self, op: int) -> simpy.Event:
        """Fires with ``"ended"`` or ``"cancelled"``."""
        row = self._row(op)
        if row.done is None:
            row.done = self.env.event()
            if not row.live:
                row.done.succeed(row.state.name.lower())
        return row.done

    def lost(self, graph: Batch) -> simpy.Event:
        """Fires with the losses (list of :class:`Loss`) nobody was told of."""
        if graph.lost is None or graph.lost.triggered:
            graph.lost = self.env.event()
            if graph.untold:
                graph.lost.succeed(graph.untold)
                graph.untold = []
        return graph.lost

    def settled(self) -> simpy.Event:
        """Fires after the next turn."""
        self._note(lambda: None)
        return self.thresholds.settled()

    def reaches(
        self, what: str, component: int, at_least: int | None = None, at_most: int | None = None
    ) -> simpy.Event:
        """Fires when a turn settles with ``what`` of a component within the bound."""
        event = self.thresholds.add(what, component, at_least, at_most)
        self._note(lambda: None)
        return event

    # What a process may see: the machine as its last turn left it.

    def queue(self, component: int) -> list[tuple[int, int]]:
        """(op, number of the place) that wait there, first in line first."""
        return [stamp[3:] for stamp in self.at[component].queue]

    def held(self, component: int) -> int:
        """Slots taken; of a rate component, the sum of weight x rate, rounded down."""
        part = self.at[component]
        return part.held if part.rate < 0 else self.medium.taken(component)

    def rates(self) -> dict[int, int]:
        """Rate of every op in its work phase."""
        return self.medium.rates()

    def capacity(self, component: int) -> int:
        """Its rate, as the last turn left it."""
        return self.at[component].rate

    def failed(self, component: int) -> bool:
        """Whether it is out of order, as the last turn left it."""
        return self.at[component].failed

    def state(self, op: int) -> State:
        """Of one op, as the last turn left it."""
        return self._row(op).state

    def usage(self, op: int) -> dict[int, int]:
        """``{component: weight}`` that one op uses, as the last turn left it."""
        return dict(self._row(op).usage)

    # Turns and rounds.

    def _note(self, action: Callable[[], None]) -> None:
        self.todo.append(action)
        self.actor = self._who()
        if self.planned is None or self.planned[0] != self._now:
            self._plan(self._now, LATER)

    @property
    def _now(self) -> int:
        return int(self.env.now)

    def _who(self) -> str:
        process = self.env.active_process
        return str(process.name) if process is not None else "the program"

    def _plan(self, tick: int, priority: int) -> None:
        """The next turn; whatever was planned before is void."""
        if self.next_turn is not None:
            self.next_turn.void = True
        self.planned = tick, priority
        self.next_turn = Turn(self.env, self._take_turn)
        self.env.schedule(self.next_turn, priority, tick - self._now)  # type: ignore[arg-type]

    def _take_turn(self) -> None:
        now = self._now
        self.turn = self.turn + 1 if now == self.tick else 0
        self.tick, self.round, self.planned = now, 0, None
        if self.turn > machine.MAX_TURNS:
            raise zero_time_loop(self, f"{self.turn} turns", self.actor)
        self._advance()
        todo, self.todo = self.todo, []
        for action in todo:
            action()
        while self._take_round():
            self.round += 1
        soonest = self._soonest()  # settles the rates of this turn
        self._wake()
        if soonest <= MAX_TICK:
            self._plan(soonest, FIRST)

    def _advance(self) -> None:
        """Let time pass: work goes on at the rates of the last turn, fixed times run out."""
        self.over.update(self.rows[op] for op in self.medium.advance(self.tick))
        for row in [self.rows[op] for op in sorted(r.id for r in self.over)]:
            row.flowing, row.work_left = False, 0
        while self.timers and self.timers[0][0] <= self.tick:
            _, op, attempt = heapq.heappop(self.timers)
            row = self.rows[op]
            if row.until is not None and row.attempts == attempt:
                row.until, row.fixed_left = None, 0
                self._work(row)

    def _take_round(self) -> bool:
        """What ends now ends; places join queues; slots are granted; ops start.

        True if anything changed.
        """
        over, self.over = sorted(self.over, key=lambda row: row.id), set()
        for row in over:
            self._end(row)
        arrived = self._arrivals()
        for op, place in arrived:
            self._arrive(self.rows[op], place)
        granted = [self._move(c) for c in sorted(self.moving)]
        self.moving.clear()
        started = [self.rows[op] for op in sorted(self.granted) if not self._barred(self.rows[op])]
        self._start(started)
        return bool(over or arrived or any(granted) or started)

    def _arrivals(self) -> list[tuple[int, int]]:
        """Places whose dependencies ended and whose release time was reached, by op and place."""
        while self.releases and self.releases[0][0] <= self.tick:
            self.arriving.add(heapq.heappop(self.releases)[1:])
        found = [
            (op, k)
            for op, k in sorted(self.arriving)
            if self.rows[op].state == State.PENDING and self.rows[op].at[k] == WAITING
        ]
        self.arriving.clear()
        return found

    def _arrive(self, row: Row, place: int) -> None:
        if row.arrived[place] == machine.NEVER:
            row.arrived[place] = self.tick
            if machine.NEVER not in row.arrived:
                row.ready = self.tick
        slot = row.slots[place]
        if slot < 0:
            self._grant(row, place)
        else:
            row.at[place] = QUEUED
            insort(self.at[slot].queue, (self.tick, self.turn, self.round, row.id, place))
            self.moving.add(slot)

    def _move(self, component: int) -> bool:
        """Grant free slots, first come first served."""
        part, moved = self.at[component], False
        while part.queue and not part.failed and part.held < part.slots:
            *_, op, place = part.queue.pop(0)
            part.held += 1
            self._grant(self.rows[op], place)
            moved = True
        return moved

    def _grant(self, row: Row, place: int) -> None:
        row.at[place] = HELD
        if all(at == HELD for at in row.at):
            self.granted.add(row.id)

    def _barred(self, row: Row) -> bool:
        """Whether it uses a failed component."""
        return any(self.at[c].failed for c in row.usage)

    def _start(self, rows: list[Row]) -> None:
        """Start ops; ask their online backends, one call each, in the order of their first rows."""
        asked: dict[tuple[int, int], list[Row]] = {}
        for row in rows:
            self.granted.discard(row.id)
            row.state, row.start, row.attempts = State.RUNNING, self.tick, row.attempts + 1
            if row.asks:
                asked.setdefault((row.batch.index, row.online), []).append(row)
        for group in asked.values():
            self._ask(group)
        for row in rows:
            self._begin(row)

    def _ask(self, rows: list[Row]) -> None:
        batch = rows[0].batch
        backend = batch.backends[rows[0].online]
        answers = backend([row.id - batch.first for row in rows], self.tick)
        for row, answer in zip(rows, answers, strict=True):
            check_answer(self.parts, row.id, answer)
            row.asks, row.fixed_left, row.work_left = False, answer.fixed, answer.work
            row.usage, row.limit = dict(answer.usage), answer.limit

    def _begin(self, row: Row) -> None:
        if row.fixed_left:
            row.until = self.tick + row.fixed_left
            heapq.heappush(self.timers, (row.until, row.id, row.attempts))
        else:
            self._work(row)

    def _work(self, row: Row) -> None:
        if row.work_left:
            row.flowing = True
            self.medium.start([Flow(row.id, row.work_left, row.usage, row.limit)])
        else:
            self.over.add(row)

    def _soonest(self) -> int:
        """The next tick at which something happens by itself."""
        while self.timers and not self._ticking(*self.timers[0]):
            heapq.heappop(self.timers)
        while self.releases and not self._unreleased(*self.releases[0]):
            heapq.heappop(self.releases)
        ends = self.medium.next()
        found = [heap[0][0] for heap in (self.timers, self.releases) if heap]
        return min([*found, *([] if ends is None else [ends])], default=MAX_TICK + 1)

    def _ticking(self, until: int, op: int, attempt: int) -> bool:
        row = self.rows[op]
        return row.until == until and row.attempts == attempt

    def _unreleased(self, tick: int, op: int, place: int) -> bool:
        row = self.rows[op]
        return row.state == State.PENDING and row.at[place] == WAITING

    def _wake(self) -> None:
        """Tell who waits: ends as they happened, losses by graph, thresholds, the settled."""
        for event, value in self.news:
            wake(self.env, event, value)
        self.news = []
        for batch in self.batches:
            if batch.untold and batch.lost is not None and not batch.lost.triggered:
                wake(self.env, batch.lost, batch.untold)
                batch.untold = []
        for event in self.thresholds.reached():
            wake(self.env, event, None)

    # What happens to one op.

    def _join(self, batch: Batch) -> None:
        for row in self.rows[batch.first : batch.first + batch.count]:
            self._await_release(row)
        if not batch.count:
            self.news.append((batch.done, None))

    def _await_release(self, row: Row) -> None:
        """Let places arrive whose dependencies ended."""
        for k, unmet in enumerate(row.unmet):
            if not unmet:
                self._may_arrive(row, k)

    def _may_arrive(self, row: Row, place: int) -> None:
        if row.release <= self.tick:
            self.arriving.add((row.id, place))
        else:
            heapq.heappush(self.releases, (row.release, row.id, place))

    def _end(self, row: Row) -> None:
        self._leave(row)
        row.state, row.end = State.ENDED, self.tick
        self._close(row)
        for dependent, k in row.dependents:
            dependent.unmet[k] -= 1
            if not dependent.unmet[k]:
                self._may_arrive(dependent, k)

    def _close(self, row: Row) -> None:
        self.open -= 1
        if row.done is not None:
            self.news.append((row.done, row.state.name.lower()))
        row.batch.open -= 1
        if not row.batch.open:
            self.news.append((row.batch.done, None))

    def _leave(self, row: Row) -> None:
        """Give slots back, leave queues, free what it uses; what is left of it is kept."""
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

    def _set_rate(self, component: int, rate: int) -> None:
        part = self.at[component]
        part.rate = rate
        if not part.failed:
            self.medium.change(component, rate)

    def _fail(self, component: int) -> None:
        part = self.at[component]
        part.failed = True
        if part.rate >= 0:
            self.medium.change(component, 0)
        for row in self.rows:
            holds = any(
                s == component and a == HELD for s, a in zip(row.slots, row.at, strict=True)
            )
            if holds or (row.state == State.RUNNING and component in row.usage):
                self._stop(row, f"the failure of {self.parts.names[component]}")
                row.batch.untold.append(Loss(row.id, row.fixed_left, row.work_left, component))

    def _restore(self, component: int) -> None:
        part = self.at[component]
        part.failed = False
        if part.rate >= 0:
            self.medium.change(component, part.rate)
        self.moving.add(component)

    def _stop(self, row: Row, who: str) -> None:
        if row.live and row.state != State.STOPPED:
            self._leave(row)
            row.state, row.stopped_by = State.STOPPED, who

    def _resume(
        self, row: Row, keep: bool, slots: Sequence[int] | None, usage: dict[int, int] | None
    ) -> None:
        if not row.live:
            return
        if row.state != State.STOPPED:
            raise self._refused(row, f"it is {row.state.name.lower()}; stop it first")
        row.state = State.PENDING
        if not keep:
            row.asks = row.online >= 0
            row.fixed_left, row.work_left = row.fixed, row.work
        row.slots = row.slots if slots is None else list(slots)
        row.usage = row.usage if usage is None else dict(usage)
        if row.work_left and not row.usage and row.limit < 0:
            raise self._refused(row, "neither usage nor limit bounds the rate of its work")
        self._await_release(row)

    def _refused(self, row: Row, why: str) -> SimulationError:
        message = f"op {row.id}: cannot be resumed: {why}"
        return SimulationError("action", message, (row.id,), self.open_ops())

    def _cancel(self, rows: list[Row]) -> None:
        gone: set[Row] = set()
        todo = list(rows)
        while todo:
            row = todo.pop()
            if row.live and row not in gone:
                gone.add(row)
                todo += [dependent for dependent, _ in row.dependents]
        for row in sorted(gone, key=lambda r: r.id):
            self._leave(row)
            row.state = State.CANCELLED
            self._close(row)

    # The run as a whole.

    def due(self) -> tuple[int, int] | None:
        """Tick and priority of the turn that is planned."""
        return self.planned

    def open_ops(self) -> tuple[int, ...]:
        """Ops that have neither ended nor been cancelled."""
        return tuple(row.id for row in self.rows if row.live)

    def run(self, until: int | None = None) -> None:
        """Go on until nothing is open, or to a tick: its first turn included, no process.

        Raises
        ------
        SimulationError
            Nothing can happen and ops are open: lost, time overflow, starvation, deadlock.
        """
        drive(self, until)
        if until is None and self.open:
            raise diagnose(self._stuck())

    def _stuck(self) -> Stuck:
        live = [row for row in self.rows if row.live]
        unmet: dict[int, list[int]] = {row.id: [] for row in live}
        for row in live:
            for dependent, k in row.dependents:
                if dependent.live and dependent.at[k] == WAITING:
                    unmet[dependent.id].append(row.id)
        holders: dict[int, list[int]] = {}
        for row in live:
            for slot, at in zip(row.slots, row.at, strict=True):
                if at == HELD and slot >= 0:
                    holders.setdefault(slot, []).append(row.id)
        return Stuck(
            self.parts.names,
            [row.id for row in live],
            {row.id: row.stopped_by for row in live if row.state == State.STOPPED},
            [row.id for row in live if self._beyond(row)],
            {row.id: why for row in live if (why := self._starved(row))},
            unmet,
            {c: [s[3] for s in part.queue] for c, part in enumerate(self.at) if part.queue},
            holders,
        )

    def _beyond(self, row: Row) -> bool:
        """Whether its release or its end lies beyond the range of ticks."""
        if row.state != State.RUNNING:
            return row.release > MAX_TICK
        return row.until is not None or self.medium.rate.get(row.id, 0) > 0

    def _starved(self, row: Row) -> str:
        names, at = self.parts.names, self.at
        if row.state == State.RUNNING:
            return f"runs at rate 0 on {', '.join(names[c] for c in row.usage) or 'its limit'}"
        if row.id in self.granted:
            return f"uses failed {next(names[c] for c in row.usage if at[c].failed)}"
        for k, slot in enumerate(row.slots):
            if row.at[k] == QUEUED and at[slot].failed:
                return f"queues on failed {names[slot]}"
        return ""

    def columns(self) -> Columns:
        """What has happened so far."""
        rows = self.rows
        arrived = [r.arrived[0] for r in rows] + [a for r in rows for a in r.arrived[1:]]
        return Columns(
            np.array([r.ready for r in rows], np.int64),
            np.array([r.start for r in rows], np.int64),
            np.array([r.end for r in rows], np.int64),
            np.array([r.state for r in rows], np.uint8),
            np.array([r.attempts for r in rows], np.int32),
            np.array(arrived, np.int64),
        )

    def _row(self, op: int) -> Row:
        if not 0 <= op < len(self.rows):
            raise GraphError("unknown op", f"op {op}: there are {len(self.rows)}", (op,))
        return self.rows[op]
