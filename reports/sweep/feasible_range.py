"""Feasible range of a setting: the values that meet the expectations, and the next that do not.

Reported if a sweep varies one ordered setting and has expectations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...sim.units import UNITS, quantity
from .sweep_results import Found, Summary, first_value, unique_suffix


class FeasibleRange(NamedTuple):
    """Range of a setting's values that meet the expectations, with the neighbours that do not.

    Parameters
    ----------
    name : short name of the setting
    below, above : nearest points that miss the expectations; None if none was tried there
    low, high : first and last point of the range
    """

    name: str
    below: Found | None
    low: Found
    high: Found
    above: Found | None


def feasible_range(summary: Summary) -> FeasibleRange | None:
    """Feasible range of a sweep's only setting; None if the feasible values are not adjacent."""
    if len(summary["vary"]) != 1 or not summary["expect"]:
        return None
    (paths,) = summary["vary"]
    row = _points_in_order(summary["points"], paths, summary)
    fit = [i for i, p in enumerate(row) if "error" not in p and not p["missed"]]
    if len(row) < 2 or not fit or fit[-1] - fit[0] >= len(fit):
        return None
    below = row[fit[0] - 1] if fit[0] else None
    above = row[fit[-1] + 1] if fit[-1] + 1 < len(row) else None
    return FeasibleRange(
        unique_suffix(paths, summary["vary"]), below, row[fit[0]], row[fit[-1]], above
    )


def _points_in_order(points: Sequence[Found], paths: str, summary: Summary) -> list[Found]:
    """Points sorted by the value of a setting; an empty list if the values have no order."""
    values = [first_value(p["set"][paths], summary["vary"][paths]) for p in points]
    sizes = next((converted for unit in UNITS if (converted := _sizes(values, unit))), None)
    if sizes is None or len(set(sizes)) < len(sizes):
        return []
    return [p for _, p in sorted(zip(sizes, points, strict=True), key=lambda one: one[0])]


def _sizes(values: Sequence[object], unit: str) -> list[float] | None:
    """Values converted to one unit; None if one of them does not have that unit.

    >>> _sizes(["800 MB/s", "1.6 GB/s"], "B/s"), _sizes([2, 4], ""), _sizes(["gloo"], "s")
    ([800000000.0, 1600000000.0], [2.0, 4.0], None)
    """
    try:
        return [quantity(value, unit) for value in values]
    except ValueError:
        return None


def feasible_range_text(summary: Summary) -> list[str]:
    """Sentences on the feasible range; an empty list if there is none."""
    feasible = feasible_range(summary)
    if feasible is None:
        return []
    (paths,) = summary["vary"]

    def at(point: Found) -> str:
        return str(first_value(point["set"][paths], summary["vary"][paths]))

    low, high = at(feasible.low), at(feasible.high)
    span = low if low == high else f"{low} to {high}"
    if feasible.below is None and feasible.above is None:
        sentence = (
            f"{feasible.name} can have any value that was tried, {span}: all meet the expectations"
        )
    elif feasible.below is None:
        sentence = f"{feasible.name} can be at most {high}"
    elif feasible.above is None:
        sentence = f"{feasible.name} must be at least {low}"
    else:
        sentence = f"{feasible.name} can be {span}"
    missed = [f"{at(p)} {_why_not(p)}" for p in (feasible.below, feasible.above) if p is not None]
    sentences = [f"{sentence}: {', '.join(missed)}." if missed else f"{sentence}."]
    edges = dict.fromkeys(at(p) for p in feasible[1:] if p is not None and p.get("unsure"))
    if edges:
        many = "their intervals contain" if len(edges) > 1 else "its interval contains"
        sentences.append(f"Cannot tell for {' and '.join(edges)}: {many} the limit.")
    return sentences


def _why_not(point: Found) -> str:
    return "failed" if "error" in point else f"misses {'; '.join(point['missed'])}"
