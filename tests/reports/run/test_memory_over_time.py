"""Memory over time: its peak equals the one computed from the schedule alone."""

import pytest
from by_day import every
from foretrace.reports.blocks import Plot, Table
from foretrace.reports.run.memory_over_time import memory_over_time, stage_memory
from foretrace.reports.run.use_over_time import use_over_time
from foretrace.reports.texts.step_passes import pipeline_passes
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.variants import build_variants

SCENARIO = """
foretrace: 1
name: tiny
workload:
  type: training
  model: {hidden: 256, layers: 16, heads: 8, vocabulary: 2048, inner: 1024}
  batch: 32
  sequence: 256
  parallel: {tensor: 2, pipeline: PIPELINE}
  MORE
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 8}
    links: [{from: gpu, to: gpu, via: nvlink4}]
  fabric: {library: nccl-nvlink4, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks}
"""

AHEAD = "execution: {hosts: ahead}"
WRITTEN = "execution: {hosts: ahead, attention: written}"


def ran(pipeline=4, more=AHEAD, parallel="zero: 0", written=SCENARIO):
    text = written.replace("PIPELINE", f"{pipeline}, {parallel}").replace("MORE", more)
    (point,) = build_variants(loads(text))
    return point, point.run()


def curves(result):
    told = result.detail.runs[0].graph.facts["stages"]
    passes = pipeline_passes(result).passes
    first = min(p.start for p in passes)
    each = [[p for p in passes if p.stage == n] for n in range(len(told))]
    return told, [stage_memory(o, p, first) for o, p in zip(told, each, strict=True)]


PLANS = [
    (4, f"{AHEAD}\n  schedule: {{use: 1f1b}}"),
    (4, f"{AHEAD}\n  schedule: {{use: gpipe}}"),
    (4, f"{AHEAD}\n  schedule: {{chunks: 2}}"),
    (4, f"{AHEAD}\n  schedule: {{use: zb-h1}}"),
    (4, f"{AHEAD}\n  schedule: {{use: zb-h2}}"),
    (4, f"{AHEAD}\n  schedule: {{use: zb-v}}"),
    (4, f"{AHEAD}\n  schedule: {{use: dualpipe}}"),
    (2, f"{AHEAD}\n  memory: {{recompute: full}}", "zero: 1"),
    (2, f"memory: {{recompute: full, recompute_layers: 3}}\n  {WRITTEN}"),
    (2, f"memory: {{recompute: selective}}\n  {WRITTEN}"),
    (1, AHEAD, "zero: 2"),
    (1, AHEAD, "zero: 3, micro_batch: 2"),
]


@pytest.mark.parametrize("number", every(3, range(len(PLANS))))
def test_the_peak_of_what_passes_held_in_time_is_that_of_the_schedule(number):
    point, result = ran(*PLANS[number])
    told, found = curves(result)
    for one, memory in zip(told, found, strict=True):
        assert memory.held[memory.peak] == pytest.approx(sum(one["memory"].values()))
        assert memory.held[-1] == pytest.approx(memory.always)
        assert memory.held.min() >= memory.always
    (most,) = point.workloads["main"].measure(result)["peak_memory"]
    assert max(m.held.max() for m in found) == pytest.approx(most)


def test_stages_of_1f1b_keep_as_many_micro_batches_as_stages_are_behind_them():
    """Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1: p in flight on the first of p."""
    _, result = ran(4)
    told, found = curves(result)
    for stage, (one, memory) in enumerate(zip(told, found, strict=True)):
        (chunk,) = one["chunks"]
        most = (4 - stage) * chunk["kept"] + chunk["working"]
        assert memory.held.max() - memory.always == pytest.approx(most)


def test_the_page_shows_the_peak_of_each_stage_its_time_and_the_gpu_memory():
    _, result = ran(4, f"{AHEAD}\n  schedule: {{use: gpipe}}")
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": result}, {})
    _, table, plot = memory_over_time(shown)
    assert isinstance(table, Table)
    assert isinstance(plot, Plot)
    assert [row[0] for row in table.rows] == ["0", "1", "2", "3"]
    # of GPipe all micro-batches are kept when the last of them turns
    assert {row[4] for row in table.rows} == {"backward of micro-batch 32"}
    assert table.rows[3][6].startswith("dense layer ")
    assert [one.label for one in plot.axes[0].series] == [f"stage {s}" for s in range(4)]


def test_memory_that_jobs_hold_is_a_curve_though_gpus_are_alike():
    """Identical components share a row whose name is no component; its curve was once left out."""
    held = SCENARIO.replace("count: 8}", "count: 8, memory: 8 GiB, capacity: true}")
    held = held.replace("run: {keep: ranks}", "")
    _, result = ran(2, written=held)
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": result}, {})
    *_, heading, plot = use_over_time(shown)
    assert heading.text == "Held over time, B"
    curves = plot.axes[0].series
    assert [one.label for one in curves] == [
        "node0.gpu0.memory + 3 alike", "node0.gpu4.memory + 3 alike"
    ]  # fmt: skip
    told = result.runs[0].graph.facts["stages"]
    peaks = sorted((sum(one["memory"].values()) / 1e9 for one in told), reverse=True)
    assert [max(one.y) for one in curves] == pytest.approx(peaks, rel=1e-3)
