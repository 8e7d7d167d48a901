"""Fits: what is held out, how errors are told, and that a fit finds what made the data."""

import numpy as np
import pytest
from foretrace.models.calibration.parameter_search import (
    PredictionErrors,
    fit_parameters,
    held_out_mask,
)


def test_whole_groups_are_held_out_and_always_the_same():
    groups = [f"{n}x{k}" for n in range(40) for k in range(40) for _ in range(3)]
    aside = held_out_mask(groups)
    by_group = {}
    for group, out in zip(groups, aside, strict=True):
        assert by_group.setdefault(group, out) == out
    assert np.mean(list(by_group.values())) == pytest.approx(0.3, abs=0.03)
    assert held_out_mask(groups).tolist() == aside.tolist()
    assert held_out_mask(groups, seed="another").tolist() != aside.tolist()
    assert not held_out_mask(groups, share=0.0).any()


def test_errors_are_signed_relative_to_what_was_measured():
    told = PredictionErrors.of([1.1, 1.9, 4.0], [1.0, 2.0, 2.0])
    assert (told.n, told.worst, told.median) == (3, 1.0, 0.1)
    assert told.bias == pytest.approx((0.1 - 0.05 + 1.0) / 3, abs=1e-4)
    assert told.log == pytest.approx(np.log(1.1), abs=1e-4)
    assert "bias +35.0%" in str(told)


def test_a_fit_finds_the_roofline_that_made_the_data():
    rng = np.random.default_rng(3)
    flop, moved = 10 ** rng.uniform(3, 13, 400), 10 ** rng.uniform(3, 10, 400)

    def seconds(p):
        return p[2] + np.maximum(flop / p[0], moved / p[1])

    truth = (2.5e14, 1.5e12, 4e-6)
    found = fit_parameters(seconds, (1e14, 1e12, 1e-6), seconds(truth))
    assert found == pytest.approx(truth, rel=1e-3)


def test_a_few_strange_rows_do_not_pull_a_fit():
    x = np.linspace(1, 100, 101)
    y = 3.0 * x
    y[::10] *= 50
    assert fit_parameters(lambda p: p[0] * x, [1.0], y)[0] == pytest.approx(3.0, rel=1e-3)
