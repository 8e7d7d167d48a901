"""Linked lists of cells: insertion, removal, sorting.

In doubly linked lists (events, slot queues, barred ops) the cell before is stored in ``unmet``.
That field is free: a cell in such a list has no unmet dependencies.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from .state_layout import BINS, FURTHER, NONE, Array, Rows


@jit_without_refcounts
def append(rows: Rows, world: Array, head: Int, c: Int) -> None:
    """Append a cell to the list with head ``world[head]`` and tail ``world[head + 1]``."""
    rows[c]["next"] = NONE
    if world[head] == NONE:
        world[head] = c
    else:
        rows[world[head + 1]]["next"] = c
    world[head + 1] = c


@jit_without_refcounts
def append_doubly_linked(rows: Rows, world: Array, head: Int, c: Int) -> None:
    """Append a cell to a doubly linked list, from which any cell can be removed."""
    before = world[head + 1] if world[head] != NONE else NONE
    append(rows, world, head, c)
    rows[c]["unmet"] = before


@jit_without_refcounts
def prepend(rows: Rows, world: Array, head: Int, c: Int) -> None:
    """Insert a cell at the front of a doubly linked list."""
    after = world[head]
    rows[c]["next"] = after
    rows[c]["unmet"] = NONE
    if after != NONE:
        rows[after]["unmet"] = c
    world[head] = c


@jit_without_refcounts
def unlink(rows: Rows, world: Array, head: Int, c: Int) -> Int:
    """Remove a cell from the doubly linked list at ``world[head]``; returns the cell before it."""
    before, after = np.int64(rows[c]["unmet"]), np.int64(rows[c]["next"])
    if before == NONE:
        world[head] = after
    else:
        rows[before]["next"] = after
    if after != NONE:
        rows[after]["unmet"] = before
    rows[c]["unmet"] = 0
    return before


@jit_without_refcounts
def is_served_before(rows: Rows, a: Int, b: Int) -> bool:
    """True if cell ``a`` is served before cell ``b`` in a round: by op, then by participant."""
    op_a = rows[a]["link"] if rows[a]["flags"] & FURTHER else a
    op_b = rows[b]["link"] if rows[b]["flags"] & FURTHER else b
    return bool(op_a < op_b or (op_a == op_b and a < b))


@jit_without_refcounts
def merge_sorted_lists(rows: Rows, a: Int, b: Int) -> Int:
    """Merge two sorted lists of cells; returns the first cell of the merged list."""
    if is_served_before(rows, b, a):
        a, b = b, a
    head = a
    while b != NONE:
        following = np.int64(rows[a]["next"])
        if following == NONE or is_served_before(rows, b, following):
            rows[a]["next"] = b
            b = following
        a = rows[a]["next"]
    return head


@jit_without_refcounts
def sort_list(rows: Rows, world: Array, head: Int) -> Int:
    """Sort a list of cells by op and participant (merge sort); returns its new first cell."""
    if head == NONE or rows[head]["next"] == NONE:
        return head
    for b in range(BINS, BINS + 32):
        world[b] = NONE
    c = head
    while c != NONE:
        run = c  # of cells that are in order already
        while rows[c]["next"] != NONE and is_served_before(rows, c, np.int64(rows[c]["next"])):
            c = rows[c]["next"]
        following = rows[c]["next"]
        rows[c]["next"] = NONE
        b = BINS
        while world[b] != NONE:
            run = merge_sorted_lists(rows, world[b], run)
            world[b] = NONE
            b += 1
        world[b] = run
        c = following
    done = NONE
    for b in range(BINS, BINS + 32):
        if world[b] != NONE:
            done = world[b] if done == NONE else merge_sorted_lists(rows, world[b], done)
    return done
