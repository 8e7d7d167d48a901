"""A pipeline is drawn as its papers draw it, and what ranks stand for is counted."""

from itertools import pairwise

import pytest
from foretrace.reports.figures.time_tree import op_totals
from foretrace.reports.figures.timeline_source import timeline_data
from foretrace.reports.run.pipeline import passes_of_stages, pipeline
from foretrace.reports.run.study import StudyShown
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.headline_boxes import boxes_of_headline
from foretrace.scenarios.studies.variants import build_variants, run_with_replicas

SCENARIO = """
foretrace: 1
name: tiny
workload:
  type: training
  model: llama3-8b
  batch: 16
  sequence: 1024
  micro_batch: 1
  parallel: {tensor: 2, pipeline: 4}
  schedule: {chunks: CHUNKS}
cluster:
  nodes: 2
  node:
    gpu: {model: h100-sxm5-80g, count: 8}
    nic: {model: connectx-7, count: 8}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks}
"""


def trained(chunks):
    (point,) = build_variants(loads(SCENARIO.replace("CHUNKS", str(chunks))))
    return run_with_replicas(point)


@pytest.fixture(scope="module")
def plain():
    return trained(1)


def letters(passes, stage):
    own = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start)
    return " ".join("BF"[p.forward] + str(p.micro_batch + 1) for p in own)


def test_1f1b_is_the_picture_of_its_paper(plain):
    """Narayanan et al. 2021, arXiv:2104.04473, figure 4 with eight micro-batches, at the top."""
    passes = passes_of_stages(plain.result)
    assert letters(passes, 0) == "F1 F2 F3 F4 B1 F5 B2 F6 B3 F7 B4 F8 B5 B6 B7 B8"
    assert letters(passes, 3) == "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8"


def test_no_two_passes_of_a_stage_run_at_once_and_each_waits_for_the_stage_before(plain):
    passes = passes_of_stages(plain.result)
    for stage in range(4):
        own = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start)
        assert all(a.end <= b.start for a, b in pairwise(own))
    first = {(p.stage, p.micro_batch): p for p in passes if p.forward}
    back = {(p.stage, p.micro_batch): p for p in passes if not p.forward}
    for stage, batch in first:
        if stage:
            assert first[stage, batch].start >= first[stage - 1, batch].end
            assert back[stage - 1, batch].start >= back[stage, batch].end


def test_interleaved_chunks_are_the_picture_of_their_paper():
    """Narayanan et al. 2021, figure 4, at the bottom: the first device of four, two chunks."""
    passes = passes_of_stages(trained(2).result)
    own = sorted((p for p in passes if p.stage == 0), key=lambda p: p.start)
    assert [(p.micro_batch + 1, p.chunk) for p in own[:11]] == [
        (1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 0), (6, 0), (7, 0)
    ]  # fmt: skip


def test_the_drawing_numbers_its_boxes_and_says_the_bubble(plain):
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": plain.result}, {})
    _, table, chart = pipeline(shown)
    ((name, stages, batches, chunks, bubble, ideal),) = table.rows
    assert (name, stages, batches, chunks, ideal) == ("base", "4", "8", "1", "27.3 %")
    assert float(bubble.split()[0]) >= 27.3  # the last stage has more to do
    assert chart.rows == [f"stage {s}" for s in range(4)]
    assert {t.text for t in chart.texts} == set("12345678")


def test_times_of_ops_are_of_all_ranks_though_one_of_each_kind_was_run(plain):
    """What the tree of ops says is what the boxes of the mean rank say."""
    totals = op_totals(plain.result.detail)
    compute = sum(t.value for t in totals if t.kind == "compute")
    boxes = boxes_of_headline(plain, float(plain.result.period_time))
    assert compute == pytest.approx(
        float((boxes["compute"] + boxes["overlapped"]).mean()), rel=1e-3
    )
    assert not any("forward and other" in t.path for t in totals)


def test_the_timeline_says_for_how_many_ranks_those_drawn_stand(plain):
    said = timeline_data({"base": plain.result.detail})["said"]
    assert "Of base 4 of 16 ranks were run: each stands for those that do the same" in said
    assert "foretrace view" not in said
