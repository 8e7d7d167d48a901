"""Sections on each component against its device: errors, figures, drift and sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..blocks import (
    Block,
    Code,
    Column,
    FigureRow,
    Heading,
    Inline,
    Line,
    Listing,
    Paragraph,
    Small,
    Span,
    Table,
    Tag,
    Terms,
)
from ..section import section
from . import error_figures as figures
from .check_summary import CheckShown
from .clock_meanings import clock_meanings
from .error_texts import format_error, format_error_interval, unsigned_error
from .verdict import Checked

STATISTICS = (("p50", "p50"), ("p95", "p95"), ("mean", "MAPE"), ("bias", "bias"), ("max", "worst"))


def _measured_components(checked: Checked) -> dict[str, Mapping[str, Any]]:
    """Data of the components that have measurements, by name."""
    return {n: c for n, c in checked["components"].items() if c["ops"]}


@section("accuracy", page="accuracy", title="Each component against its device", order=20)
def errors_by_component(check: CheckShown) -> Iterable[Block]:
    """Errors over all calls, by component."""
    every = check.checked["components"]
    clocks = clock_meanings(c["clock"] for c in every.values())
    yield Terms([(["clock ", Code(clock)], text) for clock, text in clocks])
    yield Paragraph(
        "Error is (predicted \u2212 measured) / measured over all calls of the run: its absolute "
        "value, except for the bias. Below it is the 90 % interval from resampled process starts."
    )
    columns = [Column("component", header=True), Column("clock"), Column("ops")]
    columns += [Column(name, number=True) for _, name in STATISTICS] + [Column("A/A", number=True)]
    yield Table(columns, [row for name, one in every.items() for row in _component_rows(name, one)])
    notes = [_page_placement_row(n, c) for n, c in every.items() if c.get("placed") is not None]
    left = [
        _left_out_row(n, c)
        for n, c in _measured_components(check.checked).items()
        if c["left_out"]["ops"]
    ]
    for name, text in (*notes, *left):
        yield Paragraph([Tag(name), f" {text}."])


def _component_rows(name: str, component: Mapping[str, Any]) -> Iterable[list[Line | Span]]:
    """Table rows of one component: its errors, and the op with the largest error."""
    if not component["ops"]:
        why: list[Inline] = [
            Tag("n/a (emulated)", "cannot-tell"),
            " these times come from an emulator: they say nothing about real hardware",
        ]
        yield [name, component["clock"], Span(why, 7)]
        return
    wrong = component["errors"]
    cells: list[Line] = [
        [
            unsigned_error(wrong[key]["value"]),
            Small(format_error_interval(wrong[key]["interval"]), under=True),
        ]
        for key, _ in STATISTICS
    ]
    count = f"{component['n']:,} calls, {len(component['ops'])} different"
    yield [name, component["clock"], count, *cells, unsigned_error(component["spread"])]
    yield ["", Span(["worst: ", Code(component["worst"]["op"])], 8)]


def _page_placement_row(name: str, component: Mapping[str, Any]) -> tuple[str, str]:
    return name, (
        f"in every batch, at least {unsigned_error(component['placed'])} of the pages that were "
        "moved or placed were in the memory chosen for them"
    )


def _left_out_row(name: str, component: Mapping[str, Any]) -> tuple[str, str]:
    out = component["left_out"]
    return name, (
        f"{out['ops']:,} ops ({out['different']} different, {unsigned_error(out['share'])} of the "
        f"component's predicted time) were not measured, such as {out['some'][0]}; all runs "
        "above use the model's times for them"
    )


@section("beside", page="accuracy", title="This catalog against the other", order=30)
def errors_under_other_catalog(check: CheckShown) -> Iterable[Block]:
    """Table of errors with this catalog and another one, for the same ops and measurements."""
    known = {n: c for n, c in _measured_components(check.checked).items() if c["beside"]}
    if not known:
        return
    yield Paragraph(
        ["The same ops and measurements: first with the scenario's own catalog, then with that "
         "of ", Code("--beside"), "."]
    )  # fmt: skip
    columns = [Column("component", header=True)]
    columns += [Column(name, number=True) for _, name in STATISTICS]
    rows = [
        (n, *(f"{unsigned_error(c['errors'][k]['value'])} \u2192 "
              f"{unsigned_error(c['beside'][k]['value'])}"
              for k, _ in STATISTICS))
        for n, c in known.items()
    ]  # fmt: skip
    yield Table(columns, rows)


@section("error_by_size", page="accuracy", title="Predicted and measured", order=40)
def error_by_size(check: CheckShown) -> Iterable[Block]:
    """Figures: predicted against measured, distribution of errors, errors by size."""
    if not (known := _measured_components(check.checked)):
        return
    yield FigureRow([figures.predicted_over_measured(known), figures.error_distribution(known)])
    if (sizes := figures.error_by_size(known)) is not None:
        yield Heading("Error by size")
        yield sizes


@section("drift", page="accuracy", title="Drift", order=70)
def changes_since_older_recording(check: CheckShown) -> Iterable[Block]:
    """Section on how measured times changed since an older recording."""
    if known := _measured_components(check.checked):
        yield Terms([_drift_row(n, c) for n, c in known.items()])


def _drift_row(name: str, component: Mapping[str, Any]) -> tuple[str, str]:
    drift = component["drift"]
    if drift is None:
        return name, "no older recording"
    if not drift["n"]:
        return name, f"an older recording of {drift['since'][:10]} has none of these ops"
    worst = drift["worst"]
    return name, (
        f"since {drift['since'][:10]}: median {format_error(drift['p50'])} over {drift['n']} ops, "
        f"worst {format_error(worst['change'])} ({worst['op']})"
    )


@section("reproduce", page="accuracy", title="Where the numbers are from", order=95)
def how_to_repeat_check(check: CheckShown) -> Iterable[Block]:
    """Section with the devices, the versions and the command that repeats the check."""
    columns = [
        Column("component", header=True), Column("measured by"), Column("metric"),
        Column("sharing"),
    ]  # fmt: skip
    every = check.checked["components"]
    yield Table(columns, [_source_lines(n, c) for n, c in every.items()], stacked=True)
    if check.command:
        yield Listing(check.command)


def _source_lines(name: str, component: Mapping[str, Any]) -> list[Line]:
    partial = f"; partly measured: {component['partial']}" if component["partial"] else ""
    versions = ", ".join(f"{k} {v}" for k, v in component["versions"].items())
    modelled = ", contention modelled" if component["sharing"] == "solo" else ""
    return [
        name,
        [f"{component['source']}{partial}", Small(versions, under=True)],
        component["metric"],
        f"{component['sharing']}{modelled}",
    ]
