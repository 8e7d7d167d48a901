"""Eviction of the entry that was created first."""

from __future__ import annotations

from .rule import EvictionRule, eviction_rule


@eviction_rule("oldest")
class OldestEntry(EvictionRule):
    """The entry that was created first goes first."""

    first_by, then_by = "zero", "created"
