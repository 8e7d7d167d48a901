"""Ablations: a gain or a measured answer, gone with each piece off, and a control that is flat."""

from pathlib import Path

import foretrace
import pytest
from foretrace.reports.texts.ablation_rows import ablation_rows, ablation_sentences
from foretrace.reports.texts.system_page import system_page
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.run.run import study

ROOT = Path(foretrace.__file__).parent
SEND = """\
foretrace: 1
name: wide
question: Do two messages at once end sooner on a wider wire?
workload: {{type: transfers, ops: [{{op: "send:write", bytes: 100 MB, from: [0], to: 1}}]}}
cluster:
  nodes: 2
  node:
    gpu: {{model: h100-sxm5-80g, count: 1}}
    host: epyc-7742-dual
    nic: {{model: connectx-7, count: 1, bandwidth: 400 Gb/s}}
  fabric: {{switch: tomahawk-5, library: nccl-nvlink4}}
answer: {{minimize: makespan}}
what_if:
  - {{name: narrow, set: {{cluster.node.nic.bandwidth: 200 Gb/s}}}}
  - {{name: empty, set: {{"workload.ops.0.bytes": 0 B}}}}
  - {{name: empty-narrow, use: [empty, narrow]}}
  - {{name: slow-again, use: [narrow], set: {{run.seed: 2}}}}
ablations:
  headline: {{against: {against}, gain: {band}}}
  switches: [{{what: the wide wire, off: {off}}}]
control: {{what: nothing is sent, of: empty, against: empty-narrow}}
run: {{quick: true}}
"""
AS_IT_IS = {"against": "narrow", "band": "[1.8, 2.1]", "off": "slow-again"}


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**other):
        text = SEND.format(**(AS_IT_IS | other))
        (tmp_path / "wide.yaml").write_text(text)
        return "wide.yaml"

    return write


def test_a_gain_that_its_mechanism_makes_holds(cli, written):
    code, out, err = cli("run", written())
    assert code == 0, err
    said = " ".join(out.split())
    assert "over narrow, as expected. Without any one piece, the gain is gone." in said
    assert "The control does not change." in said
    page = next(Path().glob("runs/wide/*/report.html")).read_text()
    assert "Is the mechanism the cause?" in page
    assert "without: the wide wire" in page


def test_a_gain_out_of_its_band_is_missed(cli, written):
    code, out, _ = cli("run", written(band="[3, 4]"))
    assert code == 5
    assert "over narrow, not 3x to 4x" in " ".join(out.split())


def test_a_gain_that_stays_with_the_piece_off_is_missed():
    judged = study(loads(SEND.format(**AS_IT_IS | {"off": "empty"}))).summary.ablations
    (switch,) = judged["switches"]
    assert switch["gain"] > 2
    assert not switch["met"]
    assert [row.met for row in ablation_rows(judged)] == [True, False, True]
    assert "remains without: the wide wire" in ablation_sentences({"ablations": judged})[0]


@pytest.mark.parametrize(("other", "said"), [
    ({"against": "narow"}, "no variant named 'narow'; did you mean 'narrow'?"),
    ({"off": "nobody"}, "no variant named 'nobody'"),
    ({"band": "[0.9, 2]"}, "is not a range of gains: up to 1.05 times is no gain"),
])  # fmt: skip
def test_what_is_said_wrong_has_its_place(other, said):
    with pytest.raises(InvalidScenarioError, match="ablations") as caught:
        loads(SEND.format(**AS_IT_IS | other))
    assert said in str(caught.value)


def test_a_control_without_a_headline_is_refused():
    text = SEND.format(**AS_IT_IS)
    start, end = text.index("ablations:"), text.index("control:")
    with pytest.raises(InvalidScenarioError, match="which has the headline"):
        loads(text[:start] + text[end:])


def test_one_variant_alone_judges_nothing(cli, written):
    code, out, _ = cli("run", written(), "--variant", "empty")
    assert code == 0
    assert "The mechanism gains" not in out


