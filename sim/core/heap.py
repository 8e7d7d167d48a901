"""Pairing heaps inside the rows of a table: no memory of their own, any row can be taken out.

A row that may be in a heap has five columns for it, from column ``k`` on: the key (two words of
a 128-bit integer), its first child, its next sibling, and what is before it (the parent of a
first child, else the sibling).  Insert and meld cost O(1), the rest O(log n) in the long run;
equal keys come in any order.  A heap is the row of its least key, -1 when it is empty.
(Fredman, Sedgewick, Sleator, Tarjan 1986, doi:10.1007/BF01840439.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import Int, lean
from .wide import less

KEY_HI, KEY_LO, CHILD, NEXT, BEFORE = range(5)
NODE = 5  # columns
NONE, ABSENT = -1, -2  # no row; in no heap

Table = NDArray[np.int64]


@lean
def insert(t: Table, k: Int, heap: Int, i: Int) -> Int:
    """Row ``i``, whose key is set, enters; returns the heap.

    >>> t = np.array([[0, key, NONE, NONE, ABSENT] for key in (30, 10, 20)])
    >>> heap = NONE
    >>> for row in range(3):
    ...     heap = insert(t, 0, heap, row)
    >>> int(heap), int(remove(t, 0, heap, 1))
    (1, 2)
    """
    t[i, k + CHILD] = NONE
    t[i, k + NEXT] = NONE
    t[i, k + BEFORE] = NONE
    return _meld(t, k, heap, i)


@lean
def remove(t: Table, k: Int, heap: Int, i: Int) -> Int:
    """Row ``i`` goes; returns the heap."""
    below = _pair(t, k, t[i, k + CHILD])
    before, after = t[i, k + BEFORE], t[i, k + NEXT]
    t[i, k + BEFORE] = ABSENT
    if before == NONE:
        return below
    if t[before, k + CHILD] == i:
        t[before, k + CHILD] = after
    else:
        t[before, k + NEXT] = after
    if after != NONE:
        t[after, k + BEFORE] = before
    return _meld(t, k, heap, below)


@lean
def _meld(t: Table, k: Int, a: Int, b: Int) -> Int:
    """One heap of two."""
    if a == NONE or b == NONE:
        return max(a, b)
    if less(t[b, k + KEY_HI], t[b, k + KEY_LO], t[a, k + KEY_HI], t[a, k + KEY_LO]):
        a, b = b, a
    first = t[a, k + CHILD]
    if first != NONE:
        t[first, k + BEFORE] = b
    t[b, k + NEXT] = first
    t[b, k + BEFORE] = a
    t[a, k + CHILD] = b
    return a


@lean
def _pair(t: Table, k: Int, i: Int) -> Int:
    """One heap of a row and its next siblings: melded two by two, then all, from the last."""
    done = NONE  # pairs, linked backwards
    while i != NONE:
        j = t[i, k + NEXT]
        after = NONE
        t[i, k + NEXT], t[i, k + BEFORE] = NONE, NONE
        if j != NONE:
            after = t[j, k + NEXT]
            t[j, k + NEXT], t[j, k + BEFORE] = NONE, NONE
            i = _meld(t, k, i, j)
        t[i, k + NEXT] = done
        done = i
        i = after
    heap = NONE
    while done != NONE:
        i = done
        done = t[i, k + NEXT]
        t[i, k + NEXT] = NONE
        heap = _meld(t, k, heap, i)
    return heap
