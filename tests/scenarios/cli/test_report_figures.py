"""``foretrace report RUN --figures``: files of every figure of a page."""

from foretrace.reports.page_figures import figures_of_page


def test_every_figure_of_the_first_page_is_a_file(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("run", "first", "--quick")[0] == 0
    (page,) = tmp_path.glob("runs/first/*/report.html")
    named = [one.name for one in figures_of_page(page.read_text())]
    assert len(named) >= 6
    code, out, _ = cli("report", "first", "--figures", "pdf")
    assert code == 0
    written = sorted(f.name for f in (page.parent / "figures").iterdir())
    assert written == sorted(f"{name}.pdf" for name in named)
    assert out.count("wrote ") == len(named)
    before = {f.name: f.read_bytes() for f in (page.parent / "figures").iterdir()}
    assert cli("report", "first", "--figures", "pdf")[0] == 0
    assert before == {f.name: f.read_bytes() for f in (page.parent / "figures").iterdir()}

    code, out, _ = cli("report", page, "--figures", "svg", "--section", "blame", "--columns", "2")
    assert code == 0
    assert [f.name for f in page.with_name("report-figures").iterdir()] == ["blame.svg"]
    code, _, err = cli("report", "first", "--figures", "svg", "--section", "metrics")
    assert code
    assert "--section metrics: has no figure on this page; sections with figures: answer" in err
    page.write_text("<html></html>")
    code, _, err = cli("report", "first", "--figures", "svg")
    assert code
    assert "its page holds no figures as data; write it again: foretrace run --no-cache" in err
