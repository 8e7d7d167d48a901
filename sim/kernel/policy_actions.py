"""Actions that the kernel of a compiled process writes: rows of a list, one per verb."""

from __future__ import annotations

from typing import Any

from .jit import Int, jit_without_refcounts
from .policy_rows import BAD_PART, COUNT, MOST, TAG, VERB, A, B, C, TurnArrays

Real = Any  # 64-bit float in a kernel


@jit_without_refcounts
def write_action(
    turn: TurnArrays, verb: Int, tag: Int, a: Int, b: Int, c: Int, number: Real
) -> Int:
    """Append an action; beyond the limit it is only counted."""
    row = min(turn.head[COUNT], turn.head[MOST])
    actions = turn.actions
    actions[row, VERB], actions[row, TAG] = verb, tag
    actions[row, A], actions[row, B], actions[row, C] = a, b, c
    turn.numbers[row] = number
    turn.head[COUNT] += 1
    return 0


@jit_without_refcounts
def is_part(turn: TurnArrays, part: Int) -> bool:
    """True if a part has this number; otherwise the error is noted as an action."""
    if 0 <= part < len(turn.parts):
        return True
    write_action(turn, BAD_PART, 0, part, 0, 0, 0.0)
    return False
