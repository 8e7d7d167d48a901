"""Eviction of entries that have left a window, such as that of sliding-window attention."""

from __future__ import annotations

from .rule import EvictionRule, eviction_rule


@eviction_rule("window")
class WindowPosition(EvictionRule):
    """Entries that left the window go first, the farthest first; then the least recently used.

    A policy gives each entry its position with ``set_order``. An entry with a negative position has
    left the window.
    """

    first_by, then_by = "outside", "used"
