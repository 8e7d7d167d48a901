"""Answers of backends at the points of a grid, and submissions whose numbers lie between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import Numbers
from ..facts.graph import Graph
from ..kernel.grid_arrays import Answers, Cell, GridArrays, new_answers, new_cell
from .binding import OpTimings
from .prepared import PreparedVariant, Submission

Point = tuple[int, ...]
Floats = NDArray[np.float64]
FLOP, BYTES, FIXED, WORK, LIMIT = range(5)  # columns of real numbers; no limit is 0


@dataclass(frozen=True, eq=False)
class GridAnswers:
    """Answers of the backends at all points.

    Parameters
    ----------
    arrays : integers
    reals : (points, n, 5) flop, bytes, fixed time, work and limit
    sources : (n,) text of each op's sources
    """

    arrays: GridArrays
    reals: Floats
    sources: list[str]

    @cached_property
    def cell(self) -> Cell:
        """Room for the cell around a point."""
        return new_cell(len(self.arrays.begin) - 1)

    @cached_property
    def room(self) -> Answers:
        """Room for the integers at a point."""
        return new_answers(self.reals.shape[1])

    @cached_property
    def _work(self) -> Floats:
        return np.ascontiguousarray(self.reals[:, :, WORK])

    def structure_at(self, point: Point) -> int | None:
        """Structure at a point; None outside of the grid, or if the corners do not agree."""
        from ..kernel.interpolation import INSIDE, locate, nearest_corner

        if locate(self.arrays, np.array(point, np.int64), self.cell) != INSIDE:
            return None
        return int(self.arrays.structure[nearest_corner(self.cell)])

    def numbers_at(self, point: Point, variant: PreparedVariant) -> Numbers:
        """Integers at a point, where the structure is that of a variant of the graph."""
        from ..kernel.interpolation import interpolate, locate

        locate(self.arrays, np.array(point, np.int64), self.cell)
        interpolate(self.arrays, self.cell, self.room)
        return with_integers(variant, self.room)

    def reals_at(self, points: Sequence[Point] | NDArray[np.int64]) -> Floats:
        """Real numbers at some points, shape (k, n, 5)."""
        values = self.reals.reshape(len(self.reals), -1)
        return self._weighted(values, points).reshape(-1, *self.reals.shape[1:])

    def work_at(self, points: Sequence[Point] | NDArray[np.int64]) -> Floats:
        """Work of all ops at some points, shape (k, n)."""
        return self._weighted(self._work, points)

    def _weighted(self, values: Floats, points: Sequence[Point] | NDArray[np.int64]) -> Floats:
        from ..kernel.interpolation import interpolate_reals

        at = np.array(points, np.int64, order="C").reshape(len(points), -1)
        out = np.empty((len(points), values.shape[1]))
        interpolate_reals(self.arrays, values, at, self.cell, out)
        return out


class GridSubmission:
    """Submission of a grid between its points; see :class:`~.prepared.Submission`.

    Its numbers are computed on access.

    Parameters
    ----------
    variant : PreparedVariant
    grid : answers between which they lie
    point : point of the submission
    numbers : numbers that were drawn; None for those at the point
    """

    __slots__ = ("_numbers", "grid", "point", "variant")

    def __init__(
        self,
        variant: PreparedVariant,
        grid: GridAnswers,
        point: Point,
        numbers: Numbers | None = None,
    ):
        self.variant, self.grid, self.point, self._numbers = variant, grid, point, numbers

    @property
    def numbers(self) -> Numbers:
        """Durations, work and amounts."""
        if self._numbers is None:
            self._numbers = self.grid.numbers_at(self.point, self.variant)
        return self._numbers

    def _replace(self, *, numbers: Numbers) -> GridSubmission:
        """Copy with other numbers."""
        return GridSubmission(self.variant, self.grid, self.point, numbers)

    @property
    def timed(self) -> Sequence[int]:
        """Rows that have other timings than the prepared graph: all."""
        return range(self.grid.reals.shape[1])

    @property
    def work(self) -> Sequence[float]:
        """Work of each row."""
        found: list[float] = self.grid.work_at([self.point])[0].tolist()
        return found

    @property
    def graph(self) -> Graph:
        """Graph with the flop and bytes of this submission."""
        return self._with_reals().graph

    @property
    def answers(self) -> OpTimings:
        """Op timings with the times of this submission."""
        return self._with_reals().answers

    def _with_reals(self) -> Submission:
        return submission_with(self.variant, self.numbers, self.grid.reals_at([self.point])[0])


class GridSubmissions(NamedTuple):
    """Many submissions of one variant of a grid, as one record.

    Parameters
    ----------
    variant : PreparedVariant
    grid : answers between which their numbers lie
    points : (k, axes) point of each
    """

    variant: PreparedVariant
    grid: GridAnswers
    points: NDArray[np.int64]

    @property
    def numbers(self) -> Numbers:
        """Numbers of the variant; only the amounts are those of each submission."""
        return self.variant.numbers

    @property
    def times(self) -> int:
        """Number of submissions."""
        return len(self.points)

    @property
    def work(self) -> Floats:
        """Work of each row of each submission, shape (k, n)."""
        return self.grid.work_at(self.points)


def with_integers(variant: PreparedVariant, integers: Answers) -> Numbers:
    """Numbers of a variant of a grid's graph with other times and work."""
    numbers, flows = variant.numbers.copy(), variant.lowered.flows.op
    numbers.fixed[:] = integers.fixed
    numbers.work_hi[:], numbers.work_lo[:] = integers.work_hi[flows], integers.work_lo[flows]
    numbers.limit[:] = integers.limit[flows]
    return numbers


def submission_with(variant: PreparedVariant, numbers: Numbers, reals: Floats) -> Submission:
    """Submission of a variant with the given (n, 5) real numbers."""
    rows = tuple(range(len(reals)))
    columns = [tuple(column) for column in reals.T.tolist()]
    return Submission(
        variant, numbers, rows, columns[FLOP], columns[BYTES], rows, columns[FIXED], columns[WORK]
    )
