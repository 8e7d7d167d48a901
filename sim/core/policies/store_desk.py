"""Layout of the part of the desk by which kernels of policies use stores without Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..memory.state_layout import Array

# Row of a part of a policy: address of its store's row (0: it is no store), 1 if the policy may
# change it, number of the policy among those that act, owner of what it holds.
STORE_AT, MAY, ACTOR, OWNER, USE = range(5)

# Row of a store: address and size of its arrays (`stores/store_layout.py`); its total size, 1 if it
# has failed, 1 if its rule keeps order numbers; component; amount held as of the last turn; 1 if it
# changed in this turn; its own number; addresses of `StoreDesk.numbers` and of the function that
# enlarges the arrays.
(
    HEAD,
    ENTRIES,
    ENTRY_ROWS,
    HOLDS,
    HOLD_ROWS,
    INDEX,
    INDEX_LENGTH,
    TOTAL,
    FAILED,
    KEEPS_ORDER,
    COMPONENT,
    HELD,
    IS_CHANGED,
    NUMBER,
    NUMBERS,
    GROW_AT,
    STORE,
) = range(17)

# Numbers: stores that changed in this turn, samples; then the rows of these stores, in order.
CHANGED, SAMPLES, FIRST_CHANGED = range(3)

# Sample of a store's amounts.
SAMPLE_OF, SAMPLED_AT, SAMPLE_USED, SAMPLE_HELD, STORE_SAMPLE = range(5)


class StoreDesk(NamedTuple):
    """Stores of the policies that the loop drives.

    Parameters
    ----------
    rows : one row per store
    uses : one row per part of each policy that has a store
    numbers : numbers of the loop about stores
    samples : amounts at the end of turns
    """

    rows: Array
    uses: Array
    numbers: Array
    samples: Array


def empty_stores(stores: int, uses: int, samples: int) -> StoreDesk:
    """Room for so many stores, parts and samples."""
    return StoreDesk(
        np.zeros((stores, STORE), np.int64), np.zeros((uses, USE), np.int64),
        np.zeros(FIRST_CHANGED + stores, np.int64), np.zeros((samples, STORE_SAMPLE), np.int64),
    )  # fmt: skip
