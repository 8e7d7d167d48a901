"""Emitted values: exact while they fit, then a distribution whose error is stated."""

import tracemalloc

import numpy as np
import pytest
from foretrace.scenarios.studies.variants.statistics import statistic_of
from foretrace.sim.facts.system import System
from foretrace.sim.record.distribution import (
    Distribution,
    DistributionRecorder,
    merged_distribution,
)
from foretrace.sim.record.emitted_values import MOST_VALUES, EmissionRecorder, same_values_before
from foretrace.sim.record.sample_log import CHUNK, PackedSamples, SampleRows
from foretrace.sim.run.simulation import Simulation

ALL = ("p0.1", "p1", "p50", "p95", "p99", "p99.9", "mean", "min", "max")
ONE_SECOND = 10**12


def drawn(n, streams=1, seed=0):
    r = np.random.default_rng(seed)
    tick = np.cumsum(r.integers(0, 10**8, n))
    return r.integers(0, streams, n).astype(np.int32), tick, r.lognormal(0, 3, n)


def recorder_of(stream, tick, value, most=MOST_VALUES):
    recorder = EmissionRecorder(ONE_SECOND, most)
    for k in range(int(stream.max()) + 1):
        recorder.stream(0, f"m{k}")
    recorder.extend(stream, tick, value)
    return recorder


