"""One ordered list of checks: ``validate``, ``plan`` and ``run`` say the same of a scenario."""

import json

import pytest
from foretrace.scenarios.cli.checks.checks import ORDER, require_valid, validation_problems
from foretrace.scenarios.config.loader import load

GONE = "workload.trace=gone.json"


def test_the_checks_are_in_this_order():
    assert ORDER == ("schema", "references", "lint", "files", "dry run", "limits", "answers")


def test_a_check_is_made_only_when_those_before_it_found_no_error():
    unbuildable = "backends={node9.gpu0: {use: recorded}}"
    two = load("first", set=[GONE, unbuildable])
    assert {p.kind for p in validation_problems(two)} == {"missing-file"}
    one = load("first", set=[unbuildable])
    assert {p.kind for p in validation_problems(one, "dry run")} == {"machine"}
    assert list(validation_problems(one, "files")) == []


def test_what_passes_gives_its_warnings():
    slow = load("first", set=["cluster.node.nic={model: connectx-7, bandwidth: 1 Gb/s}"])
    assert "slow for a NIC" in require_valid(slow, "files")[0].message


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_every_command_says_the_same_of_a_file_that_is_not_there(cli, verb):
    (told,) = json.loads(cli("validate", "first", "--json", "--set", GONE)[1])["problems"]
    code, _, err = cli(verb, "first", "--set", GONE)
    assert code == 2
    assert told["message"] in err


SEND = """\
foretrace: 1
name: send
workload: {type: transfers, ops: [{op: "send:write", bytes: 1 MB, from: [0], to: 1}]}
cluster:
  nodes: 2
  node: {gpu: {model: h100-sxm5-80g, count: 1}, host: epyc-7742-dual, nic: connectx-7}
  fabric: {switch: tomahawk-5, library: nccl-nvlink4}
"""
REFUSED = {
    "a copy without a bus": (
        'workload={type: transfers, ops: [{op: "copy:h2d", bytes: 1 MB}]}',
        "give the node a link between host and GPU",
    ),
    "fewer GPUs than ranks": (
        "cluster.nodes=1",
        "has 2 ranks, but there are 1 GPUs to place them on",
    ),
    "a part that is not there": (
        "processes=[{use: degrade, component: node0.nic7.tx, at: 1 us}]",
        "degrade: no component matches 'node0.nic7.tx'; did you mean 'node0.nic0.tx'?",
    ),
    "a part without a rate": (
        "processes=[{use: degrade, component: node0.gpu0, at: 1 us}]",
        "degrade: node0.gpu0 has no rate to lower",
    ),
    "a spare that is not there": (
        "processes=[{use: hot-spare, spares: [node9.gpu0], period: 1 s, swap: 1 s}]",
        "hot-spare: no component is named 'node9.gpu0'",
    ),
    "an answer that nobody knows": (
        "answer={maximize: tokens_per_second.p50}",
        "answer: 'tokens_per_second.p50': no metric",
    ),
    "work without a way": (
        "placement={ranks: [node0.gpu0, node0.gpu0]}",
        "neither usage nor limit bounds its rate; if two ranks on one GPU send to each other, "
        "place them on different GPUs",
    ),
    "more than fits": ("run.memory=1 kB", "1 kB are allowed"),
}


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_a_run_refuses_every_command_does(cli, tmp_path, monkeypatch, verb, what):
    monkeypatch.chdir(tmp_path)
    setting, said = REFUSED[what]
    (tmp_path / "send.yaml").write_text(SEND)
    code, _, err = cli(verb, "send.yaml", "--set", setting)
    assert code == 2
    assert said in " ".join(err.split())
    assert not (tmp_path / "runs").exists()


STEERED = {
    "a process": ("processes=[{use: degrade, component: node0.nic0.tx, at: 1 us}]",),
    "a part that is down": ("cluster.nodes=3", "cluster.override={node2.gpu0: {down: true}}"),
}


@pytest.mark.parametrize("keep", ["ranks", "none"])
@pytest.mark.parametrize("what", STEERED)
def test_what_steers_a_run_is_explained_by_running_it_again(cli, tmp_path, monkeypatch, what, keep):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "send.yaml").write_text(SEND)
    words = [word for one in STEERED[what] for word in ("--set", one)]
    found = []
    for asked in (keep, "ops"):
        code, out, err = cli("run", "send.yaml", "--json", "--keep", asked, *words)
        assert code == 0, err
        found.append(json.loads(out))
    kept, whole = (told["points"]["base"] for told in found)
    assert "unexplained" not in found[0]
    assert kept["blame"] == whole["blame"]
    assert kept["metrics"]["makespan"] == whole["metrics"]["makespan"]
