"""The judge of the H100's recordings: half is set aside, and what is compared is complete."""

import json
from collections import Counter

import numpy as np
from foretrace.calibration.judge.h100 import HERE, PIECES, cells, compared, is_set_aside, recorded
from foretrace.calibration.judge.h100 import Compared as Row


def test_about_half_of_the_shapes_and_steps_are_set_aside():
    names = {s for piece in PIECES for s in recorded(piece)}
    steps = {json.loads(x)["name"] for x in (HERE / "steps.jsonl").read_text().splitlines()}
    assert 0.45 < np.mean([*map(is_set_aside, names)]) < 0.55
    assert Counter(map(is_set_aside, steps)) == {True: 4, False: 13}


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
