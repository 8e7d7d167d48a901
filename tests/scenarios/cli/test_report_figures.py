"""``foretrace report RUN --figures``: files of every figure of a page."""

from foretrace.reports.page_figures import decode_figures
from foretrace.reports.section import SECTIONS
from foretrace.scenarios.config.plugin_loading import unload_plugin_file


def test_every_figure_of_the_first_page_is_a_file(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("run", "first", "--quick")[0] == 0
    (page,) = tmp_path.glob("runs/first/*/report.html")
    named = [one.name for one in decode_figures(page.read_text())]
    assert len(named) >= 6
    code, out, _ = cli("report", "first", "--figures", "pdf")
    assert code == 0
    written = sorted(f.name for f in (page.parent / "figures").iterdir())
    assert written == sorted(f"{name}.pdf" for name in named)
    assert out.count("wrote ") == len(named)
    before = {f.name: f.read_bytes() for f in (page.parent / "figures").iterdir()}
    assert cli("report", "first", "--figures", "pdf", "--section", "blame")[0] == 0
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
    assert "its page has no figure data; write it again: foretrace run --no-cache" in err


PLUGIN = """
from dataclasses import dataclass

from foretrace.reports.figure_kind import on_paper
from foretrace.reports.section import section


@dataclass(frozen=True)
class Spiral:
    turns: int


@on_paper(Spiral)
def spiral(of, sheet):
    figure = sheet.canvas(2.0)
    figure.add_subplot().plot(range(of.turns))
    return figure


@section("own", title="Own")
def own(study):
    yield Spiral(3)
"""


def test_a_figure_of_a_plug_in_is_a_file_also_in_a_new_process(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin, scenario = tmp_path / "spiral.py", tmp_path / "mine.yaml"
    plugin.write_text(PLUGIN)
    scenario.write_text(
        "foretrace: 1\nname: mine\nextends: foretrace:thin-spine\nplugins: [spiral.py]\n"
        "what_if: []\nreport: {sections: [own]}\n"
    )
    try:
        code, _, err = cli("run", "mine.yaml", "--quick")
        assert code == 0, err
        unload_plugin_file(plugin)
        code, out, err = cli("report", "mine", "--figures", "svg")
        assert code == 0, err
        assert out.rstrip().endswith("figures/own.svg")
    finally:
        unload_plugin_file(plugin)
        SECTIONS.pop("run.own", None)
