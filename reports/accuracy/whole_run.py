"""Sections on the error of the whole run and on the contribution of each component to it."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Heading, Paragraph, Table, Terms
from ..section import section
from ..texts.headline import metric_subject
from .check_summary import CheckShown
from .whole_run_rows import break_even_row, component_share_rows, error_rows


@section("whole", page="accuracy", title="The whole run", order=50)
def whole_run_errors(check: CheckShown) -> Iterable[Block]:
    """Section on the errors of the whole run and on the effect of each component."""
    run = check.checked["whole"]
    answer = check.checked["answer"]
    if found := error_rows(run, answer["unit"]):
        yield Table([Column(header=True), Column(number=True), Column()], found)
    if parts := component_share_rows(run, answer["unit"]):
        yield Heading(f"What each component does to {metric_subject(answer)}")
        yield Paragraph(
            "Swap-in: measured times for this component alone, against models alone. "
            "Leave-one-out: measured times for all, against all but this one. "
            "Shapley: the mean effect over all orders of adding components."
        )
        names = ("swap-in", "leave-one-out", "Shapley")
        columns = [
            Column("component", header=True),
            *(Column(n, number=True) for n in names),
        ]
        keys = ("name", "swap_in", "leave_out", "shapley")
        yield Table(columns, [[row[k] for k in keys] for row in parts])


@section("break_even", page="accuracy", title="How wrong a component may be", order=60)
def break_even_errors(check: CheckShown) -> Iterable[Block]:
    """Section on break-even errors: the error of each component at which the answer would flip."""
    if rows := [break_even_row(b) for b in check.checked["break_even"]]:
        yield Terms(rows)
