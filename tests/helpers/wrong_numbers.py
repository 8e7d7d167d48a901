"""Random programs that call verbs of a process with wrong numbers, the same on both engines."""

from random import Random
from traceback import extract_tb

import numpy as np
from foretrace.sim.errors import ForetraceError
from foretrace.sim.facts.backend import Backend, Holds, Timing, Usage
from foretrace.sim.facts.eviction.store import Store
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.way import Way
from foretrace.sim.run.allocator import Allocator
from foretrace.sim.run.job import Job
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import GivenGraphWorkload

NAN, INF = float("nan"), float("inf")
WRONG = (
    *(NAN, INF, -INF, -1, -7, 0.5, 1.5, 99, 2**31, 2**40, 2**63, 2**70, 10**400, 1e300, -1e-9),
    *(None, "a", "", b"x", True, (), (1,), 1j, object, frozenset()),
    *(np.float64(0.5), np.float32("nan"), np.int64(-3), np.int8(1)),
)
RIGHT = (0, 1, 2, 1e-3, 1e6, "gpu0", "wire", 3)
SYSTEM = System(
    (
        Component("gpu0", "gpu", slots=1),
        Component("gpu1", "gpu", slots=1),
        Component("wire", "link", rate=1e9, max_rate=2e9),
        Component("kv", "memory", capacity=8, unit="block"),
        Component("entries", "memory", capacity=Store(8), unit="block"),
        Component("fabric", "fabric"),
    ),
    ("gpu0", "gpu1"),
    fabric="fabric",
)


class PerFlop(Backend):
    """Time per flop, 1 ms if it is unknown; it holds a block of the capacity if asked to."""

    source = "the test"

    def __init__(self, online=False, answer=None):
        self.online, self.answer = online, answer

    def timing(self, ops, now=0.0):
        if self.answer is not None:
            return self.answer(len(ops))
        return Timing.of(np.where(np.isnan(ops.flop), 1e-3, ops.flop * 1e-9))


class OnWire(Backend):
    """Bytes over the wire."""

    source = "the test"

    def timing(self, ops, now=0.0):
        work = np.nan_to_num(ops.bytes, nan=1e6)
        return Timing.of(np.zeros(len(ops)), work, Usage.repeated([2], len(ops)))


def graph():
    build = Builder("g")
    first = build.op(Kind.COMPUTE, flop=1e6)
    build.op(Kind.COMPUTE, after=[first], flop=1e6)
    build.op(Kind.SEND, stream=1, peer=1, bytes=1e6)
    build.op(Kind.COMPUTE, rank=1)
    return build.graph()


def _one_op(**given):
    def call(sim, x):
        build = Builder("w")
        build.op(**{"kind": Kind.COMPUTE} | {key: x for key in given})
        return sim.submit(build.graph())

    return call


def _collective(**given):
    def call(sim, x):
        build = Builder("c")
        member = {"rank": 1, "stream": 1} | {k: x for k in given if k in Member._fields}
        of_op = {k: x for k in given if k not in Member._fields}
        build.collective([Member(0, 1), Member(**member)], **of_op)
        return sim.submit(build.graph())

    return call


def _prepared(**given):
    def call(sim, x):
        ready = sim.prepare(graph(), ways=[Way(gpus=("gpu1", "gpu0"))])
        key, value = next(iter(given.items()))
        return sim.submit(ready, **{key: value(x)})

    return call


def _stopped(op, **given):
    def call(sim, x):
        sim.stop(op)
        key, value = next(iter(given.items()))
        sim.resume(op, **{key: value(x)})

    return call


def _answered(online, answer):
    def call(sim, x):
        build = Builder("o")
        build.op(Kind.COMPUTE)
        backend = PerFlop(online, lambda n: answer(n, x))
        return Simulation(SYSTEM, {"gpu*": backend}, engine=sim.engine).run(build.graph())

    return call


def _keyed(x):
    return {x: 1.0} if getattr(x, "__hash__", None) else {}


