"""What a program or a notebook meets."""

from html.parser import HTMLParser

import foretrace
import pytest
from foretrace.scenarios.config.loader import load

SETTINGS = [
    "workload.trace=foretrace:gpt",
    "workload.recorded_on={device: epyc-zen4-core, nodes: 1, parallel: {data: 1}}",
    "workload.scale_to.parallel.data=1", "cluster.nodes=1", "run.replicas=1",
    "what_if=[{name: slow, set: {cluster.override.node0.gpu0.slowdown: 2}}]",
]  # fmt: skip
SWEEP = "sweep={vary: {cluster.override.node0.gpu0.slowdown: [1, 2], cluster.node.host.cores: [4]}}"


@pytest.fixture(scope="module")
def study():
    return foretrace.run(load("first", set=SETTINGS))


class Cells(HTMLParser):
    """The texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.texts = []
        self.feed(page)

    def handle_data(self, data):
        self.texts.append(data)


def test_what_a_session_shows_fits_on_a_screen(study):
    result = study.results["base"]
    assert repr(study).startswith("As described, an iteration takes ")
    assert repr(result.blame()).startswith("Blame(node0.gpu0 ")
    shown = (study, study.scenario, result, result.blame(), study.measured[0].point.graph)
    assert all(len(repr(one)) < 1_000 for one in shown)


def test_a_scenario_is_run_by_its_name_or_file(tmp_path):
    node = "{gpu: epyc-zen4-core, host: epyc-zen4-vm}"
    work = "{trace: foretrace:gpt, recorded_on: {device: epyc-zen4-core}}"
    lines = ["foretrace: 1", "name: small", f"workload: {work}",
             f"cluster: {{nodes: 1, node: {node}}}"]  # fmt: skip
    (tmp_path / "small.yaml").write_text("\n".join(lines))
    assert foretrace.run(tmp_path / "small.yaml").scenario.name == "small"


def test_what_is_no_run_cannot_be_compared_and_is_told_so(study):
    with pytest.raises(foretrace.ScenarioError, match="Result is not a run; give a study"):
        foretrace.compare(study, study.results["base"])


def test_a_result_shows_itself_in_a_notebook(study):
    result = study.results["base"]
    cells = Cells(result._repr_html_()).texts
    assert f"{result.makespan:.6g} s" in cells
    assert "critical path: node0.gpu0" in cells


def test_a_study_shows_its_answer_and_its_variants(study):
    cells = Cells(study._repr_html_()).texts
    assert any(c.startswith("As described, an iteration takes ") for c in cells)
    assert {"base", "slow"} <= set(cells)


def test_a_study_is_compared_with_its_variants_and_with_another(study):
    own = foretrace.compare(study)
    assert [r.name for r in own.rows] == ["base", "slow"]
    assert own.rows[1].changes["iteration_time.p50"] > 0.5
    assert "compute" in own.why(own.rows[1])
    assert list(own.frame().index) == ["base", "slow"]
    assert "slow" in Cells(own._repr_html_()).texts
    pair = foretrace.compare(study, study)
    assert pair.rows[1].settings == {}
    assert set(pair.rows[1].changes.values()) == {0.0}


def test_a_sweep_is_a_frame_of_its_points(tmp_path):
    scenario = load("first", set=[*SETTINGS, SWEEP])
    done = foretrace.sweep(scenario, workers="local:1", out=tmp_path)
    frame = done.frame()
    assert frame["cluster.override.node0.gpu0.slowdown"].tolist() == [1, 2]
    times = frame["iteration_time.p50"]
    assert times[1] > 1.5 * times[0]
    assert done.summary()["counts"]["front"] == 1
    assert any("2 points" in t for t in Cells(done._repr_html_()).texts)
