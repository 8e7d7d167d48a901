"""Figures for papers: every kind, from real pages, legible, with embedded fonts, reproducible."""

import re
import subprocess
import sys
import zlib
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pytest
from by_day import only
from foretrace.hil.recording import Recording
from foretrace.hil.sample import Sample
from foretrace.reports import blocks, figure_kind
from foretrace.reports.accuracy.accuracy_page import accuracy_page
from foretrace.reports.blocks import Axes, Axis, BarChart, Bars, HeatMap, Plot, Series
from foretrace.reports.figure_kind import figure_kinds, on_paper
from foretrace.reports.figures.icicle import icicle
from foretrace.reports.html import figure_html, page_html
from foretrace.reports.page_figures import PageFigure, decode_figures, page_figures
from foretrace.reports.palette import KINDS, SERIES, css, rgb
from foretrace.reports.paper.sheet import HATCHES, Sheet, luminance
from foretrace.reports.paper.write import draw_figure, figure_bytes, write_figures
from foretrace.reports.run.run_page import run_page
from foretrace.reports.section import ShownSection, shown_sections
from foretrace.reports.sweep.two_way import two_way_heat_map
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.accuracy.device_check import check_devices
from foretrace.scenarios.studies.run.run import study
from foretrace.sim.errors import ForetraceError

RUN = {"resolved": "", "command": "", "run": "", "title": "", "timeline_cut": ""}
CHECK = """\
foretrace: 1
name: wires
workload:
  type: transfers
  ops:
    - {{op: "send:send", bytes: 1 MB, from: [0], to: 1, count: 2}}
    - {{op: "send:send", bytes: 4 kB, from: [0], to: 1, count: 4}}
cluster:
  nodes: 2
  node:
    gpu: {{count: 1, streams: 1}}
    host: {{cores: 1}}
    nic: {{count: 1, bandwidth: 8 Gb/s, latency: 1 us, mtu: 4096 B, header: 0 B}}
hil:
  mode: replay
  swap: [{{component: node0.nic0, driver: recorded, recording: {nic}, covers: [node1.nic0]}}]
"""
SMALLEST = 7.0  # points


@pytest.fixture(scope="module")
def pages(small, tmp_path_factory):
    """Pages of a run, of a run with a fabric, and of an accuracy check."""
    nic = tmp_path_factory.mktemp("check") / "nic.rec.gz"
    times = {"send:send uint8[1000000]": 1.25e6, "send:send uint8[4000]": 1e4}
    samples = [
        Sample(text, np.full(3, ns * (1 + 0.01 * start)), "wall", start=start)
        for start in range(4)
        for text, ns in times.items()
    ]
    facts = ("wire", "port0", "box", "2026-01-31T12:00:00Z", {"kernel": "6"})
    Recording(*facts, tuple(samples)).write(nic)
    check = check_devices(loads(CHECK.format(nic=nic), file="s.yaml"))
    fabric = study(load("thin-spine", set=["run.quick=true"]))
    return {
        "run": run_page(small.summary.to_dict(), small.results, RUN),
        "fabric": run_page(fabric.summary.to_dict(), fabric.results, RUN),
        "check": accuracy_page(check.results),
    }


@pytest.fixture(scope="module")
def drawn(pages):
    """One figure of each kind, as pages contain it."""
    return {
        type(one.figure).__name__: one.figure
        for html in pages.values()
        for one in decode_figures(html)
    }


def test_every_kind_of_figure_is_drawn_from_a_page(drawn):
    """A new kind needs a drawing, and a page that this test reads."""
    ours = {n for n, kind in figure_kinds().items() if kind.__module__.startswith("foretrace.")}
    assert {kind.__name__ for kind in get_args(blocks.Figure)} == ours
    assert {*drawn} == ours
    for one in drawn.values():
        assert draw_figure(one).axes


@pytest.mark.parametrize("columns", [1, 2])
def test_figures_fit_the_columns_of_a_paper_and_their_letters_can_be_read(pages, columns):
    from matplotlib.text import Text

    for html in pages.values():
        for one in decode_figures(html):
            drawing = draw_figure(one.figure, Sheet(columns))
            assert drawing.get_figwidth() == {1: 3.3, 2: 7.0}[columns]
            assert drawing.get_figheight() <= 8.6
            for text in drawing.findobj(Text):
                assert text.get_fontsize() >= SMALLEST, (one.name, text.get_text())


