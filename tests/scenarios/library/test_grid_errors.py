"""Plans and runs state the error of op times that a policy interpolates on a grid."""

import json
from pathlib import Path

import pytest
from foretrace.scenarios.config.plugin_loading import unload_plugin_file

PLUGIN = '''
from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.kernel import policy


class Left(NamedTuple):
    left: np.ndarray


@ft.policy_kernel
def walk(state, event, turn):
    k = state.left[0]
    if k == 0:
        return policy.DONE
    state.left[0] -= 1
    policy.submit(turn, 0, 0)
    policy.at(turn, 0, 7 * k)
    policy.emit(turn, 0, 1.0)
    return policy.GO_ON


def step(tokens):
    build = ft.Builder("step")
    text = f"compute:aten::mm bf16[{tokens}x4096] bf16[4096x4096]"
    moved = 2.0 * 4096 * (4096 + 2 * tokens)
    build.op(ft.Kind.COMPUTE, flop=2.0 * 4096**2 * tokens, bytes=moved, signature=text)
    return build.graph()


@ft.workload("walker")
class Walker(ft.Workload):
    """Policy that submits steps of other sizes."""

    needs = ft.Needs({"gpu": ft.Need("gpu", 1)})

    def __init__(self, *, points: int = 40):
        self.points = points

    def start(self, job):
        grid = ft.StepGrid(step, {"tokens": [1, 4096]}, points=self.points)
        left = Left(np.array([50]))
        return ft.CompiledProcess(walk, left, graphs={"step": grid}, metrics=["steps"])
'''
SCENARIO = """
foretrace: 1
name: walker
question: How long?
plugins: [walker.py]
workload: {type: walker}
cluster: {nodes: 1, node: {gpu: {model: h100-sxm5-80g, count: 1}}}
backends: {"node*.gpu*": {use: roofline, kernels: h100-sxm5-80g}}
what_if: [{name: coarse, set: {workload.points: 2}}]
"""


@pytest.fixture
def walker(tmp_path, monkeypatch):
    """The scenario in the working folder."""
    (tmp_path / "walker.py").write_text(PLUGIN)
    (tmp_path / "walker.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    yield "walker.yaml"
    unload_plugin_file(tmp_path / "walker.py")


def test_a_plan_states_the_error_of_each_variants_grid(walker, cli):
    code, out, err = cli("plan", walker)
    assert code == 0, err
    assert "grids (base)" in out
    assert "Op times of step are interpolated on a grid of 2 tokens: between its points" in out
    code, out, _ = cli("plan", walker, "--json")
    grids = json.loads(out)["grids"]
    fine, coarse = (grids[name]["step"] for name in ("base", "coarse"))
    assert coarse["axes"] == {"tokens": 2}
    assert 2 < fine["axes"]["tokens"] <= 40
    assert fine["most"] < 0.1 < coarse["most"]


def test_a_run_states_what_its_plan_stated(walker, cli):
    planned = json.loads(cli("plan", walker, "--json")[1])["grids"]
    code, out, err = cli("run", walker, "--quick", "--out", "runs")
    assert code == 0, err
    (folder,) = Path("runs/walker").iterdir()
    points = json.loads((folder / "summary.json").read_text())["points"]
    assert {name: point["grids"] for name, point in points.items()} == planned
    told = "Op times of step are interpolated on a grid of"
    assert told in out
    assert told in (folder / "report.html").read_text()
