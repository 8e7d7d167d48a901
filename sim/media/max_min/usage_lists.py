"""Doubly linked lists of the users of each component, through the rows of uses.

The users of a shared component are flow classes, represented by the uses of their leaders. The
users of a fenced component (:mod:`.slack_links`) are single flows. A component keeps its kind of
users as long as any of its flows is in a class.
"""

from __future__ import annotations

from ...kernel.jit import Int, jit_without_refcounts
from .pairing_heap import NONE
from .table_layout import COMPONENT, HEAD, LAST_USER, NEXT_USER, OWNER, State


@jit_without_refcounts
def link_use(s: State, u: Int, owner: Int) -> None:
    """Insert a use at the front of its component's list; the owner is a flow class or a flow."""
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
    """Remove a use from its component's list."""
    _, _, uses, _ = s
    _link_uses(s, uses[u, COMPONENT], uses[u, LAST_USER], uses[u, NEXT_USER])


@jit_without_refcounts
def replace_use(s: State, u: Int, v: Int, owner: Int) -> None:
    """Replace a use in its component's list by another use of the same component."""
    _, _, uses, _ = s
    behind, before = uses[u, NEXT_USER], uses[u, LAST_USER]
    uses[v, OWNER] = owner
    _link_uses(s, uses[u, COMPONENT], before, v)
    _link_uses(s, uses[u, COMPONENT], v, behind)


@jit_without_refcounts
def _link_uses(s: State, c: Int, u: Int, v: Int) -> None:
    """Link use ``v`` directly after use ``u``; NONE stands for an end of the list."""
    parts, _, uses, _ = s
    if u == NONE:
        parts[c, HEAD] = v
    else:
        uses[u, NEXT_USER] = v
    if v != NONE:
        uses[v, LAST_USER] = u
