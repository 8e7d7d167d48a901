"""Eviction of the entry that was not used for the longest time."""

from __future__ import annotations

from .rule import EvictionRule, eviction_rule


@eviction_rule("lru")
class LeastRecentlyUsed(EvictionRule):
    """The entry whose last use (hold, release or touch) is the oldest goes first."""

    first_by, then_by = "zero", "used"
