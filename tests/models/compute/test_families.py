"""Fitted families of ops: a file that is damaged is refused with what made it."""

import json

import pytest
from foretrace.models.compute.families import FORM, Families, FittedLine
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops

WHOLE = {"form": FORM, "source": "a test", "families": {"memory": {"byte_rate": 2e9}}}


def opened(folder, text):
    file = folder / "families.json"
    if text is not None:
        file.write_text(text)
    cpu = Families(file=str(file))
    cpu.open(None)
    return cpu


def test_a_valid_file_gives_times_and_its_source(tmp_path):
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
    told = r"families\.json: has no fitted op families .*; write it"
    with pytest.raises(BackendError, match=told):
        opened(tmp_path, text)


def test_poorly_fitted_families_are_named_with_their_fraction():
    lines = {
        "memory": FittedLine(byte_rate=2e9, wrong=0.05),
        "sum": FittedLine(byte_rate=1e9, wrong=0.4),
    }
    cpu = Families.of(lines)
    texts = ("copy:h2h uint8[1000]", "compute:aten::sum fp32[250]")
    sure = cpu.timing(Ops.of(signature=[0], signatures=texts))
    assert "interpolated" not in sure.source[0]
    both = cpu.timing(Ops.of(signature=[0, 1], signatures=texts))
    assert both.source[0].endswith("50.0% interpolated: sum +-40%")


CACHES = {
    "latency": [[2**18, 4e-9], [2**22, 20e-9], [2**25, 104e-9]],
    "begin": {"memory": 50e-6},
    "other": 80e-6,
    "rate": 1e10,
}


def test_in_a_step_caches_hold_what_earlier_ops_left(tmp_path):
    """After 64 MB of others it begins anew, and reads its operand from memory."""
    file = tmp_path / "families.json"
    file.write_text(json.dumps({**WHOLE, "caches": CACHES}))
    texts = ("host:read uint8[100000]", "copy:h2h uint8[64000000]")
    ops = Ops.of(signature=[0, 0, 1, 0], signatures=texts)

    def seconds(caches):
        cpu = Families(file=str(file), caches=caches)
        cpu.open(None)
        return cpu.timing(ops).fixed

    extra = seconds("step") - seconds("alone")
    assert extra[1] == 0
    assert extra[3] == pytest.approx(50e-6 + 1e5 / 1e10)
    assert extra[0] == 0  # the last one of the round before is right before it


def test_step_caches_need_cache_costs(tmp_path):
    file = tmp_path / "families.json"
    file.write_text(json.dumps(WHOLE))
    with pytest.raises(BackendError, match="has no cache costs; fit it with --caches"):
        Families(file=str(file), caches="step").open(None)
    with pytest.raises(BackendError, match="take 'alone' or 'step'"):
        Families(file=str(file), caches="warm")


def test_cache_contents_are_an_uncertainty_between_both_modes(tmp_path):
    file = tmp_path / "families.json"
    file.write_text(json.dumps({**WHOLE, "caches": CACHES}))
    ops = Ops.of(signature=[0, 1], signatures=("host:read uint8[9]", "copy:h2h uint8[64000000]"))
    times = {}
    for caches in ("alone", "step"):
        cpu = Families(file=str(file), caches=caches)
        cpu.open(None)
        times[caches] = cpu.timing(ops).fixed.tolist()
        slower, quicker = (one.timing(ops).fixed.tolist() for one in cpu.doubts()["caches"])
        assert times[caches] == (quicker if caches == "alone" else slower)
    assert (quicker, slower) == (times["alone"], times["step"])
    assert slower[0] > quicker[0]
