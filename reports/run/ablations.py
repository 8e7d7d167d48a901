"""Section on ablations: the gain, the gain with each part of the mechanism off, and the control."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Paragraph, Table
from ..section import section
from ..texts.ablation_rows import ablation_rows, result_column_name
from ..texts.study import StudyShown

TOLD = {
    "gain": "How many times better {} is than without the mechanism. If the gain remains with a "
    "piece off, or shows in the control, it comes from something else.",
    "error": "The error of {} against measurements. If it remains small with a piece off, that "
    "piece is not needed.",
}


@section("ablations", title="Is the mechanism the cause?", order=15)
def ablations(study: StudyShown) -> Iterable[Block]:
    """Section on ablations: each comparison with its gain, and whether it is as expected."""
    judged = study.summary.get("ablations")
    if not judged:
        return
    word = result_column_name(judged)
    yield Paragraph(TOLD[word].format(judged["metric"]))
    columns = [Column("", header=True), Column("variants"), Column(word, number=True)]
    columns += [Column("expected", number=True), Column("")]
    rows = [
        (row.what, row.variants, row.found, row.expected, "holds" if row.met else "MISSED")
        for row in ablation_rows(judged)
    ]
    yield Table(columns, rows, stacked=True)
    if stated := judged["headline"]["stated"]:
        yield Paragraph(f"Stated: {stated}")
