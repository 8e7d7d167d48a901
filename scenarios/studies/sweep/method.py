"""Methods that choose the points of a sweep: every combination, random, Sobol, or a search.

A method returns a batch of points and then receives their outcomes in the same order. So the points
do not depend on the number of workers, and a sweep resumes by asking again from the start.
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
    """Interface of a method that chooses points."""

    name: str
    """Full name of the sampler, with its library and version."""

    def ask(self) -> list[Settings]:
        """Next batch of points, as values by key of ``vary``; empty when done."""
        ...

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Receive the outcomes of the last batch, in the order of its points."""
        ...


class FixedPoints:
    """Points that are known in advance and do not depend on outcomes.

    Parameters
    ----------
    name : name of the sampler
    points : iterator over all points

    Examples
    --------
    >>> method = FixedPoints("grid", iter([{"a": 1}, {"a": 2}]))
    >>> method.ask(), method.ask()
    ([{'a': 1}, {'a': 2}], [])
    """

    def __init__(self, name: str, points: Iterator[Settings]):
        self.name, self._points = name, points

    def ask(self) -> list[Settings]:
        """Next batch of points."""
        return list(itertools.islice(self._points, BATCH))

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Ignore the outcomes."""


def grid_points(vary: dict[str, Vary]) -> Iterator[Settings]:
    """Every combination of values; the last setting changes fastest.

    >>> list(grid_points({"a": Values((1, 2)), "b": Values(("x",))}))
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    lists = (v.values if isinstance(v, Values) else () for v in vary.values())
    for values in itertools.product(*lists):
        yield dict(zip(vary, values, strict=True))


def random_points(vary: dict[str, Vary], count: int, seed: int) -> Iterator[Settings]:
    """Independent random points, uniform over values and ranges."""
    import numpy as np

    draw = np.random.Generator(np.random.PCG64(seed))
    for _ in range(count):
        yield {path: v.value_at(draw.random()) for path, v in vary.items()}


def sobol_points(vary: dict[str, Vary], count: int, seed: int) -> Iterator[Settings]:
    """Points of a scrambled Sobol sequence, more evenly spread than random ones (Owen 1998)."""
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(vary), seed=seed)
    shares = sequence.random_base2(max(0, math.ceil(math.log2(count))))
    for row in shares[:count].tolist():
        yield {path: v.value_at(share) for (path, v), share in zip(vary.items(), row, strict=True)}


def make_method(sweep: Sweep, seed: int, limits: Sequence[Any] = ()) -> Method:
    """Construct the method that a sweep names.

    Parameters
    ----------
    sweep : Sweep
    seed : random seed
    limits : conditions that a search tries to meet

    Raises
    ------
    ScenarioError
        The method needs Optuna, which is not installed.
    """
    if sweep.method == "grid":
        return FixedPoints("grid", grid_points(sweep.vary))
    if sweep.method == "random":
        return FixedPoints("random (numpy PCG64)", random_points(sweep.vary, sweep.wanted, seed))
    if sweep.method == "sobol":
        return FixedPoints("sobol (scipy, scrambled)", sobol_points(sweep.vary, sweep.wanted, seed))
    return SweepSearch(sweep, seed, limits)
