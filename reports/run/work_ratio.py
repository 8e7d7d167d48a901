"""How much work an iteration does: a larger job takes longer, and is no worse for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Point = Mapping[str, Any]
SAME = 0.01  # a difference below it is of rounding: a median of rates is not the rate of a median


def times_the_work(point: Point, base: Point) -> float:
    """The tokens of an iteration over those of the base; 1 where nobody counts tokens.

    Examples
    --------
    >>> def told(seconds, rate):
    ...     values = {"iteration_time.p50": seconds, "tokens_per_second.p50": rate}
    ...     return {"metrics": {name: {"value": value} for name, value in values.items()}}
    >>> times_the_work(told(2.0, 200.0), told(1.0, 100.0))
    4.0
    """
    own, were = (_tokens(p) for p in (point, base))
    if not own or not were or abs(own / were - 1) < SAME:
        return 1.0
    return own / were


def _tokens(point: Point) -> float | None:
    rate = point["metrics"].get("tokens_per_second.p50", {}).get("value")
    return rate * point["metrics"]["iteration_time.p50"]["value"] if rate else None
