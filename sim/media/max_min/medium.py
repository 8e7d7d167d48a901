"""Kernels that change and read the max-min medium of a run.

An op in its work phase is a *flow*. In one turn, flows ``join`` and ``leave`` and components change
their rates; then ``settle`` computes all rates once. Only what a change affects is computed again
(:mod:`.max_min_levels`). Flows that always run at equal rates form one class
(:mod:`.flow_classes`). The argument ``s`` is the ``state`` of a
:class:`~.medium_memory.MaxMinMemory`.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from . import table_layout as lay
from .flow_classes import attach_flow, detach_flow
from .int128 import less
from .max_min_levels import class_rate, queue_for_new_level, settle_levels
from .pairing_heap import CHILD, NEXT, NONE, remove
from .slack_links import (
    add_use,
    check_fence,
    dissolve_fenced_class,
    fence_slack_components,
    mark_for_regrouping,
    remove_use,
)
from .table_layout import Array, State
from .work_clock import advance_class_clock, mark_class_changed, schedule_completion


@jit_without_refcounts
def join(s: State, f: Int, now: Int) -> None:
    """Start a flow with its stored remaining work; it gets a rate at the next `settle`."""
    parts, flows, uses, _ = s
    flows[f, lay.IN_FLIGHT] = 1
    mark_for_regrouping(s, f)
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.FLOWS] == 1:
            mark_for_regrouping(s, parts[c, lay.ONLY])
        parts[c, lay.FLOWS] += 1
        parts[c, lay.ONLY] ^= f
        add_use(s, u)


@jit_without_refcounts
def leave(s: State, f: Int, now: Int) -> None:
    """Stop a flow and store its remaining work."""
    parts, flows, uses, _ = s
    flows[f, lay.IN_FLIGHT] = 0
    if flows[f, lay.BUNDLE]:
        detach_flow(s, f, now)
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        parts[c, lay.FLOWS] -= 1
        parts[c, lay.ONLY] ^= f
        remove_use(s, u)
        if parts[c, lay.FLOWS] == 1:
            mark_for_regrouping(s, parts[c, lay.ONLY])


@jit_without_refcounts
def set_rate(s: State, c: Int, rate: Int) -> None:
    """Change the rate of a component; it takes effect at the next `settle`."""
    parts = s[0]
    parts[c, lay.CAP] = rate
    check_fence(s, c)
    if parts[c, lay.SHARED]:
        queue_for_new_level(s, c)
    elif parts[c, lay.FLOWS] == 1:
        mark_for_regrouping(s, parts[c, lay.ONLY])


@jit_without_refcounts
def settle(s: State, now: Int) -> None:
    """Compute the rates of all affected flows, once per turn after its last round."""
    _regroup(s, now)
    settle_levels(s)
    while _reaches_fence(s, now):
        _regroup(s, now)
        settle_levels(s)
    bundles = s[3]
    b = bundles[0, lay.FIRST_TOUCHED]
    bundles[0, lay.FIRST_TOUCHED] = 0
    while b:
        bundles[b, lay.TOUCHED] = 0
        if bundles[b, lay.SIZE]:
            schedule_completion(s, b, now)
        b = bundles[b, lay.NEXT_TOUCHED]
    fence_slack_components(s)


@jit_without_refcounts
def due(s: State) -> Int:
    """Tick of the earliest flow completion, or NONE if none is within the range of ticks."""
    b = s[3][0, lay.FIRST_DUE]
    return NONE if b == NONE else s[3][b, lay.DUE]


@jit_without_refcounts
def take_due(s: State, now: Int, out: Array) -> Int:
    """Remove the flows that complete at tick ``now`` and list them, ascending, in ``out``.

    Returns their number.
    """
    bundles = s[3]
    n = np.int64(0)
    while NONE < due(s) <= now:
        b = bundles[0, lay.FIRST_DUE]
        bundles[0, lay.FIRST_DUE] = remove(bundles, b, b)
        mark_class_changed(bundles, b)
        advance_class_clock(bundles, b, now)
        n = _collect_finished_flows(s, b, out, n)
    _sort(out, n)
    for i in range(n):
        leave(s, out[i], now)
    return n


@jit_without_refcounts
def rate(s: State, f: Int) -> Int:
    """Rate of a flow as of the last `settle`; 0 if it is not in flight."""
    return s[3][s[1][f, lay.BUNDLE], lay.RATE] if s[1][f, lay.BUNDLE] else 0


@jit_without_refcounts
def users(s: State, c: Int) -> Int:
    """Number of flows in flight that use a component."""
    return s[0][c, lay.FLOWS]


@jit_without_refcounts
def _regroup(s: State, now: Int) -> None:
    """Update which components are shared, and assign new classes to marked flows."""
    flows, bundles = s[1], s[3]
    first = bundles[0, lay.FIRST_LOOSE]
    bundles[0, lay.FIRST_LOOSE] = NONE
    f = first
    while f != NONE:
        if flows[f, lay.BUNDLE]:
            detach_flow(s, f, now)
        f = flows[f, lay.NEXT_LOOSE]
    f = first
    while f != NONE:
        _mark_shared(s, f)
        f = flows[f, lay.NEXT_LOOSE]
    f = first
    while f != NONE:
        flows[f, lay.LOOSE] = 0
        if flows[f, lay.IN_FLIGHT]:
            attach_flow(s, f, now)
        f = flows[f, lay.NEXT_LOOSE]


@jit_without_refcounts
def _reaches_fence(s: State, now: Int) -> bool:
    """Update rates of changed flow classes; True if one reached its rate threshold (fence)."""
    bundles = s[3]
    b = bundles[0, lay.FIRST_TOUCHED]
    while b:
        if bundles[b, lay.SIZE]:
            advance_class_clock(bundles, b, now)
            rate = class_rate(s, b)
            if rate != bundles[b, lay.RATE]:
                bundles[0, lay.RATES_GIVEN] += bundles[b, lay.SIZE]
                bundles[b, lay.RATE] = rate
        b = bundles[b, lay.NEXT_TOUCHED]
    found = False
    b = bundles[0, lay.FIRST_TOUCHED]
    while b:
        if bundles[b, lay.SIZE] and bundles[b, lay.RATE] >= bundles[b, lay.REACH]:
            dissolve_fenced_class(s, b, now)
            found = True
        b = bundles[b, lay.NEXT_TOUCHED]
    return found


@jit_without_refcounts
def _mark_shared(s: State, f: Int) -> None:
    """Mark which components of a flow are shared, that is, used by two or more flows in flight.

    If this changes for a component, all its flows are already marked for regrouping.
    """
    parts, flows, uses, _ = s
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.FLOWS] < 2:
            parts[c, lay.FENCE] = 0
        parts[c, lay.SHARED] = parts[c, lay.FLOWS] > 1 and parts[c, lay.FENCE] == 0
        if not parts[c, lay.SHARED]:
            parts[c, lay.LEVEL] = lay.OPEN


@jit_without_refcounts
def _collect_finished_flows(s: State, b: Int, out: Array, n: Int) -> Int:
    """Append the finished flows of a class to ``out``; returns the new length of ``out``."""
    _, flows, _, bundles = s
    i = n
    if _is_done(s, b, bundles[b, lay.ROOT]):
        out[n] = bundles[b, lay.ROOT]
        n += 1
    while i < n:
        f = flows[out[i], CHILD]
        while f != NONE:
            if _is_done(s, b, f):
                out[n] = f
                n += 1
            f = flows[f, NEXT]
        i += 1
    return n


@jit_without_refcounts
def _is_done(s: State, b: Int, f: Int) -> bool:
    _, flows, _, bundles = s
    hi, lo = flows[f, lay.TAG_HI], flows[f, lay.TAG_LO]
    return not less(bundles[b, lay.CLOCK_HI], bundles[b, lay.CLOCK_LO], hi, lo)


@jit_without_refcounts
def _sort(out: Array, n: Int) -> None:
    """Sort ``n`` entries in place (Shell 1959, doi:10.1145/368370.368387; gaps of Knuth)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, n):
            value, j = out[i], i
            while j >= gap and out[j - gap] > value:
                out[j] = out[j - gap]
                j -= gap
            out[j] = value
        gap //= 3
