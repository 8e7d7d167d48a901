"""Kernels run compiled, interpreted or with bounds checks; each mode is what it says it is."""

import os
from dataclasses import replace

import numpy as np
import pytest
from foretrace.sim.core import templates, wide
from foretrace.sim.ops import Kind, Ops
from foretrace.sim.template import Program, Template

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def two_ranks() -> Template:
    ops = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE], duration=[1.0, 0.5])
    program = Program.chain(ops, family=[-1, 0])
    return Template((program,), np.zeros(2, np.int32), groups=np.zeros((1, 2), np.int32))


def compiled(template: Template) -> templates.Compiled:
    ticks = [np.array([7, 5]) for _ in template.programs]
    return templates.compile_programs(template, ticks, [np.full(2, -1, np.int8)])


def test_kernels_are_compiled_unless_the_interpreter_was_asked_for():
    assert hasattr(wide.add, "py_func") is not INTERPRETED


def test_a_kernel_within_its_arrays_runs_in_every_mode():
    template = two_ranks()
    assert templates.run(template, compiled(template), templates.Chances.none()).makespan == 12


@pytest.mark.skipif(
    not (CHECKED or INTERPRETED), reason="an overrun reads garbage unless NUMBA_BOUNDSCHECK=1"
)
def test_a_deliberate_overrun_is_caught():
    template = two_ranks()
    short = compiled(template)
    short = replace(short, words=short.words[: len(short.words) // 2])
    with pytest.raises(IndexError):
        templates.run(template, short, templates.Chances.none())
