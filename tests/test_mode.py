"""Kernels run compiled, interpreted or with bounds checks; each mode is what it says it is."""

import os

import numpy as np
import pytest
from foretrace.sim.core.linked_lists import sort
from foretrace.sim.core.state_layout import BINS, CELL, NONE, TABLES
from foretrace.sim.media.max_min import int128

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def two_in_a_list():
    """Cells 1 and 0, the wrong way round."""
    rows = np.zeros(3, CELL)
    rows["next"][:2] = NONE, 0
    return rows, np.int64(1)


def test_kernels_are_compiled_unless_the_interpreter_was_asked_for():
    assert hasattr(int128.add, "py_func") is not INTERPRETED


def test_a_kernel_within_its_arrays_runs_in_every_mode():
    rows, head = two_in_a_list()
    assert sort(rows, np.zeros(TABLES, np.int64), head) == 0
    assert rows["next"].tolist() == [1, NONE, 0]


@pytest.mark.skipif(
    not (CHECKED or INTERPRETED), reason="an overrun reads garbage unless NUMBA_BOUNDSCHECK=1"
)
def test_a_deliberate_overrun_is_caught():
    rows, head = two_in_a_list()
    with pytest.raises(IndexError):
        sort(rows, np.zeros(BINS, np.int64), head)  # ends before its last table


@pytest.mark.skipif(
    not (CHECKED or INTERPRETED), reason="an overrun reads garbage unless NUMBA_BOUNDSCHECK=1"
)
def test_an_overrun_in_a_kernel_that_another_calls_is_caught():
    rows, head = two_in_a_list()
    rows["next"][0] = 7  # no such cell: the comparison of two cells looks there
    with pytest.raises(IndexError):
        sort(rows, np.zeros(TABLES, np.int64), head)
