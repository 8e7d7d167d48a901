"""Table of pipeline stages: their layers, time breakdown and memory."""

import pytest
from foretrace.models.training.plan.rank_memory import memory_of_stages
from foretrace.reports.blocks import Table
from foretrace.reports.run.pipeline_stages import StageTime, pipeline_stages, stage_times
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants

SCENARIO = """
foretrace: 1
name: tiny
workload:
  type: training
  model: gpt2
  batch: 16
  sequence: 1024
  parallel: {tensor: 2, pipeline: 3, layers: [3, 5, 4]}
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 6}
    nic: {model: connectx-7, count: 6}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks}
"""


@pytest.fixture(scope="module")
def trained():
    (point,) = build_variants(loads(SCENARIO))
    return point, point.run()


def test_times_of_a_stage_add_up_to_the_iteration(trained):
    point, result = trained
    time = samples_of(point, result)["iteration_time"][0]
    assert [sum(one) for one in stage_times(result.detail)] == pytest.approx([time] * 3)


def test_the_bubble_of_the_stages_is_that_of_the_metric(trained):
    point, result = trained
    samples = samples_of(point, result)
    mean = sum(one.bubble for one in stage_times(result.detail)) / 3
    assert samples["bubble"][0] == pytest.approx(mean / samples["iteration_time"][0])


def test_a_stage_of_more_layers_computes_longer(trained):
    first, second, last = stage_times(trained[1].detail)
    assert second.forward > 1.4 * first.forward
    assert last.forward > first.forward  # the output layer
    assert second.bubble < first.bubble


def test_a_row_has_layers_times_and_memory_by_kind(trained):
    point, result = trained
    shown = StudyShown({"points": {"base": {}}}, {"base": result}, {})
    _, table = pipeline_stages(shown)
    assert isinstance(table, Table)
    names = [column.name for column in table.columns]
    kinds = ["weights", "gradients", "optimizer", "activations", "work under way", "reserve"]
    assert names == ["stage", "layers", *StageTime._fields, *kinds, "memory"]
    layers = [row[1] for row in table.rows]
    assert layers == ["embedding, 3 dense layers", "5 dense layers", "4 dense layers, output"]
    workload = point.workloads["main"]
    peak = memory_of_stages(workload.model, workload.plan, workload.reserve)[1].peak
    assert table.rows[1][-1].startswith(f"{peak / 1e9:.2f}")


def test_other_workloads_have_no_stages():
    from foretrace.scenarios.config.loader import load

    (point, *_) = build_variants(load("first"))
    shown = StudyShown({"points": {"base": {}}}, {"base": point.run()}, {})
    assert list(pipeline_stages(shown)) == []
