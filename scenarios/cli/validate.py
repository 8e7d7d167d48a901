"""``foretrace validate``: the checks of a run without running it; opens no device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .app import WRONG, app
from .terminal.common import Catalogs, Json, Set, print_json

if TYPE_CHECKING:
    from ..config.problems import Problem


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(help="Scenario files, or names of bundled ones.")],
    json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Print every value with its origin.")
    ] = False,
    ops: Annotated[
        bool,
        typer.Option(
            "--ops/--no-ops", help="Also read traces, and check that models know all ops."
        ),
    ] = True,
    set: Set = [],  # noqa: B006  typer's form of a repeatable option
    catalog: Catalogs = [],  # noqa: B006
) -> None:
    """Check scenarios without running them."""
    from ..config.loader import load
    from ..config.problems import InvalidScenarioError, problems_text
    from ..config.reading.resolution import resolved_yaml
    from .checks.checks import validation_problems as problems_of

    problems: list[Problem] = []
    for file in files:
        try:
            scenario = load(file, set=set, catalogs=catalog)
        except InvalidScenarioError as error:
            problems += error.problems
            continue
        found = list(problems_of(scenario, "answers" if ops else "dry run"))
        problems += found
        if resolved:
            typer.echo(resolved_yaml(scenario.resolved(), scenario.origins))
        elif not json and not found:
            typer.echo(f"ok    {file}")
    if json:
        print_json({"problems": [p.facts() for p in problems]})
    elif problems:
        typer.echo(problems_text(problems), err=True)
    if any(p.severity == "error" or strict for p in problems):
        raise typer.Exit(WRONG)
