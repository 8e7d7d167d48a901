"""Amount of work per period relative to the base: a period with more work may take longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Point = Mapping[str, Any]
SAME = 0.01  # smaller differences come from medians: the median rate is not the rate of the median


def work_ratio(point: Point, base: Point, answer: Mapping[str, str]) -> float:
    """Tokens per period relative to the base; 1 if tokens are unknown.

    Parameters
    ----------
    answer : the deciding metric, here the time of a period

    Examples
    --------
    >>> def told(seconds, rate):
    ...     values = {"step_time.p50": seconds, "tokens_per_second.p50": rate}
    ...     return {"metrics": {name: {"value": value} for name, value in values.items()}}
    >>> of = {"metric": "step_time.p50", "period": "step"}
    >>> work_ratio(told(2.0, 200.0), told(1.0, 100.0), of)
    4.0
    """
    if not answer.get("period"):
        return 1.0
    own, were = (_tokens_of(p, answer) for p in (point, base))
    if not own or not were or abs(own / were - 1) < SAME:
        return 1.0
    return own / were


def _tokens_of(point: Point, answer: Mapping[str, str]) -> float | None:
    """Number of tokens of one period: the highest rate times the shortest period.

    The median rate times the median period would be wrong if periods differ.
    """
    metrics, time = point["metrics"], str(answer["metric"]).rpartition(".")[0]
    own = "" if answer.get("job", "main") == "main" else f"{answer['job']}."
    for most, least in (("max", f"{time}.min"), ("p50", answer["metric"])):
        rate = metrics.get(f"{own}tokens_per_second.{most}", {}).get("value")
        if rate and least in metrics:
            return float(rate * metrics[least]["value"])
    return None
