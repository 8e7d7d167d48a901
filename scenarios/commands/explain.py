"""``foretrace explain`` and ``foretrace schema``: what can be written, for people and editors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .common import Json, print_json


@app.command()
def explain(
    name: Annotated[
        str, typer.Argument(help="A setting (run.seed), a metric, a backend, or metrics.")
    ] = "scenario",
    json: Json = False,
) -> None:
    """Say what a setting, a metric or a backend means."""
    from ..explain import explain as explained

    found = explained(name)
    if json:
        print_json(asdict(found))
    else:
        typer.echo(str(found))


@app.command()
def schema(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A file; stdout unless said.")
    ] = None,
) -> None:
    """Print the JSON schema of scenarios, for editors."""
    import json

    from ..schema import json_schema

    text = json.dumps(json_schema(), indent=1)
    if out is None:
        typer.echo(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
