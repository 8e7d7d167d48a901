"""What the errors of the parts do to the headline: those that were used, around the run varied."""

from foretrace.scenarios.loader import load
from foretrace.scenarios.study import HEADLINE, model_errors, study


def test_the_library_of_the_fabric_has_an_error_like_any_part():
    scenario = load("first")
    source = scenario.origins["cluster.fabric.library.step"].source
    assert source.error == f"{100 * model_errors(scenario)['fabric']:g} %"


def test_the_interval_holds_the_errors_of_what_was_predicted_not_of_what_was_recorded():
    scenario = load("first", set=["run.replicas=1"])
    value = study(scenario).summary.value("base", HEADLINE)
    low, high = value.interval
    assert value.interval_of == ("model",)
    assert low < value.value < high
    assert (high - low) / 2 / value.value < model_errors(scenario)["gpu"] / 2  # nobody predicts it
