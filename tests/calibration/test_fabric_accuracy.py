"""Collectives fitted to listed rows, against those set aside, as ``fit/fabrics.py`` prints them.

Bars are those of the checks (D9, and all-reduces of vidur-opdb), which all of it had to reach.
"""

import numpy as np
import pytest
from foretrace.models.calibration.parameter_search import PredictionErrors
from foretrace.models.network.collective.library_times import LibraryTimes


@pytest.fixture
def fit(data, monkeypatch):
    from foretrace.calibration.fit import fabrics
    from foretrace.calibration.rows import nccl_rows

    if data != nccl_rows.DATA:
        pytest.skip("set FORETRACE_DATA: programs read it where they are imported")
    return fabrics


@pytest.fixture
def in_switch(fit):
    settings = fit.catalog("nccl-nvlink4", {"ll.launch": None, "in_switch.channels": 16})
    return LibraryTimes(fit.machine("nccl-nvlink4", 1, 8), settings)


def judged(fit, times, start, listed, rows, also=dict):
    """Predicted seconds of rows, by constants of those that are listed."""
    found = fit.fitted(times, start, "all-reduce", listed, also)
    return fit.predicted(times, found, "all-reduce", rows)


def test_all_reduces_of_8_of_8_h100_by_four_constants_of_twenty_sizes(fit, in_switch):
    rows, listed, _, known = fit.h100_dgx()
    guess = judged(fit, in_switch, fit.SWITCH_START, rows.take(listed), rows, fit.with_rate)
    assert len(fit.SWITCH_START) <= 8
    assert listed.sum() <= 20
    large = ~known & (rows.size >= fit.MIB)
    small = ~known & (rows.size < fit.MIB)
    assert PredictionErrors.of(guess[large], rows.seconds[large]).mean <= 0.03
    scatter = fit.local_scatter(rows)[small].mean()
    assert PredictionErrors.of(guess[small], rows.seconds[small]).mean <= 1.5 * scatter


def test_a_decade_of_sizes_that_no_fit_saw(fit, in_switch):
    rows, _, below, known = fit.h100_dgx()
    guess = judged(fit, in_switch, fit.SWITCH_START, rows.take(below), rows, fit.with_rate)
    top = ~known & (rows.size > rows.size[-1] / 10)
    assert rows.size[below].max() <= rows.size[-1] / 10
    assert PredictionErrors.of(guess[top], rows.seconds[top]).mean <= 0.1


def test_all_reduces_of_two_machines_of_eight_a100_between_the_sizes_fitted(fit):
    own, rest = fit.a100_dgx()
    times = LibraryTimes(fit.machine("nccl-nvlink3", 2, 8, nics=8), fit.catalog("nccl-nvlink3"))
    guess = judged(fit, times, fit.NODES_START, own, rest)
    assert PredictionErrors.of(guess, rest.seconds).mean <= 0.2


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_exchanges_of_experts_at_other_numbers_of_ranks(fit, op):
    """D9: fitted at 16 and 64 ranks, judged at 32, 128 and 256; the catalog has what was fitted."""
    rows = fit.expert_rows(op)
    rest = rows.take(~np.isin(rows.members, (16, 64)))
    guess = fit.predicted(fit.expert_times(), {}, "all-to-all kernel=low-latency", rest)
    assert PredictionErrors.of(guess, rest.seconds).median <= 0.06
