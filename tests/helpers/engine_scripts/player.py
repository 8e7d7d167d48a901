"""Plays a script on any engine and writes down everything that can be observed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy
from engine_scripts.script import Script, Step
from foretrace.sim.engine_api.capacity_ledger import Grant
from foretrace.sim.engine_api.engine_control import EngineControl
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import (
    NO_LIMIT,
    ONE,
    Answer,
    ComponentTable,
    Numbers,
    PreparedShape,
    State,
    Submitted,
    TimingElsewhere,
)
from foretrace.sim.errors import BackendError, GraphError, SimulationError

AT_THE_END = ("lost", "time overflow", "starvation", "deadlock")


class Outcome(NamedTuple):
    """Everything that can be observed of a run.

    Parameters
    ----------
    columns : lists, or None after an error in the middle of a turn
    log : what processes and backends saw, in order
    error : (type, kind, root ops, open ops) or None
    """

    columns: dict[str, list[int]] | None
    log: list[tuple[Any, ...]]
    error: tuple[str, str, tuple[int, ...], tuple[int, ...]] | None


def play(make: Callable[[ComponentTable], EngineControl], script: Script) -> Outcome:
    """Run a script on the engine that ``make`` builds, and return all that can be observed."""
    return Player(make(script.parts), script).outcome()


class Player:
    """Plays one script.

    A step is ``(verb, *arguments)``. Waiting: ``at tick``, ``wait ticks``, ``ended op``,
    ``done graph``, ``lost graph``, ``settled``, ``reaches what component low high``, ``acquire
    component amount owner``, ``race component amount owner ticks`` (a grant, but no longer than
    so many ticks), ``await grant``, ``receive box``, ``receive_within box ticks``. Acting: ``send
    box value``, the verbs of the machine, ``cancel graph`` as
    ``drop``, ``submit cases``, ``observe``, ``ask`` (acquire, and do not wait), ``give grant``
    back, ``interrupt actor``, ``kill actor``, of stores ``hold component key size owner``,
    ``let_go component key owner``, ``let_go_all component owner``, ``forget component key``,
    ``touch component key``, ``rank component key number``, ``split component key sizes`` and
    ``look component``, ``repeat prepared changes`` (of each: row, fixed, work, limit, how
    much less it holds), ``give_back``. Loops: ``rescue graph keep slot times`` resumes what it
    is told was lost; ``monitor period times`` observes and keeps nothing alive. Ops, graphs,
    grants and actors are counted modulo what there is.
    """

    def __init__(self, machine: EngineControl, script: Script):
        self.machine, self.script = machine, script
        self.log: list[tuple[Any, ...]] = []
        self.graphs: list[Submitted] = []
        self.grants: list[Grant] = []
        self.actors: list[simpy.Process] = []
        self.places: list[int] = []  # of every op
        self.slots = [c for c, n in enumerate(script.slots) if n >= 0]
        self.stores = [c for c, n in enumerate(script.capacity) if n >= 0]
        self.shapes: list[PreparedShape] = []
        self.shared = [c for c, rate in enumerate(script.rates) if rate >= 0]
        machine.elsewhere = self._elsewhere

    def outcome(self) -> Outcome:
        """Play, and gather what was seen."""
        error = None
        try:
            self.shapes = [
                self.machine.prepare(literal_graph(f"p{k}", cases, [_nobody] * _backends(cases)))
                for k, cases in enumerate(self.script.prepared)
            ]
            for cases in self.script.graphs:
                self._do_submit(cases)
            for k, steps in enumerate(self.script.actors):
                process = self.machine.env.process(self.actor(k, steps))
                self.actors.append(process)
                if steps[0][0] == "monitor":
                    self.machine.watchers.add(process)
            for tick in self.script.pauses:
                self.machine.run(until=tick)
                self._do_observe()
            self.machine.run()
        except (GraphError, BackendError, SimulationError) as e:
            error = _told(e)
        if error is not None and error[1] not in AT_THE_END:
            return Outcome(None, self.log, error)
        found = self.machine.columns()
        names = ["ready", "start", "end", "state", "attempts", "arrived"]
        names += ["asked", "granted", "returned"]
        of = self.machine.ledger.acquired
        self.log.append((self.machine.env.now, "held", of.changes.tolist(), of.waits.tolist()))
        for c, store in self.machine.stores.history().items():
            self.log.append((c, "store", store.counts, store.samples.tolist(), store.window))
        return Outcome({n: getattr(found, n).tolist() for n in names}, self.log, error)

    def actor(self, k: int, steps: tuple[Step, ...]) -> Generator[simpy.Event, Any, None]:
        """One process."""
        for i, (verb, *args) in enumerate(steps):
            if verb in ("rescue", "monitor"):
                yield from getattr(self, f"_loop_{verb}")(k, *args)
            elif hasattr(self, f"_wait_{verb}"):
                yield from self._wait(k, i, verb, args)
            else:
                self.act(k, i, verb, *args)

    def _wait(
        self, k: int, i: int, verb: str, args: Sequence[Any]
    ) -> Generator[simpy.Event, Any, None]:
        """One wait; an error at the call is something observed, and so is an interruption."""
        try:
            value = yield getattr(self, f"_wait_{verb}")(*args)
            self.log.append((self.machine.env.now, "woke", k, i, _plain(value)))
        except (GraphError, SimulationError) as e:
            self.log.append((self.machine.env.now, "refused", k, i, _told(e)))
        except simpy.Interrupt:
            self.log.append((self.machine.env.now, "interrupted", k, i))

    def act(self, k: int, i: int, verb: str, *args: Any) -> None:
        """One verb; an error at the call is something observed."""
        try:
            getattr(self, f"_do_{verb}")(*args)
        except (GraphError, SimulationError) as e:
            self.log.append((self.machine.env.now, "refused", k, i, _told(e)))

    def _loop_rescue(
        self, k: int, graph: int, keep: bool, slot: int | None, times: int
    ) -> Generator[simpy.Event, Any, None]:
        """Resume what a failure stopped, as it is told."""
        for i in range(times):
            losses = yield self._wait_lost(graph)
            self.log.append((self.machine.env.now, "lost", k, i, _plain(losses)))
            for loss in losses:
                self.act(k, i, "resume", loss.op, keep, slot, None)

    def _loop_monitor(self, k: int, period: int, times: int) -> Generator[simpy.Event, Any, None]:
        """Look, and never act."""
        for _ in range(times):
            yield self.machine.env.timeout(period)
            self._do_observe()

    def _wait_at(self, tick: int) -> simpy.Event:
        return self.machine.env.timeout(max(0, tick - self.machine.env.now))

    def _wait_wait(self, ticks: int) -> simpy.Event:
        return self.machine.env.timeout(ticks)

    def _wait_ended(self, op: int) -> simpy.Event:
        return self.machine.ended(op % len(self.places))

    def _wait_done(self, graph: int) -> simpy.Event:
        return self.graphs[graph % len(self.graphs)].done

    def _wait_lost(self, graph: int) -> simpy.Event:
        return self.machine.lost(self.graphs[graph % len(self.graphs)])

    def _wait_settled(self) -> simpy.Event:
        return self.machine.settled()

    def _wait_reaches(self, *bound: Any) -> simpy.Event:
        return self.machine.reaches(*bound)

    def _wait_acquire(self, component: int, amount: int, owner: int) -> simpy.Event:
        self.grants.append(self.machine.acquire(component, amount, owner))
        return self.grants[-1]

    def _wait_race(self, component: int, amount: int, owner: int, ticks: int) -> simpy.Event:
        timeout = self.machine.env.timeout(ticks)
        return self._wait_acquire(component, amount, owner) | timeout

    def _wait_await(self, grant: int) -> simpy.Event:
        if not self.grants:
            return self.machine.settled()
        return self.grants[grant % len(self.grants)]

    def _wait_receive(self, box: int) -> simpy.Event:
        return self.machine.mail.box(0, f"box{box}").receive()

    def _wait_receive_within(self, box: int, ticks: int) -> simpy.Event:
        timeout = self.machine.env.timeout(ticks)
        return self._wait_receive(box) | timeout

    def _do_send(self, box: int, value: int) -> None:
        self.machine.mail.box(0, f"box{box}").send(value, answer_to=f"box{1 - box}")

    def _do_ask(self, component: int, amount: int, owner: int) -> None:
        self._wait_acquire(component, amount, owner)

    def _do_take(self, component: int, amount: int, owner: int) -> None:
        took = self.machine.take(component, amount, owner)
        self.log.append((self.machine.env.now, "took", component, amount, took))

    def _do_release(self, component: int, amount: int, owner: int) -> None:
        self.machine.release(component, amount, owner)

    def _do_give(self, grant: int) -> None:
        if self.grants:
            self.grants[grant % len(self.grants)].release()

    def _do_release_all(self, owner: int) -> None:
        self.machine.release_all(owner)

    def _do_interrupt(self, actor: int) -> None:
        found = self.actors[actor % len(self.actors)]
        interrupted = self.script.actors[actor % len(self.actors)]
        waits = interrupted[0][0] not in ("rescue", "monitor") and self.machine.env.now > 0
        if waits and found.is_alive and found is not self.machine.env.active_process:
            found.interrupt()

    def _do_kill(self, actor: int) -> None:
        """End a process where it waits, as the stop of its job does."""
        found = self.actors[actor % len(self.actors)]
        if found.is_alive and found is not self.machine.env.active_process:
            waits = getattr(found.target, "callbacks", None)
            if self.machine.env.now > 0 and waits is not None:
                waits.remove(found._resume)
                found._generator.close()
                found.succeed()

    def _do_hold(self, component: int, key: int, size: int, owner: int) -> None:
        held = self.machine.stores.hold(component, key, size, owner)
        self.log.append((self.machine.env.now, "held", component, key, held))

    def _do_let_go(self, component: int, key: int, owner: int) -> None:
        self.machine.stores.release(component, key, owner)

    def _do_let_go_all(self, component: int, owner: int) -> None:
        self.machine.stores.release_all(owner, component)

    def _do_forget(self, component: int, key: int) -> None:
        gone = self.machine.stores.drop(component, key)
        self.log.append((self.machine.env.now, "forgot", component, key, gone))

    def _do_touch(self, component: int, key: int) -> None:
        self.machine.stores.touch(component, key)

    def _do_rank(self, component: int, key: int, number: int) -> None:
        self.machine.stores.set_order(component, key, number)

    def _do_split(self, component: int, key: int, sizes: Sequence[int]) -> None:
        parts = self.machine.stores.split(component, key, sizes)
        self.log.append((self.machine.env.now, "split", component, key, parts))

    def _do_look(self, component: int) -> None:
        of, keys = self.machine.stores, np.arange(4)
        seen = of.amounts(component), of.entries(component), of.longest_prefix(component, keys)
        self.log.append((self.machine.env.now, "looked", component, *seen, of.counts(component)))

    def _do_submit(self, cases: tuple[LiteralOp, ...]) -> None:
        graph = self.machine.submit(
            literal_graph(f"g{len(self.graphs)}", cases, self._asked(cases))
        )
        self._note(graph, cases)

    def _do_repeat(self, shape: int, changes: Sequence[tuple[int, ...]]) -> None:
        cases = list(self.script.prepared[shape])
        for row, fixed, work, limit, less in changes:
            bound = limit if cases[row].limit != NO_LIMIT else NO_LIMIT
            work = work if cases[row].usage or bound != NO_LIMIT else 0
            holds = tuple((c, max(n - less, 1), until) for c, n, until in cases[row].holds)
            cases[row] = cases[row]._replace(fixed=fixed, work=work, limit=bound, holds=holds)
        numbers = Numbers.of(literal_graph(f"p{shape}", cases, self._asked(cases)))
        self._note(self.machine.submit_prepared(self.shapes[shape], numbers), cases)

    def _asked(self, cases: Sequence[LiteralOp]) -> list[_Asked]:
        first = len(self.places)
        return [_Asked(self, b, cases, first) for b in range(_backends(cases))]

    def _note(self, graph: Submitted, cases: Sequence[LiteralOp]) -> None:
        self.log.append((self.machine.env.now, "submitted", graph.first, graph.count))
        self.graphs.append(graph)
        self.places += [len(c.places) for c in cases]

    def _do_give_back(self) -> None:
        """Say what is held: each graph, and its ops that ended since this was asked last."""
        held = self.machine.collect_ended()
        graphs = [
            (first, index, bool(over))
            for first, index, over in zip(
                held.first.tolist(), held.index.tolist(), held.over, strict=True
            )
        ]
        columns = held.arrived, held.start, held.end, held.state, held.fresh
        claims = held.claim, held.asked, held.granted, held.returned
        numbers = [self.machine.held_graphs, self.machine.held_ops]
        said = graphs, held.base.tolist(), [c.tolist() for c in (*columns, *claims)], numbers
        self.log.append((self.machine.env.now, "gave back", *said))

    def _do_set_rate(self, component: int, rate: int) -> None:
        self.machine.set_rate(component, rate)

    def _do_fail(self, component: int) -> None:
        self.machine.fail(component)

    def _do_restore(self, component: int) -> None:
        self.machine.restore(component)

    def _do_stop(self, op: int) -> None:
        self.machine.stop(op % len(self.places))

    def _do_resume(
        self,
        op: int,
        keep: bool,
        slot: int | None,
        usage: tuple[tuple[int, int], ...] | None,
        there: tuple[bool, LiteralOp] | None = None,
    ) -> None:
        op %= len(self.places)
        slots = None
        if slot is not None:
            n = len(self.slots)
            slots = [self.slots[(slot + j) % n] for j in range(self.places[op])]
        uses = None if usage is None else dict(usage)
        self.machine.resume(op, keep, slots, uses, self._there(op, there))

    def _there(self, op: int, there: tuple[bool, LiteralOp] | None) -> TimingElsewhere | None:
        """What an op takes where it goes on: an answer, or who is asked when it starts."""
        if there is None:
            return None
        asks, case = there
        if asks:
            row = op - next(g.first for g in self.graphs if g.first <= op < g.first + g.count)
            return _Asked(self, -1, [case] * (row + 1), op - row)
        return Answer(case.fixed, case.work, dict(case.usage), case.limit)

    def _elsewhere(self, op: int, component: int) -> TimingElsewhere:
        """What an op takes where a full queue sent it: an answer, or a backend that is asked."""
        self.log.append((op, "sent", component))
        fixed = (op + component) % 4
        used = ((self.shared[op % len(self.shared)], ONE),) if op % 3 == 0 else ()
        case = LiteralOp(fixed=fixed, work=6 if used else 0, usage=used)
        there = self._there(op, (op % 2 == 0, case))
        assert there is not None
        return there

    def _do_resume_stopped(self, op: int, *how: Any) -> None:
        if self.machine.state(op % len(self.places)) == State.STOPPED:
            self._do_resume(op, *how)

    def _do_cancel(self, op: int) -> None:
        self.machine.cancel([op % len(self.places)])

    def _do_drop(self, graph: int) -> None:
        found = self.graphs[graph % len(self.graphs)]
        self.machine.cancel(range(found.first, found.first + found.count))

    def _do_observe(self) -> None:
        m, script = self.machine, self.script
        self.log.append(
            (
                m.env.now,
                "observed",
                [m.queue(c) for c in self.slots],
                [m.found_full(c) for c in range(len(script.slots))],
                [m.held(c) for c in range(len(script.slots))],
                sorted(m.rates().items()),
                [m.capacity(c) for c in range(len(script.slots)) if c not in self.slots],
                [m.waiting(c) for c in self.stores],
                [m.failed(c) for c in range(len(script.slots))],
                [int(m.state(op)) for op in range(len(self.places))],
                [sorted(m.usage(op).items()) for op in range(len(self.places))],
            )
        )


class _Asked:
    """An online backend that answers what the cases say, and a tick more each time it is asked."""

    def __init__(self, player: Player, number: int, cases: Sequence[LiteralOp], first: int):
        self.player, self.number, self.cases, self.first = player, number, cases, first
        self.times = [0] * len(cases)

    def __call__(self, rows: Sequence[int], now: int) -> list[Answer]:
        self.player.log.append((now, "asked", self.first, self.number, [int(r) for r in rows]))
        answers = []
        for row in rows:
            case = self.cases[row]
            answers.append(
                Answer(case.fixed + self.times[row], case.work, dict(case.usage), case.limit)
            )
            self.times[row] += 1
        return answers


def _backends(cases: Sequence[LiteralOp]) -> int:
    return max((c.online for c in cases), default=-1) + 1


def _nobody(rows: Sequence[int], now: int) -> list[Answer]:
    raise AssertionError("a shape is asked nothing; what is handed in has backends of its own")


def _plain(value: Any) -> Any:
    if isinstance(value, simpy.events.ConditionValue):
        return [isinstance(event, Grant) or event.value for event in value]
    return [tuple(v) for v in value] if isinstance(value, list) else value


def _told(e: Exception) -> tuple[str, str, tuple[int, ...], tuple[int, ...]]:
    return (
        type(e).__name__,
        str(getattr(e, "kind", "")),
        tuple(getattr(e, "ops", ())),
        tuple(getattr(e, "open_ops", ())),
    )
