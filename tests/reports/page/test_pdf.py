"""A report as PDF: written if the extra is installed, else an error that says what to install."""

import builtins

import pytest
from foretrace.reports.export.pdf import html_for_print, write_pdf
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


def test_paper_has_colours_of_its_own_and_no_script(html):
    """The PDF layout supports CSS variables in styles, but not in drawings."""
    told = html_for_print(html)
    assert '="var(--' not in told
    assert "<script" not in told
    assert 'fill="#1d4f9c"' in told


def test_a_page_is_printed(html, tmp_path):
    pytest.importorskip("weasyprint", reason="needs foretrace[report]")
    write_pdf(html, tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF-")
