"""Interpolation between the points of a grid, in integers.

A value at a number x between a and b is ``low + (high - low) (x - a) / (b - a)``, rounded to
nearest, halves away from ``low``. Several axes are reduced one by one, the first axis first. So a
value is exact at the points, and monotone in x between two of them. Values have up to 126 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .grid_arrays import Answers, Cell, GridArrays
from .jit import Int, jit_without_refcounts

INSIDE, OUTSIDE, DISAGREE = 0, 1, 2
LOW_HALF, HALF_BITS = np.uint64(2**32 - 1), np.uint64(32)
ZERO, ONE = np.uint64(0), np.uint64(1)
SMALL = 2**32


@jit_without_refcounts
def _scaled(hi: Int, lo: Int, above: Int, width: Int) -> tuple[Int, Int]:
    """Value of 128 bits times ``above / width``, rounded to nearest; all words are unsigned.

    ``above`` is at most ``width``, and both are below 2^32. Half words are multiplied from the
    lowest on, and divided from the highest on.
    """
    if hi == ZERO and lo <= LOW_HALF:  # the same with one division
        part = lo * above
        q0, r = part // width, part % width
        return ZERO, q0 + (ONE if r >= width - r else ZERO)
    p0 = (lo & LOW_HALF) * above
    p1 = (lo >> HALF_BITS) * above + (p0 >> HALF_BITS)
    p2 = (hi & LOW_HALF) * above + (p1 >> HALF_BITS)
    p3 = (hi >> HALF_BITS) * above + (p2 >> HALF_BITS)
    q3, r = (p3 // width), (p3 % width)
    part = (r << HALF_BITS) | (p2 & LOW_HALF)
    q2, r = part // width, part % width
    part = (r << HALF_BITS) | (p1 & LOW_HALF)
    q1, r = part // width, part % width
    part = (r << HALF_BITS) | (p0 & LOW_HALF)
    q0, r = part // width, part % width
    up = ONE if r >= width - r else ZERO  # half or more
    low = (q1 << HALF_BITS) | q0
    high = (q3 << HALF_BITS) | q2
    if up == ONE:
        if low == ~ZERO:
            return high + ONE, ZERO
        return high, low + ONE
    return high, low


@jit_without_refcounts
def between(hi0: Int, lo0: Int, hi1: Int, lo1: Int, above: Int, width: Int) -> tuple[Int, Int]:
    """Value between two of at most 126 bits, at position ``above / width``.

    ``hi0``, ``hi1``, ``above`` and ``width`` are int64, ``lo0`` and ``lo1`` uint64.
    """
    if above == 0:
        return hi0, lo0
    if above == width:
        return hi1, lo1
    rises = hi1 > hi0 or (hi1 == hi0 and lo1 >= lo0)
    a_hi, a_lo = np.uint64(hi0), lo0
    b_hi, b_lo = np.uint64(hi1), lo1
    less_hi, less_lo = (a_hi, a_lo) if rises else (b_hi, b_lo)
    more_hi, more_lo = (b_hi, b_lo) if rises else (a_hi, a_lo)
    gap_hi = more_hi - less_hi
    if more_lo < less_lo:
        gap_hi = gap_hi - ONE
        gap_lo = (~less_lo) + more_lo + ONE  # more_lo - less_lo, modulo 2^64
    else:
        gap_lo = more_lo - less_lo
    by_hi, by_lo = _scaled(gap_hi, gap_lo, np.uint64(above), np.uint64(width))
    if rises:
        room = ~a_lo
        found_lo = by_lo - room - ONE if by_lo > room else a_lo + by_lo
        return np.int64(a_hi + by_hi + (ONE if by_lo > room else ZERO)), found_lo
    if by_lo > a_lo:
        return np.int64(a_hi - by_hi - ONE), ~(by_lo - a_lo) + ONE
    return np.int64(a_hi - by_hi), a_lo - by_lo


@jit_without_refcounts
def locate(grid: GridArrays, at: NDArray[np.int64], cell: Cell) -> Int:
    """Find the cell around a number per axis; INSIDE, OUTSIDE, or DISAGREE.

    Corners on which the result does not depend need not agree.
    """
    axes = len(at)
    cell.corner[0] = 0
    for k in range(axes):
        first, last = grid.begin[k], grid.begin[k + 1] - 1
        x = at[k]
        if x < grid.coordinate[first] or x > grid.coordinate[last]:
            return OUTSIDE
        low, high = first, max(first, last - 1)
        while low < high:  # the last coordinate that is not above x
            middle = (low + high + 1) >> 1
            if grid.coordinate[middle] <= x:
                low = middle
            else:
                high = middle - 1
        step = 1 if first < last else 0
        cell.above[k] = x - grid.coordinate[low]
        cell.width[k] = max(grid.coordinate[low + step] - grid.coordinate[low], 1)
        count, corners = last - first + 1, 1 << k
        for c in range(corners):
            cell.corner[c] = cell.corner[c] * count + (low - first)
            cell.corner[c + corners] = cell.corner[c] + step
        while cell.width[k] >= SMALL:
            cell.width[k] >>= 1
            cell.above[k] >>= 1
    return INSIDE if _agree(grid, cell, axes) else DISAGREE


@jit_without_refcounts
def _agree(grid: GridArrays, cell: Cell, axes: Int) -> bool:
    """True if the structure is the same at all corners that count."""
    found = -1
    for c in range(1 << axes):
        counts = True
        for k in range(axes):
            skipped = 0 if (c >> k) & 1 else cell.width[k]
            counts = counts and cell.above[k] != skipped
        if counts:
            one = grid.structure[cell.corner[c]]
            if found >= 0 and one != found:
                return False
            found = one
    return True


@jit_without_refcounts
def nearest_corner(cell: Cell) -> Int:
    """Point of the lowest corner that counts, whose structure is that of the cell."""
    c = 0
    for k in range(len(cell.above)):
        if cell.above[k] == cell.width[k]:
            c |= 1 << k
    return cell.corner[c]


@jit_without_refcounts
def interpolate_reals(
    grid: GridArrays,
    values: NDArray[np.float64],
    points: NDArray[np.int64],
    cell: Cell,
    out: NDArray[np.float64],
) -> Int:
    """Write real numbers at points within the grid, as weighted sums in the order of corners.

    Parameters
    ----------
    values : (points of the grid, m) numbers at each point
    points : (k, axes) numbers per axis
    out : (k, m) room for the result
    """
    for p in range(len(points)):
        locate(grid, points[p], cell)
        for i in range(values.shape[1]):
            out[p, i] = 0.0
        for c in range(len(cell.corner)):
            share = 1.0
            for k in range(len(cell.above)):
                above, width = cell.above[k], cell.width[k]
                share *= (above if (c >> k) & 1 else width - above) / width
            if share > 0.0:
                for i in range(values.shape[1]):
                    out[p, i] += share * values[cell.corner[c], i]
    return 0


@jit_without_refcounts
def _reduce(cell: Cell) -> Int:
    """Reduce the values at the corners to one, at position 0 of ``hi`` and ``lo``."""
    axes = len(cell.above)
    for k in range(axes):
        for c in range(1 << (axes - 1 - k)):
            hi, lo = between(
                cell.hi[2 * c], cell.lo[2 * c], cell.hi[2 * c + 1], cell.lo[2 * c + 1],
                cell.above[k], cell.width[k],
            )  # fmt: skip
            cell.hi[c], cell.lo[c] = hi, lo
    return 0


@jit_without_refcounts
def interpolate(grid: GridArrays, cell: Cell, out: Answers) -> Int:
    """Write the values of all ops at a position within a cell."""
    corners = len(cell.corner)
    for i in range(grid.fixed.shape[1]):
        for c in range(corners):
            cell.hi[c], cell.lo[c] = 0, np.uint64(grid.fixed[cell.corner[c], i])
        _reduce(cell)
        out.fixed[i] = np.int64(cell.lo[0])
        for c in range(corners):
            cell.hi[c] = grid.work_hi[cell.corner[c], i]
            cell.lo[c] = grid.work_lo[cell.corner[c], i]
        _reduce(cell)
        out.work_hi[i], out.work_lo[i] = cell.hi[0], cell.lo[0]
        if grid.limit[nearest_corner(cell), i] < 0:
            out.limit[i] = -1
            continue
        for c in range(corners):
            cell.hi[c], cell.lo[c] = 0, np.uint64(max(grid.limit[cell.corner[c], i], 0))
        _reduce(cell)
        out.limit[i] = np.int64(cell.lo[0])
    return 0
