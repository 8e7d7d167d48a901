"""What is not built is offered by no setting, and a name that means no component is refused."""

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.planned_releases import PLANNED_RELEASES
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.sim.errors import ScenarioError


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("placement.optimizer_state=host", "placement.optimizer_state"),
        ("placement.optimizer_state=cxl", "placement.optimizer_state"),
        ("placement.optimizer_state=auto", "placement.optimizer_state"),
        ("workload.recorded_on.parallel.expert=4", "workload.recorded_on.parallel.expert"),
    ],
)
def test_what_is_not_built_is_no_value_of_its_setting_and_says_its_release(scenario, setting, path):
    with pytest.raises(InvalidScenarioError) as caught:
        scenario(set=["what_if=[]", setting])
    (problem,) = caught.value.problems
    assert "is planned for release 0.3; until then write" in problem.message
    assert (problem.spot.file, problem.spot.path) == ("--set", path)


def test_what_comes_later_says_so_in_a_job_too(scenario):
    job = "jobs.a={workload: {trace: foretrace:gpt, recorded_on: {parallel: {expert: 2}}}}"
    with pytest.raises(InvalidScenarioError, match=r"'2' is planned for release 0\.3"):
        scenario(set=["what_if=[]", job])


@pytest.mark.parametrize(("path", "value"), [key for key in PLANNED_RELEASES if key[0] != "metric"])
def test_no_setting_offers_what_comes_later(path, value):
    """What editors are offered runs."""
    offered = str(explain(path).facts["values"]).split(", ")
    assert value not in offered
    assert value != "*" or len(offered) == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "backends={node*.gpuu*: {use: recorded}}",
            r"--set:5:10: backends: no component matches 'node\*.gpuu\*'",
        ),
        (
            "cluster.override={node9.gpu0: {down: true}}",
            r"--set:5:18: cluster.override: no component matches 'node9.gpu0'; did you mean",
        ),
    ],
)
def test_a_name_that_means_no_component_is_refused(scenario, setting, said):
    small = ["what_if=[]", "cluster.nodes=2", "cluster.node.gpu.streams=1", "cluster.override={}"]
    links = "cluster.node.links=[{from: gpu, to: nic, via: test-pcie}]"
    s = scenario(set=[*small, setting, links])
    with pytest.raises(ScenarioError, match=said):
        build_backends(s, build_system(s))
