"""No distribution, no interval; an interval that nobody would believe is called unresolved."""

import itertools

import numpy as np
import pytest
from foretrace.reports.run.run_page import run_page
from foretrace.reports.texts.advice import next_steps
from foretrace.reports.texts.answer import answer_sentences, inputs_sentence, jitter_sentence
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.summaries import start_variation
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.traces.step_times import StepTimes

RUN = {"resolved": "", "command": "", "run": "0" * 12, "title": "", "timeline_cut": ""}
PLAIN = """\
foretrace: 1
name: plain
workload:
  type: transfers
  ops: [{op: "send:write", bytes: 1 GB, from: [0], to: 1}]
cluster:
  nodes: 2
  node: {gpu: {model: h100-sxm5-80g, count: 1}, nic: {model: connectx-7, count: 1}}
run: {replicas: 10}
"""
RECORDED = "foretrace: 1\nname: s\nextends: foretrace:first\n"


@pytest.fixture(scope="module")
def plain():
    return study(loads(PLAIN)).summary.to_dict()


def test_ten_equal_replicas_are_no_interval(plain):
    metrics = plain["points"]["base"]["metrics"]
    equal = [m for m in metrics.values() if m["interval"] and m["interval"][0] == m["interval"][1]]
    assert equal == []
    assert not any("jitter" in m["interval_of"] for m in metrics.values())


def test_the_words_stay_that_jitter_is_left_out(plain):
    assert plain["provenance"]["jitter"] == {"state": "unknown"}
    assert any("Jitter is left out: no distribution" in text for text in answer_sentences(plain))
    assert not any("±0 %" in text for text in answer_sentences(plain))


@pytest.fixture(scope="module")
def single():
    """The same, run once."""
    return study(loads(PLAIN.replace("run: {replicas: 10}\n", "")))


def test_where_nothing_varies_more_replicas_are_not_advised(single, plain):
    """Ten equal replicas were the first advice of every described job."""
    once = single.summary.to_dict()
    assert once["provenance"]["jitter"] == {"state": "unknown"}
    for summary in (once, plain):
        steps = next_steps(summary, "foretrace run plain")
        assert not any("--replicas" in command for _, command in steps)
    assert not any("Jitter" in text for text in answer_sentences(once))  # nobody asked for it


def test_the_timeline_of_such_a_run_says_that_nothing_has_jitter(single):
    page = run_page(single.summary.to_dict(), single.results, RUN)
    assert "Ops have no jitter: no distribution of their times is known." in page
    assert "left out: no distribution of the times is known" in page


def test_a_run_without_a_trace_does_not_call_it_its_input(single):
    *_, last = answer_sentences(single.summary.to_dict())
    assert "trace" not in last
    assert inputs_sentence(single.summary.provenance) == (
        "the list of transfers and what the scenario says"
    )


@pytest.mark.nightly
def test_a_run_without_replicas_says_that_it_is_too_quick():
    """Every rank took the recorded times: 684 ms for 720, and nothing said so."""
    text = (
        "foretrace: 1\nname: s\nextends: foretrace:first\nrun: {replicas: REPLICAS, quick: true}\n"
    )
    once, ten = (
        answer_sentences(study(loads(text.replace("REPLICAS", n))).summary.to_dict())
        for n in ("1", "10")
    )
    (said,) = [sentence for sentence in once if sentence.startswith("Without replicas")]
    assert said.endswith("ranks is too short (--replicas 10).")
    assert not any(sentence.startswith("Without replicas") for sentence in ten)


@pytest.mark.parametrize(
    ("text", "too_quick"),
    [
        (RECORDED + "run: {replicas: 1}\n", True),
        (RECORDED + "run: {replicas: 10}\n", False),
        (PLAIN.replace("run: {replicas: 10}\n", ""), False),  # nothing varies
    ],
)
def test_a_plan_says_where_a_run_will_be_too_quick(text, too_quick):
    """Told after the run alone, whoever plans learns it last."""
    assert plan(loads(text)).too_quick == too_quick


def test_replicas_may_tell_where_iterations_were_recorded_and_answer():
    text = "foretrace: 1\nname: s\nextends: foretrace:first\nrun: {replicas: 1}\n"
    (recorded,) = build_variants(loads(text))[:1]
    assert recorded.may_vary
    (described,) = build_variants(loads(PLAIN))
    assert not described.may_vary


def test_an_interval_that_begins_at_half_the_fastest_step_is_not_believed(monkeypatch):
    starts = StepTimes(tuple(np.array([t, 1.02 * t]) for t in (0.21, 0.2, 0.22, 0.6)))
    monkeypatch.setattr(start_variation, "process_starts_of", lambda section: starts)
    text = "foretrace: 1\nname: s\nextends: foretrace:first\nrun: {replicas: 10}\n"
    found = start_variation.check_jitter_interval(loads(text))
    assert found["state"] == "unresolved"
    assert found["low"] < 0.5 * found["fastest"] == 0.1
    assert jitter_sentence(found).startswith("unresolved: from 4 process starts it would begin at ")
    assert jitter_sentence(found).endswith("but the fastest of 8 steps took 200 ms")


def test_one_that_begins_near_it_is(monkeypatch):
    steps = (np.array([t, 1.01 * t]) for t in (0.225, 0.23, 0.228, 0.24))
    starts = StepTimes(tuple(itertools.islice(steps, 4)))
    monkeypatch.setattr(start_variation, "process_starts_of", lambda section: starts)
    text = "foretrace: 1\nname: s\nextends: foretrace:first\nrun: {replicas: 10}\n"
    assert "low" not in start_variation.check_jitter_interval(loads(text))
