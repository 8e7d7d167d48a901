"""Section on blame: the critical path charged to kinds of components and to single components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...sim.analysis.blame import GAP
from ...sim.run.result import Result
from ..blocks import Block, Column, Heading, Line, Paragraph, Swatch, Table
from ..figures import schedule
from ..numbers import format_quantity, format_share
from ..palette import BOXES, series_colour
from ..section import section
from ..texts.headline import blame_window_text, metric_value, timed_span
from ..texts.study import Point, StudyShown
from ..texts.unexplained import is_unexplained

MOST_PARTS = 12
Kinds = Mapping[str, Mapping[str, float]]


@section("blame", title="Blame: what the critical path waits for", order=30)
def blame(study: StudyShown) -> Iterable[Block]:
    """Section on blame: the critical path by kind of component, with the variants side by side."""
    if is_unexplained(study.summary, "blame") or not any(p["blame"] for p in study.points.values()):
        study = study.with_points_that_have("blame")
        if not study.points:
            return
    window = blame_window_text(study.base, study.answer)
    period = bool(study.answer.get("period")) and not window
    of = (
        f"shares of the run's critical path, scaled to {timed_span(study.answer)}"
        if period
        else "its length"
    )
    yield Paragraph(
        f"{window}Each instant is charged to the part that bounded it, or to a release time, a "
        f"process or an unexplained gap. Bars add up to {'the headline: ' if period else ''}{of}."
    )
    wholes = {
        name: metric_value(p, study.answer)["value"] if period else sum(p["blame"].values())
        for name, p in study.points.items()
    }
    kinds = {
        name: blame_by_kind(p, study.results[name], wholes[name])
        for name, p in study.points.items()
    }
    every = dict.fromkeys(kind for found in kinds.values() for kind in found)
    colours = {kind: series_colour(i) for i, kind in enumerate(k for k in every if k != GAP)}
    colours |= {GAP: BOXES["idle"]} if GAP in every else {}
    yield schedule.stacked_bars(kinds, colours, f"critical path of {timed_span(study.answer)}"
                                if period else "critical path")  # fmt: skip
    yield _kinds_table(kinds, colours)
    yield Heading("Single parts")
    yield _parts_table(study)
    if rows := list(_slowdown_rows(study)):
        yield Heading("Jobs that slowed each other")
        yield Paragraph(
            "Time on a job's own critical path that another job caused: it occupied the slot that "
            "the job waited for, or it had a share of a full link that the job used."
        )
        heads = [Column("job", header=True), Column("slowed by"), Column("at")]
        heads += [Column(name, number=True) for name in study.points]
        yield Table(heads, rows)


def blame_by_kind(point: Point, result: Result, total: float) -> dict[str, float]:
    """Seconds of the critical path by kind of component, scaled to a total, largest first.

    Time of no component (a gap, a release time, a process) is listed under its own name.
    """
    there, sums = result.system.index, dict[str, float]()
    for who, charged in point["blame"].items():
        kind = result.system[who].kind if who in there else who
        sums[kind] = sums.get(kind, 0.0) + charged
    scale = total / (sum(sums.values()) or 1.0)
    return dict(sorted(((k, t * scale) for k, t in sums.items()), key=lambda one: -one[1]))


def _kinds_table(kinds: Kinds, colours: Mapping[str, str]) -> Table:
    columns = [Column("kind of part", header=True)]
    for name in kinds:
        columns += [Column(name, number=True), Column("share", number=True)]
    rows: list[list[Line]] = []
    for kind, colour in colours.items():
        cells: list[Line] = [[Swatch(colour), kind]]
        for found in kinds.values():
            charged, whole = found.get(kind, 0.0), sum(found.values()) or 1.0
            cells += [format_quantity(charged, "s"), format_share(charged / whole)]
        rows.append(cells)
    return Table(columns, rows)


def _parts_table(study: StudyShown) -> Table:
    """Table of the share of the critical path of the components with the largest shares."""
    shares = {
        name: {who: t / (sum(p["blame"].values()) or 1.0) for who, t in p["blame"].items()}
        for name, p in study.points.items()
    }
    most: dict[str, float] = {}
    for found in shares.values():
        for who, share in found.items():
            most[who] = max(most.get(who, 0.0), share)
    shown = sorted(most, key=lambda who: -most[who])[:MOST_PARTS]
    columns = [Column("part", header=True), *(Column(name, number=True) for name in shares)]
    return Table(
        columns,
        [[who, *(format_share(found.get(who, 0.0)) for found in shares.values())] for who in shown],
    )


def _slowdown_rows(study: StudyShown) -> Iterable[list[Line]]:
    """Rows of jobs that other jobs slowed down: at which component, and how long per variant."""
    times: dict[tuple[str, str, str], dict[str, float]] = {}
    for name, point in study.points.items():
        for job, found in point.get("jobs", {}).items():
            for one in found["slowed_at"]:
                times.setdefault((job, one["job"], one["part"]), {})[name] = one["seconds"]
    for key in sorted(times, key=lambda k: -max(times[k].values()))[:MOST_PARTS]:
        yield [*key, *(format_quantity(times[key].get(n, 0.0), "s") for n in study.points)]
