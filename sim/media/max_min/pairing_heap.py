"""Pairing heaps stored in the rows of a table; any row can be removed.

A row that can be in a heap begins with five columns: the key (two words of a 128-bit integer), the
first child, the next sibling, and the previous row (the parent of a first child, else the
sibling before). Insert and meld cost O(1), removal amortised O(log n). Rows with equal keys have
no defined order. A heap is identified by the row with the smallest key; -1 is the empty heap.
(Fredman, Sedgewick, Sleator, Tarjan 1986, doi:10.1007/BF01840439.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...kernel.jit import Int, jit_without_refcounts
from .int128 import less

KEY_HI, KEY_LO, CHILD, NEXT, BEFORE = range(5)
NODE = 5  # columns
NONE, ABSENT = -1, -2  # no row; in no heap

Table = NDArray[np.int64]


@jit_without_refcounts
def insert(t: Table, heap: Int, i: Int) -> Int:
    """Insert row ``i``, whose key is already set; returns the new top of the heap.

    >>> t = np.array([[0, key, NONE, NONE, ABSENT] for key in (30, 10, 20)])
    >>> heap = NONE
    >>> for row in range(3):
    ...     heap = insert(t, heap, row)
    >>> int(heap), int(remove(t, heap, 1))
    (1, 2)
    """
    t[i, CHILD] = NONE
    t[i, NEXT] = NONE
    t[i, BEFORE] = NONE
    return _meld(t, heap, i)


@jit_without_refcounts
def remove(t: Table, heap: Int, i: Int) -> Int:
    """Remove row ``i``; returns the new top of the heap."""
    below = _pair(t, t[i, CHILD])
    before, after = t[i, BEFORE], t[i, NEXT]
    t[i, BEFORE] = ABSENT
    if before == NONE:
        return below
    if t[before, CHILD] == i:
        t[before, CHILD] = after
    else:
        t[before, NEXT] = after
    if after != NONE:
        t[after, BEFORE] = before
    return _meld(t, heap, below)


@jit_without_refcounts
def next_row(t: Table, i: Int) -> Int:
    """Row after row ``i`` in a traversal of all rows of a heap from its top; NONE after the last.

    >>> t = np.array([[0, key, NONE, NONE, ABSENT] for key in (30, 10, 20)])
    >>> row = insert(t, insert(t, insert(t, NONE, 0), 1), 2)
    >>> while row != NONE:
    ...     print(int(t[row, KEY_LO]), end=" ")
    ...     row = next_row(t, row)
    10 20 30
    """
    if t[i, CHILD] != NONE:
        return t[i, CHILD]
    while i != NONE:
        if t[i, NEXT] != NONE:
            return t[i, NEXT]
        before = t[i, BEFORE]
        while before != NONE and t[before, CHILD] != i:
            i = before
            before = t[i, BEFORE]
        i = before
    return np.int64(NONE)


@jit_without_refcounts
def _meld(t: Table, a: Int, b: Int) -> Int:
    """Meld two heaps into one."""
    if a == NONE or b == NONE:
        return max(a, b)
    if less(t[b, KEY_HI], t[b, KEY_LO], t[a, KEY_HI], t[a, KEY_LO]):
        a, b = b, a
    first = t[a, CHILD]
    if first != NONE:
        t[first, BEFORE] = b
    t[b, NEXT] = first
    t[b, BEFORE] = a
    t[a, CHILD] = b
    return a


@jit_without_refcounts
def _pair(t: Table, i: Int) -> Int:
    """Meld a row and its next siblings into one heap: in pairs, then from the last on."""
    done = NONE  # pairs, linked backwards
    while i != NONE:
        j = t[i, NEXT]
        after = NONE
        t[i, NEXT], t[i, BEFORE] = NONE, NONE
        if j != NONE:
            after = t[j, NEXT]
            t[j, NEXT], t[j, BEFORE] = NONE, NONE
            i = _meld(t, i, j)
        t[i, NEXT] = done
        done = i
        i = after
    heap = np.int64(NONE)
    while done != NONE:
        i = done
        done = t[i, NEXT]
        t[i, NEXT] = NONE
        heap = _meld(t, heap, i)
    return heap
