"""Kernels run compiled, interpreted or with bounds checks; each mode is what it says it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.sim.core.memory.linked_lists import sort_list
from foretrace.sim.core.memory.state_layout import BINS, CELL, NONE, TABLES
from foretrace.sim.kernel import jit
from foretrace.sim.media.max_min import int128

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
ROOT = Path(foretrace.__file__).resolve().parent
UNKNOWN = """
import json, logging, numba
logging.basicConfig(format="%(message)s")
numba.version_info = numba.version_info._replace(short=(0, 99))
from foretrace.sim.kernel import jit
halve = jit.jit(lambda number: number // 2)
print(json.dumps([jit.LINKED, type(halve).__module__, halve(7)]))
"""


def two_in_a_list():
    """Cells 1 and 0, the wrong way round."""
    rows = np.zeros(3, CELL)
    rows["next"][:2] = NONE, 0
    return rows, np.int64(1)


def test_kernels_are_compiled_unless_interpreted_mode_is_set():
    assert hasattr(int128.add, "py_func") is not INTERPRETED


def test_a_kernel_within_its_arrays_runs_in_every_mode():
    rows, head = two_in_a_list()
    assert sort_list(rows, np.zeros(TABLES, np.int64), head) == 0
    assert rows["next"].tolist() == [1, NONE, 0]


@pytest.mark.skipif(
    not (CHECKED or INTERPRETED), reason="an overrun reads garbage unless NUMBA_BOUNDSCHECK=1"
)
def test_a_deliberate_overrun_is_caught():
    rows, head = two_in_a_list()
    with pytest.raises(IndexError):
        sort_list(rows, np.zeros(BINS, np.int64), head)  # ends before its last table


@pytest.mark.skipif(
    not (CHECKED or INTERPRETED), reason="an overrun reads garbage unless NUMBA_BOUNDSCHECK=1"
)
def test_an_overrun_in_a_kernel_that_another_calls_is_caught():
    rows, head = two_in_a_list()
    rows["next"][0] = 7  # no such cell: the comparison of two cells looks there
    with pytest.raises(IndexError):
        sort_list(rows, np.zeros(TABLES, np.int64), head)


@jit.jit
def row(table, i):
    return table[i, 0]


@jit.jit
def last_row(table):
    return table[-1, 0]


def test_a_constant_below_zero_counts_from_the_end():
    assert last_row(np.arange(6).reshape(3, 2)) == 4


@pytest.mark.skipif(
    not (CHECKED and jit.LINKED), reason="reads what is before the rows unless NUMBA_BOUNDSCHECK=1"
)
def test_a_row_below_zero_is_an_overrun_and_not_the_last_row():
    with pytest.raises(IndexError):
        row(np.arange(6).reshape(3, 2), -1)


STATE = """
from typing import NamedTuple
import numpy as np
from foretrace.sim.kernel.jit import jit
class NAME(NamedTuple):
    rows: np.ndarray
@jit
def first(state):
    return state.rows[0]
print(first(NAME(np.array([7]))))
"""


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_kernel_whose_argument_type_was_renamed_is_compiled_again(tmp_path):
    for name in ("Queue", "Requests"):
        (tmp_path / "kernels.py").write_text(STATE.replace("NAME", name))
        command = [sys.executable, "-c", "import kernels"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "7\n", done.stderr


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_an_unknown_numba_version_compiles_with_plain_njit():
    env = {key: text for key, text in os.environ.items() if key != "FORETRACE_PLAIN_NJIT"}
    command = [sys.executable, "-c", UNKNOWN]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert json.loads(done.stdout) == [False, "numba.core.registry", 3], done.stderr
    assert f"pip install '{jit.KNOWN}'" in done.stderr


def test_the_bounds_of_numba_are_those_of_the_installation():
    assert f"    {jit.KNOWN}\n" in (ROOT / "setup.cfg").read_text()


@pytest.mark.nightly
def test_engines_agree_where_kernels_are_compiled_by_njit_alone():
    command = [sys.executable, "-m", "pytest", "tests/sim/engine/test_twins.py"]
    env = {**os.environ, "FORETRACE_PLAIN_NJIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
