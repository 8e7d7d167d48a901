"""Effects of values and break-even errors of components, found by simulating again."""

import pytest
from foretrace.reports.run.run_page import run_page
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.confidence.defence import values_ten_percent_off
from foretrace.scenarios.studies.run.run import study

RUN = {"resolved": "", "command": "", "run": "0" * 12, "title": "", "timeline_cut": ""}
BAR = "expect: [{that: iteration_time.p50 <= 700 us}]\n"


@pytest.fixture(scope="module")
def defended(described):
    text = described.replace("replicas: 10", "replicas: 1, defend: true")
    return study(loads(text + BAR, file="small.yaml"))


@pytest.fixture(scope="module")
def effects(defended):
    return {v["path"]: v.get("effect") for v in defended.summary.provenance["values"]}


def test_a_value_that_matters_has_an_effect_and_one_that_is_not_used_has_none(effects):
    assert effects["cluster.fabric.library.simple.step"] > 0.005
    assert effects["cluster.node.nic.bandwidth"] < 0
    assert effects["cluster.node.gpu.peaks.fp32"] == 0  # its ops last as recorded


def test_a_value_that_cannot_be_larger_is_tried_smaller(effects):
    assert effects["cluster.fabric.library.simple.efficiency"] != 0  # 1 is the most


def test_texts_zeros_and_measured_values_are_not_tried(effects):
    assert effects["cluster.fabric.library.algorithms"] is None
    assert effects["cluster.node.nic.latency"] is None
    assert effects["cluster.node.host.cores"] is None


def test_each_kind_of_part_that_a_model_answers_for_has_a_break_even_error(defended):
    told = {e["component"]: e for e in defended.summary.provenance["break_even"]}
    assert {"nic", "fabric"} <= set(told)
    assert "gpu" not in told
    assert all(e["answer"] for e in told.values())


def test_a_missed_expectation_says_how_much_is_lacking(defended):
    (e,) = defended.summary.points["base"]["expect"]
    assert not e["met"]
    assert e["short"] == pytest.approx(700e-6 / e["value"] - 1)


def test_the_page_shows_all_of_it(defended):
    html = run_page(defended.summary.to_dict(), defended.results, RUN)
    assert "<dt>break-even</dt>" in html
    assert "largest effect first" in html
    assert "<p>No effect: " in html
    assert "iteration_time.p50 &lt;= 700 us needs a change of -" in html


@pytest.mark.parametrize(
    ("text", "first"),
    [("20 GB/s", "22 GB/s"), ("1", "1.1"), ("1.021 ms", "1.1231 ms"),
     ("98.8 Gflop/s", "108.68 Gflop/s")],
)  # fmt: skip
def test_a_value_keeps_its_unit(text, first):
    assert next(values_ten_percent_off(text)) == first
