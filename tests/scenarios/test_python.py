"""What a program or a notebook meets."""

from html.parser import HTMLParser

import foretrace
import pytest
from foretrace.scenarios.loader import load

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
