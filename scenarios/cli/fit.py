"""``foretrace fit``: parameters of a part from recordings, with all that is to be said of them."""

from __future__ import annotations

import json as jsonlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...sim.errors import ScenarioError
from .app import app
from .common import Catalogs, Json, print_json

if TYPE_CHECKING:
    from ..studies.fitting.bench import Bench
    from ..studies.fitting.round_trip import RoundTrip
    from ..studies.fitting.rows import MeasuredRows

AskedFit = tuple[str, list[str], list[str], str]  # --start, --know, --parameter, --name


@app.command()
def fit(
    component: Annotated[
        str,
        typer.Argument(
            help="memory, cxl, link, nic, switch, gpu, library; rates of messages; memory loaded "
            "by threads; ops by families."
        ),
    ],
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
    machine: Annotated[
        Path | None,
        typer.Option(
            help="A scenario whose cluster it was recorded on; unless given, nothing beside the "
            "part takes time."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The file to write.")] = None,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Fit a part to recordings, with whole groups held out, and run the recorded ops with it."""
    from ..studies.fitting.bench import BENCHES, Bench
    from ..studies.fitting.loaded import LOADED_KIND
    from ..studies.fitting.rates import RATES_KIND, require_no_streams
    from ..studies.fitting.rows import HOLDOUTS, measured_rows

    if holdout not in HOLDOUTS:
        raise ScenarioError(f"--holdout '{holdout}': take one of {', '.join(HOLDOUTS)}")
    kinds = (*BENCHES, RATES_KIND, LOADED_KIND)
    if component not in kinds:
        raise ScenarioError(f"fit '{component}': take one of {', '.join(kinds)}")
    data = measured_rows(recording, only)
    stated = None if bar is None else bar / 100
    asked = (start, know, parameter, name)
    if component == RATES_KIND:
        report, text = _fit_rates(data, holdout, stated, asked, catalog)
    elif component == LOADED_KIND:
        report, text = _fit_loaded(data, holdout, stated, asked, catalog)
    else:
        require_no_streams(component, data)
        bench = Bench(component, machine, tuple(catalog))
        if component == "ops":
            report, text = _fit_families(bench, data, holdout, stated, caches)
        else:
            report, text = _fit_part(bench, data, holdout, stated, asked)
    if out is not None:
        _write_catalog_entry(out, text)
    if json:
        print_json({**report, "wrote": str(out) if out else None})
        return
    _print_fit_report(report)
    typer.echo(f"\nwrote {out}" if out else f"\n{text}")


def _fit_families(
    bench: Bench, data: MeasuredRows, holdout: str, bar: float | None, caches: list[str]
) -> tuple[dict[str, Any], str]:
    """Report and file of all families of ops."""
    from ..studies.fitting.caches import fit_cache_model
    from ..studies.fitting.entry import families_file, families_to_dict
    from ..studies.fitting.families import fit_families
    from ..studies.fitting.round_trip import families_round_trip

    ops = tuple(dict.fromkeys(data.bench_ops))
    parts = fit_families(data, holdout)
    costs = fit_cache_model(caches) if caches else None
    file = families_file(parts, data, holdout, _today(), bar, costs)
    text = jsonlib.dumps(file, indent=1) + "\n"
    back = families_round_trip(bench, ops, text, parts, data.medians(ops))
    if back is not None:
        back.require_return()
    return families_to_dict(parts, data, holdout, bar) | _told(back), text


def _fit_part(
    bench: Bench, data: MeasuredRows, holdout: str, bar: float | None, asked: AskedFit
) -> tuple[dict[str, Any], str]:
    """Report and catalog entry of one part."""
    from ..studies.fitting.entry import catalog_entry_text, fit_to_dict, settings_before_fit
    from ..studies.fitting.forms import fit_part, part_to_fit
    from ..studies.fitting.round_trip import part_round_trip

    start, know, parameter, name = asked
    before = settings_before_fit(bench.kind, start, know, bench.catalogs)
    ops = tuple(dict.fromkeys(data.bench_ops))
    part = part_to_fit(bench.kind, before.settings, parameter)
    placed = data.on(bench, ops, part.settings)
    found, model = fit_part(bench, part, ops, placed.rows(holdout))
    text = catalog_entry_text(bench.kind, name, before, found, data, holdout, _today(), bar)
    table = bench.placed_ops(ops, part.settings)
    back = part_round_trip(
        bench, ops, text, name, model(found.values, table), data.medians(ops), found.held.median
    )
    back.require_return()
    return fit_to_dict(bench.kind, found, data, holdout, bar) | _told(back), text


def _fit_rates(
    data: MeasuredRows, holdout: str, bar: float | None, asked: AskedFit, catalogs: list[Path]
) -> tuple[dict[str, Any], str]:
    """Report and file of the message rates of a NIC."""
    from ..studies.fitting.entry import fit_to_dict, settings_before_fit
    from ..studies.fitting.rates import RATES_KIND, fit_rates, rates_file

    start, know, parameter, name = asked
    before = settings_before_fit("nic", start, know, catalogs)
    found, still = fit_rates(data, before.settings, parameter, holdout)
    report = fit_to_dict(RATES_KIND, found, data, holdout, bar) | _told(None)
    file = rates_file(name, found, still, report, _today())
    return report, jsonlib.dumps(file, indent=1) + "\n"


def _fit_loaded(
    data: MeasuredRows, holdout: str, bar: float | None, asked: AskedFit, catalogs: list[Path]
) -> tuple[dict[str, Any], str]:
    """Report and file of a memory under load."""
    from ..studies.fitting.entry import fit_to_dict, settings_before_fit
    from ..studies.fitting.loaded import LOADED_KIND, fit_loaded, loaded_file

    start, know, parameter, name = asked
    before = settings_before_fit("memory", start, know, catalogs)
    found, still = fit_loaded(data, before.settings, parameter, holdout)
    report = fit_to_dict(LOADED_KIND, found, data, holdout, bar) | _told(None)
    file = loaded_file(name, found, still, report, _today())
    return report, jsonlib.dumps(file, indent=1) + "\n"


def _told(back: RoundTrip | None) -> dict[str, Any]:
    return {"round_trip": back.to_dict() if back is not None else None}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


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
    for number, line in enumerate((report["round_trip"] or {"lines": ()})["lines"]):
        typer.echo(f"{'' if number else 'round trip':14s} {line}")
