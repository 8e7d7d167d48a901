"""Section on cost against time of a million tokens, per variant, with the Pareto front."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..blocks import Axes, Axis, Block, Column, Paragraph, Plot, Series, Table
from ..numbers import format_quantity
from ..palette import SERIES
from ..section import section
from ..texts.answer import TOKENS
from ..texts.study import Point, StudyShown

MILLION = 1e6
RATE = "tokens_per_second.p50"
BESIDE, FRONT = SERIES[0], SERIES[5]
Places = Mapping[str, tuple[float, float]]  # s and USD of a million tokens, by variant


@section("cost", title="Cost against time", order=17)
def cost_against_time(study: StudyShown) -> Iterable[Block]:
    """Section with the time and cost of each variant, and the variants on the Pareto front."""
    at = _places(study.points)
    if len(at) < 3:
        return
    beaten = {name: dominated_by(name, at) for name in at}
    yield Paragraph(
        "Time and cost of a million tokens. A variant is on the Pareto front if no other variant "
        "is as fast and as cheap and better in one of the two."
    )
    yield Table(
        [
            Column("variant", header=True),
            Column("time", number=True),
            Column("cost", number=True),
            Column("front"),
        ],
        [
            [
                name,
                format_quantity(time, "s"),
                format_quantity(cost, "USD"),
                f"dominated by {beaten[name]}" if beaten[name] else "on the front",
            ]
            for name, (time, cost) in at.items()
        ],
    )
    yield _scatter(at, beaten)


def _places(points: Mapping[str, Point]) -> Places:
    """Time and cost of a million tokens, for the variants with both known."""
    known = {n: p["metrics"] for n, p in points.items() if {TOKENS, RATE} <= p["metrics"].keys()}
    return {n: (MILLION / m[RATE]["value"], m[TOKENS]["value"]) for n, m in known.items()}


def dominated_by(name: str, points: Places) -> str:
    """The cheapest variant that is no worse in time and cost and better in one; "" if none.

    >>> at = {"a": (1.0, 5.0), "b": (2.0, 2.0), "c": (3.0, 2.0), "d": (2.0, 2.0)}
    >>> [dominated_by(name, at) for name in at]
    ['', '', 'b', '']
    """
    time, cost = points[name]
    better = [
        n for n, (t, c) in points.items() if t <= time and c <= cost and (t, c) != (time, cost)
    ]
    return min(better, key=lambda n: points[n][1], default="")


def _scatter(points: Places, beaten: Mapping[str, str]) -> Plot:
    series = []
    for label, mark, colour, names in (
        (
            "front",
            "D",
            FRONT,
            sorted((n for n in points if not beaten[n]), key=lambda n: points[n]),
        ),
        ("dominated", "o", BESIDE, [n for n in points if beaten[n]]),
    ):
        if names:
            times, costs = zip(*(points[n] for n in names), strict=True)
            hints = [
                f"{n}: {t:.3g} s, {c:.3g} USD" for n, t, c in zip(names, times, costs, strict=True)
            ]
            series.append(Series(times, costs, mark, colour=colour, label=label, titles=hints))
    across = Axis("time of a million tokens, s")
    return Plot([Axes(across, Axis("cost of a million tokens, USD"), series)])
