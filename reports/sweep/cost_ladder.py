"""Value for money in a sweep: the lowest price that meets the expectations, and what more gains.

Prices are exact; metrics have intervals. If the intervals of two neighbours overlap, the more
expensive one is not called better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..numbers import format_change, format_quantity
from ..texts.headline import metric_in_words
from .sweep_results import (
    Found,
    Summary,
    front_points,
    replicas_can_differ,
    settings_text,
    sweep_goals,
)

HOURLY, TOKENS = "cost_per_hour", "cost_per_million_tokens"
BESIDE = (  # further columns, shown if every point of the ladder has the metric
    ("cost of a million tokens", TOKENS, "USD"),
    ("GPU-hours of a million tokens", "gpu_time_per_million_tokens", "s"),
    ("largest GPU power", "gpu.power.bound", "W"),
)
HOUR = 3600.0  # s
MANY = 3  # settings above which their text is not repeated
CANNOT_TELL, BETTER, UNKNOWN = "cannot tell", "better", "no interval"


class Rung(NamedTuple):
    """A point of the cost ladder: it meets the expectations and beats every cheaper point.

    Parameters
    ----------
    point : point of the sweep, as in its summary
    gain : relative change of the first goal to the rung below; 0 for the first rung
    outcome : ``better``, ``cannot tell`` or ``no interval``; "" for the first rung
    """

    point: Found
    gain: float
    outcome: str

    @property
    def price(self) -> float:
        """Cost of the point in USD per hour."""
        return float(self.point["values"][HOURLY])


def first_goal_besides_cost(summary: Summary) -> tuple[str, str, str]:
    """Direction, metric and unit of the first goal that is not a cost."""
    goal = next((m for m in sweep_goals(summary) if not m[1].startswith("cost_per_")), None)
    if goal is not None:
        return goal
    answer = summary["answer"]
    way = "maximize" if answer["better"] == "higher" else "minimize"
    return way, answer["metric"], answer["unit"]


def cost_ladder(summary: Summary) -> list[Rung]:
    """Points that meet the expectations and beat every cheaper point, lowest price first."""
    way, metric, _ = first_goal_besides_cost(summary)
    sign = 1 if way == "minimize" else -1
    fit = [p for p in summary["points"] if {HOURLY, metric} <= p.get("values", {}).keys()]
    fit = [p for p in fit if not p["missed"]]
    fit.sort(key=lambda p: (p["values"][HOURLY], sign * p["values"][metric]))
    rungs: list[Rung] = []
    for p in fit:
        if not rungs:
            rungs.append(Rung(p, 0.0, ""))
        elif sign * p["values"][metric] < sign * rungs[-1].point["values"][metric]:
            rungs.append(_next_rung(rungs[-1].point, p, metric))
    return rungs


def _next_rung(below: Found, point: Found, metric: str) -> Rung:
    was, is_ = below["values"][metric], point["values"][metric]
    return Rung(point, is_ / was - 1 if was else 0.0, compare_intervals(below, point, metric))


def compare_intervals(first: Found, second: Found, metric: str) -> str:
    """``better`` if two points' intervals do not overlap, else why that is unknown.

    >>> a = {"intervals": {"makespan": [1.0, 2.0]}}
    >>> compare_intervals(a, {"intervals": {"makespan": [1.9, 3.0]}}, "makespan")
    'cannot tell'
    """
    bounds = [p["intervals"].get(metric) for p in (first, second)]
    if None in bounds:
        return UNKNOWN
    (a, b), (c, d) = bounds
    return CANNOT_TELL if a <= d and c <= b else BETTER


def cost_sentences(summary: Summary) -> list[str]:
    """Sentences about cost for a planner; none without prices."""
    rungs = cost_ladder(summary)
    if not rungs:
        return []
    return [
        *_lowest_price_sentences(summary, rungs),
        *_token_price_sentences(summary),
        _second_rung_sentence(summary, rungs),
    ]


def _lowest_price_sentences(summary: Summary, rungs: Sequence[Rung]) -> list[str]:
    """Sentences on the lowest hourly cost that meets, and certainly meets, the expectations."""
    first = rungs[0]
    if not summary["expect"]:
        subject = "The lowest price, without a target under `expect`,"
    else:
        subject = "The lowest price that meets the expectations"
    lines = [f"{subject} is {_price_text(first.point, summary)}."]
    if unsure := first.point.get("unsure"):
        sure = next((r for r in rungs if not r.point.get("unsure")), None)
        rest = (
            f"; the lowest that certainly does is {_price_text(sure.point, summary)}"
            if sure
            else ""
        )
        lines.append(
            f"Cannot tell whether it does: the limit of {'; '.join(unsure)} is within its interval"
            f"{rest}."
        )
    return lines


def _price_text(point: Found, summary: Summary) -> str:
    return f"{hourly_price_text(point['values'][HOURLY])}, with {_settings_or_same(point, summary)}"


def _settings_or_same(point: Found, summary: Summary) -> str:
    """Text of a point's settings; "the same settings" for the best point if they are many."""
    if len(point["set"]) > MANY and point in front_points(summary)[:1]:
        return "the same settings"
    return settings_text(point, summary)


