"""``foretrace explain`` and ``foretrace schema``: what a scenario may contain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .terminal.common import Json, print_json

Plugin = Annotated[list[Path], typer.Option("--plugin", help="Plug-in file; repeatable.")]


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
            help="A setting (run.seed), a metric, a backend, a process, a part (leaf1.up), a word "
            "of reports; a list: metrics, backends, processes, words; or collective:all-reduce "
            "with --on."
        ),
    ] = "scenario",
    on: Annotated[
        str, typer.Option(help="Scenario or run folder in which to look the name up.")
    ] = "",
    size: Annotated[str, typer.Option(help="Size of a collective.")] = "64 MiB",
    ranks: Annotated[int, typer.Option(help="Number of GPUs in a collective; by default all.")] = 0,
    plugin: Plugin = [],  # noqa: B006  typer's form of a repeatable option
    json: Json = False,
) -> None:
    """Explain a setting, a metric, a backend, a process, a part or a word of reports."""
    from ..config.explanation import explain as explained

    _load_plugin_files(plugin)
    if name.startswith("collective:"):
        _explain_collective(name.partition(":")[2], on, size, ranks, json)
        return
    if on:
        from ..studies.explaining.run_explanation import explain_on, scenario_and_points

        found = explain_on(name, *scenario_and_points(on))
    else:
        found = explained(name)
    if json:
        print_json(asdict(found))
    else:
        typer.echo(str(found))


def _explain_collective(collective: str, on: str, size: str, ranks: int, json: bool) -> None:
    """Print the algorithms for a collective on a machine, and which one is chosen."""
    from ...sim.errors import ScenarioError
    from ..studies.explaining.collective_choice import collective_choice
    from ..studies.explaining.run_explanation import scenario_and_points

    if not on:
        raise ScenarioError(
            f"explain collective:{collective}: needs a machine; give a scenario with --on"
        )
    found = collective_choice(scenario_and_points(on)[0], collective, size, ranks)
    if json:
        print_json(asdict(found))
    else:
        typer.echo(str(found))


@app.command()
def schema(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write; by default stdout.")
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
