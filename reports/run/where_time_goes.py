"""Sections on the time breakdown of ranks, and on the gain from faster components."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Line, Paragraph, Swatch, Table
from ..numbers import format_change, format_quantity
from ..palette import BOXES
from ..section import section
from ..texts.study import StudyShown


@section("where_time_goes", title="Where time goes", order=20)
def where_time_goes(study: StudyShown) -> Iterable[Block]:
    """Section with the time breakdown of the mean and of the worst rank, in seconds."""
    study = study.with_points_that_have("activity")
    if not study.points:
        return
    period = study.answer.get("period")
    which = "the complete run and add up to the makespan"
    if period:
        which = f"the mean {period} and add up to the headline"
        if int(study.summary["provenance"]["replicas"]) > 1:
            which = (
                f"the mean {period} of the run nearest to the headline and add up to it; metrics "
                "are over all runs"
            )
    points = study.points.values()
    spent = [b for b in BOXES if any(p["activity"][b]["worst"] for p in points)]
    none = " Categories without any time are left out." * (len(spent) < len(BOXES))
    yield Paragraph(
        f"Every instant of a rank is in exactly one category. For each rank, times are for "
        f"{which}. Each category shows the mean rank and the worst rank.{none}"
    )
    columns, over = _paired_columns("category", study, "mean", "worst")
    rows: list[list[Line]] = [
        [
            [Swatch(colour), box.replace("_", " ")],
            *(
                format_quantity(p["activity"][box][which], "s")
                for p in points
                for which in ("mean", "worst")
            ),
        ]
        for box, colour in BOXES.items()
        if box in spent
    ]
    yield Table(columns, rows, over)


def _paired_columns(
    name: str, study: StudyShown, first: str, second: str
) -> tuple[list[Column], list[Column]]:
    """Columns with two numbers per variant, and their headers."""
    columns = [Column(header=True)]
    over = [Column(name)]
    for variant in study.points:
        columns += [Column(first, number=True), Column(second, number=True)]
        over.append(Column(variant, number=True, span=2))
    return columns, over


@section("bottlenecks", title="If a part were faster", order=40)
def bottlenecks(study: StudyShown) -> Iterable[Block]:
    """Section on the gain from making each kind of component 10 % faster, or instant."""
    groups = dict.fromkeys(c["group"] for p in study.points.values() for c in p["faster"])
    if groups:
        yield from _gain_table(study, groups)


def _gain_table(study: StudyShown, groups: Iterable[str]) -> Iterable[Block]:
    """Table of the gains from making each kind of component 10 % faster, or instant."""
    yield Paragraph(
        "Change of the answer with one kind of part 10 % faster, and instant (infinitely fast). "
        "Instant is the most that can be gained by improving that kind of part alone."
    )
    if any(part.capacity is not None for part in study.base_result.system.components.parts):
        yield Paragraph(
            "For a part with a capacity, these are 10 % more capacity and unlimited capacity."
        )
    columns, over = _paired_columns("kind of part", study, "10 % faster", "instant")
    yield Table(columns, [(group, *_gain_sentences(study, group)) for group in groups], over)


def _gain_sentences(study: StudyShown, group: str) -> Iterable[str]:
    for point in study.points.values():
        found = next((c for c in point["faster"] if c["group"] == group), None)
        yield from (
            (format_change(found["gain"]), format_change(found["bound"])) if found else ("", "")
        )
