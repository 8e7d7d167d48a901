"""Factorization by open-addressing hash tables: equal keys get equal numbers, without sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .jit import jit

Numbers = NDArray[np.int64]


def number_by_first_appearance(keys: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Factorize keys by first appearance: a number per key, and each number's first position.

    >>> numbers, first = number_by_first_appearance(np.array([7, 3, 7]))
    >>> numbers.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    same = keys if keys.dtype == np.uint64 else keys.astype(np.int64).view(np.uint64)
    numbers, first = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    table = np.full(2 << len(keys).bit_length(), -1, np.int64)
    with np.errstate(over="ignore"):
        found = int(_number_keys(same, table, numbers, first))
    return numbers, first[:found].copy()


def number_rows(table: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Factorize the rows of a table: a number per row, and the first position per number.

    >>> numbers, first = number_rows(np.array([[1, 2], [1, 3], [1, 2]]))
    >>> numbers.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    numbers, first = np.zeros(len(table), np.int64), np.zeros(min(1, len(table)), np.int64)
    for column in table.T:
        numbers, first = number_pairs(numbers, column)
    return numbers, first


def number_pairs(a: NDArray[Any], b: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Factorize pairs of values from two columns; values of the first column must be 0 or more.

    >>> number_pairs(np.array([0, 0, 1]), np.array([-5, -5, -5]))[0].tolist()
    [0, 0, 1]
    """
    if not len(b):
        return number_by_first_appearance(a)
    low, high = int(b.min()), int(b.max())
    if low == high:
        return number_by_first_appearance(a)
    if (int(a.max()) + 1) * (high - low + 1) < 1 << 62:
        return number_by_first_appearance(a.astype(np.int64) * (high - low + 1) + (b - low))
    return number_pairs(a, number_by_first_appearance(b)[0])


def equal_multisets(
    order: Numbers, begins: Numbers, of: Numbers, left: Numbers, right: Numbers
) -> bool:
    """True if each listed multiset of numbers equals the one that it is compared with.

    Parameters
    ----------
    order : members of all multisets, one multiset after the other
    begins : (multisets + 1,) position of each multiset's first member in ``order``
    of : number (value) of each member; two members are equal if their numbers are
    left, right : indices of the multisets to compare, pair by pair

    Examples
    --------
    >>> order, begins, of = np.arange(4), np.array([0, 2, 4]), np.array([5, 6, 6, 5])
    >>> equal_multisets(order, begins, of, np.array([1]), np.array([0]))
    True
    """
    counts = np.zeros(int(of.max(initial=0)) + 1, np.int64)
    return bool(_equal_multisets(order, begins, of, left, right, counts))


@jit
def _number_keys(keys: Any, table: Any, numbers: Any, first: Any) -> int:
    """Factorize keys by first appearance, with a hash table; returns the count of numbers."""
    mask, found = len(table) - 1, 0
    for i in range(len(keys)):
        mixed = keys[i] * np.uint64(0x9E3779B97F4A7C15)
        at = np.int64(mixed >> np.uint64(20)) & mask
        while table[at] >= 0 and keys[first[table[at]]] != keys[i]:
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = found
            first[found] = i
            found += 1
        numbers[i] = table[at]
    return found


@jit
def _equal_multisets(order: Any, begins: Any, of: Any, left: Any, right: Any, counts: Any) -> bool:
    for k in range(len(left)):
        a, b = left[k], right[k]
        if begins[a + 1] - begins[a] != begins[b + 1] - begins[b]:
            return False
        for i in range(begins[b], begins[b + 1]):
            counts[of[order[i]]] += 1
        same = True
        for i in range(begins[a], begins[a + 1]):
            counts[of[order[i]]] -= 1
            same = same and counts[of[order[i]]] >= 0
        if not same:
            return False
    return True
