"""Prepared grid: a prepared graph whose op times come from a grid, by interpolation.

All points are timed when it is prepared. Where the corners of a cell have different timing
structures, and outside of the grid, the backends are asked at the exact point, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.lowering import scale_of_limit
from ..errors import GraphError
from ..facts.backend import Timing
from ..facts.doubt import Doubt
from ..facts.ops import Ops
from ..facts.sampling import random_bits
from ..facts.system import System
from ..kernel.grid_arrays import Answers, GridArrays
from .grid_answers import (
    FIXED,
    LIMIT,
    WORK,
    Floats,
    GridAnswers,
    GridSubmission,
    GridSubmissions,
    Point,
    submission_with,
    with_integers,
)
from .grid_placement import placed_axes, spread
from .prepared import (
    MOST_KNOWN,
    MOST_STRUCTURES,
    PreparationCallbacks,
    Prepared,
    PreparedVariant,
    RowTiming,
    SomeSubmission,
    Values,
    replace_row_timings,
)
from .step_grid import StepGrid

At = Mapping[str, int] | Sequence[int]
ROWS_PER_CALL = 65_536  # ops that backends are asked for at once
SAMPLES = 64  # random points at which the interpolation is compared with the backends
MOST_SOURCES = 3  # sources of an op that are named


class PointTimings(NamedTuple):
    """Timings of the ops at some points, one point after the other."""

    ops: Ops
    timing: Timing
    rows: list[RowTiming]


class GridCallbacks(NamedTuple):
    """Functions of a run that a prepared grid calls.

    Parameters
    ----------
    times : function that times all ops at some points
    seconds : function that returns the times in s of ops with another timing than asked
    """

    times: Callable[[Sequence[Point]], PointTimings]
    seconds: Callable[[PointTimings, Timing], Floats]


class GridError(NamedTuple):
    """Error of the interpolation on a grid.

    Parameters
    ----------
    axes : number of points on each axis
    median, most : median and largest relative error of op times at random points; None if unknown
    """

    axes: dict[str, int]
    median: float | None
    most: float | None


class PointAnswer(NamedTuple):
    """Timing of all ops at one point: its structure, integers, and (n, 5) real numbers."""

    structure: int
    integers: Answers
    reals: Floats


class PreparedGrid(Prepared):
    """Grid that was prepared for repeated submission; see :meth:`~.process.Running.prepare`.

    Parameters
    ----------
    grid : StepGrid
    asks : GridCallbacks
        Functions of the run that time the ops at points.

    Attributes
    ----------
    placed : StepGrid
        Grid with the numbers whose times backends gave.
    doubt : Doubt or None
        Error of the interpolation at random points; None for a grid of one point.
    asked : int
        Points beside the grid at which backends were asked.
    """

    def __init__(
        self,
        run: object,
        variant: PreparedVariant,
        callbacks: PreparationCallbacks,
        routed: System,
        ways: Sequence[Callable[[], Prepared]],
        grid: StepGrid,
        asks: GridCallbacks,
    ):
        super().__init__(run, variant, callbacks, routed, ways)
        self.grid, self._asks, self.asked = grid, asks, 0
        self._prepare()

    def submission(
        self, flop: Values | None, bytes: Values | None, at: At | None = None
    ) -> SomeSubmission:
        """One submission at a point, given as one number per axis.

        Raises
        ------
        GraphError
            The point is missing or wrong, or flop or bytes are given.
        BackendError
            A backend cannot time an op at this point.
        """
        if flop is not None or bytes is not None:
            raise GraphError("grid", f"{self.grid!r}: flop= or bytes= is given; give at= instead")
        if at is None:
            axes = ", ".join(self.grid.axes)
            raise GraphError("grid", f"{self.grid!r}: at= is missing; give a number for {axes}")
        if self._callbacks.routes() is not self._known_on:
            self._prepare()
        point = self.grid.point(at)
        found = self._beside.get(point)
        if found is None:
            structure = self._grid.structure_at(point)
            if structure is not None:
                return self._between(point, self._variant_with(structure))
            found = self._ask(point)
        variant = self._variant_with(found.structure)
        return submission_with(variant, with_integers(variant, found.integers), found.reals)

    def _between(self, point: Point, variant: PreparedVariant) -> GridSubmission:
        """Submission at a point within the grid."""
        return GridSubmission(variant, self._grid, point)

    # Submissions that an engine makes for a process, see `sim/core/policies/`.

    @property
    def known(self) -> GridAnswers | None:
        """Answers at the points of the grid; None if routes have changed since."""
        return self._grid if self._callbacks.routes() is self._known_on else None

    @property
    def variants(self) -> Mapping[int, PreparedVariant]:
        """Variants of the graph that were submitted so far, by their structure."""
        return self._made

    def driven(self, point: Point, structure: int) -> GridSubmission:
        """Submission at a point within the grid, whose structure is known."""
        return self._between(point, self._made[structure])

    def driven_together(self, points: NDArray[np.int64], structure: int) -> GridSubmissions:
        """Many submissions of one structure, as one record."""
        return GridSubmissions(self._made[structure], self._grid, points)

    # Before the run.

    def _prepare(self) -> None:
        """Ask the backends at all points, and at the random points that judge the result."""
        self._known_on = self._callbacks.routes()
        self._keys: dict[object, int] = {}  # number of each timing structure of an op
        self._graph_structures: dict[tuple[int, ...], int] = {}
        self._first_rows: list[list[RowTiming]] = []  # by structure: timings at its first point
        self._made: dict[int, PreparedVariant] = {}
        self._beside: dict[Point, PointAnswer] = {}
        self.grid.check_size(len(self))
        self.placed = self._place()
        self._grid = self._ask_all()
        self.doubt = self._measure()

    def _place(self) -> StepGrid:
        """Grid with the numbers whose times backends give."""
        if self.grid.points is None:
            return self.grid
        axes = list(self.grid.axes.values())
        return self.grid.with_axes(placed_axes(axes, self.grid.points, self._seconds_at))

    def _seconds_at(self, points: Sequence[Point]) -> tuple[Floats, NDArray[np.int64]]:
        """Times of all ops in s, and the timing structure, at some points."""
        n, step = len(self), max(ROWS_PER_CALL // max(len(self), 1), 1)
        seconds, structure = [], []
        for first in range(0, len(points), step):
            asked = self._asks.times(points[first : first + step])
            seconds.append(self._asks.seconds(asked, asked.timing).reshape(-1, n))
            structure += [
                self._structure_of(asked.rows[k : k + n]) for k in range(0, len(asked.rows), n)
            ]
        return np.concatenate(seconds), np.array(structure, np.int64)

    def _ask_all(self) -> GridAnswers:
        count, n = len(self.placed), len(self)
        axes = list(self.placed.axes.values())
        structure, reals = np.zeros(count, np.int64), np.zeros((count, n, 5))
        fixed, hi, limit = (np.zeros((count, n), np.int64) for _ in range(3))
        lo = np.zeros((count, n), np.uint64)
        texts: list[dict[str, None]] = [{} for _ in range(n)]
        points, step, first = self._points(), max(ROWS_PER_CALL // max(n, 1), 1), 0
        for first in range(0, count, step):
            some = [next(points) for _ in range(min(step, count - first))]
            asked = self._asks.times(some)
            span = slice(first, first + len(some))
            own = fixed[span], hi[span], lo[span], limit[span]
            reals[span] = _reals(asked).reshape(-1, n, 5)
            for column, name in zip(
                own, ("ticks", "work_hi", "work_lo", "rate_limit"), strict=True
            ):
                column[:] = np.array(
                    [getattr(row, name) for row in asked.rows], column.dtype
                ).reshape(-1, n)
            structure[span] = [
                self._structure_of(asked.rows[k : k + n]) for k in range(0, len(asked.rows), n)
            ]
            for k, row in enumerate(asked.rows):
                texts[k % n].setdefault(row.structure.source)
        begin = np.cumsum([0, *(len(axis) for axis in axes)])
        arrays = GridArrays(np.concatenate(axes), begin, structure, fixed, hi, lo, limit)
        return GridAnswers(arrays, reals, [_joined(list(one)) for one in texts])

    def _points(self) -> Iterator[Point]:
        return product(*(axis.tolist() for axis in self.placed.axes.values()))

    def _structure_of(self, rows: Sequence[RowTiming]) -> int:
        """Number of the structure of a graph with these op timings."""
        keys = self._keys
        key = tuple([keys.setdefault(_structure_key(row), len(keys)) for row in rows])
        found = self._graph_structures.setdefault(key, len(self._first_rows))
        if found == len(self._first_rows):
            self._first_rows.append(list(rows))
        return found

    def _measure(self) -> Doubt | None:
        """Error of the interpolation at random points, evenly spread over cells."""
        points = self._random_points()
        if not points:
            return None
        asked, n = self._asks.times(points), len(self)
        reals = _reals(asked)
        inside = np.zeros(len(asked.rows), bool)
        for k, point in enumerate(points):
            rows = slice(k * n, (k + 1) * n)
            structure = self._grid.structure_at(point)
            if structure is not None and structure == self._structure_of(asked.rows[rows]):
                reals[rows], inside[rows] = self._grid.reals_at([point])[0], True
        told = self._asks.seconds(asked, asked.timing)
        limit = np.where(reals[:, LIMIT] > 0, reals[:, LIMIT], inf)
        made = replace(asked.timing, fixed=reals[:, FIXED], work=reals[:, WORK], limit=limit)
        guessed = self._asks.seconds(asked, made)
        known = inside & (told > 0) & (guessed > 0)
        if not known.any():
            return None
        return Doubt.of(f"grid {self.grid.name}", "between points", guessed[known], told[known])

    def _random_points(self) -> list[Point]:
        axes, columns = list(self.placed.axes.values()), []
        if self.grid.points is not None:  # whose cells may be few, and of any size
            axes = [spread(int(axis[0]), int(axis[-1]), axis[:1]) for axis in axes]
        for k, axis in enumerate(axes):
            bits = random_bits(np.arange(SAMPLES), k, 0) >> np.uint64(1)
            more = random_bits(np.arange(SAMPLES), k, 1) >> np.uint64(1)
            low = bits.astype(np.int64) % max(len(axis) - 1, 1)
            high = np.minimum(low + 1, len(axis) - 1)
            width = np.maximum(axis[high] - axis[low], 1)
            columns.append((axis[low] + more.astype(np.int64) % width).tolist())
        asked = set(self._points()) if len(self.placed) <= ROWS_PER_CALL else set()
        return [p for p in dict.fromkeys(zip(*columns, strict=True)) if p not in asked]

    # During the run.

    def _ask(self, point: Point) -> PointAnswer:
        """Timing at a point beside the grid; it is kept."""
        if len(self._beside) * len(self) >= MOST_KNOWN:
            self._beside.clear()
        asked = self._asks.times([point])
        self.asked += 1
        integers = Answers(
            np.array([row.ticks for row in asked.rows], np.int64),
            np.array([row.work_hi for row in asked.rows], np.int64),
            np.array([row.work_lo for row in asked.rows], np.uint64),
            np.array([row.rate_limit for row in asked.rows], np.int64),
        )
        made = PointAnswer(self._structure_of(asked.rows), integers, _reals(asked))
        self._beside[point] = made
        return made

    def _variant_with(self, structure: int) -> PreparedVariant:
        """Variant of the graph whose ops have this structure."""
        found = self._made.get(structure)
        if found is None:
            if len(self._made) >= MOST_STRUCTURES:
                self._made.clear()
            found = self._made[structure] = self._make(self._first_rows[structure])
        return found

    def _make(self, rows: Sequence[RowTiming]) -> PreparedVariant:
        """Variant with these timings; its sources and doubts tell of the interpolation."""
        graph, how = self.variant.graph, self._interpolation_text()
        named = {
            k: row._replace(structure=row.structure._replace(source=f"{source}, {how}"))
            for k, (row, source) in enumerate(zip(rows, self._grid.sources, strict=True))
        }
        answers = replace_row_timings(self.variant.answers, self._prepared_structures, named)
        if self.doubt is not None:
            known = answers.doubt if answers.doubt is not None else np.full(len(self), -1, np.int16)
            codes = np.where(known < 0, len(answers.doubts), known).astype(np.int16)
            answers = replace(answers, doubt=codes, doubts=(*answers.doubts, self.doubt))
        return self._callbacks.variant(graph, answers, self._callbacks.lower(graph, answers))

    @property
    def error(self) -> GridError:
        """Size of the grid, and its error between points."""
        axes = {name: len(axis) for name, axis in self.placed.axes.items()}
        if self.doubt is None:
            return GridError(axes, None, None)
        errors = np.abs(np.expm1(np.array(self.doubt.quantiles)))
        return GridError(axes, float(np.median(errors)), float(errors.max()))

    def _interpolation_text(self) -> str:
        axes, median, most = self.error
        sizes = " x ".join(f"{count} {name}" for name, count in axes.items())
        if median is None:
            return f"on a grid of {sizes}"
        return f"on a grid of {sizes} (error between points: median {median:.2%}, most {most:.2%})"


def _structure_key(row: RowTiming) -> object:
    """What must agree at the corners of a cell: all but times, work, limit and source."""
    usage, limited, _, holds, spread = row.structure
    scale = int(scale_of_limit(np.array([row.limit]))[0]) if limited and not usage else -1
    return usage, limited, holds, spread, row.amounts, scale


def _reals(asked: PointTimings) -> Floats:
    """Columns of real numbers, shape (ops, 5)."""
    none: Any = np.zeros(len(asked.ops))
    timing = asked.timing
    limit = none if timing.limit is None else np.where(np.isinf(timing.limit), 0.0, timing.limit)
    work = none if timing.work is None else timing.work
    return np.stack([asked.ops.flop, asked.ops.bytes, timing.fixed, work, limit], axis=1)


def _joined(texts: list[str]) -> str:
    """Sources of one op in one text."""
    more = len(texts) - MOST_SOURCES
    return " or ".join(texts[:MOST_SOURCES] + ([f"{more} more"] if more > 0 else []))
