"""``foretrace init``: a folder with a runnable scenario, its schema for editors, and a CI job."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from ..studies.folders.writing import writing
from .app import app

SCHEMA = Path(".foretrace") / "scenario.schema.json"
WORKFLOW = Path(".github") / "workflows" / "foretrace.yml"
EDITOR = f"# yaml-language-server: $schema=../{SCHEMA.as_posix()}\n"
VERBS = {"sweep": "sweep", "hil": "hil check"}  # what a section asks for
JOB = """\
name: foretrace
on: [push, pull_request]
jobs:
  scenarios:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install foretrace
      - run: foretrace validate scenarios/*.yaml --strict
      - run: foretrace run scenarios/first.yaml --out runs
      - run: foretrace compare scenarios/first.yaml --md >> "$GITHUB_STEP_SUMMARY"
"""


@app.command()
def init(
    folder: Annotated[
        Path, typer.Argument(help="Folder to create; existing files are not overwritten.")
    ] = Path(),
    template: Annotated[
        str, typer.Option(help="Kind of scenario: training, model, capacity, hil or minimal.")
    ] = "training",
) -> None:
    """Create a folder with a scenario that runs without changes."""
    text = _template_text(template)
    wanted = {
        folder / "scenarios" / "first.yaml": EDITOR + text,
        folder / SCHEMA: _schema_text(),
        folder / WORKFLOW: JOB,
        folder / ".gitignore": "runs/\n",
    }
    if there := [str(path) for path in wanted if path.exists()]:
        raise ScenarioError(f"init: {', '.join(there)} exist; give another folder")
    for path, content in wanted.items():
        with writing(path, "folder"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    typer.echo(f"made {', '.join(map(str, wanted))}")
    go = "" if folder == Path() else f"cd {folder} && "
    verb = next((v for key, v in VERBS.items() if f"\n{key}:" in text), "run")
    typer.echo(f"next: {go}foretrace {verb} scenarios/first.yaml")


def scenario_templates() -> dict[str, str]:
    """The text of each template, by name."""
    library = files(__package__.rpartition(".")[0]) / "library" / "templates"
    found = (f for f in library.iterdir() if f.name.endswith(".yaml"))
    return {f.name.removesuffix(".yaml"): f.read_text(encoding="utf-8") for f in found}


def _template_text(name: str) -> str:
    from ..config.problems import did_you_mean_text

    known = scenario_templates()
    if name not in known:
        raise ScenarioError(
            f"--template: no template '{name}'{did_you_mean_text(name, sorted(known))}"
        )
    return known[name]


def _schema_text() -> str:
    import json

    from ..config.schema import json_schema

    return json.dumps(json_schema(), indent=1) + "\n"
