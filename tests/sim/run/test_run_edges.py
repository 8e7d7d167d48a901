"""Edges of a run: moved holders, failed capacities, runs of waits, busy links."""

import numpy as np
import pytest
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Holds, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
SYSTEM = System(
    (
        Component("gpu0", "gpu", slots=1),
        Component("gpu1", "gpu", slots=1),
        Component("kv", "memory", capacity=8, unit="block"),
        Component("wire", "link", rate=1e9),
        Component("fabric", "fabric"),
    ),
    ("gpu0", "gpu1"),
    fabric="fabric",
)
KV, WIRE = 2, 3


class Holding(Backend):
    """One second an op; ops with 1 flop hold blocks, until the op ``until`` rows later ends."""

    source = "the test"

    def __init__(self, until=0):
        self.until = until

    def timing(self, ops, now=0.0):
        held = [
            [(KV, 3, row + self.until if self.until else -1)] if flop else []
            for row, flop in enumerate(ops.flop.tolist())
        ]
        return Timing.of([1.0] * len(ops), holds=Holds.of(held))


class OnWire(Backend):
    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(np.zeros(len(ops)), ops.bytes, Usage.repeated([WIRE], len(ops)))


def chain(*flops):
    build, last = Builder("chain"), ()
    for flop in flops:
        last = (build.op(Kind.COMPUTE, flop=flop, after=last),)
    return build.graph()


def run(engine, backend, work, *processes, **how):
    backends = {"gpu*": backend, "fabric": OnWire()}
    return Simulation(SYSTEM, backends, engine=engine).run(work, *processes, **how)


def move(op, at, to="gpu1"):
    def process(sim):
        yield sim.wait(at)
        sim.stop(op)
        sim.resume(op, slots=[to])

    return process


@ENGINES
@pytest.mark.parametrize("until", [1, 2])
def test_an_op_that_holds_until_another_op_ends_can_be_moved(engine, until):
    result = run(engine, Holding(until), chain(1.0, 0.0, 0.0), move(0, 0.5))
    assert result.end.tolist() == [1.0, 2.0, 3.0]
    held = 3 * (until + 1) / 8  # amount x time over the capacity, from start to that op's end
    assert result.busy["kv"] == pytest.approx(held - 0.5 * 3 / 8)  # asked again when moved


@ENGINES
def test_a_moved_holder_can_be_moved_again_and_back(engine):
    backs = (move(0, 0.25), move(0, 0.5, "gpu0"), move(1, 1.5))
    assert run(engine, Holding(1), chain(1.0, 0.0), *backs).end.tolist() == [1.0, 2.0]


@ENGINES
@pytest.mark.parametrize("who", ["a process", "an op", "both"])
def test_whoever_waits_at_a_failed_capacity_starves(engine, who):
    def fails(sim):
        sim.fail("kv")
        yield sim.settled()
        if who != "a process":
            sim.submit(chain(1.0))
        if who != "an op":
            yield sim.acquire("kv", 1)

    with pytest.raises(
        SimulationError, match=r"waits for failed kv.*restore the component"
    ) as told:
        run(engine, Holding(), None, fails)
    assert told.value.kind == "starvation"
    assert told.value.ops == (() if who == "a process" else (0,))
    assert ("fails waits for" in str(told.value)) == (who != "an op")


@ENGINES
@pytest.mark.parametrize("keep", ["ops", "ranks", "none", None])
def test_a_run_of_waits_has_a_makespan(engine, keep):
    def waits(sim):
        with sim.acquire("kv", 4) as grant:
            yield grant
            yield sim.wait(3.0)

    result = run(engine, Holding(), None, waits, keep=keep)
    assert (result.makespan, result.busy["kv"]) == (3.0, 1.5)
    assert result.utilization()["kv"] == pytest.approx(0.5)
    assert run(engine, Holding(), None, waits, keep=keep, until=2.0).makespan == 2.0


@ENGINES
def test_a_wait_after_the_last_op_is_not_in_the_makespan(engine):
    def waits(sim):
        yield sim.wait(9.0)

    assert run(engine, Holding(), chain(0.0), waits).makespan == 1.0


def sends(count, seed):
    random, build = np.random.default_rng(seed), Builder("sends")
    for k in range(count):
        size, release = random.uniform(1.0, 1e9), random.uniform(0.0, 1.0)
        build.op(Kind.SEND, stream=1, peer=1, bytes=size, release=release, period=k % 7)
    return build.graph()


@ENGINES
@pytest.mark.parametrize("steered", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_busy_time_of_a_link_is_the_same_whatever_is_kept(engine, steered, seed):
    def process(sim):
        ready = sim.prepare(sends(50, seed))
        for k in range(8):
            handle = sim.submit(ready, bytes={k: 1e7 / (k + 3)})
            yield sim.wait(0.3)
            sim.cancel(handle.first + 9)
            yield handle.done

    def busy(keep):
        given = (None, process) if steered else (sends(400, seed),)
        return run(engine, Holding(), *given, keep=keep).busy["wire"]

    assert len({busy(keep) for keep in ("ops", "ranks", "none")}) == 1


@ENGINES
def test_failing_and_restoring_a_component_looks_at_no_other(engine, monkeypatch):
    def fails(sim):
        for _ in range(3):
            yield sim.wait(1.0)
            sim.fail("gpu1")
            yield sim.settled()
            sim.restore("gpu1")

    monkeypatch.setattr(type(SYSTEM.components), "__iter__", None)
    assert run(engine, Holding(), None, fails).makespan == 3.0
