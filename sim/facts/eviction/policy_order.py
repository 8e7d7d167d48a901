"""Eviction in the order that a policy keeps."""

from __future__ import annotations

from .rule import EvictionRule, eviction_rule


@eviction_rule("order")
class PolicyOrder(EvictionRule):
    """The entry with the smallest number that the policy set with ``set_order`` goes first."""

    first_by, then_by = "order", "created"
