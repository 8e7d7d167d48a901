"""Doubly linked list of the users of each component, through the rows of uses.

Of a component that is shared those are flow classes, each with its leader's use; of one that is
fenced off (:mod:`.slack_links`) flows, each with its own.  A component is one or the other for as
long as any of its flows is in a class.
"""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .pairing_heap import NONE
from .table_layout import COMPONENT, HEAD, LAST_USER, NEXT_USER, OWNER, State


@jit_without_refcounts
def link_use(s: State, u: Int, owner: Int) -> None:
    """Put a use at the front of the list of its component, for a flow class or a flow."""
    parts, _, uses, _ = s
    c = uses[u, COMPONENT]
    first = parts[c, HEAD]
    uses[u, OWNER] = owner
    uses[u, NEXT_USER], uses[u, LAST_USER] = first, NONE
    if first != NONE:
        uses[first, LAST_USER] = u
    parts[c, HEAD] = u


@jit_without_refcounts
def unlink_use(s: State, u: Int) -> None:
    """Take a use out of its list."""
    _, _, uses, _ = s
    _link_uses(s, uses[u, COMPONENT], uses[u, LAST_USER], uses[u, NEXT_USER])


@jit_without_refcounts
def replace_use(s: State, u: Int, v: Int, owner: Int) -> None:
    """Put a use of the same component in the place of another."""
    _, _, uses, _ = s
    behind, before = uses[u, NEXT_USER], uses[u, LAST_USER]
    uses[v, OWNER] = owner
    _link_uses(s, uses[u, COMPONENT], before, v)
    _link_uses(s, uses[u, COMPONENT], v, behind)


@jit_without_refcounts
def _link_uses(s: State, c: Int, u: Int, v: Int) -> None:
    """Link use ``v`` right after ``u``; either may be NONE, an end of the list."""
    parts, _, uses, _ = s
    if u == NONE:
        parts[c, HEAD] = v
    else:
        uses[u, NEXT_USER] = v
    if v != NONE:
        uses[v, LAST_USER] = u
