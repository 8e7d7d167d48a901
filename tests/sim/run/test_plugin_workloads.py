"""The documented plug-in workloads: serving with a KV cache limit, a fleet with a failure."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace import (
    Backend,
    Component,
    Location,
    Simulation,
    SimulationError,
    System,
    Timing,
    require,
)
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.library import Protocol
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.switch import Switch, star
from foretrace.models.parts import PARTS
from foretrace.scenarios.config.settings import known_backends
from foretrace.sim.run.process import PROCESSES
from foretrace.sim.run.workload import WORKLOADS

PLUGINS = Path(foretrace.__file__).resolve().parent / "docs" / "examples" / "plugins"
ENGINES = "core", "reference"
GPUS = tuple(f"node{n}.gpu{k}" for n in range(4) for k in range(2))


@pytest.fixture
def plugin(request):
    """Module of a plug-in, whose registered names are removed after the test."""
    known_backends()  # what is built in registers before the tables are looked at
    tables = WORKLOADS, PARTS, PROCESSES
    known = [dict(table) for table in tables]

    def load(name):
        spec = importlib.util.spec_from_file_location(f"plugin_{name}", PLUGINS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        request.addfinalizer(lambda: sys.modules.pop(spec.name, None))
        return module

    yield load
    for table, before in zip(tables, known, strict=True):
        table.clear()
        table.update(before)


class Gpu(Backend):
    source, uniform = "assumed", True

    def timing(self, ops, now=0.0):
        require(ops, "flop")
        return Timing.of(np.fmax(ops.flop / 400e12, ops.bytes / 2.6e12))


class Second(Backend):
    """Backend with half a second for every op."""

    source, uniform = "assumed", True

    def timing(self, ops, now=0.0):
        return Timing.of(np.full(len(ops), 0.5))


def served(engine, plugin, size, **load):
    """Workload, and its result on four GPUs with a KV cache of ``size`` bytes."""
    work, (cache,) = plugin.Serving(**load), plugin.KvCache(size=size).components("node0.kv0")
    system = star(
        4, Link(bandwidth=450e9, latency=1e-6), Switch(bandwidth=450e9, latency=5e-7, ports=8)
    )
    system = replace(system, components=(*system.components, cache))
    fabric = Fabric(algorithms="ring", simple=Protocol(launch=8e-6, step=1e-6))
    backends = {"node0.gpu*": Gpu(), "fabric": fabric}
    return work, Simulation(system, backends, engine=engine).run(work)


@pytest.mark.parametrize("engine", ENGINES)
def test_half_the_kv_cache_changes_the_time_to_first_token(plugin, engine):
    serving = plugin("serving")
    answers = []
    for size in (2**30, 2**29):
        work, result = served(engine, serving, size, requests=25, rate=50.0)
        samples = work.measure(result)
        assert len(samples["ttft"]) == len(samples["tpot"]) == 25
        assert len(result.periods) == 0
        answers.append((result.makespan_ticks, np.percentile(samples["ttft"], 99)))
    assert answers[1][1] > 1.2 * answers[0][1]


def test_both_engines_give_the_same_serving_results(plugin):
    serving, tight = plugin("serving"), 300 * 2**20  # B; requests have to give way
    (_, a), (_, b) = (served(e, serving, tight, requests=20, rate=50.0) for e in ENGINES)
    assert np.array_equal(a.columns.end, b.columns.end)
    assert a.metrics == b.metrics


def test_a_cache_too_small_for_a_request_is_refused(plugin):
    with pytest.raises(SimulationError, match=r"node0\.kv0: amount is \d+; .* its capacity 4"):
        served("core", plugin("serving"), 8 * 2**20, requests=3, rate=1.0)


def crash(sim):
    """Process in which a machine fails and is restored."""
    yield sim.wait(6.3)
    sim.fail("node1")
    yield sim.wait(5.0)
    sim.restore("node1")


def scheduled(plugin, engine, *processes, **asks):
    fleet = plugin("fleet")
    system = System(
        (
            *(Component(g, "gpu", slots=8, location=Location(g.partition(".")[0])) for g in GPUS),
            Component("fabric", "fabric"),
        ),
        GPUS,
        fabric="fabric",
    )
    jobs = {name: fleet.Ask(*ask) for name, ask in asks.items()}
    backends = {"node*": Second(), "fabric": Second()}
    simulation = Simulation(system, backends, engine=engine)
    return simulation.run(fleet.Fleet(jobs=jobs), *processes)


def test_a_fleet_emits_the_completion_of_each_job(plugin):
    """`c` wants all GPUs: it waits for both others, and `d` behind it."""
    result = scheduled(plugin, "core", a=(4, 5), b=(4, 10, 1.0), c=(8, 2, 2.0), d=(2, 1, 3.0))
    assert result.jobs == ("main", "a", "b", "c", "d")
    done = {name: result.of(name).makespan for name in result.jobs[1:]}
    # `a`: 5 steps of 1 s.  `b`: one save of 1 s between its 10; the last save is not an op.
    # `c` begins when `b` saved a last time, 13 s after the start; `d` then.
    assert done == {"a": 5.0, "b": 11.0, "c": 13.0, "d": 13.0}


def test_a_failed_machine_costs_its_job_the_work_since_the_last_checkpoint(plugin):
    whole = scheduled(plugin, "core", a=(4, 20), b=(4, 12))
    failed = scheduled(plugin, "core", crash, a=(4, 20), b=(4, 12))
    # At 6.3 s `a` had done 5 steps, saved them, and was at its sixth.  It waits for the machine
    # until 11.3 s, loads for 2 s, and does the other 15 steps with two saves.
    assert failed.of("a").emitted.samples["lost_steps"].tolist() == [0.0]
    assert whole.of("a").makespan == 20.0 + 3.0
    assert failed.of("a").makespan == pytest.approx(11.3 + 2.0 + 15.0 + 2.0)
    assert failed.of("b").makespan == whole.of("b").makespan == 14.0
    assert failed.of("a").ranks == 4


def test_both_engines_give_the_same_fleet_results(plugin):
    a, b = (
        scheduled(plugin, engine, crash, a=(4, 20), b=(4, 12), c=(2, 3, 5.0))
        for engine in ("core", "reference")
    )
    assert np.array_equal(a.columns.end, b.columns.end)
    assert a.makespan_ticks == b.makespan_ticks
    assert a.metrics == b.metrics
    assert [r.blame().ticks for r in map(a.of, "abc")] == [
        r.blame().ticks for r in map(b.of, "abc")
    ]
