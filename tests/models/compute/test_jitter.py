"""Factors from recordings: what is typical stays typical, and few starts say little."""

import numpy as np
import pytest
from foretrace.models.compute.jitter import (
    interval_coverage,
    jitter_spread,
    prediction_interval,
    start_factors,
    typical_durations,
)
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.sampling import random_factors, scaled_duration


def recording(seed=1, iterations=40, ops=200):
    """Large steady ops and many small wild ones, on one rank."""
    rng = np.random.default_rng(seed)
    steady = np.arange(ops) < 50
    size, noise = np.where(steady, 0.1, 0.01), np.where(steady, 0.01, 0.8)
    took = size * np.exp(noise * rng.standard_normal((iterations, ops)))
    took *= np.exp(0.05 * rng.standard_normal((iterations, 1)))
    return Ops.of(
        period=np.repeat(np.arange(iterations), ops), label=np.tile(np.arange(ops), iterations),
        duration=took.ravel(),
    )  # fmt: skip


def step_times(ops, duration):
    return np.bincount(ops.period, duration)


def replica(ops, found, k):
    """Durations of one draw, s."""
    ticks = (typical_durations(ops) * 1e9).astype(np.int64)
    for by in random_factors(found, name="g", row=np.arange(len(ops)), rank=ops.rank,
                      period=ops.period, seed=1, replica=k):  # fmt: skip
        ticks = scaled_duration(ticks, by)
    return ticks * 1e-9


def test_typical_ops_add_up_to_the_median_step():
    ops = recording()
    median = np.median(step_times(ops, ops.duration))
    assert step_times(ops, typical_durations(ops)) == pytest.approx(median)


def test_drawn_steps_last_as_the_recorded_ones():
    """Wild small ops must not make large steady ones wild: factors are quantiles over time."""
    ops = recording()
    found = jitter_spread(ops)
    drawn = np.concatenate([step_times(ops, replica(ops, found, k)) for k in range(10)])
    recorded = step_times(ops, ops.duration)
    assert np.median(drawn) == pytest.approx(np.median(recorded), rel=0.02)
    assert drawn.std() == pytest.approx(recorded.std(), rel=0.4)  # of steady and wild ops, mixed


@pytest.mark.parametrize(("n", "t"), [(2, 6.314), (4, 2.353), (8, 1.895), (20, 1.729)])
def test_the_next_start_is_predicted_by_student_s_t(n, t):
    """Critical values of t for 90 %, two-sided, from any table (n - 1 degrees of freedom)."""
    medians = np.exp(0.1 * np.resize([1.0, -1.0], n))
    deviation = np.log(medians).std(ddof=1)
    places = (np.arange(64) + 0.5) / 64
    upper = np.interp(0.95, places, np.log(start_factors([np.array([m]) for m in medians])))
    assert upper == pytest.approx(deviation * (1 + 1 / n) ** 0.5 * t, rel=0.03)


def test_intervals_have_their_coverage_for_few_starts():
    """Over many made-up machines: 90 % of the steps of a start that nobody saw."""
    rng = np.random.default_rng(5)
    for n in (3, 8):
        held = []
        for _ in range(400):
            level = np.exp(0.05 * rng.standard_normal(n + 1))
            starts = [x * np.exp(0.02 * rng.standard_normal(20)) for x in level]
            low, high = prediction_interval(starts[:-1])
            held.append(np.mean((starts[-1] >= low) & (starts[-1] <= high)))
        assert 0.87 < np.mean(held) < 0.94, n


def test_unexpectedly_different_starts_are_unresolved():
    steps = np.linspace(0.99, 1.01, 20)
    same = [steps * x for x in (1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999)]
    alike = interval_coverage(same)
    assert (alike.starts, alike.steps) == (8, 160)
    wild = [s * x for s, x in zip(same, (1, 1, 1, 1, 2, 3, 0.5, 0.3), strict=True)]
    strange = interval_coverage(wild)
    assert not strange.resolved
    assert strange.held < alike.held


def test_two_starts_cannot_be_checked():
    assert interval_coverage([np.ones(3), np.ones(3)]) is None