def test_a_run_without_ablations_has_no_page_of_a_system(cli, written):
    cli("run", written(), "--variant", "empty")
    code, _, err = cli("report", "wide", "--system", "-o", "wide.md")
    assert code == 2
    assert "has no 'ablations'" in err


MEASURED = "against: narrow, gain: [1.8, 2.1]"


def measuring(takes="2 ms", *, within="10 %", off="narrow", more="", answer="makespan"):
    """The scenario with a measured answer for its headline."""
    text = SEND.format(**AS_IT_IS | {"off": off + more})
    text = text.replace(MEASURED, f"measured: {{base: {takes}}}, within: {within}")
    return text.replace("answer: {minimize: makespan}", f"answer: {{minimize: {answer}}}")


@pytest.fixture(scope="module")
def takes():
    """The answer as it is simulated, and with another as it was measured."""
    value = study(loads(SEND.format(**AS_IT_IS))).summary.value("base", "makespan").value
    return lambda times=1.0: f"{value * times} s"


def test_a_measured_answer_that_is_missed_without_a_piece_holds(takes):
    judged = study(loads(measuring(takes(1.04)))).summary.ablations
    assert [row.met for row in ablation_rows(judged)] == [True, True, True]
    (one,) = judged["headline"]["measured"]
    assert one["error"] == pytest.approx(1 / 1.04 - 1)
    assert judged["switches"][0]["error"] > 0.8
    said = ablation_sentences({"ablations": judged})[0]
    assert "predicts 1 of 1 measurements within 10 %" in said
    assert said.endswith("piece, the error is larger. The control does not change.")


def test_a_measured_answer_that_is_missed_ends_the_run_with_5(cli, takes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wide.yaml").write_text(measuring(takes(1.3)))
    code, out, _ = cli("run", "wide.yaml")
    assert code == 5
    assert "0 of 1 measurements within 10 %, with an error of -23.1 % at worst" in " ".join(
        out.split()
    )


def test_a_measured_answer_that_stays_with_a_piece_off_is_missed(takes):
    judged = study(loads(measuring(takes(1.5), off="narrow, of: base", within="99 %"))).summary
    assert [row.met for row in ablation_rows(judged.ablations)] == [True, False, True]
    assert "without: the wide wire" in ablation_sentences({"ablations": judged.ablations})[0]


@pytest.mark.parametrize(("text", "said"), [
    (measuring("2 MB"), "'2 MB' is not a time"),
    (measuring("2"), "'2' has no unit"),
    (measuring().replace("{base:", "{bass:").replace("narrow}]", "narrow, of: bass}]"),
     "no variant named 'bass'; did you mean 'base'?"),
    (measuring().replace("answer: {minimize: makespan}\n", ""),
     "'measured' needs 'answer'; write it like answer: {minimize: "),
    (measuring(more=", at_most: 1.2"), "'at_most' of 'the wide wire' applies to a gain, not to "
                                       "measured answers"),
    (measuring(more=", of: narrow"), "in a variant of 'narrow', which has no measured answer"),
    (measuring().replace(", within: 10 %", ""), "the headline is neither a gain nor a measured "
                                                "answer"),
    (measuring().replace("within:", "gain: [1.2, 1.5], within:"), "the headline is neither a "
                                                                  "gain nor a measured answer"),
    (SEND.format(**AS_IT_IS | {"off": "slow-again, of: base"}), "measured answers only"),
])  # fmt: skip
def test_a_measured_answer_said_wrong_has_its_place(text, said):
    with pytest.raises(InvalidScenarioError, match="ablations") as caught:
        loads(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "name", ["spray", pytest.param("offline-profiling", marks=pytest.mark.nightly)]
)
def test_the_page_of_a_system_is_what_its_scenario_gives(name):
    done = study(load(name, set=["run.quick=true"]))
    page = (ROOT / "docs" / "systems" / f"{name}.md").read_text()
    assert system_page(done.summary.to_dict(), f"foretrace:{name}") == page
