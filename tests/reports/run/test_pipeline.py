"""Pipelines match the figures of their papers, and represented ranks are counted."""

from itertools import pairwise

import pytest
from foretrace.reports.figures.time_tree import op_totals
from foretrace.reports.figures.timeline_source import timeline_data
from foretrace.reports.run.pipeline import pipeline
from foretrace.reports.run.roofline import roofline
from foretrace.reports.texts.step_passes import pipeline_passes
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.summaries.headline_breakdown import headline_time_breakdown
from foretrace.scenarios.studies.variants.variants import build_variants, run_with_replicas

SCENARIO = """
foretrace: 1
name: tiny
workload:
  type: training
  model: llama3-8b
  batch: 16
  sequence: 1024
  parallel: {tensor: 2, pipeline: 4, micro_batch: 1}
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


def trained(chunks=1, schedule=""):
    said = f"{{use: {schedule}}}" if schedule else f"{{chunks: {chunks}}}"
    (point,) = build_variants(loads(SCENARIO.replace("{chunks: CHUNKS}", said)))
    return run_with_replicas(point)


@pytest.fixture(scope="module")
def plain():
    return trained(1)


def letters(passes, stage):
    own = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start)
    return " ".join("BF"[p.forward] + str(p.micro_batch + 1) for p in own)


def test_1f1b_matches_the_figure_of_its_paper(plain):
    """Narayanan et al. 2021, arXiv:2104.04473, figure 4 with eight micro-batches, at the top."""
    passes = pipeline_passes(plain.result).passes
    assert letters(passes, 0) == "F1 F2 F3 F4 B1 F5 B2 F6 B3 F7 B4 F8 B5 B6 B7 B8"
    assert letters(passes, 3) == "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8"


def test_no_two_passes_of_a_stage_run_at_once_and_each_waits_for_the_stage_before(plain):
    passes = pipeline_passes(plain.result).passes
    for stage in range(4):
        own = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start)
        assert all(a.end <= b.start for a, b in pairwise(own))
    first = {(p.stage, p.micro_batch): p for p in passes if p.forward}
    back = {(p.stage, p.micro_batch): p for p in passes if not p.forward}
    for stage, batch in first:
        if stage:
            assert first[stage, batch].start >= first[stage - 1, batch].end
            assert back[stage - 1, batch].start >= back[stage, batch].end


def test_interleaved_chunks_match_the_figure_of_their_paper():
    """Narayanan et al. 2021, figure 4, at the bottom: the first device of four, two chunks."""
    passes = pipeline_passes(trained(2).result).passes
    own = sorted((p for p in passes if p.stage == 0), key=lambda p: p.start)
    assert [(p.micro_batch + 1, p.chunk) for p in own[:11]] == [
        (1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 0), (6, 0), (7, 0)
    ]  # fmt: skip


def with_chunks(passes, stage):
    own = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start)
    return " ".join("BF"[p.forward] + str(p.micro_batch + 1) + "ab"[p.chunk] for p in own)


def test_interleaved_chunks_match_the_figure_on_every_device():
    """The same figure, box for box: ten passes ahead on the first device, four on the last."""
    passes = pipeline_passes(trained(2).result).passes
    assert with_chunks(passes, 0) == (
        "F1a F2a F3a F4a F1b F2b F3b F4b F5a F6a "
        "F7a B1b F8a B2b F5b B3b F6b B4b F7b B1a F8b B2a "
        "B3a B4a B5b B6b B7b B8b B5a B6a B7a B8a"
    )
    assert with_chunks(passes, 3) == (
        "F1a F2a F3a F4a "
        "F1b B1b F2b B2b F3b B3b F4b B4b F5a B1a F6a B2a F7a B3a F8a B4a "
        "F5b B5b F6b B6b F7b B7b F8b B8b "
        "B5a B6a B7a B8a"
    )


def test_gpipe_matches_the_figure_of_its_paper():
    """Huang et al. 2019, arXiv:1811.06965, figure 2c: all forward, then backward, the last first.

    Figure 3 of Narayanan et al. 2021 has the same boxes, the first going backward first.
    """
    result = trained(schedule="gpipe").result
    passes = pipeline_passes(result).passes
    for stage in range(4):
        order = letters(passes, stage)
        assert order == "F1 F2 F3 F4 F5 F6 F7 F8 B8 B7 B6 B5 B4 B3 B2 B1"
    turn = {s: min(p.start for p in passes if p.stage == s and not p.forward) for s in range(4)}
    assert turn[3] < turn[2] < turn[1] < turn[0]  # the wedge of the drawing
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": result}, {})
    _, table, chart = pipeline(shown)
    assert table.rows[0][1] == "gpipe"
    assert list(chart.legend) == ["forward", "backward"]
    forward, backward = (
        [b.row[0] - 0.08 for b in chart.bars if b.colour == colour]
        for colour in chart.legend.values()
    )
    assert forward == backward == pytest.approx([0, 1, 2, 3])
    drawn = sorted(chart.texts, key=lambda text: (text.row, text.start))
    assert "".join(text.text for text in drawn) == 4 * "1234567887654321"


NAMES = {"backward": "B", "backward of inputs": "I", "backward of weights": "W", "forward": "F"}


def parts(passes, stage):
    own = sorted((p for p in passes if p.stage == stage), key=lambda p: (p.start, p.end))
    return " ".join(f"{NAMES[p.what]}{p.micro_batch + 1}" for p in own)


def test_zero_bubble_matches_the_figure_of_its_paper():
    """Qi et al. 2023, arXiv:2401.10241, figure 3, with eight micro-batches on four stages."""
    result = trained(schedule="zb-h1").result
    passes = pipeline_passes(result).passes
    assert parts(passes, 0).startswith("F1 F2 F3 F4 I1 W1 F5 I2 W2 F6 I3 W3")
    assert parts(passes, 3).startswith("F1 I1 F2 I2 F3 I3 F4 I4 W1 F5 I5 W2")
    assert parts(passes, 3).endswith("F8 I8 W5 W6 W7 W8")
    for stage in range(4):
        own = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start)
        assert all(a.end <= b.start for a, b in pairwise(own))
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": result}, {})
    _, table, chart = pipeline(shown)
    assert table.rows[0][-1] == "11.1 %"  # 3 / (3 x 8 + 3): a third of that of 1F1B, of more parts
    assert list(chart.legend) == ["forward", "backward of inputs", "backward of weights"]


def test_dualpipe_matches_the_figure_of_its_paper():
    """DeepSeek-AI 2024, arXiv:2412.19437, figure 5: from both ends, with pairs side by side."""
    result = trained(schedule="dualpipe").result
    shown = pipeline_passes(result)
    assert shown.sizes == (4, 2, 8)
    own = [p for p in shown.passes if p.stage == 0]
    ahead = sorted((p for p in own if p.forward and p.chunk == 0), key=lambda p: p.start)
    assert [p.micro_batch for p in ahead] == [0, 1, 2, 3]
    assert {p.stage for p in shown.passes if p.forward and p.chunk == 1 and p.micro_batch == 0} == {
        0, 1, 2, 3
    }  # fmt: skip
    first = {p.stage: p.start for p in shown.passes if p.forward and not p.micro_batch and p.chunk}
    assert first[3] < first[2] < first[1] < first[0]  # it comes from the last stage
    pairs = sorted((p for p in own if p.is_concurrent), key=lambda p: p.start)
    assert pairs
    assert {p.forward for p in pairs} == {True, False}
    for one in pairs:
        others = [p for p in pairs if p.forward != one.forward]
        assert any(one.start < p.end and p.start < one.end for p in others)
    every = [(p.what, p.micro_batch, p.chunk) for p in own if p.forward]
    assert len(every) == len({*every}) == 8
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": result}, {})
    said, table, chart = pipeline(shown)
    assert "run at the same time" in str(said)
    assert table.rows[0][1] == "dualpipe"
    assert "forward, from the last stage" in chart.legend
    assert {t.text for t in chart.texts} >= {"1", "5", "8"}


def test_the_drawing_numbers_its_boxes_and_says_what_is_blank(plain):
    """Blank time was once called bubble, although the bubble metric excludes communication."""
    shown = StudyShown({"points": {"base": {}}, "answer": {}}, {"base": plain.result}, {})
    _, table, chart = pipeline(shown)
    assert [c.name for c in table.columns[-2:]] == [
        "blank",
        "bubble if all passes took equally long",
    ]
    ((name, schedule, stages, batches, chunks, blank, ideal),) = table.rows
    assert (name, schedule, stages, batches, chunks, ideal) == (
        "base", "1f1b", "4", "8", "1", "27.3 %"
    )  # fmt: skip
    assert float(blank.split()[0]) >= 27.3  # the last stage has more to do
    assert chart.rows == [f"stage {s}" for s in range(4)]
    assert {t.text for t in chart.texts} == set("12345678")


def test_the_roofline_has_a_mark_for_each_op_under_the_roofs_of_its_gpu(plain):
    """Without it, readers had to compute whether an op is limited by memory."""
    peaks, bandwidth = {"bf16": 989.4e12}, 3.35e12
    roofs = {"model": "h100-sxm5-80g", "peaks": peaks, "bandwidth": bandwidth}
    point = {"roofs": roofs, "metrics": {"hfu.p50": {"value": 0.4}}}
    shown = StudyShown({"points": {"base": point}, "answer": {}}, {"base": plain.result}, {})
    _, table, plot = roofline(shown)
    assert table.rows[0][0] == "base"
    assert table.rows[0][-1] == "40.0 %"
    roof, ops = plot.axes[0].series
    assert roof.label == "h100-sxm5-80g, bf16"
    assert len(ops.x) == len(ops.titles) == len({*ops.titles}) > 10
    scale = 1e12
    for x, y in zip(ops.x, ops.y, strict=True):
        assert y * scale <= min(peaks["bf16"], x * bandwidth) * 1.001


def test_times_of_ops_are_of_all_ranks_though_one_of_each_kind_was_run(plain):
    """The tree of op times agrees with the time breakdown of the mean rank."""
    totals = op_totals(plain.result.detail)
    compute = sum(t.value for t in totals if t.kind == "compute")
    boxes = headline_time_breakdown(plain, float(plain.result.period_time))
    assert compute == pytest.approx(
        float((boxes["compute"] + boxes["overlapped"]).mean()), rel=1e-3
    )
    assert not any("forward and other" in t.path for t in totals)


def test_the_timeline_says_how_many_ranks_each_drawn_rank_represents(plain):
    said = timeline_data({"base": plain.result.detail})["said"]
    assert "Of base 4 of 16 ranks were run: each stands for those that do the same" in said
    assert "foretrace view" not in said