def test_no_text_overflows_the_sheet(pages):
    from matplotlib.text import Text

    for html in pages.values():
        for one in decode_figures(html):
            sheet = Sheet()
            with sheet.styled():
                drawing = figure_kind.paper_drawing(type(one.figure))(one.figure, sheet)
                drawing.draw_without_rendering()
                box = drawing.bbox.padded(4)
                for text in drawing.findobj(Text):
                    if not text.get_text() or not text.get_visible() or text.get_clip_on():
                        continue
                    edge = text.get_window_extent()
                    assert box.x0 <= edge.x0, (one.name, text.get_text())
                    assert edge.x1 <= box.x1, (one.name, text.get_text())
                    assert box.y0 <= edge.y0, (one.name, text.get_text())
                    assert edge.y1 <= box.y1, (one.name, text.get_text())


def test_axes_have_names(pages):
    for html in pages.values():
        for one in decode_figures(html):
            if type(one.figure).__name__ != "FabricDrawing":
                assert draw_figure(one.figure).axes[0].get_xlabel(), one.name


@pytest.mark.parametrize("kind", only(["pdf", "svg"], ["pdf", "svg", "png"]))
def test_the_same_figure_is_the_same_bytes(drawn, kind):
    for one in drawn.values():
        assert figure_bytes(one, kind, Sheet()) == figure_bytes(one, kind, Sheet())


def test_fonts_are_embedded_and_text_is_text(drawn):
    told = figure_bytes(drawn["BarChart"], "pdf", Sheet())
    assert b"/FontFile2" in told
    assert b"/Subtype /Type3" not in told
    assert b"CreationDate" not in told
    svg = figure_bytes(drawn["BarChart"], "svg", Sheet()).decode()
    assert "<text" in svg
    assert "<dc:date>" not in svg


def test_figures_of_a_page_come_back_as_its_sections_made_them(small, pages):
    of = shown_sections("run", StudyShown(small.summary.to_dict(), small.results, RUN))
    made, read = page_figures(of), decode_figures(pages["run"])
    assert [one.name for one in read] == [one.name for one in made]
    for a, b in zip(made, read, strict=True):
        assert type(a.figure) is type(b.figure)
        assert figure_html(a.figure) == figure_html(b.figure)


def test_every_section_with_a_figure_is_written_and_tables_are_not(pages, tmp_path):
    found = decode_figures(pages["run"])
    files = write_figures(found, tmp_path / "figures", "svg")
    assert [f.name for f in files] == [f"{one.name}.svg" for one in found]
    page = pages["run"]
    drawn = {s for s, body in re.findall(r'<section id="(\w+)">(.*?)</section>', page, re.S)
             if "<figure" in body}  # fmt: skip
    assert {one.section for one in found} == drawn
    assert "metrics" not in drawn  # a table


def test_missing_figure_data_differs_from_no_figures():
    assert decode_figures("<html></html>") is None
    text = page_html([ShownSection("x", "X", [blocks.Paragraph("text")])], {}, title="t")
    assert decode_figures(text) == []


def test_a_kind_of_a_plug_in_is_drawn_on_paper_and_so_on_its_page(monkeypatch):
    monkeypatch.setattr(figure_kind, "ON_PAPER", dict(figure_kind.ON_PAPER))

    @dataclass(frozen=True)
    class Spiral:
        turns: int

    with pytest.raises(ForetraceError, match="Spiral: no drawing for paper"):
        draw_figure(Spiral(3))

    @on_paper(Spiral)
    def spiral(of, sheet):
        drawing = sheet.canvas(2.0)
        drawing.add_subplot().plot(range(of.turns))
        return drawing

    html = page_html([ShownSection("own", "Own", [Spiral(3)])], {}, title="t")
    assert "<svg" in html.split('id="own"')[1]
    (one,) = decode_figures(html)
    assert one == PageFigure("own", "own", Spiral(3))


def test_a_style_sheet_is_over_the_products_own(tmp_path, drawn):
    style = tmp_path / "journal.mplstyle"
    style.write_text("axes.labelsize: 9\n")
    label = draw_figure(drawn["BarChart"], Sheet(1, style)).axes[0].xaxis.label
    assert label.get_fontsize() == 9
    with pytest.raises(ForetraceError, match="not a matplotlib style sheet"):
        draw_figure(drawn["BarChart"], Sheet(1, tmp_path / "none.mplstyle"))


def test_colours_differ_in_greyscale_or_by_pattern():
    for group in ({*KINDS.values()} - {"idle"}, SERIES):
        looks = [(round(luminance(c), 1), HATCHES.get(c, "")) for c in group]
        assert len({*looks}) == len(looks)


def test_series_of_one_style_get_distinct_marks_or_strokes():
    curves = [Series([0, 1], [0, k], "", "-", label=str(k)) for k in range(4)]
    points = [Series([0, 1], [0, k], "o", label=f"p{k}") for k in range(3)]
    (axes,) = draw_figure(Plot([Axes(Axis("x, s"), Axis("y, s"), [*curves, *points])])).axes
    assert len({str(line._dash_pattern) for line in axes.lines[:4]}) == 4
    assert len({line.get_marker() for line in axes.lines[4:]}) == 3


