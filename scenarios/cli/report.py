"""``foretrace report``: the report of a saved run as one file, or its figures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from ..studies.folders.writing import writing
from .app import app
from .terminal.common import Out

PAGES = ("report.html", "accuracy.html")  # of a run or a sweep; of a check


class FigureFormat(StrEnum):
    """Formats of figures for papers."""

    pdf = "pdf"
    png = "png"
    svg = "svg"


@app.command()
def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A scenario (for its newest run), a run folder, the beginning of a run's name, "
            "or, with --figures, a page such as compare.html."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write; with --figures the folder."),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write a PDF; needs WeasyPrint.")] = False,
    system: Annotated[
        bool, typer.Option("--system", help="Write the page of its ablations as Markdown.")
    ] = False,
    figures: Annotated[
        FigureFormat | None,
        typer.Option("--figures", help="Write each figure as a file of this format, for papers."),
    ] = None,
    section: Annotated[
        list[str] | None,
        typer.Option("--section", help="Only figures of this section; repeatable."),
    ] = None,
    columns: Annotated[
        int,
        typer.Option(
            "--columns", min=1, max=2, help="Figure width: 1 is 3.3 inches, 2 is 7 inches."
        ),
    ] = 1,
    style: Annotated[
        Path | None,
        typer.Option("--style", help="Matplotlib style sheet, applied to the built-in style."),
    ] = None,
    out: Out = Path("runs"),
) -> None:
    """Copy the report of a saved run, sweep or check to one file, or its figures to a folder."""
    from ..studies.folders.saved_runs import newest_or_named_run

    if figures is not None:
        _write_figures(run, out, output, figures.value, section or [], columns, style)
        return
    folder = newest_or_named_run(run, out)
    if system:
        _write_system_page(folder, output)
        return
    output = output or Path("report.pdf" if pdf else "report.html")
    html = _read_report_html(folder)
    try:
        if pdf:
            from ...reports.export.pdf import write_pdf

            write_pdf(html, output)
        else:
            output.write_text(html, encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{output}: cannot be written ({error}); choose another -o") from error
    typer.echo(f"wrote {output}  {output.stat().st_size / 1e6:.2f} MB")
    for sentence in _missing_parts(folder):
        typer.echo(sentence, err=True)


def _missing_parts(folder: Path) -> list[str]:
    """Sentences on what a saved run does not explain."""
    import json

    from ...reports.texts.unexplained import unexplained_sentences

    file = folder / "summary.json"
    return unexplained_sentences(json.loads(file.read_text())) if file.is_file() else []


def _write_system_page(folder: Path, output: Path | None) -> None:
    """Write the Markdown page of a published system, by default to docs/systems/NAME.md."""
    import json

    from ...reports.texts.system_page import system_page
    from ..studies.run.run_folder import load_summary

    summary = load_summary(folder)
    if "ablations" not in summary:
        raise ScenarioError(
            f"{folder}: its scenario has no 'ablations'; add them, see: foretrace explain ablations"
        )
    file = json.loads((folder / "manifest.json").read_text())["scenario"]["file"]
    output = output or Path("docs", "systems", f"{summary['name']}.md")
    with writing(output, "-o"):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(system_page(summary, file), encoding="utf-8")
    typer.echo(f"wrote {output}")


def _write_figures(
    run: str,
    out: Path,
    output: Path | None,
    kind: str,
    sections: list[str],
    columns: int,
    style: Path | None,
) -> None:
    """Write the figures of a page, by default to the folder ``figures`` next to it."""
    from ...reports.page_figures import UnknownFigureKindError
    from ...reports.paper.sheet import Sheet
    from ...reports.paper.write import select_figures, write_figures
    from ..studies.folders.saved_runs import newest_or_named_run

    page = Path(run)
    if page.suffix == ".html" and page.is_file():
        html, folder = page.read_text(encoding="utf-8"), page.with_name(f"{page.stem}-figures")
        chosen = select_figures(html, sections, run)
    else:
        saved = newest_or_named_run(run, out)
        html, folder = _read_report_html(saved), saved / "figures"
        try:
            chosen = select_figures(html, sections, run)
        except UnknownFigureKindError:
            _load_plugins_of_run(saved)
            chosen = select_figures(html, sections, run)
    for path in write_figures(chosen, output or folder, kind, Sheet(columns, style)):
        typer.echo(f"wrote {path}")


def _load_plugins_of_run(folder: Path) -> None:
    """Load the scenario of a run, and thus its plug-ins."""
    import json

    from ..config.loader import load

    load(json.loads((folder / "manifest.json").read_text())["scenario"]["file"])


def _read_report_html(folder: Path) -> str:
    for name in PAGES:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise ScenarioError(f"{folder}: has no report; run it again with --no-cache")
