"""``foretrace ls``, ``show`` and ``rm``: saved runs and sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...sim.errors import ScenarioError
from .app import app
from .terminal.common import Json, Out, Quiet, print_json

Run = Annotated[str, typer.Argument(help="A run folder, or the beginning of its name.")]


@app.command("ls")
def ls(
    scenario: Annotated[str, typer.Argument(help="Only runs of this scenario.")] = "",
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """List saved runs, newest first."""
    from ..studies.folders.saved_runs import saved_runs

    rows = [s.facts() for s in saved_runs(out) if scenario in ("", s.folder.parent.name)]
    if json:
        print_json({"runs": rows})
        return
    for row in rows:
        took = f"{row['seconds']:.1f} s" if row["seconds"] is not None else ""
        typer.echo(f"{row['date'][:16]:<17} {row['kind']:<6} {row['scenario']}/{row['run']}"
                   f"  {_size_text(row['bytes'])}  {took}".rstrip())  # fmt: skip
    if not rows:
        typer.echo(f"no saved runs {f'of {scenario} ' * bool(scenario)}in {out}", err=True)


@app.command()
def show(run: Run, out: Out = Path("runs"), json: Json = False, quiet: Quiet = False) -> None:
    """Print the answer of a saved run again."""
    from ..studies.folders.output_folder import ACCURACY
    from ..studies.folders.saved_runs import newest_or_named_run

    folder = newest_or_named_run(run, out)
    if (folder / ACCURACY).is_file():
        _print_check(folder, json, quiet)
        return
    summary = _read_summary(folder)
    if json:
        print_json({**summary, "folder": str(folder)})
    elif summary.get("kind") == "sweep":
        from .terminal.show_sweep import print_sweep_answer as of_sweep

        of_sweep(summary, quiet)
    else:
        from ..studies.run.run_folder import require_present_keys
        from .terminal.show import print_run_answer

        require_present_keys(summary, folder)
        print_run_answer(summary, quiet)
    if not json:
        typer.echo(f"\nsaved {folder}    report {folder / 'report.html'}")


def _print_check(folder: Path, as_json: bool, quiet: bool) -> None:
    """Print a saved hardware check again."""
    from ..studies.accuracy.saved_check import upgraded_check
    from ..studies.folders.output_folder import ACCURACY
    from .hil.hil_check import print_check as told_of

    told = upgraded_check(_read_json(folder, ACCURACY))
    if as_json:
        print_json({**told, "folder": str(folder)})
    else:
        told_of(told, quiet)
        typer.echo(f"\nsaved {folder}    page {folder / 'accuracy.html'}")


def _read_summary(folder: Path) -> dict[str, Any]:
    from ..studies.run.run_folder import summary_with_answer

    told = _read_json(folder, "summary.json")
    if told.get("schema") != 1:
        raise ScenarioError(f"{folder}: was written by another version of foretrace; run it again")
    return summary_with_answer(told)


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    import json

    try:
        told = json.loads((folder / name).read_text())
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{folder}: its summary cannot be read ({error}); run it again") from (
            error
        )
    if not isinstance(told, dict):
        raise ScenarioError(f"{folder}: was written by another version of foretrace; run it again")
    return told


@app.command()
def rm(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Run folders, or the beginnings of their names.")
    ] = None,
    cache: Annotated[
        bool, typer.Option("--cache", help="Remove the stored points of sweeps.")
    ] = False,
    out: Out = Path("runs"),
) -> None:
    """Remove saved runs."""
    from ..studies.folders.saved_runs import find_run_folder, remove_run, remove_sweep_caches

    if not runs and not cache:
        raise ScenarioError("rm: nothing to remove; name runs (foretrace ls), or give --cache")
    folders = [
        find_run_folder(name, out) for name in runs or ()
    ]  # all are known before one is removed
    for folder in folders:
        remove_run(folder)
        typer.echo(f"removed {folder}")
    if cache:
        typer.echo(f"removed {_size_text(remove_sweep_caches(out))} of points")


def _size_text(count: int) -> str:
    from ...reports.numbers import format_quantity

    return format_quantity(float(count), "B")
