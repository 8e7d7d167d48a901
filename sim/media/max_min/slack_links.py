"""Components with slack: used by several flows, but too fast to be full, and left out of sharing.

A component whose flows all run below its fair share (its rate over the weight of all of them)
is not full, and does not matter.  Where flows stay far below, it gets a *fence*, a rate between
them and the fair share, and counts as used by nobody: flows that differ only in such components
are one bundle.  It is shared again when a bundle reaches the fence, or when the fair share
falls below it.
"""

from __future__ import annotations

import numpy as np

from ...core.jit import Int, jit_without_refcounts
from ...engine_api import MOST_WEIGHT, ONE
from .flow_classes import detach_flow
from .int128 import div, mul
from .pairing_heap import NONE
from .table_layout import (
    CAP,
    COMPONENT,
    COUNT,
    CROWD,
    FENCE,
    FIRST_LOOSE,
    FIRST_ROOMY,
    FLOW,
    HEAD,
    LEVEL,
    LOOSE,
    MASS,
    NEXT_LOOSE,
    NEXT_ROOMY,
    NEXT_STAKE,
    NEXT_USE,
    OPEN,
    OVERFULL,
    OWNER,
    RATE,
    ROOMY,
    ROOT,
    SHARED,
    SIZE,
    START,
    WEIGHT,
    State,
)
from .usage_lists import link_use, unlink_use


@jit_without_refcounts
def mark_for_regrouping(s: State, f: Int) -> None:
    """Mark a flow for a new class when the turn settles."""
    flows, bundles = s[1], s[3]
    if not flows[f, LOOSE]:
        flows[f, LOOSE] = 1
        flows[f, NEXT_LOOSE] = bundles[0, FIRST_LOOSE]
        bundles[0, FIRST_LOOSE] = f


@jit_without_refcounts
def add_use(s: State, u: Int) -> None:
    """Add a use to the total weight and the list of users of its component."""
    parts, _, uses, bundles = s
    c = uses[u, COMPONENT]
    parts[c, MASS] += uses[u, WEIGHT]
    if parts[c, MASS] >= MOST_WEIGHT:
        parts[c, MASS] -= MOST_WEIGHT
        bundles[0, OVERFULL] += 1
    link_use(s, u, CROWD, NEXT_USE)
    check_fence(s, c)


@jit_without_refcounts
def remove_use(s: State, u: Int) -> None:
    """Subtract a use from the total weight and the list of users of its component."""
    parts, _, uses, bundles = s
    c = uses[u, COMPONENT]
    parts[c, MASS] -= uses[u, WEIGHT]
    if parts[c, MASS] < 0:
        parts[c, MASS] += MOST_WEIGHT
        bundles[0, OVERFULL] -= 1
    unlink_use(s, u, CROWD, NEXT_USE)


@jit_without_refcounts
def check_fence(s: State, c: Int) -> None:
    """Count a slack component as shared again if its fair share fell below its fence."""
    parts = s[0]
    if parts[c, FENCE]:
        hi, lo = mul(parts[c, CAP], np.int64(ONE))
        if parts[c, FENCE] > div(hi, lo, parts[c, MASS]):
            _set_fence(s, c, np.int64(0))


@jit_without_refcounts
def dissolve_fenced_class(s: State, b: Int, now: Int) -> None:
    """Dissolve a class whose rate reached its fence, and count the fenced components as shared."""
    parts, flows, uses, bundles = s
    rate = bundles[b, RATE]
    while bundles[b, SIZE]:
        f = bundles[b, ROOT]
        detach_flow(s, f, now)
        mark_for_regrouping(s, f)
        for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
            c = uses[u, COMPONENT]
            if 0 < parts[c, FENCE] <= rate:
                _set_fence(s, c, np.int64(0))


@jit_without_refcounts
def fence_slack_components(s: State) -> None:
    """Leave components with much spare rate out of sharing by setting their threshold (fence)."""
    parts, _, uses, bundles = s
    c = bundles[0, FIRST_ROOMY]
    bundles[0, FIRST_ROOMY] = NONE
    while c != NONE:
        parts[c, ROOMY] = 0
        if parts[c, SHARED] and parts[c, HEAD] != NONE and parts[c, LEVEL] == OPEN:
            fastest = np.int64(0)
            u = parts[c, HEAD]
            while u != NONE:
                fastest = max(fastest, bundles[uses[u, OWNER], RATE])
                u = uses[u, NEXT_STAKE]
            hi, lo = mul(parts[c, CAP], np.int64(ONE))
            fair = div(hi, lo, parts[c, MASS])
            if fastest < fair >> 2:
                fence = np.int64(1)
                while fence <= fair >> 2:  # powers of two: few kinds of bundles
                    fence <<= 1
                _set_fence(s, c, fence)
        c = parts[c, NEXT_ROOMY]


@jit_without_refcounts
def _set_fence(s: State, c: Int, fence: Int) -> None:
    """Set the fence of a component and mark its flows for new classes."""
    parts, _, uses, _ = s
    parts[c, FENCE] = fence
    u = parts[c, CROWD]
    while u != NONE:
        mark_for_regrouping(s, uses[u, FLOW])
        u = uses[u, NEXT_USE]
