"""Fitted families of ops: a file that is damaged is refused with what made it."""

import json

import pytest
from foretrace.models.compute.families import FORM, Families
from foretrace.sim.errors import BackendError
from foretrace.sim.ops import Ops

WHOLE = {"form": FORM, "source": "a test", "families": {"memory": {"byte_rate": 2e9}}}


def opened(folder, text):
    file = folder / "families.json"
    if text is not None:
        file.write_text(text)
    cpu = Families(file=str(file))
    cpu.open(None)
    return cpu


def test_a_whole_file_answers_and_says_its_source(tmp_path):
    cpu = opened(tmp_path, json.dumps(WHOLE))
    ops = Ops.of(signature=0, signatures=("copy:h2h uint8[1000]",))
    assert cpu.timing(ops).fixed.tolist() == [1e-6]
    assert cpu.source == "fitted: a test"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{",
        "[]",
        json.dumps({**WHOLE, "form": "other"}),
        json.dumps({**WHOLE, "families": 0.5}),
        json.dumps({**WHOLE, "families": {"memory": 7}}),
        json.dumps({**WHOLE, "families": {"memory": {"launch": "soon"}}}),
        json.dumps({k: v for k, v in WHOLE.items() if k != "source"}),
    ],
)
def test_what_is_damaged_is_refused(tmp_path, text):
    with pytest.raises(BackendError, match=r"families\.json: holds no families of ops .*; make it"):
        opened(tmp_path, text)