ANSWERS = {
    "fixed": lambda n, x: Timing.of([x] * n),
    "work": lambda n, x: Timing.of([0.0] * n, [x] * n, Usage.repeated([2], n)),
    "limit": lambda n, x: Timing.of([0.0] * n, [1e6] * n, Usage.repeated([2], n), [x] * n),
    "component": lambda n, x: Timing.of([0.0] * n, [1e6] * n, Usage.of([_keyed(x)] * n)),
    "weight": lambda n, x: Timing.of([0.0] * n, [1e6] * n, Usage.of([{2: x}] * n)),
    "held": lambda n, x: Timing.of([1e-3] * n, holds=Holds.of([[(x, 1)]] * n)),
    "amount": lambda n, x: Timing.of([1e-3] * n, holds=Holds.of([[(3, x)]] * n)),
    "until": lambda n, x: Timing.of([1e-3] * n, holds=Holds.of([[(3, 1, x)]] * n)),
}
OF_OP = ["kind", "rank", "stream", "after", "period", "flop", "bytes", "duration", "release"]
OF_OP += ["peer", "name", "signature"]
OF_COLLECTIVE = ["rank", "stream", "after", "period", "bytes", "duration", "release"]

VERBS = {
    "wait": lambda sim, x: sim.wait(x),
    "submit rank": lambda sim, x: sim.submit(graph(), rank=x),
    "submit key": lambda sim, x: sim.submit(graph(), key=x),
    "submit graph": lambda sim, x: sim.submit(x),
    "prepare graph": lambda sim, x: sim.prepare(x),
    "prepare gpus": lambda sim, x: sim.prepare(graph(), gpus=["gpu0", x]),
    "prepare rank": lambda sim, x: sim.prepare(graph(), rank=x),
    "prepare ways": lambda sim, x: sim.prepare(graph(), ways=[x]),
    "flop": _prepared(flop=lambda x: {0: x}),
    "row": _prepared(flop=_keyed),
    "bytes": _prepared(bytes=lambda x: [1.0, 1.0, x, 1.0]),
    "way": _prepared(way=lambda x: x),
    "key": _prepared(key=lambda x: x),
    "emit": lambda sim, x: sim.emit("m", x),
    "emit name": lambda sim, x: sim.emit(x, 1.0),
    "emit_many": lambda sim, x: sim.emit_many("n", [1.0, x]),
    "record": lambda sim, x: sim.record("r", x),
    "count": lambda sim, x: sim.count("c", x),
    "send": lambda sim, x: sim.mailbox("box").send(1, x),
    "mailbox": lambda sim, x: sim.mailbox(x),
    "acquire": lambda sim, x: sim.acquire("kv", x),
    "acquire owner": lambda sim, x: sim.acquire("kv", 1, x),
    "take": lambda sim, x: sim.take("kv", x),
    "release": lambda sim, x: sim.release("kv", x),
    "release owner": lambda sim, x: sim.release("kv", 1, x),
    "release_all": lambda sim, x: sim.release_all(x),
    "set_rate": lambda sim, x: sim.set_rate("wire", x),
    "fail": lambda sim, x: sim.fail(x),
    "restore": lambda sim, x: sim.restore(x),
    "route_around": lambda sim, x: sim.route_around([x]),
    "stop": lambda sim, x: sim.stop(x),
    "resume": lambda sim, x: sim.resume(x),
    "resume several": lambda sim, x: sim.resume([x, x]),
    "cancel": lambda sim, x: sim.cancel(x),
    "ended": lambda sim, x: sim.ended(x),
    "state": lambda sim, x: sim.state(x),
    "lost": lambda sim, x: sim.lost(x),
    "slots": _stopped(1, slots=lambda x: [x]),
    "all slots": _stopped(1, slots=lambda x: x),
    "weight": _stopped(2, usage=lambda x: {"wire": x}),
    "usage": _stopped(2, usage=lambda x: x),
    "instead": _stopped(1, instead=lambda x: {"gpu0": x}),
    "keep": _stopped(1, keep=lambda x: x),
    "at_least": lambda sim, x: sim.reaches("queue", "gpu0", at_least=x),
    "at_most": lambda sim, x: sim.reaches("held", "gpu0", at_most=x),
    "quantity": lambda sim, x: sim.reaches(x, "gpu0", at_least=1),
    "queue": lambda sim, x: sim.queue(x),
    "utilisation": lambda sim, x: sim.utilisation(x),
    "entry key": lambda sim, x: sim.store("entries").hold(x, 1),
    "entry size": lambda sim, x: sim.store("entries").hold(7, x),
    "entry owner": lambda sim, x: sim.store("entries").hold(7, 1, x),
    "split": lambda sim, x: sim.store("entries").split(7, [1, x]),
    "prefix": lambda sim, x: sim.store("entries").longest_prefix([x]),
    "launch": lambda sim, x: sim.launch(GivenGraphWorkload(graph()), x),
    "launch on": lambda sim, x: sim.launch(GivenGraphWorkload(graph()), "job", on={"gpu": [x]}),
    "arrives": lambda sim, x: Job("job", GivenGraphWorkload(graph()), arrives=x),
    "request": lambda sim, x: Allocator(sim, ["gpu0"]).request(x),
    "random": lambda sim, x: sim.job.random(x).random(),
    "until": lambda sim, x: _again(sim).run(graph(), until=x).makespan,
    "replica": lambda sim, x: _again(sim).run(graph(), replica=x).makespan,
    "seed": lambda sim, x: _again(sim, seed=x).run(graph()).makespan,
    "tick": lambda sim, x: _again(sim, tick=x).run(graph()).makespan,
    "memory": lambda sim, x: _again(sim, memory=x).run(graph()).makespan,
    "renamed": lambda sim, x: SYSTEM["wire"].renamed("other", max_rate=x).top,
    **{f"component {key}": (lambda sim, x, key=key: Component("c", "link", **{key: x}))
       for key in ("slots", "rate", "max_rate", "latency", "overhead", "limit", "capacity")},
    **{f"op {key}": _one_op(**{key: 0}) for key in OF_OP},
    **{f"collective {key}": _collective(**{key: 0}) for key in OF_COLLECTIVE},
    **{f"answer {key}": _answered(False, answer) for key, answer in ANSWERS.items()},
    **{f"online {key}": _answered(True, answer) for key, answer in ANSWERS.items()},
}  # fmt: skip


