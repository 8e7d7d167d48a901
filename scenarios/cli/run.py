"""``foretrace run``: simulate a scenario, print the answer, write the run folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import MISSED, UNFINISHED, app
from .terminal.common import (
    Catalogs,
    File,
    Json,
    Out,
    Quiet,
    Set,
    Swap,
    command_line,
    print_error,
    print_json,
)
from .terminal.faults import exit_if_any_fault

if TYPE_CHECKING:
    from ..config.problems import Problem
    from ..config.scenario import Scenario
    from ..studies.folders.partial_answers import PartialAnswers


@app.command()
def run(
    file: File,
    set: Set = [],  # noqa: B006  typer's form of a repeatable option
    swap: Swap = [],  # noqa: B006
    out: Out = Path("runs"),
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    replicas: Annotated[
        int | None, typer.Option(help="Number of seeded runs for the interval.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Detail of the saved result: ops, ranks or none.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Run only the base and this variant of what_if.")
    ] = None,
    defend: Annotated[
        bool,
        typer.Option("--defend", help="Also test which values matter and what flips the answer."),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the runs for sensitivity and model errors.")
    ] = False,
    prints: Annotated[
        bool, typer.Option("--prints", help="Show what processes print in every simulation.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run again even if the run is saved.")
    ] = False,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a scenario and write its report."""
    started = time.monotonic()
    from ..config.hil_settings import live_devices_drive_run, parse_swap_options
    from ..config.loader import load
    from ..studies.building.limits import TimeLimitExceeded
    from ..studies.run.run_folder import existing_run, load_summary
    from .terminal.show import print_run_answer

    settings = [*set, *parse_swap_options(swap), *(["hil.mode=coupled"] if swap else [])]
    settings += [f"run.seed={seed}"] if seed is not None else []
    settings += [f"run.replicas={replicas}"] if replicas is not None else []
    settings += [f"run.keep={keep}"] if keep is not None else []
    settings += ["run.defend=true"] if defend else []
    settings += ["run.quick=true"] if quick else []
    scenario = load(file, set=settings, catalogs=catalog)
    if variant is not None:
        scenario = scenario.only(variant)
    again = no_cache or prints or live_devices_drive_run(scenario)
    folder = None if again else existing_run(out, scenario)
    if folder is None:
        folder, saved = (
            _simulate_and_save(scenario, out, started, quiet or json, prints),
            "saved",
        )
    else:
        _print_warnings(scenario.warnings)
        saved = "found"
    summary = load_summary(folder)
    if json:
        print_json({**summary, "folder": str(folder)})
    else:
        print_run_answer(summary, quiet)
        typer.echo(f"\n{saved} {folder}    report {folder / 'report.html'}")
        if (kept := sorted(folder.glob("prints.*.txt"))) and not quiet:
            what = "printed by processes, in the first simulation of each variant"
            typer.echo(f"{what}: {', '.join(map(str, kept))}", err=True)
        if scenario.section("sweep") is not None and not quiet:
            from ..studies.sweep.plan_points import wanted_points

            typer.echo(
                f"its sweep of {wanted_points(scenario)} points was not run; run: foretrace sweep "
                f"{file}",
                err=True,
            )
        if (hil := scenario.section("hil")) is not None and hil.mode == "replay" and not quiet:
            typer.echo(f"its devices were not used; run: foretrace hil check {file}", err=True)
    left = summary.get("unfinished", ())
    kinds = {one["kind"] for one in summary.get("unexplained", ())}
    if left or "stopped" in kinds:
        late = TimeLimitExceeded(scenario.run.time_limit or 0.0)
        names = ", ".join(left) or "the explanation"
        typer.echo(f"error {late}; not finished: {names}", err=True)
        raise typer.Exit(UNFINISHED)
    exit_if_any_fault(summary.get("unexplained", ()))
    if any_expectation_failed(summary):
        raise typer.Exit(MISSED)


def _simulate_and_save(
    scenario: Scenario, out: Path, started: float, quiet: bool, prints: bool
) -> Path:
    """Simulate a scenario and save the run; returns its folder."""
    from ..studies.folders.output_folder import require_writable
    from ..studies.run.run import Study, study
    from ..studies.run.run_folder import save_answer, save_run
    from ..studies.variants.executor import load_engine_in_background
    from .checks.checks import require_valid
    from .terminal.progress import RunProgress

    require_writable(out, scenario)
    with load_engine_in_background(scenario.run.engine):
        _print_warnings(require_valid(scenario, "limits"))  # the study builds the variants
        with _measurements_saved_on_error(scenario, out) as partial:
            with RunProgress(quiet) as progress:
                shown = sys.stderr if prints else None
                answer: list[Path] = []

                def save(answered: Study) -> None:
                    answer.append(save_answer(answered, out, started, command_line()))

                done = study(scenario, progress.tell, None, partial, progress.count, shown, save)
            return save_run(done, out, started, command_line(), *answer)


def _measurements_saved_on_error(
    scenario: Scenario, out: Path
) -> AbstractContextManager[PartialAnswers | None]:
    """Context manager that saves measurements of live devices on an error."""
    from ..config.hil_settings import live_devices_drive_run

    if not live_devices_drive_run(scenario):
        return nullcontext()
    from ..studies.folders.partial_answers import keep_partial_answers

    return keep_partial_answers(scenario, out, print_error)


def _print_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        typer.echo(str(warning), err=True)


def any_expectation_failed(summary: dict[str, Any]) -> bool:
    """True if a condition of any variant failed (warnings aside), or an ablation failed."""
    from ..studies.summaries.ablations import ablations_met

    expected = [e for point in summary["points"].values() for e in point["expect"]]
    missed = any(not e["met"] and e["otherwise"] == "fail" for e in expected)
    return missed or not ablations_met(summary.get("ablations", {}))
