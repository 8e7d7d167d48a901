"""``foretrace report``: the HTML report of a scenario's run, wherever it is wanted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from .app import app


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Copy the report of a saved run to a file that can be mailed."""
    page = run / "report.html"
    if not (run / "manifest.json").is_file() or not page.is_file():
        raise ScenarioError(f"{run}: is no finished run; give a folder that 'foretrace run' wrote")
    try:
        shutil.copyfile(page, output)
    except OSError as error:
        raise ScenarioError(f"{output}: cannot be written ({error}); choose another -o") from error
    typer.echo(f"wrote {output}  {output.stat().st_size / 1e6:.2f} MB")
