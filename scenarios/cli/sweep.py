"""``foretrace sweep``: run many points of one scenario, and show the best ones."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...sim.errors import PlanError, ScenarioError
from .app import MISSED, UNFINISHED, app
from .terminal.common import (
    Catalogs,
    File,
    Json,
    Out,
    Quiet,
    Set,
    command_line,
    print_json,
    progress_printer,
)
from .terminal.faults import exit_if_any_fault

if TYPE_CHECKING:
    from ..studies.sweep.sweep_summary import Swept
    from ..studies.sweep.sweeping import Shard


@app.command()
def sweep(
    file: File,
    set: Set = [],  # noqa: B006  typer's form of a repeatable option
    out: Out = Path("runs"),
    workers: Annotated[
        str | None,
        typer.Option(help="Workers: local, local:4, dask://local or dask://HOST:PORT."),
    ] = None,
    points: Annotated[int | None, typer.Option(help="Number of points.")] = None,
    method: Annotated[
        str | None, typer.Option(help="Method: grid, random, sobol, tpe, nsga2 or plans.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Reuse saved points.")
    ] = True,
    shard: Annotated[
        str, typer.Option(metavar="K/N", help="Run only every N-th point, from the K-th on.")
    ] = "",
    time_limit: Annotated[
        str | None, typer.Option(help="Wall time limit; finished points are kept.")
    ] = None,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run many points of a scenario: a grid, random points or a search."""
    started = time.monotonic()
    from ..config.loader import load
    from ..studies.run.plan import require_run_fits_memory
    from ..studies.sweep.plan_points import wanted_points
    from ..studies.sweep.sweep_folder import outcome_store, save_sweep
    from ..studies.workers.workers import local_process_count, make_workers, workers_option

    settings = [*set]
    settings += [f"sweep.points={points}"] if points is not None else []
    settings += [f"sweep.method={method}"] if method is not None else []
    settings += [f"run.time_limit={time_limit}"] if time_limit is not None else []
    scenario = load(file, set=settings, catalogs=catalog)
    if scenario.section("sweep") is None:
        raise ScenarioError(
            f"{file}: has no 'sweep', so nothing varies; add one, see: foretrace explain sweep"
        )
    part = _parse_shard(shard, scenario.section("sweep").method)
    for warning in scenario.warnings:
        typer.echo(str(warning), err=True)
    kept = outcome_store(out, scenario)
    if resume and (others := kept.other_folders()):
        progress_printer(quiet or json)(
            f"points in {', '.join(map(str, others))} belong to another version of this scenario, "
            "its traces or foretrace, so every point is run again; to remove them: foretrace rm "
            "--cache"
        )
    asked = workers_option(workers, scenario.run.workers)
    if not asked.startswith("dask://") or "local" in asked:
        with suppress(PlanError) if scenario.section("sweep").method == "plans" else nullcontext():
            require_run_fits_memory(  # with plans, the first point may exceed the memory
                scenario, min(local_process_count(asked), wanted_points(scenario))
            )
    crew = make_workers(asked)
    swept = _run_sweep(scenario, kept, crew, part, resume, quiet or json)
    if part.count > 1:
        typer.echo(f"shard {shard}: {len(swept.trials)} points in {kept.folder}")
        typer.echo("when all shards are done, run the same command without --shard")
    else:
        facts = {"command": command_line(), "workers": crew.name}
        folder = save_sweep(swept, kept, out, facts, started)
        exit_if_any_fault(_print_answer(folder, json, quiet).get("unexplained", ()))
    if swept.failed:
        raise typer.Exit(UNFINISHED)
    if part.count == 1 and scenario.expect and not _any_point_meets_conditions(swept):
        raise typer.Exit(MISSED)


def _parse_shard(text: str, method: str) -> Shard:
    """Parse a shard such as ``3/16``, the third of sixteen.

    Raises
    ------
    ScenarioError
        The form is wrong, or the method needs the outcomes of all points.
    """
    from ..studies.sweep.sweeping import ALL, Shard

    if not text:
        return ALL
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ScenarioError(f"--shard: '{text}' is not a shard; write it like 3/16")
    if method in ("tpe", "nsga2"):
        raise ScenarioError(f"--shard: '{method}' learns from all points; write grid, random or "
                            "sobol, or use dask:// workers")  # fmt: skip
    return Shard(int(found[1]), int(found[2]))


def _run_sweep(
    scenario: Any, store: Any, workers: Any, shard: Shard, resume: bool, quiet: bool
) -> Swept:
    """Run a sweep; finished points are kept on an interrupt."""
    from ..studies.building.limits import time_limit
    from ..studies.sweep.plan_points import wanted_points
    from ..studies.sweep.sweeping import SweepInProgress
    from ..studies.workers.worker_pool import closing_pool
    from .terminal.progress import SweepProgress

    total, limit = wanted_points(scenario), time_limit(scenario.run.time_limit)
    bar = SweepProgress(total, progress_printer(quiet), workers.name, store.folder, quiet)
    with store, limit, bar as counter, closing_pool(workers):
        return SweepInProgress(
            scenario, store, workers, counter.count, shard, resume
        ).try_all_points()


def _any_point_meets_conditions(swept: Swept) -> bool:
    strict = [e.that for e in swept.scenario.expect if e.otherwise == "fail"]
    nan = float("nan")
    return any(
        all(c.holds(t.values.get(c.name, nan)) for c in strict)
        for t in swept.trials
        if t.error is None
    )


def _print_answer(folder: Path, json: bool, quiet: bool) -> dict[str, Any]:
    """Print the answer of a sweep; returns its summary."""
    from json import loads

    summary: dict[str, Any] = loads((folder / "summary.json").read_text())
    if json:
        print_json({**summary, "folder": str(folder)})
        return summary
    from .terminal.show_sweep import print_sweep_answer

    print_sweep_answer(summary, quiet)
    typer.echo(f"\nsaved {folder}    report {folder / 'report.html'}")
    return summary
