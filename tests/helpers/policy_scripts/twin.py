"""The twin of :mod:`.player_kernel`: the same script as plain generators.

Each event that the policy waits for has a generator of its own, which waits for it and then plays
the next step. This is what a compiled process means (``docs/semantics.md``, section 5).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy
from foretrace.sim.engine_api.capacity_ledger import Grant
from foretrace.sim.engine_api.interface import State
from foretrace.sim.errors import SimulationError
from foretrace.sim.kernel import policy_rows as rows
from policy_scripts import script as verbs
from policy_scripts.machine import graphs, grid, ways
from policy_scripts.script import PolicyScript, Step

Steps = Generator[simpy.Event, Any, None]
EVERY_PART = (*verbs.PARTS, *verbs.STORES)
CANCELLABLE = rows.TIMER, rows.GRANT, rows.ENDED, rows.SETTLED


def _waits(_: simpy.Event) -> None:
    """Mark in the callbacks of an event that the twin waits for it, before its generator begins."""


class Twin:
    """The script as generators."""

    def __init__(self, script: PolicyScript):
        self.script, self.__name__ = script, script.name

    def __call__(self, sim: Any) -> Steps:
        steps = _Playing(self.script, sim).begins()
        steps.__name__ = self.script.name
        return steps


class _Playing:
    """One run of a twin."""

    def __init__(self, script: PolicyScript, sim: Any):
        self.script, self.sim, self.at, self.over = script, sim, 0, False
        self.waits: dict[simpy.Event, tuple[int, int, Any, simpy.Process]] = {}
        self.watched: dict[int, simpy.Event] = {}
        self.held = [0] * len(EVERY_PART)
        self.kept = [[0] * verbs.KEYS for _ in verbs.STORES]
        self.finished, self.is_heard = sim.env.event(), True

    def begins(self) -> Steps:
        sim, script = self.sim, self.script
        self.main = sim.env.active_process
        self.stores = [sim.store(name) for name in verbs.STORES]
        known = graphs()
        self.graphs = [sim.prepare(known[name], ways=ways()[name]) for name in verbs.GRAPHS]
        self.graphs.append(sim.prepare(grid()))
        for counter in verbs.COUNTERS:
            sim.count(counter, 0)
        start = sim.env.now
        self.times = [start + at for at, _ in script.arrivals]
        self.guarded(rows.START, 0)
        self.next_arrival(0)
        self.next_message()
        self.check()
        yield self.finished

    def guarded(self, *event: int) -> None:
        try:
            self.step(*event)
        except Exception:
            self.ends()
            raise

    def ends(self) -> None:
        self.over = True
        for event in list(self.waits):
            self.drop(event)

    def waiter(self, event: simpy.Event, kind: int, tag: int, of: Any) -> Steps:
        if event not in self.waits:
            return
        value = yield event
        del self.waits[event]
        if kind == rows.LOST:
            del self.watched[of.index]
            for k, lost in enumerate(value):
                part = verbs.PARTS.index(lost.component) if lost.component in verbs.PARTS else -1
                if not self.over:
                    self.guarded(kind, tag, lost.op - of.first, part, len(value) - 1 - k)
        elif kind == rows.ENDED:
            handle, graph = of
            if handle.index in self.watched:
                self.drop(self.watched.pop(handle.index))
            ops = range(handle.first, handle.first + handle.count)
            cancelled = sum(self.sim.state(op) == State.CANCELLED for op in ops)
            self.guarded(kind, tag, cancelled, graph)
        elif kind == rows.GRANT:
            self.held[of] += event.amount
            self.guarded(kind, tag, of, event.amount)
        elif kind == rows.MESSAGE:
            names = verbs.BOXES
            box = names.index(value.answer_to) if value.answer_to in names else -1
            self.guarded(kind, box, value.a, value.b, value.c)
            self.next_message()
        elif kind == rows.ARRIVAL:
            self.guarded(kind, tag, self.script.arrivals[tag][1])
            self.next_arrival(tag + 1)
        else:
            self.guarded(kind, tag)
        self.check()

    def wait(self, event: simpy.Event, kind: int, tag: int, of: Any = None) -> None:
        steps = self.waiter(event, kind, tag, of)
        steps.__name__ = self.script.name
        event.callbacks.append(_waits)
        self.waits[event] = kind, tag, of, self.sim.env.process(steps)

    def drop(self, event: simpy.Event) -> None:
        """End the generator that waits for an event where it waits."""
        *_, process = self.waits.pop(event)
        if event.callbacks is not None:
            event.callbacks[:] = [c for c in event.callbacks if c != process._resume]
            event.callbacks.remove(_waits)

    def next_arrival(self, row: int) -> None:
        if not self.over and row < len(self.times):
            self.wait(self.sim.env.timeout(self.times[row] - self.sim.env.now), rows.ARRIVAL, row)

    def next_message(self) -> None:
        if not self.over and self.script.inbox:
            self.wait(self.sim.mailbox(self.script.inbox).receive(), rows.MESSAGE, 0)

    def check(self) -> None:
        if not self.over and not self.waits:
            raise SimulationError("policy", "waits for nothing")

    def step(self, kind: int, tag: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        sim, step = self.sim, self.script.steps[min(self.at, len(self.script.steps) - 1)]
        if step.code not in (rows.GO_ON, rows.DONE):
            self.as_one_process(lambda: self.use_stores_unheard(step))
            raise SimulationError("policy", "unknown code")
        for value in (kind, tag, a, b, c):
            sim.emit("event", value)
        for k, part in enumerate(verbs.PARTS):
            seen = int(sim.failed(part))
            if k < verbs.CAPACITIES:
                seen += 10 * len(sim.waiting(part)) + 1000 * sim.free(part)
            sim.emit("seen", seen)
        self.as_one_process(self.look_at_stores)
        self.barred: set[int] = set()  # capacities whose request was cancelled in this step
        self.at += 1
        for verb, *numbers in step.actions:
            self.act(verb, *numbers)
        if step.code == rows.DONE:
            self.ends()
            self.finished.succeed()

    def act(self, verb: int, a: int, b: int, c: int, d: int) -> None:
        sim = self.sim
        if verb == verbs.SUBMIT:
            sized = a == verbs.GRID
            flop = {0: float(c)} if c and not sized else None
            at = {"size": c} if sized else None
            way, key = d // verbs.ON_WAY - 1, d % verbs.ON_WAY
            handle = sim.submit(
                self.of(self.graphs, a), flop=flop, key=key or None, at=at,
                way=None if way < 0 else way,
            )  # fmt: skip
            self.wait(handle.done, rows.ENDED, b, (handle, a))
        elif verb == verbs.AFTER:
            if a < 0:
                raise SimulationError("policy", "waits for a negative time")
            self.wait(sim.env.timeout(a), rows.TIMER, b)
        elif verb == verbs.TAKE:
            name = self.of(EVERY_PART, a)
            took = (a not in self.barred or b < 1) and sim.take(name, b)
            sim.emit("said", took)
            self.held[a] += b * took
        elif verb == verbs.ACQUIRE:
            self.wait(sim.acquire(self.of(EVERY_PART, a), b), rows.GRANT, c, a)
        elif verb == verbs.RELEASE:
            amount = b if d else min(b, self.held[a])
            if amount:
                sim.release(self.of(EVERY_PART, a), amount)
                self.held[a] -= amount
        elif verb == verbs.SEND:
            sim.mailbox(self.of(verbs.BOXES, a)).send(b, c, d, answer_to=self.script.inbox)
        elif verb == verbs.RATE:
            sim.set_rate(self.of(EVERY_PART, a), b * 1e8)
        elif verb == verbs.SAY:
            sim.emit(self.of(verbs.METRICS, a), b)
        elif verb == verbs.COUNT:
            sim.count(self.of(verbs.COUNTERS, a), b)
        elif verb == verbs.RECORD:
            sim.record(self.of(verbs.SERIES, a), b)
        elif verb == verbs.CANCEL:
            self.cancel(a, d)
        elif verb == verbs.WATCH:
            self.watch(a, d)
        elif verb == verbs.SETTLE:
            self.wait(sim.settled(), rows.SETTLED, a)
        elif verb == verbs.LOOK:
            name = self.of(EVERY_PART, a)
            sim.emit("said", sim.free(name))
        elif verb >= verbs.KEEP:
            self.as_one_process(lambda: self.use_store(verb, a, b, c, d))

    def as_one_process(self, call: Any) -> None:
        """Act on stores as one process, whichever generator does it."""
        env, who = self.sim.env, self.sim.env.active_process
        env._active_proc = self.main
        try:
            call()
        finally:
            env._active_proc = who

    def look_at_stores(self) -> None:
        for name, store in zip(verbs.STORES, self.stores, strict=True):
            seen = 0
            for key in range(verbs.KEYS):
                seen = 16 * seen + (store.owners(key) + 1 if key in store else 0)
                seen = 4 * seen + (store.size(key) if key in store else 0)
            self.sim.emit("seen", seen)
            self.sim.emit("seen", 100 * store.used + store.held)
            self.sim.emit("seen", 10 * self.sim.held(name) + self.sim.failed(name))

    def use_stores_unheard(self, step: Step) -> None:
        """Use stores as a kernel does whose other actions are refused, up to a wrong use."""
        self.is_heard = False
        for verb, *numbers in step.actions:
            if verb >= verbs.KEEP:
                try:
                    self.use_store(verb, *numbers)
                except SimulationError:
                    return

    def use_store(self, verb: int, part: int, key: int, c: int, must: int) -> None:
        sim = self.sim
        store = sim.store(self.of(EVERY_PART, part))
        kept = self.kept[part - len(verbs.PARTS)]
        if verb == verbs.KEEP:
            held = store.hold(key, c)
            self.say(held)
            kept[key] += held
        elif verb == verbs.LET_GO:
            if must or kept[key]:
                store.release(key)
                kept[key] -= not must
        elif verb == verbs.PREFIX:
            self.say(store.longest_prefix([key, c, key + 1]))
        elif must or key in store:
            if verb == verbs.DROP:
                self.say(store.drop(key))
            elif verb == verbs.TOUCH:
                store.touch(key)
            else:
                store.set_order(key, c)

    def say(self, value: float) -> None:
        if self.is_heard:
            self.sim.emit("said", value)

    def cancel(self, tag: int, must: int) -> None:
        found = [e for e, w in self.waits.items() if w[0] in CANCELLABLE and w[1] == tag]
        if must and not found:
            raise SimulationError("policy", "cancels nothing")
        for event in found:
            kind, _, of, _ = self.waits[event]
            if kind == rows.ENDED:
                self.sim.cancel(of[0])
                continue
            if isinstance(event, Grant):
                if not event.triggered:
                    self.barred.add(of)
                self.drop(event)
                event.release()
            else:
                self.drop(event)

    def watch(self, tag: int, must: int) -> None:
        found = [w[2][0] for w in self.waits.values() if w[0] == rows.ENDED and w[1] == tag]
        if must and not found:
            raise SimulationError("policy", "watches nothing")
        for handle in found:
            if handle.index not in self.watched:
                event = self.watched[handle.index] = self.sim.lost(handle)
                self.wait(event, rows.LOST, tag, handle)

    def of(self, known: Any, number: int) -> Any:
        if not 0 <= number < len(known):
            raise SimulationError("policy", f"{number} does not exist")
        return known[number]
