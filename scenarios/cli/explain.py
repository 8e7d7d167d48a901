"""``foretrace explain`` and ``foretrace schema``: what can be written, for people and editors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .common import Json, print_json

Plugin = Annotated[list[Path], typer.Option("--plugin", help="A plug-in's file; repeatable.")]


def _load_plugin_files(files: list[Path]) -> None:
    from ..config.plugin_loading import load_plugin_file
    from ..config.problems import FilePosition

    for file in files:
        load_plugin_file(file, FilePosition("--plugin"))


@app.command()
def explain(
    name: Annotated[
        str,
        typer.Argument(
            help="A setting (run.seed), a metric, a backend, a process, a word of reports; "
            "or a list: metrics, backends, processes, words."
        ),
    ] = "scenario",
    plugin: Plugin = [],  # noqa: B006  typer's form of a repeatable option
    json: Json = False,
) -> None:
    """Say what a setting, a metric, a backend, a process or a word means."""
    from ..config.explanation import explain as explained

    _load_plugin_files(plugin)
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
    plugin: Plugin = [],  # noqa: B006  typer's form of a repeatable option
) -> None:
    """Print the JSON schema of scenarios, for editors."""
    import json

    from ..config.schema import json_schema

    _load_plugin_files(plugin)
    text = json.dumps(json_schema(), indent=1)
    if out is None:
        typer.echo(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
