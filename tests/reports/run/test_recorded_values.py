"""The page's sections on time series and on emitted metrics."""

from types import SimpleNamespace

import pytest
from foretrace.reports.blocks import Heading, Paragraph, Plot, Table
from foretrace.reports.run.policies.recorded_values import (
    MOST_POINTS,
    MOST_SERIES,
    emitted_metrics,
    time_series,
)
from foretrace.sim.facts.system import System
from foretrace.sim.record.emitted_values import EmissionRecorder
from foretrace.sim.run.simulation import Simulation

SIMULATION = Simulation(System((), ()), {}, engine="reference")


def study(**processes):
    """Study of one run per process."""
    return SimpleNamespace(results={n: SIMULATION.run(None, p) for n, p in processes.items()})


def fills(count, name="queue", unit=""):
    def process(sim):
        for k in range(count):
            sim.record(name, 1000 if k == 777 else k % 10, unit)
            sim.emit("latency", 1e-3 * k, "s")
            yield sim.wait(1e-6)

    return process


def test_a_series_is_drawn_with_its_peak():
    text, table, heading, plot = time_series(study(base=fills(5000)))
    assert isinstance(text, Paragraph)
    assert "dotted lines are its minimum and maximum" in text.line
    assert isinstance(table, Table)
    assert table.rows == [["queue", "5,000", "4.7", "0", "1,000", "9"]]
    assert heading == Heading("queue")
    assert isinstance(plot, Plot)
    (axes,) = plot.axes
    mean, low, high = axes.series
    assert len(mean.x) <= MOST_POINTS
    assert max(high.y) == 1000
    assert min(low.y) == 0
    assert (axes.x.name, axes.y.name) == ("time, ms", "queue")


def test_variants_are_curves_of_one_drawing():
    _, table, _, plot = time_series(study(base=fills(5, unit="B"), other=fills(9, unit="B")))
    assert [row[:3] for row in table.rows] == [["queue", "base", "5"], ["queue", "other", "9"]]
    curves = plot.axes[0].series
    assert [(s.label, s.colour) for s in curves] == [("base", "series-1"), ("other", "series-2")]
    assert plot.axes[0].y.name == "queue, B"


def test_a_page_shows_the_first_series():
    def process(sim):
        for k in range(MOST_SERIES + 3):
            sim.record(f"s{k}", k)
        yield sim.wait(1)

    text, table, *drawn = time_series(study(base=process))
    assert text.line.endswith(f"The first {MOST_SERIES} of {MOST_SERIES + 3} are drawn.")
    assert len(table.rows) == MOST_SERIES + 3
    assert sum(isinstance(block, Plot) for block in drawn) == MOST_SERIES


def test_a_metric_says_that_its_quantiles_are_exact():
    _, table = emitted_metrics(study(base=fills(101)))
    assert table.rows == [
        ["latency", "101", "50 ms", "50 ms", "95 ms", "99 ms", "0 s", "100 ms", "exact"]
    ]


def test_a_metric_with_too_many_values_says_its_error(monkeypatch):
    monkeypatch.setattr(EmissionRecorder.__init__, "__defaults__", (1, 5000))
    (row,) = list(emitted_metrics(study(base=fills(10_000))))[1].rows
    assert row[1] == "10,000"
    assert row[3] == "5 s"
    assert row[-1] == "within 0.1 %"


@pytest.mark.parametrize("section", [time_series, emitted_metrics])
def test_a_run_without_them_has_no_section(section):
    def process(sim):
        yield sim.wait(1)
        sim.emit("once", 1)

    assert not list(section(study(base=process)))
