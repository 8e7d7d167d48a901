"""An error in a process ends the run, also where nothing else is left to happen."""

import pytest
from foretrace.sim.errors import GraphError
from foretrace.sim.graph import Builder
from foretrace.sim.ops import Kind
from foretrace.sim.simulation import Simulation
from foretrace.sim.system import Component, System

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
SYSTEM = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))


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
def test_a_graph_that_cannot_be_timed_is_an_error_of_the_run(engine):
    build = Builder("one op")
    build.op(Kind.COMPUTE)

    def submits(sim):
        yield sim.submit(build.graph()).done

    with pytest.raises(GraphError, match=r"node0.gpu0"):
        run(engine, submits)
