"""The error of a component at which the answer would be another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...hil.covers import numbers
from ...sim.metrics import measure
from ...sim.sensitivity import altered
from ..points import Point, counted

TRIED = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)  # errors of a time, either way
HALVINGS = 5


def break_even(
    points: Sequence[Point], components: Mapping[str, Collection[str]]
) -> list[dict[str, Any]]:
    """For each component the smallest error of its times at which the answer flips.

    The answer is which variant is quickest, and which expectations of ``iteration_time`` hold.
    ``error`` is None where it holds within a factor of two; ``answer`` is False where there is
    neither a variant nor an expectation, so that nothing could flip.

    Parameters
    ----------
    points : the base first
    components : with the devices in a sample of each, all of which would be wrong alike
    """
    conditions = [e.that for e in points[0].scenario.expect if e.that.metric == "iteration_time"]
    if len(points) < 2 and not conditions:
        return [{"component": c, "answer": False, "error": None} for c in components]
    base = _answer(points, (), 0.0)
    return [
        {"component": c, "answer": True, "error": _flip(points, devices, base)}
        for c, devices in components.items()
    ]


def _flip(points: Sequence[Point], devices: Collection[str], base: tuple[Any, ...]) -> float | None:
    """The smallest error either way, signed; None where none flips the answer."""
    found = [e for sign in (1, -1) if (e := _flip_one_way(points, devices, base, sign))]
    return min(found, key=abs, default=None)


def _flip_one_way(
    points: Sequence[Point], devices: Collection[str], base: tuple[Any, ...], sign: int
) -> float | None:
    low = 0.0
    for size in TRIED:
        error = size if sign > 0 else 1 / (1 + size) - 1
        if _answer(points, devices, error) != base:
            return _narrowed(points, devices, base, low, error)
        low = error
    return None


def _narrowed(
    points: Sequence[Point],
    devices: Collection[str],
    base: tuple[Any, ...],
    same: float,
    other: float,
) -> float:
    for _ in range(HALVINGS):
        middle = (same + other) / 2
        if _answer(points, devices, middle) == base:
            same = middle
        else:
            other = middle
    return other


def _answer(points: Sequence[Point], devices: Collection[str], error: float) -> tuple[Any, ...]:
    """What is said if the component's times were wrong by this much."""
    times = [_times(p, devices, error) for p in points]
    quickest = int(np.argmin([np.median(t) for t in times]))
    conditions = [e.that for e in points[0].scenario.expect if e.that.metric == "iteration_time"]
    from ..summary import statistic_of

    return quickest, *(bool(c.holds(statistic_of(times[0], c.statistic))) for c in conditions)


def _times(point: Point, devices: Collection[str], error: float) -> Any:
    if devices:
        simulation = point.simulation
        chosen = [i for d in devices for i in numbers(simulation.system, d)]
        point = point.on(altered(simulation, chosen, 1 / (1 + error)))
    return measure(point.run(), *counted(point.scenario))["iteration_time"]
