"""Weighted max-min fairness in exact integers, by progressive filling.

All rates rise together until a component is full; its flows are then frozen. A flow at rate x uses
``weight * x`` of every component on its route. Components that fill at the same level freeze
together, so the result does not depend on the order of computation (``docs/semantics.md``,
section 2).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from ..engine_api.interface import ONE

C = TypeVar("C", bound=Hashable)
F = TypeVar("F", bound=Hashable)


def max_min_rates(capacity: Mapping[C, int], flows: Mapping[F, Mapping[C, int]]) -> dict[F, int]:
    """Max-min fair rate of every flow, by flow id.

    Parameters
    ----------
    capacity : rate of each component, in rate units
    flows : ``{component: weight in 2^-40}`` of each flow; a flow that uses no component gets no
        rate

    References
    ----------
    Progressive filling: Bertsekas and Gallager, Data Networks, 2nd ed. 1992, section 6.5.2.

    Examples
    --------
    >>> max_min_rates({"wire": 10}, {"a": {"wire": ONE}, "b": {"wire": 2 * ONE}})
    {'a': 3, 'b': 3}
    >>> flows = {"both": {0: ONE, 1: ONE}, "first": {0: ONE}, "second": {1: ONE}}
    >>> max_min_rates({0: 3, 1: 3}, flows)
    {'both': 1, 'first': 1, 'second': 1}
    """
    room, weight = _room_and_weight(capacity, flows)
    left = {flow: uses for flow, uses in flows.items() if uses}
    rate: dict[F, int] = {}
    while left:
        levels = {c: room[c] // w for c, w in weight.items() if w}
        lowest = min(levels.values())
        full = {c for c, level in levels.items() if level == lowest}
        for flow in [f for f, uses in left.items() if not full.isdisjoint(uses)]:
            rate[flow] = lowest
            for c, w in left.pop(flow).items():
                room[c] -= w * lowest
                weight[c] -= w
    return {flow: rate[flow] for flow in flows if flow in rate}


def _room_and_weight(
    capacity: Mapping[C, int], flows: Mapping[F, Mapping[C, int]]
) -> tuple[dict[C, int], dict[C, int]]:
    """Free rate, and total weight of all flows, of every component in use."""
    room: dict[C, int] = {}
    weight: dict[C, int] = {}
    for uses in flows.values():
        for c, w in uses.items():
            room[c] = capacity[c] * ONE
            weight[c] = weight.get(c, 0) + w
    return room, weight
