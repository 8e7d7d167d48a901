"""Max-min levels of shared components: the fair rate at which a full component limits its flows.

``docs/semantics.md`` section 2 defines the level of a component from the rates of strictly slower
flows. It can be checked on one component if the levels of the others are known. So after a change
only affected components are *queued* and solved again, lowest level first. This terminates with
the unique solution: in any region the lowest level is fixed by its own capacity, then the next.

A component that is not full stores its load. It is solved again only when a faster flow might have
filled it.
"""

from __future__ import annotations

import numpy as np

from ...engine_api.interface import ONE
from ...kernel.jit import Int, jit_without_refcounts
from . import table_layout as lay
from .int128 import add, div, less, mul, sub
from .pairing_heap import ABSENT, BEFORE, KEY_HI, NONE, insert, remove
from .table_layout import Array, State
from .work_clock import mark_class_changed

_SHIFT = 40  # ONE is 2^40


@jit_without_refcounts
def queue_for_new_level(s: State, c: Int) -> None:
    """Queue a component to compute its level; components with lower levels are solved first."""
    parts, _, _, bundles = s
    if parts[c, BEFORE] == ABSENT:
        key = parts[c, lay.LEVEL]
        if parts[c, lay.TOTAL] >= ONE:
            key = min(key, parts[c, lay.CAP] // (parts[c, lay.TOTAL] >> _SHIFT))
        parts[c, KEY_HI] = key
        bundles[0, lay.FIRST_QUEUED] = insert(parts, bundles[0, lay.FIRST_QUEUED], c)


@jit_without_refcounts
def settle_levels(s: State) -> None:
    """Compute the levels of queued components until the queue is empty."""
    parts, _, _, bundles = s
    while bundles[0, lay.FIRST_QUEUED] != NONE:
        c = bundles[0, lay.FIRST_QUEUED]
        bundles[0, lay.FIRST_QUEUED] = remove(parts, c, c)
        old = parts[c, lay.LEVEL]
        if not parts[c, lay.SHARED] or parts[c, lay.HEAD] == NONE:
            new = np.int64(lay.OPEN)
            parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = 0, 0
        else:
            fastest = _class_rate_elsewhere(s, c)
            new = _fine_level(parts, s[2], c) if parts[c, lay.FINE] else _level(parts, s[2], c)
            if new == lay.OPEN and not parts[c, lay.ROOMY] and fastest < parts[c, lay.CAP] >> 3:
                parts[c, lay.ROOMY] = 1
                parts[c, lay.NEXT_ROOMY] = bundles[0, lay.FIRST_ROOMY]
                bundles[0, lay.FIRST_ROOMY] = c
        if new != old:
            parts[c, lay.LEVEL] = new
            _update_lowest_levels(s, c, old, new)
            _queue_affected_components(s, c, old, new)


@jit_without_refcounts
def class_rate(s: State, b: Int) -> Int:
    """Rate of a flow class: minimum of its limit and the levels of its shared components."""
    return _class_rate_without(s, b, np.int64(NONE))


@jit_without_refcounts
def _class_rate_without(s: State, b: Int, excluded: Int) -> Int:
    """Rate of a flow class if the given component were not a bottleneck."""
    bundles = s[3]
    if bundles[b, lay.LOWEST_AT] == lay.STALE:
        _find_lowest_levels(s, b)
    lowest = (
        bundles[b, lay.SECOND] if bundles[b, lay.LOWEST_AT] == excluded else bundles[b, lay.LOWEST]
    )
    return min(bundles[b, lay.CEILING], lowest)


@jit_without_refcounts
def _find_lowest_levels(s: State, b: Int) -> None:
    """Find the two lowest levels among the shared components of a flow class."""
    parts, flows, uses, bundles = s
    f = bundles[b, lay.LEADER]
    lowest, second, lowest_at, second_at = np.int64(lay.OPEN), np.int64(lay.OPEN), NONE, NONE
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.SHARED] and parts[c, lay.LEVEL] < second:
            if parts[c, lay.LEVEL] < lowest:
                second, second_at = lowest, lowest_at
                lowest, lowest_at = parts[c, lay.LEVEL], c
            else:
                second, second_at = parts[c, lay.LEVEL], c
    bundles[b, lay.LOWEST], bundles[b, lay.LOWEST_AT] = lowest, lowest_at
    bundles[b, lay.SECOND], bundles[b, lay.SECOND_AT] = second, second_at


@jit_without_refcounts
def _update_lowest_levels(s: State, c: Int, old: Int, new: Int) -> None:
    """Update the two lowest levels of each class on a component whose level changed."""
    parts, _, uses, bundles = s
    u = parts[c, lay.HEAD]
    while u != NONE:
        b = uses[u, lay.OWNER]
        u = uses[u, lay.NEXT_USER]
        if bundles[b, lay.LOWEST_AT] == lay.STALE:
            continue
        if bundles[b, lay.LOWEST_AT] == c:
            if new <= bundles[b, lay.SECOND]:
                bundles[b, lay.LOWEST] = new
            else:
                bundles[b, lay.LOWEST_AT] = lay.STALE
        elif bundles[b, lay.SECOND_AT] == c and new > old:
            bundles[b, lay.LOWEST_AT] = lay.STALE
        elif new < bundles[b, lay.LOWEST]:
            bundles[b, lay.SECOND], bundles[b, lay.SECOND_AT] = (
                bundles[b, lay.LOWEST],
                bundles[b, lay.LOWEST_AT],
            )
            bundles[b, lay.LOWEST], bundles[b, lay.LOWEST_AT] = new, c
        elif new < bundles[b, lay.SECOND]:
            bundles[b, lay.SECOND], bundles[b, lay.SECOND_AT] = new, c


