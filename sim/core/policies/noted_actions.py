"""Actions that kernels noted for the next turn."""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .desk_layout import ACTOR, NOTED, NOTED_AMOUNT, NOTED_BY, NOTED_VERB, NOTED_WHAT, Desk


@jit_without_refcounts
def note(desk: Desk, p: Int, verb: Int, what: Int, amount: Int, own: Int) -> None:
    """Note an action for the next turn."""
    now = desk.now
    one = desk.noted[now[NOTED]]
    one[NOTED_VERB], one[NOTED_WHAT], one[NOTED_AMOUNT], one[NOTED_BY] = verb, what, amount, own
    now[NOTED] += 1
    now[ACTOR] = p
