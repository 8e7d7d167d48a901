"""``foretrace fit``: fit the parameters of a part to recordings, with held-out errors."""

from __future__ import annotations

import json as jsonlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...sim.errors import ScenarioError
from ..studies.folders.writing import writing
from .app import app
from .terminal.common import Catalogs, Json, print_json

if TYPE_CHECKING:
    from ..studies.fitting.bench import Bench
    from ..studies.fitting.curves import Curve
    from ..studies.fitting.recording_rows import MeasuredRows
    from ..studies.fitting.round_trip import RoundTrip

AskedFit = tuple[str, list[str], list[str], str]  # --start, --know, --parameter, --name


@app.command()
def fit(
    component: Annotated[
        str,
        typer.Argument(
            help="What to fit: memory, cxl, link, nic, switch, gpu, library; network (a library, "
            "from logs); rates (message rates); loaded (memory under load); ops (op families)."
        ),
    ],
    logs: Annotated[
        list[str] | None,
        typer.Argument(help="For network: output of nccl-tests, rccl-tests or torch benchmarks."),
    ] = None,
    recording: Annotated[
        list[str],
        typer.Option(help="Recording from 'hil record', or foretrace:NAME; repeatable."),
    ] = [],  # noqa: B006
    holdout: Annotated[
        str, typer.Option(help="What is held out as a group: sizes, shapes, depths, starts, days.")
    ] = "sizes",
    start: Annotated[str, typer.Option(help="Catalog entry to start from.")] = "",
    know: Annotated[list[str], typer.Option(help="Known setting, NAME=VALUE; repeatable.")] = [],  # noqa: B006  typer's form of a repeatable option
    parameter: Annotated[
        list[str], typer.Option(help="Parameter to fit; by default all; repeatable.")
    ] = [],  # noqa: B006
    only: Annotated[str, typer.Option(help="Regular expression that selects signatures.")] = "",
    name: Annotated[str, typer.Option(help="Name of the new entry.")] = "fitted",
    caches: Annotated[
        list[str],
        typer.Option(help="For ops: recordings of host:chase, host:read and cold ops; repeatable."),
    ] = [],  # noqa: B006
    bar: Annotated[
        float | None,
        typer.Option(help="Limit of the median error in %; by default 10 for memory, else 15."),
    ] = None,
    machine: Annotated[
        Path | None,
        typer.Option(
            help="Scenario whose cluster made the recording; by default nothing but the part takes "
            "time."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="File to write.")] = None,
    collective: Annotated[str, typer.Option(help="Collective, if the logs lack it.")] = "",
    ranks: Annotated[int, typer.Option(help="Number of ranks, if the logs lack it.")] = 0,
    nodes: Annotated[int, typer.Option(help="Number of machines, if the logs lack it.")] = 0,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Fit a part to recordings, with held-out errors."""
    from ..studies.fitting.bench import BENCHES, Bench
    from ..studies.fitting.loaded_memory import LOADED_MEMORY
    from ..studies.fitting.network import NETWORK_KIND
    from ..studies.fitting.rates import MESSAGE_RATES, require_no_streams
    from ..studies.fitting.recording_rows import HOLDOUTS, measured_rows

    if holdout not in HOLDOUTS:
        raise ScenarioError(
            f"--holdout '{holdout}': is unknown; write one of {', '.join(HOLDOUTS)}"
        )
    curves = {curve.kind: curve for curve in (MESSAGE_RATES, LOADED_MEMORY)}
    known = (*BENCHES, NETWORK_KIND, *curves)
    if component not in known:
        raise ScenarioError(f"fit '{component}': is unknown; write one of {', '.join(known)}")
    _require_source(component, logs or [], recording, machine)
    if component == "gpu" and not parameter and _has_kernel_families(recording, only):
        _fit_gpu(Bench(component, machine, tuple(catalog)), recording, (start, know, name), out,
                 json)  # fmt: skip
        return
    stated = None if bar is None else bar / 100
    asked = (start, know, parameter, name)
    if component == NETWORK_KIND and machine is not None:
        told = (logs or [], collective, ranks, nodes)
        report, text = _fit_network(told, machine, stated, asked, catalog)
        _write_and_print_fit(report, text, out, json)
        return
    data = measured_rows(recording, only)
    if component in curves:
        report, text = _fit_curve(curves[component], data, holdout, stated, asked, catalog)
    else:
        require_no_streams(component, data)
        bench = Bench(component, machine, tuple(catalog))
        if component == "ops":
            report, text = _fit_families(bench, data, holdout, stated, caches)
        else:
            report, text = _fit_part(bench, data, holdout, stated, asked)
    _write_and_print_fit(report, text, out, json)


def _require_source(
    component: str, logs: list[str], recording: list[str], machine: Path | None
) -> None:
    """Raise an error for missing recordings or logs, or for the wrong one of the two."""
    if component == "network":
        if not logs or recording:
            raise ScenarioError(
                "fit network: needs logs; write foretrace fit network all_reduce.log …"
            )
        if machine is None:
            raise ScenarioError(
                "fit network: needs a machine; give a scenario of its cluster with --machine"
            )
    elif logs or not recording:
        raise ScenarioError(f"fit {component}: needs recordings; give them with --recording")


def _write_and_print_fit(report: dict[str, Any], text: str, out: Path | None, json: bool) -> None:
    """Write the catalog entry if ``out`` is given, and print the report of the fit."""
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
    """Report and file of all op families."""
    from ..studies.fitting.caches import fit_cache_model
    from ..studies.fitting.catalog_entry import families_file, families_to_dict
    from ..studies.fitting.families import fit_families
    from ..studies.fitting.round_trip import families_round_trip

    ops = tuple(dict.fromkeys(data.bench_ops))
    parts = fit_families(data, holdout)
    costs = fit_cache_model(caches) if caches else None
    file = families_file(parts, data, holdout, _today(), bar, costs)
    text = jsonlib.dumps(file, indent=1) + "\n"
    back = families_round_trip(bench, ops, text, parts, data.medians(ops))
    if back is not None:
        back.require_simulation_equals_fit()
    return families_to_dict(parts, data, holdout, bar) | _round_trip_facts(back), text


def _has_kernel_families(recording: list[str], only: str) -> bool:
    """True if recordings have more GPU ops than GEMMs, and no ops are excluded."""
    from ..studies.fitting.gpu_rows import has_kernel_families

    return not only and has_kernel_families(recording)


def _fit_gpu(
    bench: Bench, recording: list[str], options: tuple[str, list[str], str], out: Path | None,
    json: bool,
) -> None:  # fmt: skip
    """Fit all constants of a GPU; write its entry and the file of its kernel families."""
    from ..studies.fitting.gpu_command import fitted_gpu

    start, know, name = options
    made = fitted_gpu(bench, recording, start, know, name, _today(), out)
    if out is not None:
        _write_catalog_entry(out, made.entry)
        _write_catalog_entry(made.kernels_path, made.kernels)
    if json:
        print_json({**made.report, "wrote": str(out) if out else None})
        return
    for line in made.lines():
        typer.echo(line)
    typer.echo(f"\nwrote {out} and {made.kernels_path}" if out else f"\n{made.entry}")


def _fit_part(
    bench: Bench, data: MeasuredRows, holdout: str, bar: float | None, options: AskedFit
) -> tuple[dict[str, Any], str]:
    """Report and catalog entry of one part."""
    from ..studies.fitting.catalog_entry import catalog_entry_text, fit_to_dict, settings_before_fit
    from ..studies.fitting.part_fit import fit_part, part_to_fit
    from ..studies.fitting.round_trip import part_round_trip

    start, know, parameter, name = options
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
    back.require_simulation_equals_fit()
    return fit_to_dict(bench.kind, found, data, holdout, bar) | _round_trip_facts(back), text


def _fit_curve(
    curve: Curve, data: MeasuredRows, holdout: str, bar: float | None, options: AskedFit,
    catalogs: list[Path],
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Report and file of a curve: message rates of a NIC, or a memory under load."""
    from ..studies.fitting.catalog_entry import fit_to_dict, settings_before_fit

    start, know, parameter, name = options
    before = settings_before_fit(curve.part, start, know, catalogs)
    found, still = curve.fit(data, before.settings, parameter, holdout)
    report = fit_to_dict(curve.kind, found, data, holdout, bar) | _round_trip_facts(None)
    file = curve.file(name, found, still, report, _today())
    return report, jsonlib.dumps(file, indent=1) + "\n"


def _fit_network(
    log_options: tuple[list[str], str, int, int],
    machine: Path,
    bar: float | None,
    options: AskedFit,
    catalogs: list[Path],
) -> tuple[dict[str, Any], str]:
    """Report and catalog entry of a communication library, fitted to logs."""
    from ..studies.fitting.catalog_entry import catalog_entry_text, fit_to_dict, settings_before_fit
    from ..studies.fitting.collective_logs import collective_logs
    from ..studies.fitting.network import MeasuredFabric, fit_network, network_lines

    start, know, parameter, name = options
    before = settings_before_fit("library", start, know, catalogs)
    logs = collective_logs(*log_options)
    data = MeasuredFabric(logs.rows, machine)
    fit, _ = fit_network(data, before.settings, parameter)
    text = catalog_entry_text(
        "library", name, before, fit.found, data, "sizes", _today(), bar, fit.entry_factor
    )
    report = fit_to_dict("library", fit.found, data, "sizes", bar) | _round_trip_facts(None)
    return {**report, "together": [*network_lines(fit, data.rows), *logs.notes]}, text


def _round_trip_facts(round_trip: RoundTrip | None) -> dict[str, Any]:
    return {"round_trip": round_trip.to_dict() if round_trip is not None else None}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _write_catalog_entry(out: Path, text: str) -> None:
    with writing(out):
        out.write_text(text)


def _print_fit_report(report: dict[str, Any]) -> None:
    """Print each fit in a few lines."""
    for one in report["fits"]:
        typer.echo(f"{one['name']}: {one['groups'][0]} groups of {report['holdout']} fitted, "
                   f"{one['groups'][1]} held out, {one['groups'][2]} used for the final score "
                   "only")  # fmt: skip
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
