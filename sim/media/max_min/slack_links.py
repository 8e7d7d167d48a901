"""Components with slack: used by several flows, but too fast to be full, and left out of sharing.

A component whose flows all run below its fair share (its rate over the weight of all of them)
is not full, and does not matter.  Where flows stay far below, it gets a *fence*, a rate between
them and the fair share, and counts as used by nobody: flows that differ only in such components
are one bundle.  It is shared again when a bundle reaches the fence, or when the fair share
falls below it.
"""

from __future__ import annotations

import numpy as np

from ...engine_api.interface import MOST_WEIGHT, ONE
from ...kernel.jit import Int, jit_without_refcounts
from . import table_layout as lay
from .flow_classes import detach_flow
from .int128 import div, mul
from .pairing_heap import NONE, next_row
from .table_layout import State


@jit_without_refcounts
def mark_for_regrouping(s: State, f: Int) -> None:
    """Mark a flow for a new class when the turn settles."""
    flows, bundles = s[1], s[3]
    if not flows[f, lay.LOOSE]:
        flows[f, lay.LOOSE] = 1
        flows[f, lay.NEXT_LOOSE] = bundles[0, lay.FIRST_LOOSE]
        bundles[0, lay.FIRST_LOOSE] = f


@jit_without_refcounts
def add_use(s: State, u: Int) -> None:
    """Add a use to the total weight of its component in flight."""
    parts, _, uses, bundles = s
    c = uses[u, lay.COMPONENT]
    parts[c, lay.MASS] += uses[u, lay.WEIGHT]
    if parts[c, lay.MASS] >= MOST_WEIGHT:
        parts[c, lay.MASS] -= MOST_WEIGHT
        bundles[0, lay.OVERFULL] += 1
    check_fence(s, c)


@jit_without_refcounts
def remove_use(s: State, u: Int) -> None:
    """Subtract a use from the total weight of its component in flight."""
    parts, _, uses, bundles = s
    c = uses[u, lay.COMPONENT]
    parts[c, lay.MASS] -= uses[u, lay.WEIGHT]
    if parts[c, lay.MASS] < 0:
        parts[c, lay.MASS] += MOST_WEIGHT
        bundles[0, lay.OVERFULL] -= 1


@jit_without_refcounts
def check_fence(s: State, c: Int) -> None:
    """Count a slack component as shared again if its fair share fell below its fence."""
    parts = s[0]
    if parts[c, lay.FENCE]:
        hi, lo = mul(parts[c, lay.CAP], np.int64(ONE))
        if parts[c, lay.FENCE] > div(hi, lo, parts[c, lay.MASS]):
            _share_again(s, c)


@jit_without_refcounts
def dissolve_fenced_class(s: State, b: Int, now: Int) -> None:
    """Dissolve a class whose rate reached its fence, and count the fenced components as shared."""
    parts, flows, uses, bundles = s
    rate = bundles[b, lay.RATE]
    while bundles[b, lay.SIZE]:
        f = bundles[b, lay.ROOT]
        detach_flow(s, f, now)
        mark_for_regrouping(s, f)
        for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
            c = uses[u, lay.COMPONENT]
            if 0 < parts[c, lay.FENCE] <= rate:
                _share_again(s, c)


@jit_without_refcounts
def fence_slack_components(s: State) -> None:
    """Leave components with much spare rate out of sharing by setting their threshold (fence)."""
    parts, _, uses, bundles = s
    c = bundles[0, lay.FIRST_ROOMY]
    bundles[0, lay.FIRST_ROOMY] = NONE
    while c != NONE:
        parts[c, lay.ROOMY] = 0
        if parts[c, lay.SHARED] and parts[c, lay.HEAD] != NONE and parts[c, lay.LEVEL] == lay.OPEN:
            fastest = np.int64(0)
            u = parts[c, lay.HEAD]
            while u != NONE:
                fastest = max(fastest, bundles[uses[u, lay.OWNER], lay.RATE])
                u = uses[u, lay.NEXT_USER]
            hi, lo = mul(parts[c, lay.CAP], np.int64(ONE))
            fair = div(hi, lo, parts[c, lay.MASS])
            if fastest < fair >> 2:
                fence = np.int64(1)
                while fence <= fair >> 2:  # powers of two: few kinds of bundles
                    fence <<= 1
                _fence_off(s, c, fence)
        c = parts[c, lay.NEXT_ROOMY]


@jit_without_refcounts
def _fence_off(s: State, c: Int, fence: Int) -> None:
    """Set the fence of a shared component and mark the flows of its classes for new ones."""
    parts, flows, uses, bundles = s
    parts[c, lay.FENCE] = fence
    u = parts[c, lay.HEAD]
    while u != NONE:
        f = bundles[uses[u, lay.OWNER], lay.ROOT]
        while f != NONE:
            mark_for_regrouping(s, f)
            f = next_row(flows, f)
        u = uses[u, lay.NEXT_USER]


@jit_without_refcounts
def _share_again(s: State, c: Int) -> None:
    """Take the fence of a component away and mark its flows for new classes.

    Those of one that is still shared were marked when it got its fence.
    """
    parts, _, uses, _ = s
    parts[c, lay.FENCE] = 0
    if parts[c, lay.SHARED]:
        return
    u = parts[c, lay.HEAD]
    parts[c, lay.HEAD] = NONE
    while u != NONE:
        mark_for_regrouping(s, uses[u, lay.OWNER])
        u = uses[u, lay.NEXT_USER]
