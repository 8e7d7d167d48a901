"""Methods of a sweep: every combination, random, Sobol, or a search.

A method is asked for a batch, and told what came of it in the order in which it asked; so the
points are the same for any number of workers, and asking again from the start is how a sweep
resumes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...config.parameters import Values, Vary
from ..workers.worker_pool import Outcome
from .search import SweepSearch
from .task import Settings

if TYPE_CHECKING:
    from ...config.sections.sweep import Sweep

BATCH = 1024  # points that are asked for at once where nothing is learnt from them


class Method(Protocol):
    """A method that chooses points."""

    name: str
    """Of the sampler and the library it is from, in full."""

    def ask(self) -> list[Settings]:
        """The next points, by key of ``vary``; none when all are asked for."""
        ...

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Take the outcomes of the last points, in their order."""
        ...


class FixedPoints:
    """Points that are known beforehand: nothing is learnt from outcomes.

    Parameters
    ----------
    name : of the sampler
    points : all of them

    Examples
    --------
    >>> method = FixedPoints("grid", iter([{"a": 1}, {"a": 2}]))
    >>> method.ask(), method.ask()
    ([{'a': 1}, {'a': 2}], [])
    """

    def __init__(self, name: str, points: Iterator[Settings]):
        self.name, self._points = name, points

    def ask(self) -> list[Settings]:
        """The next of them."""
        return list(itertools.islice(self._points, BATCH))

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing is learnt."""


def grid_points(vary: dict[str, Vary]) -> Iterator[Settings]:
    """Every combination, the last setting changing fastest.

    >>> list(grid_points({"a": Values((1, 2)), "b": Values(("x",))}))
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    lists = (v.values if isinstance(v, Values) else () for v in vary.values())
    for values in itertools.product(*lists):
        yield dict(zip(vary, values, strict=True))


def random_points(vary: dict[str, Vary], count: int, seed: int) -> Iterator[Settings]:
    """Independent draws, each value and each part of a range as likely as any other."""
    import numpy as np

    draw = np.random.Generator(np.random.PCG64(seed))
    for _ in range(count):
        yield {path: v.value_at(draw.random()) for path, v in vary.items()}


def sobol_points(vary: dict[str, Vary], count: int, seed: int) -> Iterator[Settings]:
    """A scrambled Sobol sequence: spread more evenly than draws (Owen 1998)."""
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(vary), seed=seed)
    shares = sequence.random_base2(max(0, math.ceil(math.log2(count))))
    for row in shares[:count].tolist():
        yield {path: v.value_at(share) for (path, v), share in zip(vary.items(), row, strict=True)}


def make_method(sweep: Sweep, seed: int, limits: Sequence[Any] = ()) -> Method:
    """The method that a sweep names.

    Parameters
    ----------
    sweep : Sweep
    seed : of all that is drawn
    limits : the conditions that a point must meet; a search keeps to them

    Raises
    ------
    ScenarioError
        It needs Optuna, and there is none.
    """
    if sweep.method == "grid":
        return FixedPoints("grid", grid_points(sweep.vary))
    if sweep.method == "random":
        return FixedPoints("random (numpy PCG64)", random_points(sweep.vary, sweep.wanted, seed))
    if sweep.method == "sobol":
        return FixedPoints("sobol (scipy, scrambled)", sobol_points(sweep.vary, sweep.wanted, seed))
    return SweepSearch(sweep, seed, limits)
