"""Break-even error: the error of a component's times at which the answer flips."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....sim.facts.system import System
from ....sim.rerun.sensitivity import scale_components
from ....sim.run.workload import Samples
from ..variants.samples import deciding_samples
from ..variants.statistics import statistic_of
from ..variants.variant import Variant
from .defence import MOST_TRIES, TRIED, deciding_conditions, may_flip

if TYPE_CHECKING:
    from ..variants.map_function import MapFunction

HALVINGS = 5
Chosen = Callable[[System], Sequence[int]]
Answer = tuple[Any, ...]
Search = Generator[float, bool, float | None]
"""Generator that yields errors to try, receives if each flips the answer, returns the result."""


def break_even_errors(
    points: Sequence[Variant],
    components: Mapping[str, Chosen],
    map_runs: MapFunction = map,
    report_runs_left: Callable[[int], None] = lambda runs: None,
) -> list[dict[str, Any]]:
    """Smallest relative error in the times of components at which the answer flips, by name.

    The answer is which variant is best, and which conditions on the deciding metric hold. ``error``
    is None if no error up to a factor of two flips it. ``answer`` is False if there is neither a
    variant nor a condition, so that nothing could flip.

    Parameters
    ----------
    points : variants, base first
    components : by name, a function that selects the components whose times get the same error
    map_runs : map function over the runs of all components and points
    report_runs_left : called with an upper bound of the remaining runs
    """
    if not may_flip(points[0].scenario, points[0].answer, len(points)):
        return [{"component": c, "answer": False, "error": None} for c in components]

    def flips(asked: Sequence[tuple[str, float]]) -> list[bool]:
        found = _answers_at_errors(points, [(components[c], e) for c, e in asked], map_runs)
        return [one != base for one in found]

    (base,) = _answers_at_errors(points, [(_select_no_components, 0.0)], map_runs)
    searches = {name: _smallest_flip() for name in components}
    found = _run_searches_in_lockstep(
        searches, flips, lambda tries: report_runs_left(tries * len(points))
    )
    return [{"component": c, "answer": True, "error": found[c]} for c in components]


def _run_searches_in_lockstep(
    searches: Mapping[str, Search],
    flips: Callable[[Sequence[tuple[str, float]]], Sequence[bool]],
    report_runs_left: Callable[[int], None],
) -> dict[str, float | None]:
    """Results of several searches, by name; in every round each search runs one try."""
    found: dict[str, float | None] = {}
    asked = {name: next(search) for name, search in searches.items()}
    tries = MOST_TRIES
    while asked:
        report_runs_left(len(asked) * max(tries, 1))
        tries -= 1
        told = dict(zip(asked, flips(list(asked.items())), strict=True))
        asked = {}
        for name, flipped in told.items():
            try:
                asked[name] = searches[name].send(flipped)
            except StopIteration as end:
                found[name] = end.value
    return found


def _smallest_flip() -> Search:
    """Search for the smallest error, with sign, that flips the answer; None if none does."""
    found: list[float] = []
    for sign in (1, -1):
        low = 0.0
        for size in TRIED:
            if found and abs(low) >= abs(found[0]):
                break  # a larger error cannot be the smallest flip
            error = size if sign > 0 else 1 / (1 + size) - 1
            if (yield error):
                found.append((yield from _narrow_flip(low, error)))
                break
            low = error
    return min(found, key=abs, default=None)


def _narrow_flip(same: float, other: float) -> Generator[float, bool, float]:
    for _ in range(HALVINGS):
        middle = (same + other) / 2
        if (yield middle):
            other = middle
        else:
            same = middle
    return other


def _answers_at_errors(
    points: Sequence[Variant], errors: Iterable[tuple[Chosen, float]], map_runs: MapFunction
) -> list[Answer]:
    """Answer for each pair of selected components and relative error of their times."""
    runs = [(point, chosen, error) for chosen, error in errors for point in points]
    found = [*map_runs(lambda run: _samples_at_error(*run), runs)]
    n = len(points)
    return [_answer(points[0], found[i : i + n]) for i in range(0, len(found), n)]


def _answer(base: Variant, samples_by_point: Sequence[Mapping[str, Samples]]) -> Answer:
    """Answer from the samples of each variant: index of the best one, and which conditions hold."""
    answer = base.answer
    best = int(np.argmin([answer.sign * answer.of(samples) for samples in samples_by_point]))
    own = samples_by_point[0][answer.sample]
    bars = deciding_conditions(base.scenario, answer)
    return best, *(bool(c.holds(statistic_of(own, c.statistic))) for c in bars)


def _samples_at_error(point: Variant, chosen: Chosen, error: float) -> Mapping[str, Samples]:
    if error:
        simulation = point.simulation
        point = point.with_simulation(
            scale_components(simulation, chosen(simulation.system), 1 / (1 + error))
        )
    return deciding_samples(point, point.run_for_answer())


def _select_no_components(system: System) -> Sequence[int]:
    return ()
