"""Table rows and sentences on the errors of the whole run, for an accuracy page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_quantity
from .error_texts import format_error, format_signed, unsigned_error

Row = tuple[str, str, str]  # name, value, note


def error_rows(run_errors: Any, unit: str) -> list[Row]:
    """Rows for model error, composition error and A/A spread, each with what it compares."""
    if run_errors is None:
        return []
    rows = [
        ("model error", format_error(run_errors["error"]), "all models against all devices"),
        (
            "A/A",
            unsigned_error(run_errors["spread"]),
            "all devices: one half of the process starts against the other",
        ),
    ]
    rows += _coupled_rows(run_errors, unit)
    real = run_errors["real"]
    if real is None:
        return [*rows, ("composition error", "unknown", "the real job was not measured (hil.real)")]
    spread = (
        ""
        if real["spread"] is None
        else f"; its own starts differ by {unsigned_error(real['spread'])}"
    )
    return [
        *rows,
        (
            "composition error",
            format_error(real["composition"]),
            f"all devices against the job{spread}",
        ),
        ("model against job", format_error(real["all"]), real["source"]),
    ]


def _coupled_rows(run_errors: Any, unit: str) -> list[Row]:
    """Rows that compare a coupled run with ops that were measured one by one."""
    one = run_errors.get("coupled")
    if one is None:
        return []
    value, sets = format_quantity(one["value"], unit), ", ".join(one["sets"])
    alone = "ops measured alone and shared evenly, against measured sets of concurrent ops"
    sharing = ("sharing error", format_error(one["sharing"]), f"{alone} ({sets})")
    if not sets:
        sharing = (
            "sharing error",
            "unknown",
            "no set of concurrent ops was measured: sharing is modelled",
        )
    text = f"all models against devices that drove simulated time: {value}"
    return [("model error, coupled", format_error(one["error"]), text), sharing]


def component_share_rows(run_errors: Any, unit: str) -> list[dict[str, str]]:
    """Rows with the effect of each component on the answer; the last row is their interaction."""
    if run_errors is None or len(run_errors["shares"]) < 2:
        return []
    rows = [
        {
            "name": s["component"],
            "swap_in": format_signed(s["swap_in"], unit),
            "leave_out": format_signed(s["leave_out"], unit),
            "shapley": "not for more than 5"
            if s["shapley"] is None
            else format_signed(s["shapley"], unit),
        }
        for s in run_errors["shares"]
    ]
    left = {"name": "interaction", "swap_in": format_signed(run_errors["interaction"], unit),
            "leave_out": "", "shapley": ""}  # fmt: skip
    return [*rows, left]


def break_even_row(break_even: Mapping[str, Any]) -> tuple[str, str]:
    """Component name, and a sentence on the error of its times that would flip the answer."""
    if not break_even["answer"]:
        return break_even[
            "component"
        ], "nothing can flip: there is no variant and no expectation for the time"
    if break_even["error"] is None:
        return break_even[
            "component"
        ], "the answer holds even if its times are half or twice as long"
    return break_even[
        "component"
    ], f"the answer flips if its times are wrong by {format_error(break_even['error'])}"
