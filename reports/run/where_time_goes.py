"""Time breakdown of ranks, blame of the critical path, and gains from faster parts."""

from __future__ import annotations

from collections.abc import Iterable

from ...sim.analysis.metrics import utilization_windows
from ...sim.result import Result
from ..blocks import BarChart, Block, Column, Heading, Line, Paragraph, Swatch, Table
from ..figures import schedule
from ..headline import blame_window_text
from ..numbers import format_change, format_quantity
from ..section import section
from .study import StudyShown


@section("where_time_goes", title="Where time goes", order=20)
def where_time_goes(study: StudyShown) -> Iterable[Block]:
    """Time breakdown of the mean and of the worst rank, in seconds."""
    period = study.answer.get("period")
    which = (
        f"one {period}, that of the headline: a rank's boxes add up to it"
        if period
        else ("the whole run: a rank's boxes add up to the makespan")
    )
    yield Paragraph(
        f"Every instant of a rank is in exactly one box. Times are of {which}. Of the mean rank, "
        "the worst rank of each box beside it."
    )
    points = study.points.values()
    columns, over = _paired_columns("box", study, "mean", "worst")
    rows: list[list[Line]] = [
        [
            [Swatch(colour), box.replace("_", " ")],
            *(
                format_quantity(p["activity"][box][which], "s")
                for p in points
                for which in ("mean", "worst")
            ),
        ]
        for box, colour in schedule.COLOURS.items()
    ]
    yield Table(columns, rows, over)


def _paired_columns(
    name: str, study: StudyShown, first: str, second: str
) -> tuple[list[Column], list[Column]]:
    """Headers and columns with two numbers per variant."""
    columns = [Column(header=True)]
    over = [Column(name)]
    for variant in study.points:
        columns += [Column(first, number=True), Column(second, number=True)]
        over.append(Column(variant, number=True, span=2))
    return columns, over


@section("blame", title="Blame: what the critical path waits for", order=30)
def blame(study: StudyShown) -> Iterable[Block]:
    """The critical path by the component charged."""
    window = blame_window_text(study.base, study.answer)
    what, total = ("the window", "its length") if window else ("the run", "the makespan")
    yield Paragraph(
        f"{window}Every tick of {what} is charged to the component that bounded it then, or to a "
        f"release time, a process or an unexplained gap; the charges sum to {total} exactly."
    )
    yield schedule.critical_path_bars(study.points)
    if rows := list(_slowdown_rows(study)):
        yield Heading("Jobs that slowed each other")
        heads = (Column("job", header=True), Column("slowed by"), Column("for", number=True))
        yield Table(heads, rows)


def _slowdown_rows(study: StudyShown) -> Iterable[list[Line]]:
    """Jobs that waited for other jobs, in the base scenario."""
    for job, found in study.base.get("jobs", {}).items():
        for other, time in found["slowed_by"].items():
            yield [job, other, format_quantity(time, "s")]


@section("bottlenecks", title="If a part were faster", order=40)
def bottlenecks(study: StudyShown) -> Iterable[Block]:
    """Gain from each kind of part 10 % faster or instant, and utilization over time."""
    groups = dict.fromkeys(c["group"] for p in study.points.values() for c in p["faster"])
    if groups:
        yield from _gain_table(study, groups)
    yield Heading("Use over time")
    if (heat := _heat_map(study.base_result)) is not None:
        yield heat


def _gain_table(study: StudyShown, groups: Iterable[str]) -> Iterable[Block]:
    """What is gained by each kind of part 10 % faster, and instant."""
    yield Paragraph(
        "Each row is a run of its own: that kind of part 10 % faster, and instant (infinitely "
        "fast). No purchase of it alone can gain more than the latter."
    )
    if any(part.capacity is not None for part in study.base_result.system.components):
        yield Paragraph("Of a part that is held in amounts there is 10 % more, and without end.")
    columns, over = _paired_columns("kind of part", study, "10 % faster", "instant")
    yield Table(columns, [(group, *_gain_sentences(study, group)) for group in groups], over)


def _gain_sentences(study: StudyShown, group: str) -> Iterable[str]:
    for point in study.points.values():
        found = next((c for c in point["faster"] if c["group"] == group), None)
        yield from (
            (format_change(found["gain"]), format_change(found["bound"])) if found else ("", "")
        )


def _heat_map(result: Result) -> BarChart | None:
    kinds = {c.kind for c in result.system.components}
    shares = {n: s.tolist() for n, s in utilization_windows(result).items() if n not in kinds}
    return schedule.utilization_heat_map(shares, result.makespan) if shares else None
