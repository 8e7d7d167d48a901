"""Random programs: policies, compiled or as twins, beside generators that share with them."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from foretrace.sim.engine_api.interface import State
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.run.session import Repeat, Session
from foretrace.sim.run.simulation import Simulation
from policy_scripts import script as verbs
from policy_scripts.machine import Ticks, graphs, machine, ways
from policy_scripts.player_kernel import compiled
from policy_scripts.script import Action, PolicyScript, Step
from policy_scripts.twin import Twin

PARTS = verbs.PARTS
MAY_FAIL = (*PARTS[1:], "node0.gpu0", verbs.STORES[0])
SYSTEM = machine()
WAYS = [len(ways()[name]) for name in verbs.GRAPHS]  # number of ways of each graph
CALM = (
    verbs.SUBMIT, verbs.SUBMIT, verbs.AFTER, verbs.TAKE, verbs.TAKE, verbs.RELEASE, verbs.SAY,
    verbs.COUNT, verbs.LOOK, verbs.SEND, verbs.KEEP, verbs.KEEP, verbs.LET_GO, verbs.DROP,
    verbs.TOUCH, verbs.ORDER, verbs.PREFIX, verbs.SETTLE,
)  # fmt: skip
NEVER_REPEATED = Repeat(lambda: None, lambda _: None)


class Program(NamedTuple):
    """Policies, and the seeds and numbers of steps of generators beside them."""

    policies: tuple[PolicyScript, ...]
    beside: tuple[tuple[tuple[Any, ...], ...], ...]


def random_program(seed: int) -> Program:
    """A program of one to three policies and up to three generators."""
    draw = _Draw(seed)
    policies = tuple(draw.policy(k) for k in range(draw.r.choice([1, 2, 2, 3])))
    return Program(policies, tuple(draw.beside() for _ in range(draw.r.choice([0, 1, 2, 3]))))


def calm_program(seed: int) -> Program:
    """A program whose policies mostly do what the compiled engine can do without Python."""
    draw = _Draw(seed, calm=True)
    policies = tuple(draw.policy(k) for k in range(draw.r.choice([1, 1, 2, 3])))
    return Program(policies, tuple(draw.beside() for _ in range(draw.r.choice([0, 0, 1]))))


class _Draw:
    def __init__(self, seed: int, calm: bool = False):
        self.r = random.Random(f"{'calm ' * calm}policy {seed}")
        self.calm = calm
        self.odd = self.r.choice([0.0, 0.0, 0.01, 0.04])  # how often something is wrong
        if calm:
            self.odd /= 8
        self.faults = self.r.random() < 0.4

    def ticks(self) -> int:
        return self.r.choice([0, 0, 1, 1, 2, 3, 5])

    def policy(self, k: int) -> PolicyScript:
        r = self.r
        steps = [self.step() for _ in range(r.choice([30, 60] if self.calm else [3, 8, 20]))]
        steps.append(Step((), 1 if r.random() > self.odd else 0))
        arrivals, at = [], 0
        for _ in range(r.choice([0, 0, 3, 6])):
            at += self.ticks()
            arrivals.append((at, r.randrange(9)))
        inbox = f"b{k}" if r.random() < 0.6 else ""
        steps[0] = steps[0]._replace(
            actions=((verbs.AFTER, self.ticks(), 0, 0, 0), *steps[0].actions)
        )
        return PolicyScript(f"policy{k}", tuple(steps), tuple(arrivals), inbox)

    def step(self) -> Step:
        r = self.r
        actions = tuple(self.action() for _ in range(r.choice([0, 1, 1, 2, 3])))
        if self.faults and not self.calm and r.random() < 0.5:
            tag = r.randrange(verbs.TAGS)
            actions += ((verbs.SUBMIT, r.randrange(3), tag, 9, 0), (verbs.WATCH, tag, 0, 0, 0))
        if r.random() < 0.7:
            actions = (*actions, (verbs.AFTER, self.ticks(), r.randrange(verbs.TAGS), 0, 0))
        code = r.choice([0] * (400 if self.calm else 40) + [1])
        code = 7 if r.random() < self.odd / 4 else code
        return Step(actions, code, r.choice([0] * 9 + [r.randrange(2, 40)]))

    def action(self) -> Action:
        r, odd = self.r, self.r.random() < self.odd
        tag, part = r.randrange(verbs.TAGS), r.randrange(verbs.CAPACITIES)
        verb = r.choice(CALM) if self.calm and r.random() < 0.98 else r.randrange(20)
        if verb == verbs.SUBMIT and r.random() < 0.3:
            return verb, verbs.GRID, tag, -1 if odd else r.randrange(10), r.choice([0, 7])
        if verb == verbs.SUBMIT:
            flop = 0 if self.calm and r.random() < 0.95 else r.choice([0, 0, 1, 4])
            graph, key = r.randrange(3), r.choice([0, 7])
            way = r.choice([0, 0, *range(1, 1 + WAYS[graph])])
            if odd:
                graph, way = r.choice([(5, 0), (graph, 5), (2, 1)])
            return verb, graph, tag, flop, key + verbs.ON_WAY * way
        if verb == verbs.AFTER:
            return verb, -1 if odd else self.ticks(), tag, 0, 0
        if verb in (verbs.TAKE, verbs.ACQUIRE):
            amount = r.choice([0, -1, 9]) if odd and r.random() < 0.7 else r.choice([1, 1, 2, 3])
            part = r.choice([2, 3, 4, 6]) if odd and amount > 0 else part
            return (verb, part, amount, tag if verb == verbs.ACQUIRE else 0, 0)
        if verb == verbs.RELEASE:
            return (verb, part, 4, 0, 1) if odd else (verb, part, r.choice([1, 2, 9]), 0, 0)
        if verb == verbs.SEND:
            return verb, 3 if odd else r.randrange(3), r.randrange(99), r.randrange(99), -3
        if verb == verbs.RATE:
            return (
                verb,
                0 if odd else 2,
                r.choice([0, 1, 5, 10, 20]) if self.faults else r.choice([5, 10]),
                0,
                0,
            )
        if verb == verbs.SAY:
            return verb, 9 if odd else 2, r.randrange(99), 0, 0
        if verb == verbs.COUNT:
            return verb, 2 if odd else r.randrange(2), r.choice([1, -1, 5]), 0, 0
        if verb == verbs.RECORD:
            return verb, -1 if odd else r.randrange(2), r.randrange(99), 0, 0
        if verb == verbs.SETTLE:
            return verb, tag, 0, 0, 0
        if verb in (verbs.CANCEL, verbs.WATCH):
            return verb, tag, 0, 0, int(odd)
        if verb >= verbs.KEEP:
            return self.store_action(verb, odd)
        return verbs.LOOK, -1 if odd else part, 0, 0, 0

    def store_action(self, verb: int, odd: bool) -> Action:
        """An action on a store; an odd one has a wrong part, key, size or rule."""
        r = self.r
        key, part = r.randrange(verbs.KEYS - 1), len(PARTS) + r.randrange(len(verbs.STORES))
        if verb == verbs.KEEP:
            size = r.choice([0, 9, 1, 2]) if odd else 1 + key % 3
            key = r.choice([key, -3]) if odd and size == 1 + key % 3 else key
            return verb, part, key, size, 0
        if verb == verbs.ORDER:
            return verb, part if odd else len(PARTS) + 1, key, r.randrange(-2, 3), int(odd)
        if verb == verbs.PREFIX:
            return verb, r.choice([0, 9]) if odd else part, key, r.randrange(verbs.KEYS), 0
        return verb, part, key, 0, int(odd)

    def beside(self) -> tuple[tuple[Any, ...], ...]:
        """Steps of a generator."""
        r = self.r
        kinds = ["wait", "wait", "hold", "take", "send", "receive", "submit", "race"]
        kinds += ["keep", "keep"]
        kinds += ["fail", "fail", "restore", "cancel", "resume", "resume"] * self.faults
        steps = [
            (r.choice(kinds), r.randrange(9), r.randrange(9), self.ticks())
            for _ in range(r.choice([4, 9, 16]))
        ]
        if self.faults:
            for k in range(5):
                steps += [("wait", 0, 0, 3), ("restore", k, 0, 0), ("resume", 0, 0, 0)]
        return tuple(steps)


def plain(number: int, steps: tuple[tuple[Any, ...], ...]) -> Any:
    """A generator that plays steps beside the policies."""

    def beside(sim: Any) -> Any:
        for k, (what, a, b, ticks) in enumerate(steps):
            sim.emit("beside", 100 * number + k)
            name = PARTS[a % verbs.CAPACITIES]
            if what == "wait":
                yield sim.env.timeout(ticks)
            elif what == "hold":
                with sim.acquire(name, 1 + b % 3) as grant:
                    yield grant
                    sim.emit("held", k)
                    yield sim.env.timeout(ticks)
            elif what == "race":
                grant = sim.acquire(name, 1 + b % 3)
                yield grant | sim.env.timeout(ticks)
                if grant.triggered:
                    grant.release()
            elif what == "take":
                if sim.take(name, 1 + b % 2):
                    sim.emit("took", k)
                    yield sim.env.timeout(ticks)
                    sim.release(name, 1 + b % 2)
            elif what == "keep":
                yield from keeps(sim, a, b, ticks)
            elif what == "send":
                sim.mailbox(verbs.BOXES[a % 3]).send(a, b, k, answer_to=verbs.BOXES[b % 3])
            elif what == "receive":
                found = sim.mailbox(verbs.BOXES[a % 3]).receive()
                got = yield found | sim.env.timeout(ticks)
                if found in got:
                    sim.emit("received", got[found].b)
            elif what == "submit":
                yield sim.submit(tuple(graphs().values())[a % 3]).done
            else:
                steers(sim, what, a)

    return beside


def keeps(sim: Any, a: int, b: int, ticks: int) -> Any:
    """Hold an entry for a time, and look at the store."""
    store, key = sim.store(verbs.STORES[a % 2]), b % verbs.KEYS
    sim.emit("cached", 10 * store.cached + store.longest_prefix([0, 1, 2]))
    if store.hold(key, 1 + key % 3):
        sim.emit("kept", key)
        yield sim.env.timeout(ticks)
        store.release(key)
        sim.emit("cached", 10 * store.cached + (key in store and store.drop(key)))


def steers(sim: Any, what: str, a: int) -> None:
    """Faults, and who mends them."""
    count = sim._run.machine.count
    if what == "fail":
        sim.fail(MAY_FAIL[a % 5])
    elif what == "restore":
        sim.restore(MAY_FAIL[a % 5])
    elif what == "cancel" and count:
        sim.cancel(a * 7 % count)
    elif what == "resume":
        for op in range(count):
            if sim.state(op) == State.STOPPED:
                sim.resume(op)


def outcome(program: Program, engine: str, how: str, replica: int | None = 0) -> Any:
    """All that can be observed of a run.

    Parameters
    ----------
    replica : of the random draws; without one, all submissions of a graph have the same times
    how : ``compiled``, ``twin``, or ``mixed`` (every other policy is compiled)
    """
    simulation = Simulation(SYSTEM, {"*": Ticks()}, engine, 1e-9)
    policies = [
        Twin(one) if how == "twin" or (how == "mixed" and k % 2) else compiled(one)
        for k, one in enumerate(program.policies)
    ]
    beside = [plain(k, steps) for k, steps in enumerate(program.beside)]
    processes = [one for pair in zip(policies, beside, strict=False) for one in pair]
    processes += policies[len(beside) :] + beside[len(policies) :]
    session = Session(simulation, replica, "ops")
    error, times = None, None
    try:
        found = session.run_jobs(processes, None, "ops", NEVER_REPEATED)
        held = found.acquired
        columns = [found.start.tolist(), found.end.tolist()]
        stores = [(n, s.counts, s.samples.tolist()) for n, s in found.stores.items()]
        times = columns, held.changes.tolist(), held.waits.tolist(), held.names, stores
    except (SimulationError, GraphError) as e:
        error = type(e).__name__, e.kind, getattr(e, "ops", ()), getattr(e, "open_ops", ())
    return list(session.emissions.emitted()), times, error, session.series.recorded()


def _points(of: Any) -> Any:
    return {key: (one.first.tolist(), one.final.tolist()) for key, one in of[3].items()}


def first_difference(a: Any, b: Any) -> str:
    """The first difference between two outcomes, ``""`` for none."""
    for k, (x, y) in enumerate(zip(a[0], b[0], strict=False)):
        if x != y:
            return f"entry {k} of the log: {x} and {y}"
    for what, x, y in (
        ("length", len(a[0]), len(b[0])),
        ("error", a[2], b[2]),
        ("times", a[1], b[1]),
        ("series", _points(a), _points(b)),
    ):
        if repr(x) != repr(y):
            return f"{what}: {x} and {y}"
    return ""
