"""Flow classes (*bundles*): flows that always run at the same rate share one clock.

This folder computes weighted max-min fair rates (water-filling) incrementally. A *flow* is the
transfer of one op. A *use* is one (flow, component, weight) row. A *bundle* is a class of flows
with equal rates. A *stake* is the total weight of a class on one component. A *level* is the fair
rate per unit of weight of a saturated component. A *fence* is a rate threshold: while all flows
stay below it, a component with slack is left out of the computation.

A component used by a single flow only limits that flow. Flows with equal limits and the same set
of *shared* components therefore run at equal rates, whatever their weights and work. Levels are
computed over classes (:mod:`.max_min_levels`). Each class has one stake in a shared component
(:mod:`.class_usage`) and one clock (:mod:`.work_clock`).
"""

from __future__ import annotations

import numpy as np

from ...engine_api.interface import ONE
from ...kernel.jit import Int, jit_without_refcounts
from . import table_layout as lay
from .class_usage import (
    add_class_to_components,
    change_leader,
    lower_class_weights,
    raise_class_weights,
    remove_class_from_components,
    use_same_shared_components,
)
from .int128 import add, div, mul
from .pairing_heap import ABSENT, BEFORE, NONE, insert, remove
from .table_layout import Array, State
from .usage_lists import link_use, unlink_use
from .work_clock import advance_class_clock, mark_class_changed, work_left

EPOCH = -(2**62)  # high word of a new clock: tags of works up to 2^127 then fit
_BITS = (1 << 40) - 1


@jit_without_refcounts
def attach_flow(s: State, f: Int, now: Int) -> None:
    """Add a flow to the class with equal limits and shared components; create it if needed."""
    parts, flows, uses, bundles = s
    ceiling, fence, key = _class_key(parts, flows, uses, f)
    b = _flow_class_or_zero(s, f, ceiling, fence, key)
    if b == 0:
        b = _new_class(s, f, ceiling, fence, key, now)
    else:
        raise_class_weights(s, f, b)
    advance_class_clock(bundles, b, now)
    bundles[b, lay.SIZE] += 1
    flows[f, lay.BUNDLE] = b
    if fence != lay.OPEN:
        _link_fenced_uses(s, f)
    flows[f, lay.TAG_HI], flows[f, lay.TAG_LO] = add(
        bundles[b, lay.CLOCK_HI],
        bundles[b, lay.CLOCK_LO],
        flows[f, lay.TAG_HI],
        flows[f, lay.TAG_LO],
    )
    bundles[b, lay.ROOT] = insert(flows, bundles[b, lay.ROOT], f)
    mark_class_changed(bundles, b)


@jit_without_refcounts
def detach_flow(s: State, f: Int, now: Int) -> None:
    """Remove a flow from its class, and store its remaining work."""
    flows, bundles = s[1], s[3]
    b = flows[f, lay.BUNDLE]
    advance_class_clock(bundles, b, now)
    flows[f, lay.TAG_HI], flows[f, lay.TAG_LO] = work_left(s, f)
    bundles[b, lay.ROOT] = remove(flows, bundles[b, lay.ROOT], f)
    bundles[b, lay.SIZE] -= 1
    flows[f, lay.BUNDLE] = 0
    lower_class_weights(s, f, b)
    if bundles[b, lay.REACH] != lay.OPEN:
        _unlink_fenced_uses(s, f)
    mark_class_changed(bundles, b)
    if bundles[b, lay.SIZE] == 0:
        _free_class(s, b)
    elif bundles[b, lay.LEADER] == f:
        change_leader(s, b, bundles[b, lay.ROOT])


@jit_without_refcounts
def _link_fenced_uses(s: State, f: Int) -> None:
    """Add a flow that joins a class to the user lists of ignored (fenced) components."""
    parts, flows, uses, _ = s
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.FENCE] and not parts[c, lay.SHARED]:
            link_use(s, u, f)


@jit_without_refcounts
def _unlink_fenced_uses(s: State, f: Int) -> None:
    """Remove a flow that leaves its class from user lists of ignored (fenced) components."""
    parts, flows, uses, _ = s
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.FENCE] and not parts[c, lay.SHARED]:
            unlink_use(s, u)


