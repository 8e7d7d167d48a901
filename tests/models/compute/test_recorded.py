"""Recorded durations, and how they vary."""

import numpy as np
import pytest
from foretrace.models.compute.gpu_groups import CacheRoof
from foretrace.models.compute.host import Host
from foretrace.models.compute.jitter import jitter_spread, typical_durations
from foretrace.models.compute.recorded import Recorded
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation


def test_durations_are_given_back_as_recorded():
    assert Recorded().timing(Ops.of(duration=[1e-9, 2.5])).fixed.tolist() == [1e-9, 2.5]


def test_an_op_that_was_not_recorded_is_refused():
    with pytest.raises(BackendError, match=r"op 1 .*no time was recorded"):
        Recorded().timing(Ops.of(duration=[1.0, np.nan]))


def steps(iterations=40, ops=200, step_sigma=0.1, op_sigma=0.03, ranks=2):
    """Ops whose durations are typical x factor of rank and step x own factor."""
    rng = np.random.default_rng(7)
    usual = rng.uniform(1e-5, 1e-3, ops)
    rank, step, op = np.meshgrid(
        np.arange(ranks), np.arange(iterations), np.arange(ops), indexing="ij"
    )
    factor = np.exp(rng.normal(0, step_sigma, (ranks, iterations, 1)))
    own = np.exp(rng.normal(0, op_sigma, rank.shape))
    return Ops.of(
        rank=rank.ravel(), period=step.ravel(), label=op.ravel() % 50,
        duration=(usual * factor * own).ravel(),
    )  # fmt: skip


def test_step_jitter_is_separated_from_op_jitter():
    found = jitter_spread(steps())
    assert np.std(np.log(found.step)) == pytest.approx(0.1, rel=0.15)
    assert np.std(np.log(found.op)) == pytest.approx(0.03, rel=0.15)
    assert np.all(np.diff(found.step) >= 0)
    assert np.all(np.diff(found.op) >= 0)


def test_one_iteration_gives_no_jitter():
    assert jitter_spread(Ops.of(duration=[1.0, 2.0])) is None
    assert Recorded.with_jitter(Ops.of(duration=[1.0, 2.0])).spread is None


def test_the_typical_duration_is_the_median_of_the_same_op():
    ops = steps(iterations=5, step_sigma=0.0, op_sigma=0.0)
    assert typical_durations(ops) == pytest.approx(ops.duration)
    ops = Ops.of(period=[0, 0, 1, 1, 2, 2], duration=[1, 10, 3, 30, 2, 20], label=4)
    assert typical_durations(ops).tolist() == [2, 20] * 3  # the first and the second of each step


def test_waiting_is_no_jitter():
    """A collective's recorded duration holds the wait for the last member."""
    ops = Ops.of(
        kind=[Kind.COMPUTE, Kind.COLLECTIVE] * 2, period=[0, 0, 1, 1], duration=[1, 5, 1, 500]
    )
    found = jitter_spread(ops)
    assert found.step == pytest.approx(np.ones(64))
    assert found.op == pytest.approx(np.ones(64))


def test_a_host_of_twice_the_speed_halves_recorded_durations():
    ops = Ops.of(kind=Kind.HOST, duration=[2e-6, np.nan])
    assert Host(speed=2.0, dispatch=3e-6).timing(ops).fixed.tolist() == [1e-6, 3e-6]
    with pytest.raises(BackendError, match="no time was recorded"):
        Host(speed=2.0).timing(ops)


def together(backend, moved, engine="core", rate=60e9):
    """When two ranks of one machine end that each move bytes for a millisecond, alone."""
    build = Builder("pair")
    for rank in range(2):
        build.op(Kind.COMPUTE, rank=rank, bytes=moved, duration=1e-3)
    cores = [Component(f"node0.gpu{i}", "gpu", slots=1) for i in range(2)]
    memory = Component("node0.dram", "dram", rate=rate)
    parts = {core.name: {"dram": memory.name} for core in cores}
    system = System((*cores, memory), tuple(parts), parts)
    return Simulation(system, {"node0.gpu*": backend}, engine=engine).run(build.graph()).makespan


@pytest.mark.parametrize("engine", ["core", "reference"])
@pytest.mark.parametrize(
    ("moved", "took"),
    [(20e6, 1e-3), (30e6, 1e-3), (40e6, 4e-3 / 3), (60e6, 2e-3)],  # B of 60e6 a millisecond
)
def test_ranks_that_exceed_memory_bandwidth_slow_each_other(moved, took, engine):
    assert together(Recorded(shared=True), moved, engine) == pytest.approx(took, rel=1e-6)


def test_ops_that_fit_the_caches_slow_no_other_op():
    assert together(Recorded(shared=True, cache=CacheRoof(size=60e6)), 60e6) == pytest.approx(1e-3)
    assert together(Recorded(), 60e6) == pytest.approx(1e-3)


def test_one_rank_alone_lasts_as_recorded():
    assert together(Recorded(shared=True), 60e6, rate=120e9) == pytest.approx(1e-3)


def test_ops_of_unknown_bytes_last_as_recorded():
    assert together(Recorded(shared=True), np.nan) == pytest.approx(1e-3)


def test_sharing_needs_a_memory():
    build = Builder("one")
    build.op(Kind.COMPUTE, bytes=1e6, duration=1.0)
    system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    with pytest.raises(BackendError, match="needs machines with a memory"):
        Simulation(system, {"node0.gpu0": Recorded(shared=True)}).run(build.graph())
