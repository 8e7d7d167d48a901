"""Arrays of a grid, of a cell within it, and of the values at a position; no kernel is needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class GridArrays(NamedTuple):
    """Answers at the points of a grid, which are in C order of the axes.

    Parameters
    ----------
    coordinate : numbers of all axes, one axis after the other
    begin : (axes + 1,) where each axis begins in ``coordinate``
    structure : (points,) number of the timing structure of the graph at each point
    fixed : (points, n) ticks
    work_hi, work_lo : (points, n) work, as high and low word
    limit : (points, n) rate limit, -1 for none
    """

    coordinate: NDArray[np.int64]
    begin: NDArray[np.int64]
    structure: NDArray[np.int64]
    fixed: NDArray[np.int64]
    work_hi: NDArray[np.int64]
    work_lo: NDArray[np.uint64]
    limit: NDArray[np.int64]


class Cell(NamedTuple):
    """Cell of a grid around a number per axis, and room for its corners.

    Parameters
    ----------
    above, width : (axes,) position in the cell is above / width; below 2^32
    corner : (2^axes,) point of each corner; bit k of its number is axis k
    hi, lo : (2^axes,) room for a value at each corner
    """

    above: NDArray[np.int64]
    width: NDArray[np.int64]
    corner: NDArray[np.int64]
    hi: NDArray[np.int64]
    lo: NDArray[np.uint64]


class Answers(NamedTuple):
    """Interpolated values of each op, shape (n,); see :class:`GridArrays`."""

    fixed: NDArray[np.int64]
    work_hi: NDArray[np.int64]
    work_lo: NDArray[np.uint64]
    limit: NDArray[np.int64]


def new_cell(axes: int) -> Cell:
    """Room for a cell of a grid with some axes."""
    corners = 1 << axes
    return Cell(
        np.zeros(axes, np.int64), np.ones(axes, np.int64), np.zeros(corners, np.int64),
        np.zeros(corners, np.int64), np.zeros(corners, np.uint64),
    )  # fmt: skip


def new_answers(count: int) -> Answers:
    """Room for the values of some ops."""
    return Answers(
        np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint64),
        np.zeros(count, np.int64),
    )  # fmt: skip
