"""What a run would stumble over is said by ``validate``, too."""

import json
import subprocess
import sys

import pytest
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.building.dry_run import unbuildable_variant_problems

SMALL = ["what_if=[]", "cluster.nodes=4", "cluster.node.gpu.streams=1"]
LINKS = "cluster.node.links=[{from: gpu, to: nic, via: test-pcie}]"


def said(scenario):
    return [p.message for p in unbuildable_variant_problems(scenario)]


def test_a_machine_that_can_be_built_raises_nothing(scenario):
    assert said(scenario(set=[*SMALL, LINKS])) == []
    assert said(load("first")) == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("backends.node7*={use: recorded}", "backends: no component matches 'node7*'"),
        ("cluster.node.gpu.streams=null", "cluster.node.gpu.streams: is missing"),
        (
            "backends={node*.nic*: {use: copy}}",
            "backends: 'node*.nic*' matches links, whose rate ops share, so Copy.timing() would "
            "never be called; write its bandwidth and latency under cluster, bind a Link that",
        ),
        (
            "backends.node*.gpu*={use: recording, file: x, answer: best}",
            "backends.node0.gpu0: answer is 'best'; it is one of sequence, median, draw",
        ),
    ],
)
def test_what_cannot_be_built_is_said_once_for_all_variants(scenario, setting, message):
    same = "what_if=[{name: a, set: {run.seed: 8}}]"
    (found,) = said(scenario(set=[*SMALL, LINKS, same, setting]))
    assert message in found


def test_another_gpu_is_refused_only_where_nothing_is_known_of_it():
    assert said(load("first", set=["cluster.node.gpu={model: h100-sxm5-80g, count: 1}"])) == []
    told = load("first").resolved()
    told["cluster"]["node"]["gpu"] = {"count": 1, "streams": 8}
    (found,) = said(loads(json.dumps(told)))
    assert "the cluster has another GPU, whose bandwidth is unknown; describe it" in found


def test_the_command_says_so_and_leaves_with_2():
    wrong = "workload.trace=foretrace:ddp-gtp"
    command = [sys.executable, "-m", "foretrace", "validate", "first", "--json", "--set", wrong]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["message"].endswith("did you mean 'foretrace:ddp-gpt'?")
