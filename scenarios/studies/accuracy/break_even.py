"""The error of a component at which the answer would be another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....sim.analysis.sensitivity import altered
from ....sim.system import System
from ....sim.workload import Samples
from ...config.condition import Condition
from ..samples import deciding_samples
from ..statistics import statistic_of
from ..variant import Variant

TRIED = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)  # errors of a time, either way
HALVINGS = 5
Chosen = Callable[[System], Sequence[int]]


def break_even_errors(
    points: Sequence[Variant], components: Mapping[str, Chosen]
) -> list[dict[str, Any]]:
    """For each component the smallest error of its times at which the answer flips.

    The answer is which variant is best, and which expectations of the number that decides hold.
    ``error`` is None where it holds within a factor of two; ``answer`` is False where there is
    neither a variant nor an expectation, so that nothing could flip.

    Parameters
    ----------
    points : the base first
    components : which of a system would be wrong alike, by name
    """
    conditions = _deciding_conditions(points[0])
    if len(points) < 2 and not conditions:
        return [{"component": c, "answer": False, "error": None} for c in components]
    base = _answer_at_error(points, _select_no_components, 0.0)
    return [
        {"component": c, "answer": True, "error": _smallest_flip(points, chosen, base)}
        for c, chosen in components.items()
    ]


def _smallest_flip(
    points: Sequence[Variant], chosen: Chosen, base: tuple[Any, ...]
) -> float | None:
    """The smallest error either way, signed; None where none flips the answer."""
    found = [e for sign in (1, -1) if (e := _flip_one_way(points, chosen, base, sign))]
    return min(found, key=abs, default=None)


def _flip_one_way(
    points: Sequence[Variant], chosen: Chosen, base: tuple[Any, ...], sign: int
) -> float | None:
    low = 0.0
    for size in TRIED:
        error = size if sign > 0 else 1 / (1 + size) - 1
        if _answer_at_error(points, chosen, error) != base:
            return _narrow_flip(points, chosen, base, low, error)
        low = error
    return None


def _narrow_flip(
    points: Sequence[Variant],
    chosen: Chosen,
    base: tuple[Any, ...],
    same: float,
    other: float,
) -> float:
    for _ in range(HALVINGS):
        middle = (same + other) / 2
        if _answer_at_error(points, chosen, middle) == base:
            same = middle
        else:
            other = middle
    return other


def _answer_at_error(points: Sequence[Variant], chosen: Chosen, error: float) -> tuple[Any, ...]:
    """The answer if the component's times were wrong by this much: best variant, bars that hold."""
    found = [_samples_at_error(p, chosen, error) for p in points]
    answer = points[0].answer
    best = int(np.argmin([answer.sign * answer.of(samples) for samples in found]))
    own = found[0][answer.sample]
    held = (c.holds(statistic_of(own, c.statistic)) for c in _deciding_conditions(points[0]))
    return best, *map(bool, held)


def _deciding_conditions(point: Variant) -> list[Condition]:
    """Conditions on the number that decides."""
    return [e.that for e in point.scenario.expect if e.that.metric == point.answer.sample]


def _samples_at_error(point: Variant, chosen: Chosen, error: float) -> Mapping[str, Samples]:
    if error:
        simulation = point.simulation
        point = point.on(altered(simulation, chosen(simulation.system), 1 / (1 + error)))
    return deciding_samples(point, point.run())


def _select_no_components(system: System) -> Sequence[int]:
    return ()
