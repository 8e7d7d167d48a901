"""``foretrace report``: the HTML report of a saved run, wherever it is wanted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from .app import app
from .common import Out


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="A run folder, or the beginning of its name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path(
        "report.html"
    ),
    out: Out = Path("runs"),
) -> None:
    """Copy the report of a saved run or sweep to one file."""
    from ..runs import located

    folder = located(run, out)
    page = folder / "report.html"
    if not page.is_file():
        raise ScenarioError(f"{folder}: has no report; run it again with --no-cache")
    try:
        shutil.copyfile(page, output)
    except OSError as error:
        raise ScenarioError(f"{output}: cannot be written ({error}); choose another -o") from error
    typer.echo(f"wrote {output}  {output.stat().st_size / 1e6:.2f} MB")
