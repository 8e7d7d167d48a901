"""``foretrace hil check``: the ops of a scenario on its devices, and how wrong its models are."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..app import MISSED
from ..terminal.common import (
    Catalogs,
    File,
    Json,
    Out,
    Quiet,
    Set,
    Swap,
    print_error,
    print_json,
    print_sentences,
    print_table,
    progress_printer,
)
from .hil import hil


@hil.command()
def check(
    file: File,
    swap: Swap = [],  # noqa: B006  typer's form of a repeatable option
    set: Set = [],  # noqa: B006
    out: Out = Path("runs"),
    record: Annotated[
        Path | None, typer.Option(help="Folder for the recordings; sets hil.keep_recording.")
    ] = None,
    beside: Annotated[
        Path | None, typer.Option(help="Directory of another catalog, to show its errors too.")
    ] = None,
    busy: Annotated[
        float | None, typer.Option(help="Cores that other programs may use; sets hil.busy.")
    ] = None,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what a run would do, and compare with the models."""
    from ...config.hil_settings import parse_swap_options
    from ...config.loader import load
    from ...studies.accuracy.check_folder import save_check
    from ...studies.accuracy.device_check import check_devices as checked
    from ...studies.folders.partial_answers import keep_partial_answers

    settings = [*set, *parse_swap_options(swap)]
    settings += [f'hil.keep_recording="{record.absolute()}"'] if record else []
    settings += [f"hil.busy={busy}"] if busy is not None else []
    scenario = load(file, set=settings, catalogs=catalog)
    other = load(file, set=settings, catalogs=[*catalog, beside]) if beside else None
    with keep_partial_answers(scenario, out, print_error) as partial:
        found = checked(scenario, progress_printer(quiet or json), other, partial)
        folder = save_check(scenario, found, out, shlex.join(["foretrace", *sys.argv[1:]]))
    if json:
        print_json({**found.results, "folder": str(folder), "outcome": found.outcome})
    else:
        print_check(found.results, quiet)
        typer.echo(f"\nsaved {folder}    page {folder / 'accuracy.html'}")
    if found.outcome != "pass":
        raise typer.Exit(MISSED)


def print_check(check_data: dict[str, Any], quiet: bool) -> None:
    """The answer, then a row for each component and expectation."""
    from ....reports.accuracy.verdict import verdict_sentences
    from ....reports.numbers import format_signed_share

    console = print_sentences(verdict_sentences(check_data))
    if quiet:
        return
    console.print()
    print_table(console, _components_table(check_data))
    if check_data["expect"]:
        console.print()
        print_table(console, _expectations_table(check_data))
    for name, one in check_data["components"].items():
        if one["ops"]:
            worst = one["worst"]
            error = format_signed_share(worst["error"])
            console.print(f"worst    {name}: {worst['op']}, {error}", soft_wrap=True)


def _components_table(check_data: dict[str, Any]) -> Any:
    from rich.table import Table

    from ....reports.numbers import format_share

    table = Table(box=None, pad_edge=True)
    for name, right in (("component", 0), ("calls", 1), ("p50", 1), ("p95", 1), ("bias", 1),
                        ("A/A", 1), ("clock", 0)):  # fmt: skip
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for name, one in check_data["components"].items():
        if not one["ops"]:
            table.add_row(name, "", "n/a (emulated)", "", "", "", one["clock"])
            continue
        errors = one["errors"]
        told_errors = [format_share(errors[k]["value"]) for k in ("p50", "p95", "bias")]
        spread = "one start" if one["spread"] != one["spread"] else format_share(one["spread"])
        table.add_row(name, f"{one['n']:,}", *told_errors, spread, one["clock"])
    return table


def _expectations_table(check_data: dict[str, Any]) -> Any:
    from rich.table import Table

    from ....reports.numbers import format_share

    table = Table(box=None, pad_edge=True)
    for name in ("", "check", "error", "90 % within", "bar"):
        table.add_column(name, no_wrap=name != "check")
    for e in check_data["expect"]:
        outcome = e["outcome"] if e["otherwise"] == "fail" else f"{e['outcome']} (warn)"
        within = " to ".join(map(format_share, e["interval"])) if e["interval"] else "unknown"
        value = "unknown" if e["value"] is None else format_share(e["value"])
        mark = outcome.upper() if outcome == "fail" else outcome
        table.add_row(mark, e["that"], value, within, format_share(e["bar"]))
    return table
