"""``foretrace hil check``: run the ops of a scenario on its devices, and report model errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    command_line,
    print_error,
    print_json,
    print_sentences,
    print_table,
    progress_printer,
    terminal_table,
)
from ..terminal.faults import exit_if_any_fault
from .hil import hil

if TYPE_CHECKING:
    from ....reports.blocks import Table


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
    """Measure the ops of a run on devices, and compare them with the models."""
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
        folder = save_check(scenario, found, out, command_line())
    if json:
        print_json({**found.results, "folder": str(folder), "outcome": found.outcome})
    else:
        print_check(found.results, quiet)
        typer.echo(f"\nsaved {folder}    page {folder / 'accuracy.html'}")
    exit_if_any_fault(found.results.get("unexplained", ()))
    if found.outcome != "pass":
        raise typer.Exit(MISSED)


def print_check(check_data: dict[str, Any], quiet: bool) -> None:
    """Print the answer, then a row for each component and condition."""
    from ....reports.accuracy.check_summary import expectations_table
    from ....reports.accuracy.verdict import verdict_sentences
    from ....reports.numbers import format_signed_share

    console = print_sentences(verdict_sentences(check_data))
    if quiet:
        return
    console.print()
    print_table(console, terminal_table(_components_table(check_data)))
    if check_data["expect"]:
        console.print()
        print_table(console, terminal_table(expectations_table(check_data)))
    for name, one in check_data["components"].items():
        if one["ops"]:
            worst = one["worst"]
            error = format_signed_share(worst["error"])
            console.print(f"worst    {name}: {worst['op']}, {error}", soft_wrap=True)


def _components_table(check_data: dict[str, Any]) -> Table:
    from ....reports.blocks import Column, Line, Table
    from ....reports.numbers import format_share

    numbers = (Column(name, number=True) for name in ("calls", "p50", "p95", "bias", "A/A"))
    rows: list[list[Line]] = []
    for name, one in check_data["components"].items():
        if not one["ops"]:
            rows.append([name, "", "n/a (emulated)", "", "", "", one["clock"]])
            continue
        errors = [format_share(one["errors"][k]["value"]) for k in ("p50", "p95", "bias")]
        spread = "one start" if one["spread"] != one["spread"] else format_share(one["spread"])
        rows.append([name, f"{one['n']:,}", *errors, spread, one["clock"]])
    return Table([Column("component"), *numbers, Column("clock")], rows)
