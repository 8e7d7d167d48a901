"""Stores in runs: handles of processes, jobs that end or are stopped, results and scenarios."""

import numpy as np
import pytest
from foretrace.models.memory.store_part import StorePart
from foretrace.sim.analysis.metrics import measure
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.eviction.store import Store
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.rerun.sensitivity import speedup_effects
from foretrace.sim.run.job import Job
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Workload

SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=1),
        Component("node0.prefix", "memory", capacity=Store(8), unit="block"),
        Component("node0.kv", "memory", capacity=8, unit="block"),
    ),
    ("node0.gpu0",),
)


class Recorded(Backend):
    """Backend with recorded durations."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


@pytest.fixture(params=["reference", "core"])
def engine(request):
    return request.param


def simulation(engine, **more):
    return Simulation(SYSTEM, {"node0.gpu*": Recorded()}, engine=engine, **more)


def graph(duration, name="graph"):
    build = Builder(name)
    build.op(Kind.COMPUTE, duration=duration)
    return build.graph()


def test_held_amounts_are_the_utilization_of_a_store(engine):
    def server(sim):
        prefix = sim.store("node0.prefix")
        prefix.hold("prompt", 2)
        yield sim.wait(1.0)
        prefix.hold(1, 4)
        yield sim.wait(1.0)
        prefix.release("prompt")

    result = simulation(engine).run(graph(4.0), server)
    whole = (2 * 1.0 + 6 * 1.0 + 4 * 2.0) / 8
    assert result.utilization()["node0.prefix"] == pytest.approx(whole / 4.0)
    assert result.busy["node0.prefix"] == pytest.approx(whole)
    over_time = measure(result)["node0.prefix.utilization"]
    assert over_time[[10, 30, 90]].tolist() == pytest.approx([2 / 8, 6 / 8, 4 / 8])


def test_a_result_has_hits_misses_evictions_and_amounts_over_time(engine):
    def server(sim):
        prefix = sim.store("node0.prefix")
        for key in (1, 2, 1, 3):
            assert prefix.hold(key, 4)
            prefix.release(key)
            yield sim.wait(1.0)

    result = simulation(engine).run(None, server)
    history = result.stores["node0.prefix"]
    assert tuple(history.counts) == (1, 3, 0, 1)
    at = (history.samples[:, 0] * result.tick).round(9).tolist()
    assert (at, history.samples[:, 1:].tolist()) == (
        [0.0, 1.0, 2.0, 3.0],
        [[4, 0], [8, 0], [8, 0], [8, 0]],
    )
    assert "node0.kv" not in result.stores


def test_a_process_uses_names_and_numbers_as_keys(engine):
    seen = []

    def server(sim):
        prefix = sim.store("node0.prefix")
        assert prefix.hold("system", 1)
        assert prefix.hold(5, 2)
        assert prefix.hold(5, 2, owner=3)
        seen.append(prefix.entries())
        seen.append((prefix.owners(5), prefix.size("system"), "other" in prefix, 5 in prefix))
        seen.append(prefix.longest_prefix(np.array([5, 6])))
        seen.append(prefix.longest_prefix(["system", 5, 7]))
        parts = prefix.split(5, [1, 1])
        prefix.release_all(3)
        seen.append([prefix.owners(part) for part in parts])
        seen.append((prefix.used, prefix.held, prefix.cached))
        yield sim.settled()
        seen.append((sim.held("node0.prefix"), sim.free("node0.prefix")))

    simulation(engine).run(None, server)
    assert seen == [
        [("system", 1, 1), (5, 2, 2)],
        (2, 1, False, True),
        1,
        2,
        [1, 1],
        (3, 3, 0),
        (3, 5),
    ]


class Holding(Workload):
    """Workload that holds an entry while it works, and never releases it."""

    def __init__(self, key, duration):
        self.key, self.duration = key, duration

    def start(self, job):
        def process(sim):
            assert sim.store("node0.prefix").hold(self.key, 4)
            yield sim.submit(graph(self.duration)).done

        return process


def test_a_job_that_ends_or_is_stopped_releases_its_entries(engine):
    seen = []

    def starts(sim):
        prefix = sim.store("node0.prefix")
        ends = sim.launch(Holding(1, 1.0), "ends")
        stopped = sim.launch(Holding(2, 9.0), "stopped")
        yield sim.wait(0.5)
        seen.append((prefix.owners(1), prefix.owners(2)))
        yield ends.done
        yield sim.settled()
        seen.append((prefix.owners(1), prefix.owners(2)))
        stopped.stop()
        yield sim.settled()
        seen.append((prefix.owners(1), prefix.owners(2), prefix.cached))

    simulation(engine).run(None, starts)
    assert seen == [(1, 1), (0, 1), (0, 0, 8)]


def test_a_monitor_observes_a_store_and_may_not_change_it(engine):
    def monitor(sim):
        prefix = sim.store("node0.prefix")
        yield sim.wait(0.5)
        assert prefix.used == 0
        prefix.hold(1, 1)

    monitor.touches = ()
    with pytest.raises(SimulationError, match=r"monitor: alters node0\.prefix"):
        simulation(engine).run(graph(1.0), monitor)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.hold(-3, 1), "key is -3; give a number of 0 or more, or a text"),
        (lambda s: s.hold(1.5, 1), "key is 1.5; give a whole number"),
        (lambda s: s.hold(1, 0.5), "size is 0.5; give a whole number"),
        (lambda s: s.hold(2**64, 1), "give a number of 64 bits"),
        (lambda s: s.hold("big", 9), "entry 'big' has size 9; give one between 1 and"),
        (lambda s: s.size("none"), r"node0\.prefix: entry 'none' is not in the store; hold it"),
    ],
)
def test_impossible_keys_and_sizes_are_refused(engine, call, said):
    def process(sim):
        call(sim.store("node0.prefix"))
        yield sim.wait(1.0)

    with pytest.raises(SimulationError, match=said):
        simulation(engine).run(None, process)


def test_a_capacity_is_no_store(engine):
    def process(sim):
        sim.store("node0.kv")
        yield sim.wait(1.0)

    with pytest.raises(SimulationError, match=r"node0\.kv: is no store; give it capacity=Store"):
        simulation(engine).run(None, process)


def test_a_job_cannot_hold_an_amount_of_a_store(engine):
    class Whole(Holding):
        def holds(self, job, system):
            return {"node0.prefix": 4}

    with pytest.raises(SimulationError, match=r"node0\.prefix: is a store; hold entries of it"):
        simulation(engine).run([Job("a", Whole(1, 1.0))])


def test_ten_percent_more_of_a_store_is_a_larger_store():
    def server(sim):
        prefix = sim.store("node0.prefix")
        fits = all(prefix.hold(key, 3) for key in range(3))
        yield sim.submit(graph(1.0 if fits else 2.0)).done

    (change,) = speedup_effects(
        simulation("core"), lambda s: s.run(None, server), {"prefix": [1]}, factor=1.2
    )
    assert (change.base, change.faster, change.free) == (2.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Store(0), "size is 0; give a whole number of 1 or more"),
        (lambda: Store(2.5), "size is 2.5; give a whole number"),
        (lambda: Store(4, "lro"), "eviction is 'lro'; did you mean 'lru'?"),
        (lambda: Store(4, "xyz"), "the rules are lru, oldest, order, window"),
        (lambda: StorePart(size=10.0, block=100.0), "size is 0"),
    ],
)
def test_an_impossible_store_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_samples_of_amounts_stay_few_and_end_with_the_last_state(engine):
    def server(sim):
        prefix = sim.store("node0.prefix")
        for i in range(5000):
            prefix.hold(i % 3, 1)
            yield sim.settled()
            prefix.release(i % 3)
            yield sim.wait(1e-6)

    history = simulation(engine).run(None, server).stores["node0.prefix"]
    assert 2000 < len(history.samples) <= 4096
    assert history.samples[-1, 1:].tolist() == [3, 0]
    assert sum(history.counts[:2]) == 5000
