"""Section of ablations: the headline, what is left without each piece, and the control."""

from __future__ import annotations

from collections.abc import Iterable

from ..ablation_rows import ablation_rows
from ..blocks import Block, Column, Paragraph, Table
from ..section import section
from .study import StudyShown


@section("ablations", title="Does the mechanism do it?", order=15)
def ablations(study: StudyShown) -> Iterable[Block]:
    """Each comparison with its gain, and whether it is as expected."""
    judged = study.summary.get("ablations")
    if not judged:
        return
    yield Paragraph(
        f"How many times better {judged['metric']} is than without the mechanism. A gain that "
        "stays with a piece off, or shows in the control, comes from something else."
    )
    columns = [Column("", header=True), Column("variants"), Column("gain", number=True)]
    columns += [Column("expected", number=True), Column("")]
    rows = [
        (row.what, row.variants, row.gain, row.expected, "holds" if row.met else "MISSED")
        for row in ablation_rows(judged)
    ]
    yield Table(columns, rows, stacked=True)
    if stated := judged["headline"]["stated"]:
        yield Paragraph(f"Stated: {stated}")
