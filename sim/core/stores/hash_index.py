"""Hash tables with open addressing, whose keys are the first two columns of a table's rows.

A slot contains NONE, or 31 bits of the hash above the number of a row. So a search reads few rows
but the one that it wants. Collisions go to the next slot, and a removal moves later ones back, so
that no marks of removed rows are left.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from .store_layout import NONE, Array


@jit_without_refcounts
def hash_of(key: Int, of: Int) -> Int:
    """Hash of two numbers in 31 bits; products stay below 2^63, as interpreted numbers require."""
    low = (key & 0x7FFFFFFF) * 2654435761
    high = ((key >> 31) & 0x7FFFFFFF) * 2246822519
    mixed = low ^ high ^ ((key >> 62) & 3) ^ ((of & 0x7FFFFFFF) * 3266489917)
    return (mixed ^ (mixed >> 32)) & 0x7FFFFFFF


@jit_without_refcounts
def find_row(rows: Array, index: Array, at: Int, mask: Int, key: Int, of: Int) -> Int:
    """Row with a key, or NONE. The table is ``index[at : at + mask + 1]``."""
    code = hash_of(key, of)
    slot = code & mask
    while index[at + slot] != NONE:
        if index[at + slot] >> 32 == code:
            row = index[at + slot] & 0xFFFFFFFF
            if rows[row, 0] == key and rows[row, 1] == of:
                return row
        slot = (slot + 1) & mask
    return np.int64(NONE)


@jit_without_refcounts
def insert_row(rows: Array, index: Array, at: Int, mask: Int, row: Int) -> None:
    """Insert a row, whose key is not in the table."""
    code = hash_of(rows[row, 0], rows[row, 1])
    slot = code & mask
    while index[at + slot] != NONE:
        slot = (slot + 1) & mask
    index[at + slot] = (code << 32) | row


@jit_without_refcounts
def remove_row(rows: Array, index: Array, at: Int, mask: Int, row: Int) -> None:
    """Remove a row, and move rows behind it into the gap."""
    code = hash_of(rows[row, 0], rows[row, 1])
    gap = code & mask
    while index[at + gap] != (code << 32) | row:
        gap = (gap + 1) & mask
    slot = (gap + 1) & mask
    while index[at + slot] != NONE:
        home = (index[at + slot] >> 32) & mask
        if ((slot - home) & mask) >= ((slot - gap) & mask):
            index[at + gap] = index[at + slot]
            gap = slot
        slot = (slot + 1) & mask
    index[at + gap] = NONE
