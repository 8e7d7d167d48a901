"""Arrays of a store: four int64 arrays, so that any kernel can hold and release entries.

A store is the tuple ``s = (head, entries, holds, index)``:

- ``head``: single numbers (`CAPACITY` and following).
- ``entries``: one row per entry that is present, or that was when the turn began.
- ``holds``: one row per entry and owner, with the number of its holds. A row of each owner alone
  (`OF` is 0) is the head of the circular list of its rows.
- ``index``: two hash tables (entries by key, holds by owner and entry), the heap of cached entries,
  the marks (which actors changed an entry in this turn) and the actors, in this order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
StoreArrays = Any  # tuple[Array, Array, Array, Array]

NONE = -1  # end of a list, or an empty slot

# `head`. ROOM is free to all actors, and CACHED is the size of entries that all may evict.
# FIRST_BY and THEN_BY are columns of `entries`: the eviction rule. ACTING is the only actor of this
# turn, NONE or SEVERAL. A *_COUNT is a number of rows in use, a *_TOP that of rows ever used, and a
# *_FREE the first row of a list of unused ones.
(
    CAPACITY,
    FIRST_BY,
    THEN_BY,
    TURN,
    CLOCK,
    PART_COUNT,
    USED,
    HELD,
    USED_BEFORE,
    HELD_BEFORE,
    ROOM,
    CACHED,
    ACTING,
    HITS,
    MISSES,
    REFUSALS,
    EVICTIONS,
    PRESENT,
    ENTRY_COUNT,
    ENTRY_TOP,
    ENTRY_FREE,
    HOLD_COUNT,
    HOLD_TOP,
    HOLD_FREE,
    KEYS_AT,
    KEYS_MASK,
    PAIRS_AT,
    PAIRS_MASK,
    HEAP_AT,
    HEAP_COUNT,
    MARKS_AT,
    MARK_COUNT,
    MOST_MARKS,
    ACTORS_AT,
    MOST_ACTORS,
    HEADER,
) = range(36)

SEVERAL = -2
UNUSED = -3  # OWNERS or OF of a row on the list of unused ones

# Row of `entries`: two cache lines. ZERO to SIZE are the numbers that eviction rules name
# (`rule.NUMBERS`). OWNERS is GONE (-1) for an entry that went in this turn, and UNUSED for a row on
# the list of unused ones, whose link is MARK_OF. LISTED: 1 if the heap has an item with the
# priority AT_FIRST, AT_THEN, which is at most the present one. MARK_OF is the last mark of the
# entry; it is valid if that mark is of this turn and names this row.
(
    KEY,
    ZERO,
    ORDER,
    OUTSIDE,
    LAST_USE,
    CREATION,
    USES,
    SIZE,
    OWNERS,
    HOLDING,
    CACHED_BY,
    CACHED_IN,
    LISTED,
    AT_FIRST,
    AT_THEN,
    MARK_OF,
    ENTRY,
) = range(17)
ASIDE = AT_FIRST  # link of a list of entries that are not in the heap

# Row of `holds`: a cache line. OF is the row of the entry plus 1, or UNUSED. The first two columns
# are the key of the hash table, as KEY and ZERO are of an entry.
OWNER, OF, COUNT, NEXT_OF_ENTRY, BEFORE_OF_ENTRY, NEXT_OF_OWNER, BEFORE_OF_OWNER = range(7)
HOLD = 8

ITEM = 4  # numbers of an item of the heap: priority (two), creation, row of the entry

# A mark: actor, next mark of the same entry, row of the entry, and the state of the entry before
# the turn. The mark whose NEXT_MARK is NONE is the entry's first in the turn.
MARK_ACTOR, NEXT_MARK, MARKED, WAS_SIZE, WAS_OWNERS, MARK = range(6)

ACTOR_TURN, FREED, RELEASED, ACTOR = range(4)  # of an actor: what it freed and cached in the turn


def segments(entries: int, holds: int, marks: int, actors: int) -> tuple[int, int, list[int]]:
    """Masks of both hash tables, and the offset of each segment of ``index`` and its length.

    >>> segments(4, 4, 8, 2)
    (7, 7, [0, 8, 16, 304, 344, 350])
    """
    keys, pairs = (1 << (2 * n - 1).bit_length() for n in (entries, holds))
    lengths = [0, keys, pairs, ITEM * (2 * entries + 64), MARK * marks, ACTOR * actors]
    return keys - 1, pairs - 1, np.cumsum(lengths).tolist()
