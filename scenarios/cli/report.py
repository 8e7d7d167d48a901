"""``foretrace report``: the report of a saved run, wherever it is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from .app import app
from .common import Out

PAGES = ("report.html", "accuracy.html")  # of a run or a sweep; of a check


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="A run folder, or the beginning of its name.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="On paper; takes WeasyPrint.")] = False,
    out: Out = Path("runs"),
) -> None:
    """Copy the report of a saved run, sweep or check to one file."""
    from ..studies.saved_runs import find_run_folder

    folder = find_run_folder(run, out)
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


def _read_report_html(folder: Path) -> str:
    for name in PAGES:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise ScenarioError(f"{folder}: has no report; run it again with --no-cache")
