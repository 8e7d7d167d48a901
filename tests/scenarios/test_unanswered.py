"""A setting that nothing simulates is refused by name, with its place."""

import pytest
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.reading.unsupported import unsupported
from foretrace.scenarios.studies.building.system import backends, system
from foretrace.scenarios.studies.variants import refuse
from foretrace.sim.errors import ScenarioError


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["workload.scale_to.parallel.expert=2"],
            "'workload.scale_to.parallel.expert' is '2', and nothing simulates that yet",
        ),
    ],
)
def test_what_nothing_simulates_is_refused(scenario, settings, said):
    s = scenario(set=["what_if=[]", *settings])
    with pytest.raises(InvalidScenarioError) as caught:
        refuse(s)
    assert str(caught.value).startswith(f"error {said}")
    assert caught.value.problems[0].spot.file == "--set"


def test_variants_are_refused_where_they_say_it(scenario):
    found = list(unsupported(scenario()))
    assert {str(p.spot) for p in found} == {"s.yaml:41:69"}
    assert {p.spot.path for p in found} == {"placement.optimizer_state"}


def test_a_scenario_that_is_simulated_whole_is_not_refused(scenario):
    assert list(unsupported(scenario(set=["what_if=[]"]))) == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "backends={node*.gpuu*: {use: recorded}}",
            r"--set:5:10: backends: no component is named 'node\*.gpuu\*'",
        ),
        (
            "cluster.override={node9.gpu0: {down: true}}",
            r"--set:5:18: cluster.override: no component is named 'node9.gpu0'; did you mean",
        ),
    ],
)
def test_a_name_that_means_no_component_is_refused(scenario, setting, said):
    small = ["what_if=[]", "cluster.nodes=2", "cluster.node.gpu.streams=1", "cluster.override={}"]
    links = "cluster.node.links=[{from: gpu, to: nic, via: test-pcie}]"
    s = scenario(set=[*small, setting, links])
    with pytest.raises(ScenarioError, match=said):
        backends(s, system(s))
