"""Advice after an accuracy check: what to fit, measure or keep as real hardware."""

from foretrace.reports.accuracy.accuracy_advice import most_wrong_op, next_steps

OPS = [
    {"signature": "copy 1 MB", "calls": 10, "predicted": 1.0, "measured": 2.0},
    {"signature": "copy 1 kB", "calls": 90, "predicted": 0.1, "measured": 0.1 + 1 / 90},
]


def component(mean=0.3, bias=-0.28, p50=0.25, **more):
    return {
        "errors": {k: {"value": v} for k, v in (("mean", mean), ("bias", bias), ("p50", p50))},
        "worst": {"op": "copy 1 MB"}, "starts": 4, "recording": "node0.nic0.rec.gz", "ops": OPS,
        "left_out": {"ops": 0, "some": []}, **more,
    }  # fmt: skip


def steps(*outcomes, one=None, whole=None, flips=None):
    expect = [{"component": "node0.nic0", "outcome": o} for o in outcomes]
    told = {"expect": expect, "components": {"node0.nic0": one or component()}, "whole": whole,
            "break_even": [{"component": "node0.nic0", "error": flips}]}  # fmt: skip
    return next_steps(told, "foretrace hil check s.yaml")


def test_a_biased_model_is_to_be_fitted_again():
    ((text, command),) = steps("fail")
    assert text == "Fit node0.nic0 again: its predicted times are 28 % too short on average."
    assert command == "foretrace fit nic --recording node0.nic0.rec.gz"


def test_scattered_errors_point_to_the_worst_op():
    ((text, command),) = steps("fail", one=component(bias=0.01))
    assert text.startswith("Look at copy 1 MB first")
    assert command == ""


def test_an_unresolved_expectation_asks_for_more_process_starts():
    ((text, command),) = steps("unresolved")
    assert "more than 4 process starts" in text
    assert command == "foretrace hil check s.yaml --set hil.repeat=8"


def test_a_component_whose_error_can_flip_the_answer_stays_real():
    ((text, _), *_) = steps("pass", flips=0.1)
    assert text.startswith("Keep node0.nic0 real: the answer flips if its times are 10 % wrong")
    assert not any("Keep" in text for text, _ in steps("pass", flips=0.5))


def test_a_check_that_passed_says_to_plan_with_the_model():
    assert steps("pass") == [("Plan with it: the model is as accurate as expected.", "")]
    shares = [{"component": "a", "swap_in": 0.1}, {"component": "b", "swap_in": -0.4}]
    ((text, _),) = steps("pass", whole={"shares": shares})
    assert text.endswith("begin with b.")


def test_ops_that_were_left_out_are_to_be_measured():
    left = {"ops": 3, "some": ["send 4 kB"]}
    ((text, command),) = steps(one=component(left_out=left))
    assert "such as send 4 kB" in text
    assert command == "foretrace drivers"


def test_the_op_with_the_largest_error_is_by_seconds_over_all_calls():
    told = {"components": {"node0.nic0": component()}}
    assert most_wrong_op(told) == [
        "copy 1 MB of node0.nic0 causes 90.9 % of the total error in seconds."
    ]
