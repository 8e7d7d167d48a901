"""The process that `docs/extending.md` shows: a watchdog that moves work to a spare."""

import numpy as np
import pytest
from foretrace.models.fleet.hot_spare import HotSpare
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Graph, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

GPUS = tuple(Component(f"node{i}.gpu0", "gpu", slots=1) for i in range(4))
FABRIC = Component("fabric", "fabric")
SYSTEM = System((*GPUS, FABRIC), tuple(g.name for g in GPUS), fabric="fabric")
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])


def two_ranks(steps: int) -> Graph:
    """Each step: 1 s on both GPUs, then a collective that holds both."""
    build = Builder("two ranks")
    last = ()
    for _ in range(steps):
        own = [build.op(Kind.COMPUTE, rank=r, after=last) for r in range(2)]
        members = [Member(r, 0, (own[r],)) for r in range(2)]
        last = (build.collective(members),)
    for r in range(2):
        build.set_stream_kind(r, 0, "compute")
    return place(build.graph(), SYSTEM)


class Seconds(Backend):
    """A second each; a collective takes half of one."""

    source = "test: seconds"

    def timing(self, ops, now=0.0):
        return Timing.of(np.where(ops.kind == Kind.COLLECTIVE, 0.5, 1.0))


def fail(name: str, at: float):
    def fault(sim):
        yield sim.wait(at)
        sim.fail(name)

    return fault


def run(engine: str, *processes):
    return Simulation(SYSTEM, {"*": Seconds()}, engine=engine).run(None, *processes)


@ENGINES
def test_without_a_failure_the_watchdog_changes_nothing(engine):
    policy = HotSpare(two_ranks(3), ["node3.gpu0"], period=0.3, swap=10.0)
    result = run(engine, policy)
    assert result.makespan == 4.5
    assert policy.unused == ["node3.gpu0"]
    assert result.columns.attempts.max() == 1


@ENGINES
@pytest.mark.parametrize(
    ("at", "end"),
    [
        (2.1, 6.25),  # computing: noticed at 2.5, ready at 3.25; the op again from zero
        (1.2, 5.5),  # in the collective that holds both: noticed at 1.25, all of it from 2.0
        (0.0, 6.5),  # before anything: noticed at 1.25, ready at 2.0
    ],
)
def test_what_a_dead_gpu_had_to_do_is_done_by_the_spare(engine, at, end):
    policy = HotSpare(two_ranks(3), ["node3.gpu0"], period=1.25, swap=0.75)
    assert run(engine, fail("node1.gpu0", at), policy).makespan == end
    assert policy.unused == []


@ENGINES
def test_a_spare_that_dies_too_is_replaced_by_the_next(engine):
    policy = HotSpare(two_ranks(3), ["node2.gpu0", "node3.gpu0"], period=0.5, swap=0.5)
    faults = fail("node1.gpu0", 0.2), fail("node2.gpu0", 3.2)
    assert run(engine, *faults, policy).makespan == 7.0  # ready at 1.0, and again at 4.0
    assert policy.unused == []


@ENGINES
def test_without_a_spare_left_the_run_says_what_is_lost(engine):
    policy = HotSpare(two_ranks(3), [], period=0.5, swap=0.5)
    with pytest.raises(SimulationError, match=r"lost: .*node1.gpu0"):
        run(engine, fail("node1.gpu0", 0.2), policy)


def test_a_watchdog_that_would_ask_without_pause_is_refused():
    with pytest.raises(SimulationError, match="hot-spare: period is 0; give one above 0"):
        HotSpare(two_ranks(1), ["node3.gpu0"], period=0, swap=1.0)


def test_a_graph_without_a_machine_is_refused():
    build = Builder("nowhere")
    build.op(Kind.COMPUTE)
    with pytest.raises(ValueError, match=r"is not placed on a system; call place\(\) first"):
        HotSpare(build.graph(), [], period=1.0, swap=1.0)
