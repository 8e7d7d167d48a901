"""Advice after a run follows from its results, and the suggested commands work."""

import shlex

import pytest
from foretrace.reports.texts.advice import glob_of_kind, next_steps
from foretrace.reports.texts.robustness import break_even_text
from foretrace.scenarios.config.loader import load


def point(interval_of=("jitter",), change=(0.0, None), faster=(), expect=(), settings=()):
    headline = {"value": 0.1, "interval": (0.09, 0.11), "interval_of": list(interval_of)}
    return {
        "metrics": {"iteration_time.p50": headline},
        "change": {"value": change[0], "interval": change[1]},
        "blame": {"node6.gpu0": 3.0, "fabric": 1.0},
        "faster": [dict(zip(("group", "gain", "bound"), f, strict=True)) for f in faster],
        "expect": list(expect),
        "settings": dict.fromkeys(settings, ("1", "2")),
    }


def steps(values=(), tried=False, **points):
    provenance = {"values": list(values)} | ({"break_even": []} if tried else {})
    answer = {"metric": "iteration_time.p50", "better": "lower", "period": "iteration"}
    summary = {"points": points, "provenance": provenance, "answer": answer}
    return next_steps(summary, "foretrace run first")


FASTER = (("gpu", -0.065, -0.53), ("fabric", -0.01, -0.1))


def test_the_part_with_the_largest_gain_is_named_with_the_next():
    ((text, command),) = steps(base=point(faster=FASTER))
    assert text == (
        "Look at gpu first: 10 % faster changes the answer by -6.5 %; "
        "fabric, the next, by -1.0 %. Try it:"
    )
    assert command == "foretrace run first --set 'cluster.override.node*.gpu*.slowdown=0.8'"


def test_the_suggested_setting_can_be_loaded():
    ((_, command),) = steps(base=point(faster=FASTER))
    _, _, name, option, setting = shlex.split(command)
    assert option == "--set"
    assert load(name, set=[setting]).cluster.override["node*.gpu*"].slowdown == 0.8


def test_nothing_is_advised_where_nothing_was_found():
    assert steps(base=point()) == []
    assert steps(base=point(faster=(("gpu", -0.001, -0.002),))) == []


def test_without_an_interval_the_first_step_is_to_ask_for_one():
    (_, command), *_ = steps(base=point(interval_of=()))
    assert command == "foretrace run first --replicas 10"


def test_variants_within_the_interval_are_to_be_measured_first():
    close = point(change=(-0.02, (-0.05, 0.01)), settings=("cluster.node.nic.bandwidth",))
    (text, _), *_ = steps(base=point(), quick=close)
    assert text == (
        "Measure the settings of quick that differ (cluster.node.nic.bandwidth) before choosing it."
    )


@pytest.mark.parametrize(
    ("short", "who"),
    [(-0.3, "only gpu parts can achieve it"), (-0.9, "no kind of part alone can achieve it"),
     (-0.05, "only gpu or fabric parts can achieve it")],
)  # fmt: skip
def test_a_missed_expectation_names_the_parts_that_could_meet_it(short, who):
    missed = {"that": "iteration_time.p50 <= 70 ms", "met": False, "short": short}
    (text, _), *_ = steps(base=point(faster=FASTER, expect=[missed]))
    assert text == f"iteration_time.p50 <= 70 ms needs a change of {100 * short:.1f} %: {who}."


def test_the_value_with_the_largest_effect_is_to_be_measured():
    values = [
        {"path": "a", "kind": "assumed", "effect": 0.001},
        {"path": "b", "kind": "fitted", "effect": -0.02},
        {"path": "c", "kind": "measured", "effect": 0.5},
    ]
    ((text, command),) = steps(values, tried=True, base=point())
    assert text.startswith("Measure b (fitted): if it is 10 % off, an iteration changes by -2.0 %.")
    assert command == "foretrace explain b"


def test_untested_values_lead_to_the_defend_command():
    ((text, command),) = steps([{"path": "a", "kind": "assumed"}], base=point())
    assert text.startswith("Find which of 1 assumed, datasheet or fitted values")
    assert command == "foretrace run first --defend"


def test_a_glob_means_every_component_of_a_kind():
    assert glob_of_kind("nic", ["node0.gpu0", "node12.nic1.rx"]) == "node*.nic*"
    assert glob_of_kind("fabric", ["fabric"]) == "fabric"


def test_no_text_without_break_even_errors():
    assert break_even_text([]) == ""
