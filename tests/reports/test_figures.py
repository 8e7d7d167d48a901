"""What is drawn is what happened."""

import numpy as np
import pytest
from foretrace.reports.blocks import BarChart, Bars
from foretrace.reports.export.op_places import op_places
from foretrace.reports.figures import schedule
from foretrace.reports.figures.bars import WIDTH, bar_chart_html
from foretrace.sim.ops import Kind


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


def test_close_bars_are_joined_and_far_ones_are_not():
    start, end = np.array([0, 10, 50, 100]), np.array([9, 30, 60, 101])
    assert schedule.merge_bars(start, end, 5).tolist() == [[0, 30], [50, 10], [100, 5]]


def test_a_bar_within_another_does_not_end_it():
    assert schedule.merge_bars(np.array([0, 2]), np.array([100, 3]), 1).tolist() == [[0, 100]]


def test_order_does_not_matter():
    rng = np.random.default_rng(1)
    start = rng.integers(0, 10_000, 300)
    end = start + rng.integers(1, 50, 300)
    shuffled = rng.permutation(300)
    bars = schedule.merge_bars(start, end, 7)
    assert np.array_equal(bars, schedule.merge_bars(start[shuffled], end[shuffled], 7))
    assert all(bars[1:, 0] > bars[:-1].sum(axis=1))
    assert all(np.any((bars[:, 0] <= s) & (s < bars.sum(axis=1))) for s in start)


def test_no_bars_are_no_bars():
    assert schedule.merge_bars(np.empty(0, int), np.empty(0, int), 5).shape == (0, 2)


def test_the_timeline_names_both_ranks(small):
    result = small.results["base"]
    drawn, least = schedule.timeline_bars(result, [0, 1], (0, int(result.columns.end.max())))
    assert "rank 0, stream 0" in drawn.rows
    assert "rank 1, stream 2" in drawn.rows
    assert least == pytest.approx(result.makespan / WIDTH, rel=1e-3)


def test_every_variant_has_its_bar(small):
    text = bar_chart_html(schedule.time_breakdown_bars(small.summary.points, "an iteration"))
    assert text.startswith('<div class="chart"')
    assert "quick" in text
    assert "exposed communication" in text


def test_a_bar_is_as_long_as_what_it_shows(small):
    drawn = bar_chart_html(BarChart(["a", "b"], [Bars(1, 2.5, 5.0, "red")], 10.0, "s"))
    assert 'd="M500 100h1000v100h-1000z"' in drawn


def test_the_shortest_bar_can_be_seen():
    assert "M0 0h1v100h-1z" in bar_chart_html(
        BarChart(["a"], [Bars(0, 0.0, 1e-9, "red")], 1.0, "s")
    )


def test_names_are_escaped():
    assert "&lt;b&gt;" in bar_chart_html(BarChart(["<b>"], [], 1.0, "s", legend={"<b>": "red"}))


def test_an_idle_component_leaves_no_mark_and_a_busy_one_a_full_one():
    drawn = bar_chart_html(
        schedule.utilization_heat_map({"busy": [1.0] * 100, "idle": [0.0] * 100}, 1e-3)
    )
    assert drawn.count("<path fill") == 1
    assert 'd="M0 0h2000v90h-2000z"' in drawn
