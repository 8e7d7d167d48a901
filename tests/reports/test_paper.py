"""A report on paper and one to zoom into: with the extra, or an error that names the cure."""

import builtins

import pytest
from foretrace.reports.export.pdf import write_pdf
from foretrace.reports.export.tables import write_ops
from foretrace.reports.run.interactive import MOST_BARS, with_timeline
from foretrace.reports.run.run_page import run_page
from foretrace.sim.errors import ForetraceError

RUN = {"resolved": "", "command": "", "run": "0" * 12, "title": "", "timeline_cut": ""}


@pytest.fixture
def html(small):
    return run_page(small.summary.to_dict(), small.results, RUN)


def without(monkeypatch, name, error):
    real = builtins.__import__

    def found(module, *rest, **more):
        if module.partition(".")[0] == name:
            raise error
        return real(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", found)


def test_without_weasyprint_the_cure_is_named(html, tmp_path, monkeypatch):
    without(monkeypatch, "weasyprint", ImportError("weasyprint"))
    with pytest.raises(ForetraceError, match=r"pip install weasyprint"):
        write_pdf(html, tmp_path / "r.pdf")


def test_without_pango_the_cure_is_named(html, tmp_path, monkeypatch):
    without(monkeypatch, "weasyprint", OSError("cannot load library 'libpango-1.0-0': no"))
    with pytest.raises(ForetraceError, match="apt-get install libpango"):
        write_pdf(html, tmp_path / "r.pdf")


def test_a_page_is_printed(html, tmp_path):
    pytest.importorskip("weasyprint", reason="needs foretrace[report]")
    write_pdf(html, tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF-")


def test_a_timeline_to_zoom_is_in_the_page_itself(html, small, tmp_path):
    pytest.importorskip("bokeh", reason="needs foretrace[report]")
    write_ops(tmp_path / "ops.parquet", small.results["base"])
    told = with_timeline(html, tmp_path / "ops.parquet")
    assert '<section id="interactive">' in told
    assert "are left out" not in told
    assert "<script src=" not in told
    assert len(small.results["base"].ops) < MOST_BARS
    assert len(told) < 2_500_000
