"""Binary heap of timers, by tick and number of the event."""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .desk_layout import AT, ORDER, TIMER, Array


@jit_without_refcounts
def is_due_before(timers: Array, a: Int, b: Int) -> bool:
    """True if the timer in row ``a`` is due before that in row ``b``."""
    if timers[a, AT] != timers[b, AT]:
        return bool(timers[a, AT] < timers[b, AT])
    return bool(timers[a, ORDER] < timers[b, ORDER])


@jit_without_refcounts
def swap_timers(timers: Array, a: Int, b: Int) -> None:
    """Exchange two rows."""
    for k in range(TIMER):
        timers[a, k], timers[b, k] = timers[b, k], timers[a, k]


@jit_without_refcounts
def lift_timer(timers: Array, row: Int) -> None:
    """Move the timer in a row up to its place."""
    while row > 0:
        above = (row - 1) >> 1
        if not is_due_before(timers, row, above):
            return
        swap_timers(timers, row, above)
        row = above


@jit_without_refcounts
def sink_first_timer(timers: Array, count: Int) -> None:
    """Replace the first timer by the last of ``count + 1`` rows, and move it to its place."""
    for k in range(TIMER):
        timers[0, k] = timers[count, k]
    row = 0
    while 2 * row + 1 < count:
        least = 2 * row + 1
        if least + 1 < count and is_due_before(timers, least + 1, least):
            least += 1
        if not is_due_before(timers, least, row):
            return
        swap_timers(timers, row, least)
        row = least
