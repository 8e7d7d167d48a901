"""``foretrace fit``: parameters of a part from recordings, with all that is to be said of them."""

from __future__ import annotations

import json as jsonlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ...sim.errors import ScenarioError
from .app import app
from .common import Catalogs, Json, print_json


@app.command()
def fit(
    component: Annotated[str, typer.Argument(help="memory, cxl, link, nic; or ops, by families.")],
    recording: Annotated[
        list[str], typer.Option(help="Of 'hil record', or foretrace:NAME; repeatable.")
    ],
    holdout: Annotated[
        str, typer.Option(help="Held out together: sizes, shapes, depths, starts, days.")
    ] = "sizes",
    start: Annotated[str, typer.Option(help="The catalog entry to start from.")] = "",
    know: Annotated[list[str], typer.Option(help="NAME=VALUE, known before; repeatable.")] = [],  # noqa: B006  typer's form of a repeatable option
    parameter: Annotated[
        list[str], typer.Option(help="May change; all unless said; repeatable.")
    ] = [],  # noqa: B006
    only: Annotated[str, typer.Option(help="A regular expression of signatures.")] = "",
    name: Annotated[str, typer.Option(help="Of the new entry.")] = "fitted",
    caches: Annotated[
        list[str],
        typer.Option(help="Of ops: recordings of host:chase, host:read and cold ops; repeatable."),
    ] = [],  # noqa: B006
    bar: Annotated[
        float | None,
        typer.Option(help="% that a median error shall stay below; 10 for memory, else 15."),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The file to write.")] = None,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Fit a part to recordings, with whole groups held out."""
    from ..studies.fitting.caches import fit_cache_model as told_caches
    from ..studies.fitting.entry import (
        catalog_entry_text,
        families_file,
        families_to_dict,
        fit_to_dict,
        settings_before_fit,
    )
    from ..studies.fitting.families import fit_families
    from ..studies.fitting.rows import FORMS, HOLDOUTS, fit_part, measured_rows

    if holdout not in HOLDOUTS:
        raise ScenarioError(f"--holdout '{holdout}': take one of {', '.join(HOLDOUTS)}")
    if component not in (*FORMS, "ops"):
        raise ScenarioError(f"fit '{component}': take one of {', '.join((*FORMS, 'ops'))}")
    data = measured_rows(recording, only)
    stated = None if bar is None else bar / 100
    today = datetime.now(UTC).date().isoformat()
    if component == "ops":
        parts = fit_families(data, holdout)
        report: dict[str, Any] = families_to_dict(parts, data, holdout, stated)
        costs = told_caches(caches) if caches else None
        file = families_file(parts, data, holdout, today, stated, costs)
        text = jsonlib.dumps(file, indent=1) + "\n"
    else:
        before = settings_before_fit(component, start, know, catalog)
        found = fit_part(component, before.values, data.rows(holdout), parameter)
        report = fit_to_dict(component, found, data, holdout, stated)
        text = catalog_entry_text(component, name, before, found, data, holdout, today, stated)
    if out is not None:
        _write_catalog_entry(out, text)
    if json:
        print_json({**report, "wrote": str(out) if out else None})
        return
    _print_fit_report(report)
    typer.echo(f"\nwrote {out}" if out else f"\n{text}")


def _write_catalog_entry(out: Path, text: str) -> None:
    try:
        out.write_text(text)
    except OSError as error:
        raise ScenarioError(f"{out}: cannot be written ({error}); choose another --out") from error


def _print_fit_report(report: dict[str, Any]) -> None:
    """Each fit as a few lines."""
    for one in report["fits"]:
        typer.echo(f"{one['name']}: {one['groups'][0]} groups of {report['holdout']} fitted on, "
                   f"{one['groups'][1]} held out, {one['groups'][2]} scored once")  # fmt: skip
        for p in one["parameters"]:
            typer.echo(f"  {p['text']}")
        for label, key in (("blind", "blind"), ("held out", "held"), ("scored once", "final"),
                           ("interpolation", "interpolated"), ("nearest", "nearest")):  # fmt: skip
            typer.echo(f"  {label:14s} {one[key]}")
            if key in one["verdicts"]:
                typer.echo(f"  {'':14s} {one['verdicts'][key]}")
    for left in report["left"]:
        typer.echo(f"not fitted: {left}")
    for line in report["together"]:
        typer.echo(line)
