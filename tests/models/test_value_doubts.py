"""Doubts of values that nobody measured are what the catalog's own measurements say."""

import numpy as np
import pytest
from foretrace.models.value_doubts import (
    UNMEASURED_TIME,
    doubt_without_measurements,
    range_from_median_error,
)


def test_of_exponential_errors_their_median_tells_the_90_percent_ends():
    """Errors that are mostly small and sometimes large, as held-out ones are."""
    errors = np.random.default_rng(3).exponential(0.1, 10_000)
    _, slow = range_from_median_error(float(np.median(errors)))
    assert 0.80 <= np.mean(errors <= np.expm1(slow)) <= 0.97


def test_what_nobody_judged_is_as_wide_as_an_assumed_time():
    assert np.log(doubt_without_measurements().interval()) == pytest.approx(UNMEASURED_TIME)
