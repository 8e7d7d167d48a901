"""Several graphs in one run: their ranks stay separate, and each submission draws anew."""

import numpy as np
import pytest
from foretrace.sim.analysis.activity import activity
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

ENGINES = ("reference", "core")
GPUS = tuple(f"node{i}.gpu0" for i in range(4))
SYSTEM = System(tuple(Component(name, "gpu", slots=1) for name in GPUS), GPUS)
WIDE = np.linspace(0.5, 1.5, 64)


class Varying(Backend):
    """Backend with recorded durations times a factor per rank and period, and one per op."""

    source, uniform = "the test", True

    def __init__(self, step=(), op=()):
        self.spread = Spread(np.array(step, float), np.array(op, float))

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration, spread=self.spread)


def step(ranks=1, name="step", duration=1.0, period=0):
    build = Builder(name)
    for rank in range(ranks):
        build.op(Kind.COMPUTE, rank=rank, duration=duration, period=period)
    return build.graph()


def run(*processes, backend=None, engine="core", **options):
    simulation = Simulation(SYSTEM, {"node*": backend or Varying()}, engine=engine)
    return simulation.run(None, *processes, **options)


def submits(times, *gpus, ranks=1, **options):
    """Process that submits a step several times in sequence."""

    def process(sim):
        for _ in range(times):
            yield sim.submit(place(step(ranks), SYSTEM, gpus), **options).done

    return process


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keep", ["ops", "ranks"])
def test_ranks_of_graphs_on_other_gpus_are_not_merged(engine, keep):
    """Both are rank 0 of their graph; together they are busy twice the elapsed time."""
    result = run(submits(3, GPUS[0]), submits(2, GPUS[1]), engine=engine, keep=keep)
    assert activity(result)["compute"].tolist() == [3.0, 2.0]
    assert sum(result.busy.values()) == 5.0
    assert result.rank_frame()["rank"].tolist() == [0, 1]


def test_a_graph_submitted_on_other_gpus_has_other_ranks():
    result = run(submits(1, *GPUS[:2], ranks=2), submits(1, *GPUS[1:3], ranks=2))
    assert result.ops.rank.tolist() == [0, 1, 1, 2]


def test_two_ranks_on_one_gpu_have_two_numbers():
    result = run(submits(2, GPUS[0], GPUS[0], ranks=2))
    assert result.ops.rank.tolist() == [0, 1, 0, 1]


def test_a_process_may_set_the_ranks_of_a_graph():
    """As after a restart on other GPUs."""

    def restarts(sim):
        yield sim.submit(place(step(2), SYSTEM, GPUS[:2])).done
        yield sim.submit(place(step(2), SYSTEM, GPUS[2:]), rank=0).done
        yield sim.submit(place(step(1), SYSTEM, GPUS[2:])).done

    assert run(restarts).ops.rank.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("spread", [{"step": WIDE}, {"op": WIDE}])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_submission_of_a_graph_draws_anew(spread, engine):
    backend = Varying(**spread)
    result = run(submits(5, GPUS[0]), backend=backend, engine=engine, replica=0)
    took = result.end - result.start
    assert len(set(took.tolist())) == 5
    alone = Simulation(SYSTEM, {"node*": backend}, engine=engine).run(step(), replica=0)
    assert took[0] == alone.end[0], "the first draws as ever"


def test_the_key_selects_the_random_draw():
    def keyed(sim):
        for key in (3, 0, 3):
            yield sim.submit(step(), key=key).done

    result = run(keyed, backend=Varying(op=WIDE), replica=0)
    a, b, c = (result.end - result.start).round(9).tolist()
    assert a == c != b