def _again(sim, **settings):
    return Simulation(SYSTEM, {"gpu*": PerFlop(), "fabric": OnWire()}, sim.engine, **settings)


def refusal(error):
    """Class and message of an error; fails unless the product raised it on purpose."""
    last = extract_tb(error.__traceback__)[-1]
    ours = isinstance(error, ForetraceError) or (
        isinstance(error, ValueError | TypeError) and (last.line or "").startswith("raise")
    )
    assert ours, f"{type(error).__name__}: {error} in {last.filename}:{last.lineno} {last.line}"
    return type(error).__name__, str(error)


def outcome(engine, seed):
    """Log and result of a random program: three calls with wrong or right numbers, one a turn."""
    draw = Random(seed)
    calls = [
        (draw.choice([*VERBS]), draw.choice(WRONG if draw.random() < 0.8 else RIGHT),
         draw.choice([0.0, 1e-4, 1e-3]))
        for _ in range(3)
    ]  # fmt: skip
    log = []

    def process(sim):
        sim.submit(graph())
        for verb, value, pause in calls:
            yield sim.wait(pause)
            try:
                found = VERBS[verb](sim, value)
            except Exception as error:
                log.append(refusal(error))
            else:
                log.append((sim.now, found if isinstance(found, bool | int | float) else verb))

    try:
        result = _again_of(engine).run(None, process, until=1.0)
    except Exception as error:
        log.append(refusal(error))
    else:
        log += [*result.metrics, str(result.end.tolist()), result.makespan]
    return calls, [str(line) for line in log]


def _again_of(engine):
    return Simulation(SYSTEM, {"gpu*": PerFlop(), "fabric": OnWire()}, engine=engine)
