"""Host ops that another machine recorded: as doubtful as an assumed time."""

import json
import math

import pytest
from foretrace.models.value_doubts import UNMEASURED_TIME

SCENARIO = """
foretrace: 1
name: mine
workload: {trace: rank0.json.gz, recorded_on: {device: %s%s}}
cluster: {nodes: 1, node: {gpu: {model: h100-sxm5-80g, count: 1}, host: epyc-7742-dual}}
backends: {'node*.gpu*': recorded}
"""


@pytest.fixture
def run(script, tmp_path, monkeypatch, cli):
    """Summary of a step that its host bounds, by where it was recorded."""
    monkeypatch.chdir(tmp_path)
    s = script()
    for at in range(2):
        s.op("aten::add_", 1000 * at, 900)
        s.launch(1000 * at + 10, 1000 * at + 20, 80, name=f"kernel{at}")
    s.write(tmp_path)

    def of(device, host=""):
        said = f", host: {host}" if host else ""
        (tmp_path / "a.yaml").write_text(SCENARIO % (device, said))
        code, out, err = cli("run", "a.yaml", "--json")
        assert code == 0, err
        return json.loads(out)

    return of


def answer(summary):
    point = summary["points"]["base"]
    return point, point["metrics"][summary["answer"]["metric"]]


def test_a_step_of_another_machine_is_as_unsure_as_its_host(run):
    """It was off by 10 % within ends 2 % apart."""
    point, value = answer(run("a100-sxm4-80g"))
    (one,) = point["errors"]
    assert one["source"] == "family host ops of another machine"
    most = math.exp(UNMEASURED_TIME.slow) - 1  # of a step of host work alone
    assert 0.9 * most < one["high"] < most
    low, high = value["interval"]
    assert low < 0.5 * value["value"] < 2 * value["value"] < high


@pytest.mark.parametrize("where", [("h100-sxm5-80g", ""), ("a100-sxm4-80g", "epyc-7742-dual")])
def test_the_host_that_recorded_it_is_believed(run, where):
    point, value = answer(run(*where))
    assert "errors" not in point
    assert value["interval"] is None or value["interval"][1] < 1.01 * value["value"]


def test_another_host_is_doubted_where_the_gpu_is_the_same(run):
    point, _ = answer(run("h100-sxm5-80g", "xeon-8480c-dual"))
    assert [one["source"] for one in point["errors"]] == ["family host ops of another machine"]


def test_the_report_says_what_widens_the_interval_and_what_to_do(run, cli):
    run("a100-sxm4-80g")
    _, out, _ = cli("run", "a.yaml")
    said = " ".join(out.split())
    assert "What widens the interval: host ops of another machine (-" in said
    assert "write its name: workload.recorded_on.host" in said


def test_a_host_that_no_catalog_knows_is_refused(run, cli, tmp_path):
    (tmp_path / "a.yaml").write_text(SCENARIO % ("a100-sxm4-80g", ", host: epyc-7742-dul"))
    code, _, err = cli("validate", "a.yaml")
    assert code == 2
    assert "no host model named 'epyc-7742-dul'; did you mean 'epyc-7742-dual'?" in err