@jit_without_refcounts
def _class_rate_elsewhere(s: State, c: Int) -> Int:
    """Store the rate that other components allow each class on this one; return the highest."""
    uses = s[2]
    fastest = np.int64(0)
    u = s[0][c, lay.HEAD]
    while u != NONE:
        uses[u, lay.OTHER] = _class_rate_without(s, uses[u, lay.OWNER], c)
        fastest = max(fastest, uses[u, lay.OTHER])
        u = uses[u, lay.NEXT_USER]
    return fastest


@jit_without_refcounts
def _level(parts: Array, uses: Array, c: Int) -> Int:
    """Level of a component with integer weights, by fixed-point iteration; OPEN if it is not full.

    For a trial level v, the capacity that flows slower than v leave is divided by the weight of the
    other flows. Below the true level the result never exceeds that level. So the first v that is
    not raised is the level.
    """
    cap, v = parts[c, lay.CAP], parts[c, lay.CAP] // (parts[c, lay.TOTAL] >> _SHIFT)
    while True:
        slower, rest = np.int64(0), np.int64(0)
        u = parts[c, lay.HEAD]
        while u != NONE:
            weight = uses[u, lay.SUM] >> _SHIFT
            if uses[u, lay.OTHER] < v:
                slower += weight * uses[u, lay.OTHER]
            else:
                rest += weight
            u = uses[u, lay.NEXT_USER]
        if rest == 0:
            parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = mul(slower, np.int64(ONE))
            return np.int64(lay.OPEN)
        share = (cap - slower) // rest
        if share <= v:
            return v
        v = share


@jit_without_refcounts
def _fine_level(parts: Array, uses: Array, c: Int) -> Int:
    """Level of a component with fractional weights, by the iteration of `_level` in 128 bits."""
    cap_hi, cap_lo = mul(parts[c, lay.CAP], np.int64(ONE))
    v = div(cap_hi, cap_lo, parts[c, lay.TOTAL])
    while True:
        hi, lo, rest = np.int64(0), np.int64(0), np.int64(0)
        u = parts[c, lay.HEAD]
        while u != NONE:
            if uses[u, lay.OTHER] < v:
                more_hi, more_lo = mul(uses[u, lay.SUM], uses[u, lay.OTHER])
                hi, lo = add(hi, lo, more_hi, more_lo)
            else:
                rest += uses[u, lay.SUM]
            u = uses[u, lay.NEXT_USER]
        if rest == 0:
            parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = hi, lo
            return np.int64(lay.OPEN)
        hi, lo = sub(cap_hi, cap_lo, hi, lo)
        share = div(hi, lo, rest)
        if share <= v:
            if v == lay.OPEN:  # beyond the range, where something else is slower: not full
                more_hi, more_lo = mul(rest, v)
                hi, lo = sub(cap_hi, cap_lo, hi, lo)  # slower flows again
                parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = add(hi, lo, more_hi, more_lo)
            return v
        v = share


@jit_without_refcounts
def _queue_affected_components(s: State, c: Int, old: Int, new: Int) -> None:
    """Queue the other components of flow classes whose rate may change with a component's level."""
    parts, flows, uses, bundles = s
    u = parts[c, lay.HEAD]
    while u != NONE:
        other = uses[u, lay.OTHER]
        if other > min(old, new):
            b = uses[u, lay.OWNER]
            mark_class_changed(bundles, b)
            f = bundles[b, lay.LEADER]
            for v in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
                d = uses[v, lay.COMPONENT]
                if d == c or not parts[d, lay.SHARED] or parts[d, BEFORE] != ABSENT:
                    continue
                before, after = min(old, other), min(new, other)
                if parts[d, lay.LEVEL] != lay.OPEN or _update_load(
                    parts, d, uses[v, lay.SUM], before, after
                ):
                    queue_for_new_level(s, d)
        u = uses[u, lay.NEXT_USER]


@jit_without_refcounts
def _update_load(parts: Array, c: Int, weight: Int, old: Int, new: Int) -> bool:
    """Update the load of a component that is not full; True if it may have become full.

    It cannot be full while every flow on it could run one rate unit faster.
    """
    if new <= old:
        hi, lo = mul(weight, old - new)
        parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = sub(
            parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO], hi, lo
        )
        return False
    hi, lo = mul(weight, new - old)
    hi, lo = add(parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO], hi, lo)
    parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = hi, lo
    hi, lo = add(hi, lo, np.int64(0), parts[c, lay.TOTAL])
    cap_hi, cap_lo = mul(parts[c, lay.CAP], np.int64(ONE))
    return less(cap_hi, cap_lo, hi, lo)
