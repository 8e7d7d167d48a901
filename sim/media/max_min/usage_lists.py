"""Doubly linked lists of the uses of each component, through the rows of uses.

A list is told by the column of parts that holds its first use and the column of uses that holds
what comes next; what comes before stands in the column behind that.
"""

from __future__ import annotations

from ...core.jit import Int, lean
from .pairing_heap import NONE
from .table_layout import COMPONENT, State


@lean
def link(s: State, u: Int, head: Int, after: Int) -> None:
    """Put a use at the front of a list of its component."""
    parts, _, uses, _ = s
    c = uses[u, COMPONENT]
    first = parts[c, head]
    uses[u, after], uses[u, after + 1] = first, NONE
    if first != NONE:
        uses[first, after + 1] = u
    parts[c, head] = u


@lean
def unlink(s: State, u: Int, head: Int, after: Int) -> None:
    """Take a use out of its list."""
    _, _, uses, _ = s
    _join(s, uses[u, COMPONENT], uses[u, after + 1], uses[u, after], head, after)


@lean
def replace(s: State, u: Int, v: Int, head: Int, after: Int) -> None:
    """Put a use of the same component in the place of another."""
    _, _, uses, _ = s
    behind, before = uses[u, after], uses[u, after + 1]
    _join(s, uses[u, COMPONENT], before, v, head, after)
    _join(s, uses[u, COMPONENT], v, behind, head, after)


@lean
def _join(s: State, c: Int, u: Int, v: Int, head: Int, after: Int) -> None:
    """Link use ``v`` right after ``u``; either may be NONE, an end of the list."""
    parts, _, uses, _ = s
    if u == NONE:
        parts[c, head] = v
    else:
        uses[u, after] = v
    if v != NONE:
        uses[v, after + 1] = u