def distribution_of(values):
    growing = DistributionRecorder()
    for part in np.array_split(values, max(1, len(values) // 4096)):
        growing.add(part, np.zeros(len(part)))
    return growing.distribution()


@pytest.mark.parametrize("streams", [1, 5])
def test_a_million_values_take_sixteen_megabytes(streams):
    values = drawn(10**6, streams)
    tracemalloc.start()
    recorder = recorder_of(*values)
    emitted = recorder.emitted()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 16e6
    assert not emitted.reduced
    for k in range(streams):
        assert np.array_equal(emitted.samples[f"m{k}"], values[2][values[0] == k])


def test_more_values_take_no_more_memory():
    peaks = []
    for n in (10**6, 2 * 10**6, 4 * 10**6):
        stream, tick, value = drawn(n, 3)
        tracemalloc.start()
        recorder_of(stream, tick, value).emitted()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.25 * peaks[0]


def test_one_by_one_and_at_once_are_equal():
    stream, tick, value = drawn(3 * CHUNK + 77, 3)
    for most in (MOST_VALUES, 2 * CHUNK):
        single = EmissionRecorder(ONE_SECOND, most)
        for k in range(3):
            single.stream(0, f"m{k}")
        for k, at, x in zip(stream.tolist(), tick.tolist(), value.tolist(), strict=True):
            single.add(0, f"m{k}", at, x)
        one, other = single.emitted(), recorder_of(stream, tick, value, most).emitted()
        assert list(one) == list(other)
        assert one.reduced == other.reduced
        assert bool(one.reduced) == (most < len(value))
        assert same_values_before(one, other, np.inf)


def test_the_order_of_all_metrics_is_kept():
    stream, tick, value = drawn(2 * CHUNK, 3)
    emitted = recorder_of(stream, tick, value).emitted()
    names = [f"m{k}" for k in stream.tolist()]
    assert list(emitted) == list(
        zip(names, (tick / ONE_SECOND).tolist(), value.tolist(), strict=True)
    )


@pytest.mark.parametrize("span", [10, 2**32 - 1, 2**32, 2**48 - 1, 2**48, 2**62])
def test_ticks_are_packed_exactly(span):
    tick = np.array([7, 8, 7 + span // 3, 7 + span])
    rows = SampleRows(np.array([0, 300, 1, 70000]), tick, np.arange(4.0))
    found = PackedSamples.of(rows).rows
    for a, b in zip(rows, found, strict=True):
        assert np.array_equal(a, b)


def test_the_largest_metric_is_reduced_first():
    stream = np.array([0] * 3 * CHUNK + [1] * CHUNK + [0] * CHUNK, np.int32)
    tick, value = np.arange(len(stream)), np.arange(len(stream)) / 7
    emitted = recorder_of(stream, tick, value, 3 * CHUNK).emitted()
    first, second = emitted.samples["m0"], emitted.samples["m1"]
    assert isinstance(first, Distribution)
    assert np.array_equal(second, value[stream == 1])
    assert len(first) == 4 * CHUNK
    assert first.at_maximum == tick[-1] / ONE_SECOND
    assert len(emitted) == len(stream)
    assert {name for name, _, _ in emitted} == {"m1"}


SHAPES = {
    "lognormal": lambda r, n: r.lognormal(0, 3, n),
    "normal": lambda r, n: r.normal(0, 5, n),
    "negative": lambda r, n: -r.pareto(1.1, n),
    "integers": lambda r, n: r.integers(0, 900, n).astype(float),
    "constant": lambda r, n: np.full(n, 0.3),
    "zeros": lambda r, n: r.choice([0.0, -0.0], n),
    "tiny and huge": lambda r, n: 10.0 ** r.uniform(-300, 300, n),
    "both signs": lambda r, n: r.choice([-1, 1], n) * 10.0 ** r.uniform(-3, 3, n),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_quantiles_are_within_the_stated_error(shape):
    for seed in range(3):
        value = SHAPES[shape](np.random.default_rng(seed), 30_000)
        found = distribution_of(value)
        assert (len(found), found.minimum, found.maximum) == (len(value), value.min(), value.max())
        assert found.mean == pytest.approx(value.mean(), rel=1e-12, abs=1e-12)
        ordered = np.sort(value)
        for percent in (0, 0.1, 1, 25, 50, 75, 95, 99, 99.9, 100):
            place = percent / 100 * (len(value) - 1)
            near = ordered[int(place)], ordered[min(int(place) + 1, len(value) - 1)]
            allowed = found.error * max(map(abs, near)) + 1e-300
            assert abs(found.percentile(percent) - np.percentile(value, percent)) <= allowed


def test_values_of_few_digits_are_exact():
    value = np.random.default_rng(1).integers(0, 900, 20_000).astype(float)
    found = distribution_of(value)
    for statistic in ALL:
        assert statistic_of(found, statistic) == pytest.approx(statistic_of(value, statistic))


def test_buckets_are_few_and_the_error_is_stated():
    value = 10.0 ** np.random.default_rng(2).uniform(-300, 300, 200_000)
    small = DistributionRecorder(most=1000)
    small.add(value, np.zeros(len(value)))
    found = small.distribution()
    assert len(found.keys) <= 1000
    assert found.error >= 0.5
    assert distribution_of(value).error < 1 / 16
    assert found.error > distribution_of(value[:100]).error


def test_distributions_are_merged():
    value = np.random.default_rng(3).lognormal(0, 2, 9000)
    parts = [distribution_of(part) for part in np.split(value, 3)]
    whole, merged = distribution_of(value), merged_distribution(parts)
    assert np.array_equal(whole.counts, merged.counts)
    assert merged.percentile(90) == pytest.approx(whole.percentile(90))
    assert merged != parts[0]
    assert merged == merged_distribution(parts)


def test_a_value_that_is_no_number_makes_no_quantile():
    found = distribution_of(np.array([1.0, np.nan, 2.0]))
    assert np.isnan([found.percentile(50), found.minimum, found.mean]).all()


def test_a_repeated_run_is_compared_also_by_distributions():
    stream, tick, value = drawn(3 * CHUNK, 2)
    runs = [recorder_of(stream, tick, v, CHUNK).emitted() for v in (value, value * 1.5)]
    assert same_values_before(runs[0], runs[0], np.inf)
    assert not same_values_before(*runs, np.inf)
    kept = [recorder_of(stream, tick, v).emitted() for v in (value, np.r_[value[:-1], 0.0])]
    assert not same_values_before(*kept, np.inf)
    assert same_values_before(*kept, tick[-1] / ONE_SECOND)


@pytest.mark.parametrize("engine", ["reference", "core"])
def test_a_run_with_more_values_than_fit(engine):
    count = MOST_VALUES + 5000

    def process(sim):
        for k in range(count):
            sim.emit("level", k % 1000)
        yield sim.wait(1.0)
        sim.emit("once", 3.0)

    result = Simulation(System((), ()), {}, engine=engine).run(None, process)
    level = result.emitted.samples["level"]
    assert isinstance(level, Distribution)
    assert (len(level), level.maximum, level.percentile(50)) == (count, 999.0, pytest.approx(499))
    assert result.metrics == (("once", 1.0, 3.0),)
    assert result.of("main").emitted.samples["level"] == level


def test_values_of_one_of_several_jobs():
    recorder = EmissionRecorder(ONE_SECOND, CHUNK)
    for k in range(3 * CHUNK):
        recorder.add(k % 2, "x", k, float(k))
        recorder.add(1, "y", k, float(-k))
    emitted = recorder.emitted()
    second = emitted.of_job(1)
    assert second.names == ("x", "y")
    assert len(second) == 3 * CHUNK + 3 * CHUNK // 2
    assert len(emitted.of_job(0)) == 3 * CHUNK // 2
    assert emitted.of_job(0).names == ("x",)
    assert statistic_of(second.samples["y"], "min") == 1 - 3 * CHUNK
    assert statistic_of(emitted.samples["x"], "max") == 3 * CHUNK - 1
    assert len(emitted.samples["x"]) == 3 * CHUNK
