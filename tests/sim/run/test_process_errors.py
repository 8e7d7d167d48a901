"""An error in a process ends the run, even if no other event is left."""

import pytest
from foretrace.sim.engine_api import interface as engine_api
from foretrace.sim.engine_api import simpy_clock
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
SYSTEM = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))


class Recorded(Backend):
    """Backend whose ops take their recorded duration."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def run(engine, process):
    return Simulation(SYSTEM, {}, engine=engine).run(None, process)


@ENGINES
def test_an_error_in_the_first_step_is_raised(engine):
    def broken(sim):
        raise ZeroDivisionError("in the policy")
        yield

    with pytest.raises(ZeroDivisionError, match="in the policy"):
        run(engine, broken)


@ENGINES
def test_an_error_after_the_last_wait_is_raised(engine):
    def broken(sim):
        yield sim.wait(1.0)
        raise ZeroDivisionError("later")

    with pytest.raises(ZeroDivisionError, match="later"):
        run(engine, broken)


@ENGINES
def test_a_process_without_a_yield_is_named(engine):
    def forgets(sim):
        sim.emit("never", 1.0)

    with pytest.raises(SimulationError, match=r"forgets: it returned None .* with `yield`"):
        run(engine, forgets)


@ENGINES
def test_an_untimed_graph_is_an_error_of_the_run(engine):
    build = Builder("one op")
    build.op(Kind.COMPUTE)

    def submits(sim):
        yield sim.submit(build.graph()).done

    with pytest.raises(GraphError, match=r"node0.gpu0"):
        run(engine, submits)


@ENGINES
def test_a_loop_that_outlives_every_op_is_an_error_that_names_it(engine, monkeypatch):
    monkeypatch.setattr(engine_api, "MAX_IDLE", 2**10)
    monkeypatch.setattr(simpy_clock, "LOOK", 2**9)

    def policy(sim):
        while True:
            yield sim.wait(1e-3)

    with pytest.raises(SimulationError, match=r"policy: had .*'while sim.open\(\):'") as told:
        run(engine, policy)
    assert told.value.kind == "endless process"


@ENGINES
def test_a_loop_that_ends_with_the_last_op_sees_all_of_it(engine):
    build = Builder("two ops")
    build.op(Kind.COMPUTE, duration=1.0, after=[build.op(Kind.COMPUTE, duration=1.0)])
    looks = []

    def policy(sim):
        for _ in range(2):
            sim.submit(build.graph())
            while sim.open():
                looks.append(sim.now)
                yield sim.wait(0.75)

    Simulation(SYSTEM, {"*": Recorded()}, engine=engine).run(None, policy)
    assert looks == [0, 0.75, 1.5, 2.25, 3.0, 3.75]


@ENGINES
def test_a_process_that_keeps_submitting_is_not_endless(engine, monkeypatch):
    """Also where nothing is open whenever somebody looks."""
    monkeypatch.setattr(engine_api, "MAX_IDLE", 2**8)
    monkeypatch.setattr(simpy_clock, "LOOK", 2**5)
    build = Builder("one op")
    build.op(Kind.COMPUTE, duration=1.0)

    def training(sim):
        for _ in range(200):
            yield sim.submit(build.graph()).done
            yield sim.wait(1.0)

    Simulation(SYSTEM, {"*": Recorded()}, engine=engine).run(None, training)


@ENGINES
def test_polling_beside_ops_that_a_failure_stopped_ends_with_their_loss(engine, monkeypatch):
    monkeypatch.setattr(engine_api, "MAX_IDLE", 2**8)
    monkeypatch.setattr(simpy_clock, "LOOK", 2**5)
    build = Builder("one op")
    build.op(Kind.COMPUTE, duration=1.0)

    def polls(sim):
        sim.submit(build.graph())
        yield sim.wait(0.5)
        sim.fail("node0.gpu0")
        while sim.open():
            yield sim.wait(0.25)

    with pytest.raises(SimulationError, match="lost: op 0 was stopped by the failure"):
        Simulation(SYSTEM, {"*": Recorded()}, engine=engine).run(None, polls)


@ENGINES
def test_the_rate_of_a_part_without_a_rate_is_refused(engine):
    def asks(sim):
        yield sim.wait(1.0)
        sim.rate("node0.gpu0")

    with pytest.raises(SimulationError, match=r"node0\.gpu0: has no rate; name a component"):
        run(engine, asks)


@ENGINES
def test_a_counter_takes_whole_numbers_only(engine):
    def counts(sim):
        yield sim.wait(1.0)
        sim.count("drops", 1.5)

    with pytest.raises(SimulationError, match=r"added to the counter 'drops' is 1.5; give a"):
        run(engine, counts)