def hourly_price_text(price: float) -> str:
    """Format a price in USD per hour.

    >>> hourly_price_text(276.48)
    '276.48 USD/hour'
    """
    return f"{price:,.2f} USD/hour" if price >= 0.01 or not price else f"{price:.2g} USD/hour"


def _token_price_sentences(summary: Summary) -> list[str]:
    """Sentence on the lowest cost per token, and on points whose interval overlaps with it."""
    fit = [p for p in summary["points"] if TOKENS in p.get("values", {}) and not p["missed"]]
    if not fit:
        return []
    least, *rest = sorted(fit, key=lambda p: p["values"][TOKENS])
    close = [p for p in rest if compare_intervals(least, p, TOKENS) == CANNOT_TELL]
    many = f"{len(close)} other point{'s' * (len(close) != 1)}"
    overlap = "whose interval overlaps" if len(close) == 1 else "whose intervals overlap"
    doubt = f"cannot be distinguished from that of {many}, {overlap} with its own."
    if sweep_goals(summary)[0][1] == TOKENS:  # the leading sentence names that point
        return [f"The smallest cost of tokens {doubt}"] if close else []
    text = (
        f"A million tokens cost least, {format_quantity(least['values'][TOKENS], 'USD')}, with "
        f"{_settings_or_same(least, summary)}"
    )
    return [f"{text}; this cost {doubt}" if close else f"{text}."]


def _second_rung_sentence(summary: Summary, rungs: Sequence[Rung]) -> str:
    """Sentence on what the second point of the cost ladder gains over the first and cheapest."""
    _, metric, _ = first_goal_besides_cost(summary)
    if len(rungs) < 2:
        return (
            f"A higher price gains nothing here: no point that costs more has a better "
            f"{metric_in_words(metric)}."
        )
    first, second = rungs[:2]
    difference = settings_text(second.point, summary, compared_to=first.point)
    text = f"{hourly_price_text(second.price - first.price)} more, for {difference},"
    if second.outcome == CANNOT_TELL:
        return f"{text} may gain nothing: cannot tell, because the intervals of the two overlap."
    surer = "; use ten replicas to get an interval" * replicas_can_differ(summary)
    tail = "" if second.outcome == BETTER else surer
    each = gain_per_dollar_text(first, second, summary)
    return (
        f"{text} changes {metric_in_words(metric)} by {format_change(second.gain)}: {each}{tail}."
    )


def gain_per_dollar_text(below: Rung, rung: Rung, summary: Summary) -> str:
    """Text of the gain per additional USD/hour between two neighbouring rungs."""
    _, metric, unit = first_goal_besides_cost(summary)
    gained = rung.point["values"][metric] - below.point["values"][metric]
    paid = rung.price - below.price
    if not paid:
        return ""
    way = "more" if gained > 0 else "less"
    return f"{format_quantity(abs(gained) / paid, unit)} {way} for each USD/hour"


def further_metrics(summary: Summary) -> list[tuple[str, str, str]]:
    """Further metrics that all points of the ladder have, as (label, metric, unit)."""
    rungs = cost_ladder(summary)
    return [b for b in BESIDE if rungs and all(b[1] in r.point["values"] for r in rungs)]