@jit_without_refcounts
def _class_key(parts: Array, flows: Array, uses: Array, f: Int) -> tuple[Int, Int, Int]:
    """Rate limit of a flow, lowest threshold (fence) of its components, and its class's hash."""
    ceiling, fence = flows[f, lay.LIMIT], np.int64(lay.OPEN)
    key = np.int64(0)
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.SHARED]:
            key = ((key * 1000003) & _BITS) + c
        elif parts[c, lay.FENCE]:
            fence = min(fence, parts[c, lay.FENCE])
        elif uses[u, lay.WEIGHT] == ONE:
            ceiling = min(ceiling, parts[c, lay.CAP])
        else:
            hi, lo = mul(parts[c, lay.CAP], np.int64(ONE))
            ceiling = min(ceiling, div(hi, lo, uses[u, lay.WEIGHT]))
    key = ((key * 1000003) & _BITS) ^ (ceiling & _BITS) ^ (ceiling >> 40)
    key = ((key * 1000003) & _BITS) ^ (fence >> 22)
    return ceiling, fence, key ^ (key >> 17)


@jit_without_refcounts
def _flow_class_or_zero(s: State, f: Int, ceiling: Int, fence: Int, key: Int) -> Int:
    """Flow class with these limits and the flow's shared components; 0 if none exists."""
    bundles = s[3]
    b = bundles[key & bundles[0, lay.MASK], lay.BUCKET]
    while b:
        if (
            bundles[b, lay.HASH] == key
            and bundles[b, lay.CEILING] == ceiling
            and bundles[b, lay.REACH] == fence
            and use_same_shared_components(s, f, bundles[b, lay.LEADER])
        ):
            return b
        b = bundles[b, lay.CHAIN]
    return np.int64(0)


@jit_without_refcounts
def _new_class(s: State, f: Int, ceiling: Int, fence: Int, key: Int, now: Int) -> Int:
    """Create a flow class with the flow as its leader."""
    bundles = s[3]
    b = bundles[0, lay.FIRST_FREE]
    if b:
        bundles[0, lay.FIRST_FREE] = bundles[b, lay.CHAIN]
    else:
        b = bundles[0, lay.FRESH]
        bundles[0, lay.FRESH] += 1
    bundles[b, lay.RATE] = 0
    bundles[b, lay.CLOCK_HI], bundles[b, lay.CLOCK_LO] = EPOCH, 0
    bundles[b, lay.SINCE] = now
    bundles[b, lay.ROOT] = NONE
    bundles[b, lay.LEADER], bundles[b, lay.CEILING], bundles[b, lay.HASH] = f, ceiling, key
    bundles[b, lay.REACH], bundles[b, lay.LOWEST_AT] = fence, lay.STALE
    at = key & bundles[0, lay.MASK]
    bundles[b, lay.CHAIN] = bundles[at, lay.BUCKET]
    bundles[at, lay.BUCKET] = b
    add_class_to_components(s, b)
    return b


@jit_without_refcounts
def _free_class(s: State, b: Int) -> None:
    """Free the row of an empty flow class."""
    bundles = s[3]
    remove_class_from_components(s, b)
    at = bundles[b, lay.HASH] & bundles[0, lay.MASK]
    if bundles[at, lay.BUCKET] == b:
        bundles[at, lay.BUCKET] = bundles[b, lay.CHAIN]
    else:
        at = bundles[at, lay.BUCKET]
        while bundles[at, lay.CHAIN] != b:
            at = bundles[at, lay.CHAIN]
        bundles[at, lay.CHAIN] = bundles[b, lay.CHAIN]
    if bundles[b, BEFORE] != ABSENT:
        bundles[0, lay.FIRST_DUE] = remove(bundles, bundles[0, lay.FIRST_DUE], b)
    bundles[b, lay.CHAIN] = bundles[0, lay.FIRST_FREE]
    bundles[0, lay.FIRST_FREE] = b
