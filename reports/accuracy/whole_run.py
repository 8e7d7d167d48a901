"""Error of the whole run, and the part that each component has in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..blocks import Block, Column, Heading, Paragraph, Table, Terms
from ..numbers import format_quantity
from ..section import section
from ..texts.headline import metric_subject
from .check_summary import CheckShown
from .error_texts import format_error, format_signed, unsigned_error

Row = tuple[str, str, str]  # name, value, note


@section("whole", page="accuracy", title="The whole run", order=50)
def whole_run_errors(check: CheckShown) -> Iterable[Block]:
    """Errors of the whole run, and the share of each component."""
    run = check.checked["whole"]
    answer = check.checked["answer"]
    if found := error_rows(run, answer["unit"]):
        yield Table([Column(header=True), Column(number=True), Column()], found)
    if parts := component_share_rows(run, answer["unit"]):
        yield Heading(f"What each component does to {metric_subject(answer)}")
        yield Paragraph(
            "Swap-in: it alone real, against no device. Leave-one-out: all real, against all but "
            "it. Shapley: its mean over all orders."
        )
        names = ("swap-in", "leave-one-out", "Shapley")
        yield Table(
            [Column("component", header=True), *(Column(n, number=True) for n in names)], parts
        )


@section("break_even", page="accuracy", title="How wrong a component may be", order=60)
def break_even_errors(check: CheckShown) -> Iterable[Block]:
    """Break-even error of each component: the one at which the answer would flip."""
    if rows := [break_even_row(b) for b in check.checked["break_even"]]:
        yield Terms(rows)


def error_rows(whole: Any, unit: str) -> list[Row]:
    """Model error, composition error and A/A, each with what it compares."""
    if whole is None:
        return []
    rows = [
        ("model error", format_error(whole["error"]), "all models against all devices"),
        (
            "A/A",
            unsigned_error(whole["spread"]),
            "all devices, from one half of the starts and the other",
        ),
        *_coupled_rows(whole, unit),
    ]
    real = whole["real"]
    if real is None:
        return [*rows, ("composition error", "unknown", "the real job was not measured: hil.real")]
    against = "all devices against the job"
    if real["spread"] is not None:
        against += f"; its own starts differ by {unsigned_error(real['spread'])}"
    return [
        *rows,
        ("composition error", format_error(real["composition"]), against),
        ("model against job", format_error(real["all"]), real["source"]),
    ]


def _coupled_rows(whole: Any, unit: str) -> list[Row]:
    """A coupled run beside the ops that were measured one by one."""
    one = whole.get("coupled")
    if one is None:
        return []
    value, sets = format_quantity(one["value"], unit), ", ".join(one["sets"])
    alone = (
        "ops measured alone and shared evenly, against sets of them in flight that were measured"
    )
    sharing = ("sharing error", format_error(one["sharing"]), f"{alone} ({sets})")
    if not sets:
        sharing = ("sharing error", "unknown", "no set in flight was measured: sharing is modelled")
    text = f"all models against devices that drove simulated time: {value}"
    return [("model error, coupled", format_error(one["error"]), text), sharing]


def component_share_rows(whole: Any, unit: str) -> list[tuple[str, str, str, str]]:
    """Effect of each of several components on the answer, and what they do not add up to.

    Each row has the component, its swap-in, its leave-one-out, and its Shapley value.
    """
    if whole is None or len(whole["shares"]) < 2:
        return []
    rows = [
        (
            s["component"],
            format_signed(s["swap_in"], unit),
            format_signed(s["leave_out"], unit),
            "beyond five" if s["shapley"] is None else format_signed(s["shapley"], unit),
        )
        for s in whole["shares"]
    ]
    return [*rows, ("interaction", format_signed(whole["interaction"], unit), "", "")]


def break_even_row(b: Mapping[str, Any]) -> tuple[str, str]:
    """Name of a component, and a sentence on the error of its times that would flip the answer."""
    if not b["answer"]:
        return b["component"], "nothing could flip: no variant, and nothing expected of its time"
    if b["error"] is None:
        return b["component"], "the answer holds even if its times are half or twice as long"
    return b["component"], f"the answer flips at {format_error(b['error'])} of its times"