def test_small_multiples_stand_side_by_side():
    one = Axes(Axis("x, s"), Axis("y, s", log=10), [Series([1, 2], [1, 100])], title="base")
    drawing = draw_figure(Plot([one, one, one], columns=2))
    assert {axes.get_subplotspec().colspan.start for axes in drawing.axes} == {0, 1}
    assert drawing.axes[0].get_yscale() == "log"
    assert '<div class="two">' in figure_html(Plot([one, one], columns=2))


def test_error_bars_reach_from_low_to_high():
    bars = Series([1.0], [2.0], "", "stalks", low=[1.5], high=[3.0])
    (axes,) = draw_figure(Plot([Axes(Axis("x, s"), Axis("y, s"), [bars])])).axes
    (stalk,) = axes.collections[0].get_segments()
    assert stalk[:, 1].tolist() == [1.5, 3.0]


def test_two_settings_that_vary_are_a_heat_map():
    points = [
        {"set": {"a.nodes": n, "a.rate": r}, "values": {"time": n * r}}
        for n in (2, 4, 8)
        for r in (1, 3)
    ]
    summary = {
        "vary": {"a.nodes": [2, 4, 8], "a.rate": [1, 3]}, "points": points[:-1],
        "optimize": [{"minimize": "time", "unit": "s"}],
    }  # fmt: skip
    found = two_way_heat_map(summary)
    assert (list(found.rows), list(found.columns)) == (["2", "4", "8"], ["1", "3"])
    assert found.values[:2].tolist() == [[2, 6], [4, 12]]
    assert np.isnan(found.values[2, 1])
    texts = [t.get_text() for t in draw_figure(found).axes[0].texts]
    assert texts == ["2 s", "6 s", "4 s", "12 s", "8 s", "–"]
    assert two_way_heat_map({**summary, "vary": {"a.nodes": [2, 4, 8]}}) is None


def test_long_names_are_shortened_and_stay_apart():
    rows = [f"a-very-long-name-of-a-machine.{k}.and-its-part" for k in range(3)]
    chart = BarChart(rows, [Bars([0, 1, 2], [0.0] * 3, [1.0] * 3, "compute")], 1.0, "time, s")
    names = [t.get_text() for t in draw_figure(chart).axes[0].get_yticklabels()]
    assert len({*names}) == 3
    assert max(map(len, names)) < 30


def test_a_tree_has_its_parts_below_the_whole():
    leaves = [{"name": n, "value": v, "kind": "compute"} for n, v in (("a", 3.0), ("b", 1.0))]
    chart = icicle({"name": "run", "value": 4.0, "children": leaves}, "time")
    assert [(t.text, t.start) for t in chart.texts] == [("run", 0.0), ("a", 0.0), ("b", 3.0)]


def test_colours_are_names():
    assert css("series-1") == "var(--series-1)"
    assert rgb("#ff0000") == (1.0, 0.0, 0.0)
    with pytest.raises(ForetraceError, match="the palette has no such name; use paper, ink"):
        css("var(--compute)")


def test_blocks_hold_no_css(pages):
    from foretrace.reports.page_figures import ID

    for html in pages.values():
        packed = re.search(rf'id="{ID}">"([^"]*)"', html)[1]
        import base64

        assert b"var(" not in zlib.decompress(base64.b64decode(packed))


def test_results_and_studies_draw_themselves(small):
    from matplotlib.figure import Figure

    (one,) = small.plot.compare()
    assert isinstance(one, Figure)
    assert "<svg" in small.plot.compare()._repr_html_()
    with pytest.raises(ForetraceError, match="'metrics': has no figure;"):
        small.plot.metrics()
    with pytest.raises(AttributeError, match="no section is called 'pie'"):
        small.plot.pie()
    plot = small.results["base"].plot
    for name in ("activity", "blame", "cdf", "ops", "timeline", "use"):
        assert isinstance(getattr(plot, name)(), Figure)
    with pytest.raises(
        ForetraceError, match=r"metric 'ttft': this run has no such metric; use period"
    ):
        plot.cdf("ttft")


def test_blank_cells_of_a_heat_map_are_left_blank():
    one = HeatMap(["a"], [[1.0, float("nan")]], "time, s", "use")
    assert figure_html(one).count("<path fill") == 1
    assert figure_html(replace(one, columns=["x", "y"], title="{row}{column} {value}")).count(
        "<title>"
    ) == 1  # fmt: skip


def test_a_page_is_written_without_matplotlib():
    """matplotlib is imported only when a figure for paper is drawn."""
    code = (
        "import sys, foretrace.reports.html, foretrace.reports.section as s; s.sections('run');"
        "from foretrace.reports.figure_kind import figure_kinds; figure_kinds();"
        "print('matplotlib' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
