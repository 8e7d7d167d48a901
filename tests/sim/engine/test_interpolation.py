"""Interpolation on a grid in integers, against Python's integers of any size."""

import random

import numpy as np
from foretrace.sim.kernel.grid_arrays import GridArrays, new_answers, new_cell
from foretrace.sim.kernel.interpolation import (
    DISAGREE,
    INSIDE,
    OUTSIDE,
    between,
    interpolate,
    locate,
)

WORD = 2**64 - 1
COUNT = 3_000


def plainly(a, b, above, width):
    """Rounded to nearest, halves away from the first value."""
    gap = (abs(b - a) * above * 2 + width) // (2 * width)
    return a + gap if b >= a else a - gap


def value(a, b, above, width):
    low, high = ((np.int64(x >> 64), np.uint64(x & WORD)) for x in (a, b))
    hi, lo = between(*low, *high, np.int64(above), np.int64(width))
    return int(hi) << 64 | int(lo)


def test_it_equals_integers_of_any_size():
    draw = random.Random(3)
    for _ in range(COUNT):
        bits = draw.choice([3, 32, 62, 64, 65, 100, 126])
        a, b = (draw.getrandbits(draw.randint(1, bits)) for _ in range(2))
        width = draw.randint(1, 2 ** draw.randint(1, 32) - 1)
        above = draw.randint(0, width)
        assert value(a, b, above, width) == plainly(a, b, above, width), (a, b, above, width)


def test_it_is_exact_at_both_ends_and_monotone():
    draw = random.Random(4)
    for _ in range(100):
        a, b = draw.getrandbits(126), draw.getrandbits(126)
        found = [value(a, b, k, 40) for k in range(41)]
        assert (found[0], found[-1]) == (a, b)
        assert found == sorted(found, reverse=b < a)


def grid_of(axes, structure=None):
    """Grid of one op whose values are random, and these as Python integers by point."""
    draw, count = random.Random(5), int(np.prod([len(axis) for axis in axes]))
    fixed, work = ([draw.getrandbits(bits) for _ in range(count)] for bits in (62, 126))
    arrays = GridArrays(
        np.concatenate(axes).astype(np.int64),
        np.cumsum([0, *map(len, axes)]),
        np.zeros(count, np.int64) if structure is None else np.array(structure),
        np.array(fixed)[:, None],
        np.array([w >> 64 for w in work])[:, None],
        np.array([w & WORD for w in work], np.uint64)[:, None],
        np.full((count, 1), -1),
    )
    return arrays, fixed, work


def by_hand(axes, values, at):
    """Value at a point: axis after axis, the first axis first."""
    if not axes:
        return values[0]
    axis, x, size = axes[0], at[0], len(values) // len(axes[0])
    k = min(max(int(np.searchsorted(axis, x, "right")) - 1, 0), max(len(axis) - 2, 0))
    low, high = (values[j * size : (j + 1) * size] for j in (k, min(k + 1, len(axis) - 1)))
    width = max(axis[min(k + 1, len(axis) - 1)] - axis[k], 1)
    pairs = zip(low, high, strict=True)
    return by_hand(axes[1:], [plainly(a, b, x - axis[k], width) for a, b in pairs], at[1:])


def test_several_axes_are_reduced_one_by_one():
    axes = [[0, 3, 9], [5], [1, 2, 100, 1000], [7, 19]]
    arrays, fixed, work = grid_of(axes)
    cell, out, draw = new_cell(4), new_answers(1), random.Random(6)
    for _ in range(300):
        at = [draw.randint(axis[0], axis[-1]) for axis in axes]
        assert locate(arrays, np.array(at), cell) == INSIDE
        interpolate(arrays, cell, out)
        assert out.fixed[0] == by_hand(axes, fixed, at)
        found = int(out.work_hi[0]) << 64 | int(out.work_lo[0])
        assert found == by_hand(axes, work, at)
        assert out.limit[0] == -1


def test_a_wide_cell_keeps_32_bits_of_the_position():
    arrays, fixed, _ = grid_of([[0, 2**61]])
    cell, out = new_cell(1), new_answers(1)
    for at, share in ((0, 0), (2**61, 1), (2**60, 0.5), (3 * 2**58, 0.375)):
        assert locate(arrays, np.array([at]), cell) == INSIDE
        interpolate(arrays, cell, out)
        assert abs(out.fixed[0] - (fixed[0] + (fixed[1] - fixed[0]) * share)) < 2**12


def test_outside_and_disagreeing_corners_are_told():
    arrays, *_ = grid_of([[1, 4, 8], [0, 10]], structure=[0, 0, 0, 1, 1, 1])
    cell = new_cell(2)
    places = {(0, 5): OUTSIDE, (9, 5): OUTSIDE, (2, 11): OUTSIDE, (2, 0): INSIDE, (6, 10): INSIDE}
    places |= {(2, 5): DISAGREE, (2, 10): DISAGREE, (4, 10): INSIDE, (1, 5): INSIDE, (8, 3): INSIDE}
    for at, what in places.items():
        assert locate(arrays, np.array(at), cell) == what, at
