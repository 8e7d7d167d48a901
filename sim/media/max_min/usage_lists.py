"""Doubly linked lists of the uses of each component, through the rows of uses.

A list is told by the column of parts that holds its first use and the column of uses that holds
what comes next; what comes before stands in the column behind that.
"""

from __future__ import annotations

from ...core.jit import Int, jit_without_refcounts
from .pairing_heap import NONE
from .table_layout import COMPONENT, State


@jit_without_refcounts
def link_use(s: State, u: Int, head: Int, after: Int) -> None:
    """Put a use at the front of a list of its component."""
    parts, _, uses, _ = s
    c = uses[u, COMPONENT]
    first = parts[c, head]
    uses[u, after], uses[u, after + 1] = first, NONE
    if first != NONE:
        uses[first, after + 1] = u
    parts[c, head] = u


@jit_without_refcounts
def unlink_use(s: State, u: Int, head: Int, after: Int) -> None:
    """Take a use out of its list."""
    _, _, uses, _ = s
    _link_uses(s, uses[u, COMPONENT], uses[u, after + 1], uses[u, after], head, after)


@jit_without_refcounts
def replace_use(s: State, u: Int, v: Int, head: Int, after: Int) -> None:
    """Put a use of the same component in the place of another."""
    _, _, uses, _ = s
    behind, before = uses[u, after], uses[u, after + 1]
    _link_uses(s, uses[u, COMPONENT], before, v, head, after)
    _link_uses(s, uses[u, COMPONENT], v, behind, head, after)


@jit_without_refcounts
def _link_uses(s: State, c: Int, u: Int, v: Int, head: Int, after: Int) -> None:
    """Link use ``v`` right after ``u``; either may be NONE, an end of the list."""
    parts, _, uses, _ = s
    if u == NONE:
        parts[c, head] = v
    else:
        uses[u, after] = v
    if v != NONE:
        uses[v, after + 1] = u
