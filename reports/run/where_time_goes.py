"""Time breakdown of ranks, and gains from faster parts."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Line, Paragraph, Swatch, Table
from ..numbers import format_change, format_quantity
from ..palette import BOXES
from ..section import section
from ..texts.study import StudyShown


@section("where_time_goes", title="Where time goes", order=20)
def where_time_goes(study: StudyShown) -> Iterable[Block]:
    """Time breakdown of the mean and of the worst rank, in seconds."""
    period = study.answer.get("period")
    which = "the whole run, and add up to the makespan for each rank"
    if period:
        which = f"the mean {period}, and add up to the headline for each rank"
        if int(study.summary["provenance"]["replicas"]) > 1:
            which = (
                f"the mean {period} of one run, the nearest to the headline, and add up to it for "
                "each rank; metrics are of all runs"
            )
    points = study.points.values()
    spent = [b for b in BOXES if any(p["activity"][b]["worst"] for p in points)]
    none = " Boxes without any time are left out." * (len(spent) < len(BOXES))
    yield Paragraph(
        f"Every instant of a rank is in exactly one box. Times are of {which}. Of the mean rank, "
        f"the worst rank of each box beside it.{none}"
    )
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
        for box, colour in BOXES.items()
        if box in spent
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


@section("bottlenecks", title="If a part were faster", order=40)
def bottlenecks(study: StudyShown) -> Iterable[Block]:
    """Gain from each kind of part 10 % faster, and instant."""
    groups = dict.fromkeys(c["group"] for p in study.points.values() for c in p["faster"])
    if groups:
        yield from _gain_table(study, groups)


def _gain_table(study: StudyShown, groups: Iterable[str]) -> Iterable[Block]:
    """What is gained by each kind of part 10 % faster, and instant."""
    yield Paragraph(
        "Each row is a run of its own: that kind of part 10 % faster, and instant (infinitely "
        "fast). No purchase of it alone can gain more than the latter."
    )
    if any(part.capacity is not None for part in study.base_result.system.components.parts):
        yield Paragraph("Of a part that is held in amounts there is 10 % more, and without end.")
    columns, over = _paired_columns("kind of part", study, "10 % faster", "instant")
    yield Table(columns, [(group, *_gain_sentences(study, group)) for group in groups], over)


def _gain_sentences(study: StudyShown, group: str) -> Iterable[str]:
    for point in study.points.values():
        found = next((c for c in point["faster"] if c["group"] == group), None)
        yield from (
            (format_change(found["gain"]), format_change(found["bound"])) if found else ("", "")
        )
