"""Flow classes (*bundles*): flows that always run at one rate, with one clock for all of them.

The words of this folder, which computes weighted max-min fair rates (water-filling) incrementally:
a *flow* is the transfer of one op, a *use* one (flow, component, weight) row, a *bundle* a class of
flows with equal rates, a *stake* the total weight of a class on one component, a *level* the fair
rate per unit of weight of a saturated component, a *fence* the rate below which a component with
slack is left out of the computation.

A component that one flow uses alone is nothing but a limit of that flow. So what a flow has in
common with others is the set of *shared* components it uses, and flows with equal sets and equal
limits run at one rate, whatever their weights and works. Levels are computed over classes
(:mod:`.max_min_levels`), each has one *stake* in a shared component (:mod:`.class_usage`) and one
clock (:mod:`.work_clock`).
"""

from __future__ import annotations

import numpy as np

from ...engine_api.interface import ONE
from ...kernel.jit import Int, jit_without_refcounts
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
from .table_layout import (
    BUCKET,
    BUNDLE,
    CAP,
    CEILING,
    CHAIN,
    CLOCK_HI,
    CLOCK_LO,
    COMPONENT,
    COUNT,
    FENCE,
    FIRST_DUE,
    FIRST_FREE,
    FRESH,
    HASH,
    LEADER,
    LIMIT,
    LOWEST_AT,
    MASK,
    OPEN,
    RATE,
    REACH,
    ROOT,
    SHARED,
    SINCE,
    SIZE,
    STALE,
    START,
    TAG_HI,
    TAG_LO,
    WEIGHT,
    Array,
    State,
)
from .usage_lists import link_use, unlink_use
from .work_clock import advance_class_clock, mark_class_changed, work_left

EPOCH = -(2**62)  # high word of a new clock: tags of works up to 2^127 then fit
_BITS = (1 << 40) - 1


@jit_without_refcounts
def attach_flow(s: State, f: Int, now: Int) -> None:
    """Add a flow to the class with its limits and shared components; create the class if new."""
    parts, flows, uses, bundles = s
    ceiling, fence, key = _class_key(parts, flows, uses, f)
    b = _flow_class_or_zero(s, f, ceiling, fence, key)
    if b == 0:
        b = _new_class(s, f, ceiling, fence, key, now)
    else:
        raise_class_weights(s, f, b)
    advance_class_clock(bundles, b, now)
    bundles[b, SIZE] += 1
    flows[f, BUNDLE] = b
    if fence != OPEN:
        _link_fenced_uses(s, f)
    flows[f, TAG_HI], flows[f, TAG_LO] = add(
        bundles[b, CLOCK_HI],
        bundles[b, CLOCK_LO],
        flows[f, TAG_HI],
        flows[f, TAG_LO],
    )
    bundles[b, ROOT] = insert(flows, bundles[b, ROOT], f)
    mark_class_changed(bundles, b)


@jit_without_refcounts
def detach_flow(s: State, f: Int, now: Int) -> None:
    """Take a flow out of its class, with its work left stored."""
    flows, bundles = s[1], s[3]
    b = flows[f, BUNDLE]
    advance_class_clock(bundles, b, now)
    flows[f, TAG_HI], flows[f, TAG_LO] = work_left(s, f)
    bundles[b, ROOT] = remove(flows, bundles[b, ROOT], f)
    bundles[b, SIZE] -= 1
    flows[f, BUNDLE] = 0
    lower_class_weights(s, f, b)
    if bundles[b, REACH] != OPEN:
        _unlink_fenced_uses(s, f)
    mark_class_changed(bundles, b)
    if bundles[b, SIZE] == 0:
        _free_class(s, b)
    elif bundles[b, LEADER] == f:
        change_leader(s, b, bundles[b, ROOT])


@jit_without_refcounts
def _link_fenced_uses(s: State, f: Int) -> None:
    """Put a flow that enters a class into the lists of components that are fenced off."""
    parts, flows, uses, _ = s
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, FENCE] and not parts[c, SHARED]:
            link_use(s, u, f)


