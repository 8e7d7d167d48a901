"""What the errors of the parts do to the headline: those that were used, around the run varied."""

from foretrace.scenarios.loader import load
from foretrace.scenarios.study import study
from foretrace.scenarios.sure import HEADLINE, model_errors, widened


def test_the_library_of_the_fabric_has_an_error_like_any_part():
    scenario = load("first")
    source = scenario.origins["cluster.fabric.library.step"].source
    assert source.error == f"{100 * model_errors([scenario])['fabric']:g} %"


def test_the_interval_holds_the_errors_of_what_was_predicted_not_of_what_was_recorded():
    scenario = load("first", set=["run.replicas=1"])
    value = study(scenario).summary.value("base", HEADLINE)
    low, high = value.interval
    assert value.interval_of == ("model",)
    assert low < value.value < high
    gpu = model_errors([scenario])["gpu"]  # which nobody predicts
    assert (high - low) / 2 / value.value < gpu / 2


def test_errors_that_move_both_alike_do_not_widen_a_change():
    """The pairs are the same runs wrong in the same way, so most of their error cancels."""
    done = study(load("first", set=["run.replicas=1"]))
    told = done.summary.points["network-4x"]["change"]
    low, high = told["interval"]
    assert told["interval_of"] == ["model"]
    assert low < told["value"] < high
    value = done.summary.value("base", HEADLINE)
    assert high - low < (value.interval[1] - value.interval[0]) / value.value


def test_deviations_are_added_as_squares_each_side_for_itself():
    assert widened(10.0, None, [(3.0, -4.0), (4.0, -3.0)]) == (5.0, 15.0)
    assert widened(10.0, (9.0, 10.0), []) == (9.0, 10.0)
    assert widened(10.0, None, [(1.0, 2.0)]) == (10.0, 12.0)
