"""Verbs by which the kernel of a compiled process uses a store: named, sized entries.

They have the names of a store's methods in a process (``sim.store(name)``). A verb is judged and
applied when the kernel calls it, so it needs no row of the actions. A wrong one ends the process
with an error when its call is over; verbs that follow it in the call do nothing.

A part is a store's place in ``parts``. A key is a number of 0 or more: the entry that a generator
names by the same number. The owner of what a kernel holds is its job.
"""

from __future__ import annotations

from typing import Any

from .jit import Int, jit_without_refcounts
from .policy_actions import is_part, write_action
from .policy_rows import (
    ACTED,
    BAD_STORE,
    STOPPED,
    STORE_FUNCTION,
    STORE_STATE,
    STORE_TABLE,
    TurnArrays,
)
from .store_calls import call_store
from .store_verbs import (
    DROP,
    HOLD,
    HOLDING,
    OWNERS,
    RELEASE,
    SET_ORDER,
    SIZE,
    TOUCH,
    USED,
    WRONG,
)

__all__ = [
    "drop",
    "held",
    "hold",
    "longest_prefix",
    "owners",
    "release",
    "set_order",
    "size",
    "touch",
    "used",
]


@jit_without_refcounts
def _use(turn: TurnArrays, part: Int, verb: Int, key: Int, number: Int) -> Int:
    """Answer of a store to a verb; 0 if it is an error, or follows one."""
    head = turn.head
    if head[STORE_STATE] == STOPPED or not is_part(turn, part):
        return 0
    answer = call_store(head[STORE_FUNCTION], head[STORE_TABLE], part, verb, key, number)
    if answer == WRONG:
        head[STORE_STATE] = STOPPED
        write_action(turn, BAD_STORE, verb, part, key, number, 0.0)
        return 0
    if verb <= SET_ORDER:
        head[STORE_STATE] = ACTED
    return answer


# Act.


@jit_without_refcounts
def hold(turn: TurnArrays, part: Int, key: Int, size: Int) -> bool:
    """Add an owner to an entry, which is created if it is gone; False if it does not fit."""
    return bool(_use(turn, part, HOLD, key, size) > 0)


@jit_without_refcounts
def release(turn: TurnArrays, part: Int, key: Int) -> Int:
    """Remove an owner of an entry; without owners it is cached."""
    return _use(turn, part, RELEASE, key, 0)


@jit_without_refcounts
def drop(turn: TurnArrays, part: Int, key: Int) -> bool:
    """Remove a cached entry; False if it is held, or if another process released it now."""
    return bool(_use(turn, part, DROP, key, 0) > 0)


@jit_without_refcounts
def touch(turn: TurnArrays, part: Int, key: Int) -> Int:
    """Use an entry, for the order of eviction."""
    return _use(turn, part, TOUCH, key, 0)


@jit_without_refcounts
def set_order(turn: TurnArrays, part: Int, key: Int, number: Int) -> Int:
    """Set an entry's number for the eviction rules ``order`` and ``window``."""
    return _use(turn, part, SET_ORDER, key, number)


# Observe: what the process changed in this turn as it is now, the rest as of the last turn.


@jit_without_refcounts
def owners(turn: TurnArrays, part: Int, key: Int) -> Int:
    """Number of owners of an entry: 0 if it is cached, -1 if it is gone."""
    return _use(turn, part, OWNERS, key, 0)


@jit_without_refcounts
def size(turn: TurnArrays, part: Int, key: Int) -> Int:
    """Size of an entry; 0 if it is gone."""
    return _use(turn, part, SIZE, key, 0)


@jit_without_refcounts
def longest_prefix(turn: TurnArrays, part: Int, keys: Any) -> Int:
    """Number of leading keys of an array whose entries are present."""
    for i in range(len(keys)):
        if owners(turn, part, keys[i]) < 0 or turn.head[STORE_STATE] == STOPPED:
            return i
    return len(keys)


@jit_without_refcounts
def used(turn: TurnArrays, part: Int) -> Int:
    """Sum of the sizes of all entries."""
    return _use(turn, part, USED, 0, 0)


@jit_without_refcounts
def held(turn: TurnArrays, part: Int) -> Int:
    """Sum of the sizes of the entries that are held."""
    return _use(turn, part, HOLDING, 0, 0)
