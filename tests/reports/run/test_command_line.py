"""Advice prints the typed command with one option changed."""

import shlex

import pytest
from foretrace.reports.sweep.sweep_results import set_options
from foretrace.reports.texts.advice import next_steps
from foretrace.reports.texts.command_line import carry_scenario_options, with_option


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("run s.yaml --replicas 5", "run s.yaml --replicas 10"),
        ("run s.yaml --replicas=5 -q", "run s.yaml --replicas 10"),
        ("run s.yaml --set run.replicas=5", "run s.yaml --replicas 10"),
        (
            "run s.yaml --defend --out 'my runs'",
            "run s.yaml --defend --out 'my runs' --replicas 10",
        ),
        ("run --json s.yaml --swap a=b:c", "run s.yaml --swap a=b:c --replicas 10"),
    ],
)
def test_an_option_replaces_the_one_given_before(typed, told):
    assert with_option(f"foretrace {typed}", "--replicas", "10") == f"foretrace {told}"


def test_a_switch_is_added_once():
    assert (
        with_option("foretrace run s.yaml --defend", "--defend") == "foretrace run s.yaml --defend"
    )


def step(command):
    headline = {"value": 0.1, "interval": (0.09, 0.11), "interval_of": ["jitter"]}
    faster = [{"group": "gpu", "gain": -0.1, "bound": -0.5}]
    base = {"metrics": {"iteration_time.p50": headline}, "faster": faster,
            "blame": {"node0.gpu0": 1.0}, "expect": [], "settings": {},
            "change": {"value": 0, "interval": None}}  # fmt: skip
    answer = {"metric": "iteration_time.p50", "better": "lower", "period": "iteration"}
    summary = {"points": {"base": base}, "provenance": {"values": []}, "answer": answer}
    ((_, told),) = next_steps(summary, command)
    return told


def test_following_an_advice_changes_the_next_one():
    first = step("foretrace run s.yaml")
    second = step(first)
    assert shlex.split(first)[-1] == "cluster.override.node*.gpu*.slowdown=0.8"
    assert shlex.split(second)[-1] == "cluster.override.node*.gpu*.slowdown=0.64"
    assert second.count("--set") == 1


def test_options_of_a_sweep_carry_over_to_the_run_of_its_best_point():
    typed = "foretrace sweep s.yaml --set run.seed=3 --set a=9 --catalog mine --workers local:2"
    told = carry_scenario_options(typed, ["foretrace", "run", "s.yaml"], ["a=1"])
    assert told == "foretrace run s.yaml --set run.seed=3 --catalog mine --set a=1"


def test_settings_varied_together_get_their_own_values():
    pair, vary = "net.rate, cost.items.0.each", [["1 Gb/s", "2 USD/hour"], ["4 Gb/s", "5 USD/hour"]]
    told = set_options({pair: "4 Gb/s, 5 USD/hour", "a, b": 8}, {pair: vary, "a, b": [4, 8]})
    assert told == ["net.rate=4 Gb/s", "cost.items.0.each=5 USD/hour", "a=8", "b=8"]
