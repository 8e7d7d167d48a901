"""Time series of processes: few points, no peak lost, the same on both engines."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.metric import Metric
from foretrace.sim.facts.system import System
from foretrace.sim.kernel import policy
from foretrace.sim.record.time_series import POINTS, GrowingSeries, SeriesRecorder
from foretrace.sim.run.job import Job
from foretrace.sim.run.policies.compiled_process import CompiledProcess
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Needs, Workload
from foretrace.sim.testing import check_same_run

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
NOTHING = System((), ())


def grown(ticks, values, points=POINTS):
    one = GrowingSeries(points)
    one.extend(np.asarray(ticks), np.asarray(values, float))
    return one.series(1, "")


def run(process, engine="reference"):
    return Simulation(NOTHING, {}, engine=engine).run(None, process)


def columns(one):
    return [one.first, one.last, one.count, one.minimum, one.maximum, one.sum, one.final]


def test_few_values_are_kept_as_they_are():
    ticks, values = np.arange(POINTS) ** 2, np.sin(np.arange(POINTS))
    found = grown(ticks, values)
    assert not found.merged
    for column in (found.minimum, found.maximum, found.mean, found.final):
        assert np.array_equal(column, values)
    assert np.array_equal(found.first, ticks)
    assert np.array_equal(found.last, ticks)


@pytest.mark.parametrize("seed", range(6))
def test_no_peak_is_lost_and_sums_are_equal(seed):
    r = np.random.default_rng(seed)
    count = int(r.integers(POINTS, 60_000))
    gaps = r.choice([0, 1, 10, 10**6], count, p=r.dirichlet([1, 1, 1, 1]))
    ticks, values = np.cumsum(gaps), r.integers(-50, 50, count).astype(float)
    values[r.integers(count)] = 10**9
    values[r.integers(count)] = -(10**9)
    found = grown(ticks, values)
    assert len(found) <= POINTS
    assert found.count.sum() == count
    assert found.sum.sum() == values.sum()
    assert (found.minimum.min(), found.maximum.max()) == (values.min(), values.max())
    begin = np.concatenate([[0], np.cumsum(found.count)[:-1]])
    assert np.array_equal(np.maximum.reduceat(values, begin), found.maximum)
    assert np.array_equal(np.minimum.reduceat(values, begin), found.minimum)
    assert np.array_equal(np.add.reduceat(values, begin), found.sum)
    assert np.array_equal(ticks[begin], found.first)
    ends = np.cumsum(found.count) - 1
    assert np.array_equal(values[ends], found.final)
    assert np.array_equal(ticks[ends], found.last)


def test_regular_values_leave_at_least_half_of_the_points():
    found = grown(np.arange(10**5), np.zeros(10**5))
    assert POINTS / 2 - 1 <= len(found) <= POINTS


def test_a_drawing_has_fewer_points_of_the_same_values():
    found = grown(np.arange(5000), np.arange(5000) % 77)
    few = found.in_points(50)
    assert len(few) <= 50
    assert few.count.sum() == 5000
    assert few.sum.sum() == found.sum.sum()
    assert few.maximum.max() == 76
    assert few.in_points(50) is few


def test_memory_is_flat():
    one, peaks = GrowingSeries(), []
    for part in range(3):
        tracemalloc.start()
        for k in range(50_000):
            one.record(50_000 * part + k, float(k))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 4e5
    assert sum(column.nbytes for column in columns(one.series(1, ""))) <= 7 * 8 * POINTS


class State(NamedTuple):
    """Values that are left."""

    left: np.ndarray


@policy.policy_kernel
def fills(state, event, turn):
    left = state.left[0]
    if left == 0:
        return policy.DONE
    state.left[0] -= 1
    policy.record(turn, 1, left * left % 101)
    policy.after(turn, left % 5, 0)
    return policy.GO_ON


def kernel(step=fills, count=5000):
    return CompiledProcess(step, State(np.array([count])), series=["unused", "queue"])


def twin(sim):
    for left in range(5000, 0, -1):
        sim.record("queue", left * left % 101)
        yield sim.env.timeout(left % 5)


def test_kernels_and_generators_record_the_same_on_both_engines():
    found = [run(p, e).series for p in (kernel(), twin) for e in ("reference", "core")]
    assert list(found[0]) == ["queue"]
    assert found[0]["queue"].count.sum() == 5000
    assert found[0]["queue"].merged
    assert found[0] == found[1] == found[2] == found[3]
    check_same_run(Simulation(NOTHING, {}), kernel(), twin)


def test_a_twin_that_records_something_else_is_detected():
    def other(sim):
        for left in range(5000, 0, -1):
            sim.record("queue", left * left % 101 + (left == 7))
            yield sim.env.timeout(left % 5)

    with pytest.raises(AssertionError, match="queue"):
        check_same_run(Simulation(NOTHING, {}), kernel(), other)


def test_an_unknown_series_is_refused_by_its_number():
    def step(state, event, turn):
        policy.record(turn, 2, 1.0)
        return policy.DONE

    with pytest.raises(SimulationError, match="series 2 does not exist; series has 2, numbered"):
        run(kernel(step))


def test_a_series_is_named_once():
    with pytest.raises(TypeError, match="series names one twice: a, a"):
        CompiledProcess(fills, series=["a", "a"])


def test_two_units_are_refused():
    def process(sim):
        sim.record("queue", 1, "B")
        yield sim.wait(1)
        sim.record("queue", 1, "s")

    with pytest.raises(SimulationError, match="queue: a value has the unit 's', earlier ones 'B'"):
        run(process)


class Filling(Workload):
    """Job that records a level."""

    metrics = (Metric("level", "B", "Bytes that are held."),)
    needs = Needs({})

    def __init__(self, level=1):
        self.level = level

    def start(self, job):
        def process(sim):
            for k in range(3):
                sim.record("level", self.level * k)
                yield sim.wait(1)

        return process


@ENGINES
@pytest.mark.parametrize("keep", ["ops", "none"])
def test_each_job_has_its_own_series(engine, keep):
    jobs = [Job("a", Filling(1)), Job("b", Filling(10))]
    result = Simulation(NOTHING, {}, engine=engine).run(jobs, keep=keep)
    assert list(result.series) == ["a.level", "b.level"]
    own = result.of("b").series["level"]
    assert (own.unit, own.final.tolist(), own.end.tolist()) == ("B", [0, 10, 20], [0, 1, 2])


def test_a_unit_of_a_declared_metric_is_known():
    assert Simulation(NOTHING, {}).run(Filling()).series["level"].unit == "B"


def test_an_empty_series_is_left_out():
    recorder = SeriesRecorder()
    recorder.growing(0, "never")
    recorder.record(0, "once", 1, 2.0)
    assert list(recorder.recorded()) == [(0, "once")]
