"""Quantiles of Student's t, beside SciPy's."""

import numpy as np
import pytest
from foretrace.models.compute.student_t import student_t_quantile
from scipy.special import stdtrit

SHARES = (np.arange(64) + 0.5) / 64


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 9, 30, 101])
def test_quantiles_are_those_of_scipy(freedom):
    assert student_t_quantile(freedom, SHARES) == pytest.approx(stdtrit(freedom, SHARES), rel=1e-9)
