"""The judge of the H100's recordings: half is set aside, and what is compared is complete."""

import json
from collections import Counter

import numpy as np
import pytest
from foretrace.calibration.judge.h100 import HERE, PIECES, cells, compared, is_set_aside, recorded
from foretrace.calibration.judge.h100 import Compared as Row
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import kineto


def test_about_half_of_the_shapes_and_steps_are_set_aside():
    names = {s for piece in PIECES for s in recorded(piece)}
    steps = {json.loads(x)["name"] for x in (HERE / "steps.jsonl").read_text().splitlines()}
    assert 0.45 < np.mean([*map(is_set_aside, names)]) < 0.55
    assert Counter(map(is_set_aside, steps)) == {True: 5, False: 12}


def test_recorded_gemms_are_compared_with_intervals():
    rows = compared("fp8", aside=False)
    assert len(rows) > 40
    assert np.isfinite([(r.measured, r.predicted, r.low, r.high) for r in rows]).all()
    assert all(r.low < 1 < r.high for r in rows)
    assert not any(is_set_aside(r.signature) for r in rows)


def test_errors_are_those_of_the_rows():
    rows = [Row("", "", 1.0, 1.0 + x, 0.9, 1.5) for x in (-0.5, -0.1, 0.0, 0.1, 0.2)]
    assert cells(rows) == ["5", "10 / 38", "+0", "60"]
    assert cells(rows[:4]) == [""] * 4


@pytest.mark.parametrize("file", sorted(HERE.glob("*.json.gz")), ids=lambda f: f.stem)
def test_a_trace_of_a_step_is_read_and_repeats_its_step(file):
    graph = kineto.read([file]).graph()
    on_gpu = graph.ops.duration[graph.ops.kind == Kind.COMPUTE].sum()
    steps = [json.loads(x) for x in (HERE / "steps.jsonl").read_text().splitlines()]
    (step,) = [s for s in steps if s["machine"] == 2 and s["name"] == file.name.split(".json")[0]]
    assert 0.8 < on_gpu / step["queued"] < 1.05
