"""``foretrace report``: the report of a saved run, wherever it is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from .app import app
from .terminal.common import Out

PAGES = ("report.html", "accuracy.html")  # of a run or a sweep; of a check


@app.command()
def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A scenario (its newest run), a run folder, or the beginning of its name."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="On paper; takes WeasyPrint.")] = False,
    system: Annotated[
        bool, typer.Option("--system", help="The page of its ablations, as Markdown.")
    ] = False,
    out: Out = Path("runs"),
) -> None:
    """Copy the report of a saved run, sweep or check to one file."""
    from ..studies.folders.saved_runs import newest_or_named_run

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


def _write_system_page(folder: Path, output: Path | None) -> None:
    """Write the page of a published system: by default ``NAME.md`` in docs/systems."""
    import json

    from ...reports.export.system_page import system_page
    from ..studies.run.run_folder import load_summary

    summary = load_summary(folder)
    if "ablations" not in summary:
        raise ScenarioError(
            f"{folder}: its scenario has no 'ablations'; see: foretrace explain ablations"
        )
    file = json.loads((folder / "manifest.json").read_text())["scenario"]["file"]
    output = output or Path("docs", "systems", f"{summary['name']}.md")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(system_page(summary, file), encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{output}: cannot be written ({error}); choose another -o") from error
    typer.echo(f"wrote {output}")


def _read_report_html(folder: Path) -> str:
    for name in PAGES:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise ScenarioError(f"{folder}: has no report; run it again with --no-cache")
