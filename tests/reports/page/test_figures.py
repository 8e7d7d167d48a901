"""Figures show what happened in the run."""

import numpy as np
import pytest
from foretrace.reports.blocks import BarChart, Bars
from foretrace.reports.export.op_places import op_places
from foretrace.reports.figures import schedule
from foretrace.reports.figures.bars import WIDTH, bar_chart_html
from foretrace.reports.figures.heat_map import heat_map_html
from foretrace.sim.facts.ops import Kind


def test_a_collective_is_on_the_lane_of_every_member(small):
    result = small.results["base"]
    where = op_places(result)
    rows = np.flatnonzero(result.ops.kind == Kind.COLLECTIVE)
    assert len(rows) == 4
    for op in rows:
        assert sorted(where.rank[where.op == op]) == [0, 1]


def test_any_other_op_has_one_place(small):
    result = small.results["base"]
    where = op_places(result)
    assert len(where.op) == len(result.ops) + 4
    assert np.array_equal(where.rank[: len(result.ops)], result.ops.rank)


def test_a_pixel_has_the_colour_of_the_kind_with_most_time():
    """Ninety short kernels and one short all-reduce are drawn as compute, in any order."""
    start = np.arange(0, 1_000, 10)
    layer = np.where(np.arange(100) % 10 == 9, 4, 2)
    at, took, shown = schedule.bars_by_majority(start, start + 8, layer, 100)
    assert (at.tolist(), took.tolist(), shown.tolist()) == ([0], [1_000], [2])


def test_long_bars_of_two_kinds_are_both_drawn():
    found = schedule.bars_by_majority(
        np.array([0, 500]), np.array([500, 900]), np.array([2, 4]), 10
    )
    assert [column.tolist() for column in found] == [[0, 500], [500, 400], [2, 4]]


def test_drawn_time_equals_busy_time():
    rng = np.random.default_rng(1)
    start = np.sort(rng.integers(0, 10_000, 300))
    end = start + rng.integers(1, 50, 300)
    shuffled = rng.permutation(300)
    layer = rng.integers(0, 5, 300)
    bars = schedule.bars_by_majority(start, end, layer, 7)
    again = schedule.bars_by_majority(start[shuffled], end[shuffled], layer[shuffled], 7)
    assert all(np.array_equal(a, b) for a, b in zip(bars, again, strict=True))
    at, took, _ = bars
    assert np.all(at[1:] >= (at + took)[:-1])
    assert all(np.any((at <= s) & (s < at + took)) for s in start)


def test_an_empty_timeline_has_no_bars():
    empty = np.empty(0, int)
    assert [len(column) for column in schedule.bars_by_majority(empty, empty, empty, 5)] == [0] * 3


def test_the_timeline_names_both_ranks(small):
    result = small.results["base"]
    drawn, least = schedule.timeline_bars(result, [0, 1], (0, int(result.columns.end.max())))
    assert "rank 0, stream 0" in drawn.rows
    assert "rank 1, stream 2" in drawn.rows
    assert least == pytest.approx(result.makespan / WIDTH, rel=1e-3)


def test_every_variant_has_its_bar(small):
    boxes = schedule.mean_rank_breakdown(small.summary.points)
    text = bar_chart_html(schedule.time_breakdown_bars(boxes, "an iteration"))
    assert text.startswith('<div class="chart"')
    assert "quick" in text
    assert "exposed communication" in text


def test_a_bar_is_as_long_as_what_it_shows(small):
    drawn = bar_chart_html(BarChart(["a", "b"], [Bars(1, 2.5, 5.0, "idle")], 10.0, "s"))
    assert 'd="M500 100h1000v100h-1000z"' in drawn


def test_the_shortest_bar_can_be_seen():
    assert "M0 0h1v100h-1z" in bar_chart_html(
        BarChart(["a"], [Bars(0, 0.0, 1e-9, "idle")], 1.0, "s")
    )


def test_names_are_escaped():
    assert "&lt;b&gt;" in bar_chart_html(BarChart(["<b>"], [], 1.0, "s", legend={"<b>": "idle"}))


def test_an_idle_component_leaves_no_mark_and_a_busy_one_a_full_one():
    drawn = heat_map_html(
        schedule.utilization_heat_map({"busy": [1.0] * 100, "idle": [0.0] * 100}, 1e-3)
    )
    assert drawn.count("<path fill") == 1
    assert 'd="M0 0h2000v90h-2000z"' in drawn
