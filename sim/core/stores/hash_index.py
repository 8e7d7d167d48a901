"""Hash tables with open addressing, whose keys are the first two columns of a table's rows.

A slot contains the number of a row, or NONE. Collisions go to the next slot, and a removal moves
later ones back, so that no marks of removed rows are left.
"""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .store_layout import NONE, Array


@jit_without_refcounts
def hash_of(key: Int, of: Int) -> Int:
    """Hash of two numbers, 0 or more; products stay below 2^63, as interpreted numbers require."""
    low = (key & 0x7FFFFFFF) * 2654435761
    high = ((key >> 31) & 0x7FFFFFFF) * 2246822519
    mixed = low ^ high ^ ((key >> 62) & 3) ^ ((of & 0x7FFFFFFF) * 3266489917)
    return mixed ^ (mixed >> 32)


@jit_without_refcounts
def find_row(rows: Array, index: Array, at: Int, mask: Int, key: Int, of: Int) -> Int:
    """Row with a key, or NONE. The table is ``index[at : at + mask + 1]``."""
    slot = hash_of(key, of) & mask
    row = index[at + slot]
    while row != NONE and (rows[row, 0] != key or rows[row, 1] != of):
        slot = (slot + 1) & mask
        row = index[at + slot]
    return row


@jit_without_refcounts
def insert_row(rows: Array, index: Array, at: Int, mask: Int, row: Int) -> None:
    """Insert a row, whose key is not in the table."""
    slot = hash_of(rows[row, 0], rows[row, 1]) & mask
    while index[at + slot] != NONE:
        slot = (slot + 1) & mask
    index[at + slot] = row


@jit_without_refcounts
def remove_row(rows: Array, index: Array, at: Int, mask: Int, row: Int) -> None:
    """Remove a row, and move rows behind it into the gap."""
    gap = hash_of(rows[row, 0], rows[row, 1]) & mask
    while index[at + gap] != row:
        gap = (gap + 1) & mask
    slot = (gap + 1) & mask
    other = index[at + slot]
    while other != NONE:
        home = hash_of(rows[other, 0], rows[other, 1]) & mask
        if ((slot - home) & mask) >= ((slot - gap) & mask):
            index[at + gap] = other
            gap = slot
        slot = (slot + 1) & mask
        other = index[at + slot]
    index[at + gap] = NONE
