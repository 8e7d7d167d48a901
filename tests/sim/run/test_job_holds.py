"""Amounts that a job holds from start to end: other jobs wait, or are refused."""

import numpy as np
import pytest
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, Location, System
from foretrace.sim.run.job import Job
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Workload

GPUS = ("node0.gpu0", "node0.gpu1")
ROOMS = tuple(f"{name}.memory" for name in GPUS)
SYSTEM = System(
    (
        *(Component(name, "gpu", slots=4, location=Location("node0")) for name in GPUS),
        *(
            Component(name, "memory", capacity=10, location=Location(role="memory"))
            for name in ROOMS
        ),
    ),
    GPUS,
    {gpu: {"memory": room} for gpu, room in zip(GPUS, ROOMS, strict=True)},
)


class Second(Backend):
    source, uniform = "the test", True

    def timing(self, ops, now=0.0):
        return Timing.of(np.ones(len(ops)))


class Holding(Workload):
    """Workload with a second of work on each of two GPUs, which needs memory."""

    def __init__(self, amount, waits=True):
        self.amount, self.waits = amount, waits

    def holds(self, job, system):
        return dict.fromkeys(ROOMS, self.amount) if self.amount else {}

    def start(self, job):
        build = Builder("work")
        for rank in range(2):
            build.op(Kind.COMPUTE, rank=rank)
        return build.graph()


def run(*jobs, engine="core"):
    simulation = Simulation(SYSTEM, {"node0.gpu0": Second(), "node0.gpu1": Second()}, engine=engine)
    return simulation.run([Job(name, work, arrives=at) for name, work, at in jobs])


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_job_waits_until_another_job_releases_its_amounts(engine):
    result = run(("a", Holding(6), 0.0), ("b", Holding(5), 0.5), engine=engine)
    assert result.of("a").makespan == pytest.approx(1.0)
    assert result.of("b").frame()["start_us"].min() == pytest.approx(1e6)
    held = result.utilization()
    assert held["node0.gpu0.memory"] == pytest.approx((0.6 + 0.5) / 2)


def test_jobs_that_fit_together_do_not_wait():
    result = run(("a", Holding(6), 0.0), ("b", Holding(4), 0.5))
    assert result.of("b").frame()["start_us"].min() == pytest.approx(5e5)


def test_a_job_that_may_not_wait_is_refused_by_name():
    with pytest.raises(SimulationError, match=r"job b: needs 5 of the 10 B of node0\.gpu0\.memory"):
        run(("a", Holding(6), 0.0), ("b", Holding(5, waits=False), 0.5))


def test_holding_more_than_the_capacity_is_an_error():
    with pytest.raises(SimulationError, match="11"):
        run(("a", Holding(11), 0.0))


def test_a_single_job_waits_for_its_capacity_too():
    result = run(("a", Holding(6), 0.0))
    assert result.utilization()["node0.gpu1.memory"] == pytest.approx(0.6)
    assert "node0.gpu1.memory" not in {
        name for name, share in run(("a", Holding(0), 0.0)).utilization().items() if share
    }