@jit_without_refcounts
def _unlink_fenced_uses(s: State, f: Int) -> None:
    """Take a flow that leaves its class out of the lists of components that are fenced off."""
    parts, flows, uses, _ = s
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, FENCE] and not parts[c, SHARED]:
            unlink_use(s, u)


@jit_without_refcounts
def _class_key(parts: Array, flows: Array, uses: Array, f: Int) -> tuple[Int, Int, Int]:
    """Rate limit of a flow, its lowest slack threshold (fence), and a hash of its class."""
    ceiling, fence = flows[f, LIMIT], np.int64(OPEN)
    key = np.int64(0)
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, SHARED]:
            key = ((key * 1000003) & _BITS) + c
        elif parts[c, FENCE]:
            fence = min(fence, parts[c, FENCE])
        elif uses[u, WEIGHT] == ONE:
            ceiling = min(ceiling, parts[c, CAP])
        else:
            hi, lo = mul(parts[c, CAP], np.int64(ONE))
            ceiling = min(ceiling, div(hi, lo, uses[u, WEIGHT]))
    key = ((key * 1000003) & _BITS) ^ (ceiling & _BITS) ^ (ceiling >> 40)
    key = ((key * 1000003) & _BITS) ^ (fence >> 22)
    return ceiling, fence, key ^ (key >> 17)


@jit_without_refcounts
def _flow_class_or_zero(s: State, f: Int, ceiling: Int, fence: Int, key: Int) -> Int:
    """Flow class with these limits and the shared components of the flow, 0 for none."""
    bundles = s[3]
    b = bundles[key & bundles[0, MASK], BUCKET]
    while b:
        if (
            bundles[b, HASH] == key
            and bundles[b, CEILING] == ceiling
            and bundles[b, REACH] == fence
            and use_same_shared_components(s, f, bundles[b, LEADER])
        ):
            return b
        b = bundles[b, CHAIN]
    return np.int64(0)


@jit_without_refcounts
def _new_class(s: State, f: Int, ceiling: Int, fence: Int, key: Int, now: Int) -> Int:
    """New flow class, led by the flow."""
    bundles = s[3]
    b = bundles[0, FIRST_FREE]
    if b:
        bundles[0, FIRST_FREE] = bundles[b, CHAIN]
    else:
        b = bundles[0, FRESH]
        bundles[0, FRESH] += 1
    bundles[b, RATE] = 0
    bundles[b, CLOCK_HI], bundles[b, CLOCK_LO] = EPOCH, 0
    bundles[b, SINCE] = now
    bundles[b, ROOT] = NONE
    bundles[b, LEADER], bundles[b, CEILING], bundles[b, HASH] = f, ceiling, key
    bundles[b, REACH], bundles[b, LOWEST_AT] = fence, STALE
    at = key & bundles[0, MASK]
    bundles[b, CHAIN] = bundles[at, BUCKET]
    bundles[at, BUCKET] = b
    add_class_to_components(s, b)
    return b


@jit_without_refcounts
def _free_class(s: State, b: Int) -> None:
    """Free the row of an empty flow class."""
    bundles = s[3]
    remove_class_from_components(s, b)
    at = bundles[b, HASH] & bundles[0, MASK]
    if bundles[at, BUCKET] == b:
        bundles[at, BUCKET] = bundles[b, CHAIN]
    else:
        at = bundles[at, BUCKET]
        while bundles[at, CHAIN] != b:
            at = bundles[at, CHAIN]
        bundles[at, CHAIN] = bundles[b, CHAIN]
    if bundles[b, BEFORE] != ABSENT:
        bundles[0, FIRST_DUE] = remove(bundles, bundles[0, FIRST_DUE], b)
    bundles[b, CHAIN] = bundles[0, FIRST_FREE]
    bundles[0, FIRST_FREE] = b
