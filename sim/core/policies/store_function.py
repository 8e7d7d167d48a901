"""C function by which a kernel of a policy uses a store of the compiled engine.

It means what ``sim/run/policies/policy_stores.py`` does by the handles of a process. A verb that
is an error there is only `WRONG` here: Python repeats it at its row, and raises the error.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...engine_api.store_interface import GROW, PARTS
from ...kernel import store_verbs as calls
from ...kernel.jit import Int, as_argument, jit_as_argument, jit_without_refcounts
from ...kernel.native_calls import array_at, table_at
from ...kernel.store_calls import call_store
from ...kernel.store_verbs import WRONG
from ..stores import entry_verbs as verbs
from ..stores import store_layout as lay
from ..stores.store_layout import StoreArrays
from ..stores.turn_view import amount_held, amount_used, owners_of, size_of
from . import store_desk as sd
from .desk_layout import Array

_LIKE = np.zeros(1, np.int64)  # of the type of all arrays here
_WORD = 8  # bytes


@jit_without_refcounts
def arrays_of(store: Array) -> StoreArrays:
    """Arrays of a store, by its row."""
    return (
        array_at(store, store[sd.HEAD], np.int64(lay.HEADER)),
        table_at(store, store[sd.ENTRIES], store[sd.ENTRY_ROWS], np.int64(lay.ENTRY)),
        table_at(store, store[sd.HOLDS], store[sd.HOLD_ROWS], np.int64(lay.HOLD)),
        array_at(store, store[sd.INDEX], store[sd.INDEX_LENGTH]),
    )


@jit_as_argument
def use_store(table: Int, part: Int, verb: Int, key: Int, number: Int) -> Int:
    """Answer of a store; ``table`` is the address of the policy's rows of `StoreDesk.uses`."""
    use = array_at(_LIKE, table + _WORD * sd.USE * part, np.int64(sd.USE))
    if use[sd.STORE_AT] == 0 or PARTS <= key < 0:
        return np.int64(WRONG)
    store = array_at(_LIKE, use[sd.STORE_AT], np.int64(sd.STORE))
    if verb > calls.SET_ORDER:
        return observe_store(arrays_of(store), use, verb, key)
    if not use[sd.MAY] or not is_allowed(store, verb, number):
        return np.int64(WRONG)
    if verb == calls.HOLD and store[sd.FAILED]:
        return np.int64(0)
    answer = act_on_store(arrays_of(store), use, verb, key, number)
    if answer == GROW:
        call_store(store[sd.GROW_AT], store[sd.NUMBER], use[sd.ACTOR], 0, 0, 0)
        answer = act_on_store(arrays_of(store), use, verb, key, number)
    if answer < 0:
        return np.int64(WRONG)
    if answer > 0 and verb <= calls.DROP:
        note_changed_store(store)
    return np.int64(answer)


@jit_without_refcounts
def is_allowed(store: Array, verb: Int, number: Int) -> bool:
    """False if the number that is given with a verb is an error."""
    if verb == calls.HOLD:
        return bool(1 <= number <= store[sd.TOTAL])
    return bool(verb != calls.SET_ORDER or store[sd.KEEPS_ORDER] != 0)


@jit_without_refcounts
def act_on_store(s: StoreArrays, use: Array, verb: Int, key: Int, number: Int) -> Int:
    """Answer to a verb that acts."""
    if verb == calls.HOLD:
        return verbs.hold(s, use[sd.ACTOR], key, number, use[sd.OWNER])
    if verb == calls.RELEASE:
        return verbs.release(s, use[sd.ACTOR], key, use[sd.OWNER])
    if verb == calls.DROP:
        return verbs.drop(s, use[sd.ACTOR], key)
    if verb == calls.TOUCH:
        return verbs.touch(s, use[sd.ACTOR], key)
    return verbs.set_order(s, use[sd.ACTOR], key, number)


@jit_without_refcounts
def observe_store(s: StoreArrays, use: Array, verb: Int, key: Int) -> Int:
    """Answer to a verb that observes."""
    if verb == calls.OWNERS:
        return np.int64(owners_of(s, use[sd.ACTOR], key))
    if verb == calls.SIZE:
        return np.int64(size_of(s, use[sd.ACTOR], key))
    if verb == calls.USED:
        return np.int64(amount_used(s, use[sd.ACTOR]))
    return np.int64(amount_held(s, use[sd.ACTOR]))


@jit_without_refcounts
def note_changed_store(store: Array) -> None:
    """Let a store settle in the next turn."""
    if not store[sd.IS_CHANGED]:
        count = array_at(store, store[sd.NUMBERS], np.int64(sd.FIRST_CHANGED))[sd.CHANGED]
        numbers = array_at(store, store[sd.NUMBERS], sd.FIRST_CHANGED + count + 1)
        numbers[sd.FIRST_CHANGED + count] = store[sd.NUMBER]
        numbers[sd.CHANGED] = count + 1
        store[sd.IS_CHANGED] = 1


@cache
def address_of_use_store() -> int:
    """Address of :func:`use_store`."""
    made = as_argument(use_store, 0, 0, 0, 0, 0)
    return int(made.__wrapper_address__())  # type: ignore[attr-defined]
