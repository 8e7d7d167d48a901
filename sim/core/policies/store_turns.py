"""Turns of stores inside the compiled loop: those that changed settle."""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from ..capacity import mark_claim_queue
from ..memory import state_layout as lay
from ..memory.state_layout import Array
from ..stores import store_layout
from ..stores.turn_view import settle
from . import store_desk as sd
from .desk_layout import CHANGES, TICK, Desk
from .policy_calls import note_change
from .store_function import arrays_of


@jit_without_refcounts
def has_room_to_settle(desk: Desk) -> bool:
    """True if the samples and changes of all stores that changed have room."""
    numbers = desk.stores.numbers
    return bool(
        numbers[sd.SAMPLES] + numbers[sd.CHANGED] <= len(desk.stores.samples)
        and desk.now[CHANGES] + numbers[sd.CHANGED] <= len(desk.changes)
    )


@jit_without_refcounts
def settle_stores(world: Array, desk: Desk) -> None:
    """Begin the next turn of all stores that changed."""
    numbers = desk.stores.numbers
    for i in range(numbers[sd.CHANGED]):
        settle_store(world, desk, numbers[sd.FIRST_CHANGED + i])
    numbers[sd.CHANGED] = 0


@jit_without_refcounts
def settle_store(world: Array, desk: Desk, k: Int) -> None:
    """Begin the next turn of a store; what it holds becomes the held amount of its component."""
    store, numbers = desk.stores.rows[k], desk.stores.numbers
    s = arrays_of(store)
    settle(s)
    held = s[0][store_layout.HELD]
    sample = desk.stores.samples[numbers[sd.SAMPLES]]
    sample[sd.SAMPLE_OF], sample[sd.SAMPLED_AT] = k, desk.now[TICK]
    sample[sd.SAMPLE_USED], sample[sd.SAMPLE_HELD] = s[0][store_layout.USED], held
    numbers[sd.SAMPLES] += 1
    more = held - store[sd.HELD]
    store[sd.HELD], store[sd.IS_CHANGED] = held, 0
    if more == 0:
        return
    note_change(desk, store[sd.COMPONENT], more)
    part = world[lay.PARTS] + store[sd.COMPONENT] * lay.PART
    world[part + lay.TAKEN] += more
    if more < 0:
        mark_claim_queue(world, part)
