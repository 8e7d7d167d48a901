"""Doubts of values that nobody measured are what the catalog's own measurements say."""

import importlib.util
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.models.value_doubts import (
    ASSUMED_RATE,
    DATASHEET_RATE,
    UNMEASURED_TIME,
    WIDER,
    range_from_median_error,
    unjudged_doubt,
)

FILE = Path(foretrace.__file__).parent / "tools" / "value_doubts.py"


@pytest.fixture(scope="module")
def learnt():
    spec = importlib.util.spec_from_file_location("value_doubts_tool", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_constants_are_those_that_the_tool_learns_from_the_catalog(learnt):
    reached = [-np.log(float(text)) for _, _, text in learnt.values(learnt.SHARES)]
    assert learnt.bounds(reached, centred=False)[:2] == DATASHEET_RATE
    assert learnt.bounds(learnt.apart(learnt.SHARES), centred=True)[:2] == ASSUMED_RATE
    assert learnt.bounds(learnt.apart(learnt.TIMES), centred=True)[:2] == UNMEASURED_TIME
    assert learnt.wider()[0] == WIDER


def test_of_exponential_errors_their_median_tells_the_90_percent_ends():
    """Errors that are mostly small and sometimes large, as held-out ones are."""
    errors = np.random.default_rng(3).exponential(0.1, 10_000)
    _, slow = range_from_median_error(float(np.median(errors)))
    assert 0.80 <= np.mean(errors <= np.expm1(slow)) <= 0.97


def test_what_nobody_judged_is_as_wide_as_an_assumed_time():
    assert np.log(unjudged_doubt().interval()) == pytest.approx(UNMEASURED_TIME)
