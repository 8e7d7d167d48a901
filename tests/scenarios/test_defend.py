"""Which values matter, and how wrong a part may be: found by running again."""

import json

import pytest
from foretrace.scenarios.commands.app import app
from foretrace.scenarios.defend import off
from foretrace.scenarios.loader import load
from foretrace.scenarios.study import study
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def defended():
    scenario = load("first", set=["run.defend=true", "run.replicas=1"])
    return study(scenario).summary


def effects(summary):
    return {v["path"]: v.get("effect") for v in summary.provenance["values"]}


def test_a_value_that_matters_has_an_effect_and_one_that_is_not_used_has_none(defended):
    found = effects(defended)
    assert found["cluster.fabric.library.step"] > 0.005
    assert found["cluster.node.nic.bandwidth"] < 0
    assert found["cluster.node.gpu.peak_fp32"] == 0  # its ops last as recorded


def test_a_value_that_cannot_be_larger_is_tried_smaller(defended):
    found = effects(defended)
    assert found["cluster.fabric.library.efficiency"] != 0  # 1 is the most: tried at 1 / 1.1


def test_words_zeros_and_what_was_measured_are_not_tried(defended):
    found = effects(defended)
    assert found["cluster.fabric.library.algorithms"] is None
    assert found["cluster.node.nic.latency"] is None
    assert found["cluster.node.host.cores"] is None


def test_each_kind_of_part_that_a_model_answers_for_has_a_break_even_error(defended):
    told = {e["component"]: e for e in defended.provenance["break_even"]}
    assert {"nic", "fabric"} <= set(told)
    assert "gpu" not in told
    assert all(e["answer"] for e in told.values())


@pytest.mark.parametrize(
    ("text", "first"),
    [("20 GB/s", "22 GB/s"), ("1", "1.1"), ("1.021 ms", "1.1231 ms"),
     ("98.8 Gflop/s", "108.68 Gflop/s")],
)  # fmt: skip
def test_a_value_keeps_its_unit(text, first):
    assert next(off(text)) == first


def test_what_a_bar_lacks_is_told(tmp_path):
    bar = "expect=[{that: iteration_time.p50 <= 100 ms}]"
    told = study(load("first", set=["run.replicas=1", "what_if=[]", bar])).summary
    (e,) = told.points["base"]["expect"]
    assert not e["met"]
    assert e["short"] == pytest.approx(0.1 / e["value"] - 1)
    assert json.dumps(e)


def test_a_comparison_is_written_as_a_page(tmp_path):
    page = tmp_path / "c.html"
    found = CliRunner().invoke(
        app, ["compare", "first", "-o", str(page), "--out", str(tmp_path)], catch_exceptions=False
    )
    assert found.exit_code == 0
    html = page.read_text()
    assert "network-4x beside base" in html
    assert "foretrace run first --variant network-4x" in html
