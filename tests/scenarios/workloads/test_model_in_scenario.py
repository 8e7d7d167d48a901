"""A model that a scenario describes: errors with their line, and what editors and explain know."""

import re
from dataclasses import fields

import pytest
from foretrace.models.training.description.description import ImageNetwork, Transformer
from foretrace.scenarios.cli.checks.checks import validation_problems
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.schema import json_schema

LINES = """foretrace: 1
name: tiny
workload:
  type: training
  model:
    hidden: 64
    layers: 6
    heads: 4
    vocabulary: 100
    inner: 256
    experts:
      count: 4
      chosen: 2
      inner: 64
  batch: 16
  sequence: 128
  parallel:
    tensor: 1
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}]
  fabric: {library: nccl-nvlink4, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
"""
WRONG = [
    (
        "    inner: 256\n",
        "    inner: 256\n    layrs: 3\n",
        11,
        "model.layrs: is not known; did you",
    ),
    ("heads: 4", "heads: 5", 8, "model.heads: width 64 is not divisible by 5 heads; use 4"),
    ("      chosen: 2", "      chosen: 5", 13, "experts.chosen: a token chooses 5 of 4 .* take 4"),
    ("    hidden: 64\n", "", 6, "workload.model: has no hidden; add it"),
    ("tensor: 1", "pipeline: 4", 18, "parallel.pipeline: 4 stages do not share 6 .* take 2"),
    (
        "tensor: 1",
        "tensor: 3",
        18,
        "not a multiple of tensor 3 x pipeline 1; use parallel.tensor: 2",
    ),
    ("tensor: 1", "expert: 3", 18, "parallel.expert: 3 ranks do not share 4 experts .* take 2"),
    (
        "tensor: 1",
        "expert: 4\n    tensor: 2",
        18,
        "parallel.expert: 2 data-parallel ranks .* take 2",
    ),
    ("batch: 16", "batch: 6", 15, "batch: 6 sequences are no multiple of 4 .* take 4"),
    ("batch: 16", "batch: 2\n  schedule: {use: gpipe}", 15, "batch: 2 sequences are no .* take 4"),
]


@pytest.mark.parametrize(("was", "now", "line", "told"), WRONG)
def test_what_is_wrong_with_a_model_is_told_with_its_line_and_cure(was, now, line, told):
    assert was in LINES
    (problem,) = validation_problems(loads(LINES.replace(was, now), file="a.yaml"))
    assert (problem.spot.file, problem.spot.line) == ("a.yaml", line)
    assert re.search(told, problem.message)


def test_a_batch_smaller_than_the_pipeline_is_told_at_its_line():
    text = LINES.replace("tensor: 1", "pipeline: 2\n    data: 2").replace("batch: 16", "batch: 2")
    (problem,) = validation_problems(loads(text, file="a.yaml"))
    assert problem.spot.line == 15
    assert problem.message.endswith("fewer than 2 stages; take 4")


def test_a_model_that_cannot_fit_is_told_with_what_would():
    big = LINES.replace("hidden: 64", "hidden: 16384").replace("layers: 6", "layers: 60")
    (problem,) = validation_problems(loads(big, file="a.yaml"))
    assert "workload: does not fit: a rank of stage 0 needs" in problem.message
    assert problem.spot.line == 4


def test_explain_and_schema_know_every_key_of_a_description():
    told = explain("workload.model")
    assert {f.name for f in fields(Transformer)} <= set(told.below)
    assert explain("workload.model.block.gated").what.startswith(
        "True if the feed-forward network has a gate"
    )
    assert (
        explain("workload.model.experts.chosen").what
        == "Number of experts that process each token."
    )
    assert explain("workload.model.block.norm").facts["values"] == "rms, layer"
    known = json_schema()["$defs"]
    assert known["training_workload"]["properties"]["model"]["anyOf"][0] == {"type": "string"}
    assert known["Transformer"]["required"] == ["hidden", "layers", "heads", "vocabulary", "inner"]
    assert {*known["ImageNetwork"]["properties"]} == {f.name for f in fields(ImageNetwork)}
    assert known["BlockOptions"]["properties"]["norm"]["enum"] == ["rms", "layer"]


@pytest.mark.parametrize(("was", "now", "line"), [("heads: 4", "heads: 5", 8), ("tensor", "x", 18)])
def test_a_run_tells_the_line_too(was, now, line, tmp_path, monkeypatch, capsys):
    from foretrace.scenarios.cli import app

    (tmp_path / "a.yaml").write_text(LINES.replace(was, now))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["foretrace", "run", "a.yaml"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == app.WRONG
    assert f"a.yaml:{line}:" in capsys.readouterr().err
