"""Components with slack: several flows use them, but they are never full and can be ignored.

A component is not full if all its flows run below its fair share (its rate divided by the sum of
all weights). If the flows stay far below, the component gets a *fence*: a rate between theirs and
the fair share. It then no longer counts as shared, so flows that differ only in such components
belong to one class. It counts as shared again when a class reaches the fence, or when its fair
share falls below the fence.
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
    """Mark a flow to be assigned to a new class when the turn settles."""
    flows, bundles = s[1], s[3]
    if not flows[f, lay.LOOSE]:
        flows[f, lay.LOOSE] = 1
        flows[f, lay.NEXT_LOOSE] = bundles[0, lay.FIRST_LOOSE]
        bundles[0, lay.FIRST_LOOSE] = f


@jit_without_refcounts
def add_use(s: State, u: Int) -> None:
    """Add a use to the total weight in flight on its component."""
    parts, _, uses, bundles = s
    c = uses[u, lay.COMPONENT]
    parts[c, lay.MASS] += uses[u, lay.WEIGHT]
    if parts[c, lay.MASS] >= MOST_WEIGHT:
        parts[c, lay.MASS] -= MOST_WEIGHT
        bundles[0, lay.OVERFULL] += 1
    check_fence(s, c)


@jit_without_refcounts
def remove_use(s: State, u: Int) -> None:
    """Subtract a use from the total weight in flight on its component."""
    parts, _, uses, bundles = s
    c = uses[u, lay.COMPONENT]
    parts[c, lay.MASS] -= uses[u, lay.WEIGHT]
    if parts[c, lay.MASS] < 0:
        parts[c, lay.MASS] += MOST_WEIGHT
        bundles[0, lay.OVERFULL] -= 1


@jit_without_refcounts
def check_fence(s: State, c: Int) -> None:
    """Count a component as shared again if its fair share fell below its threshold (fence)."""
    parts = s[0]
    if parts[c, lay.FENCE]:
        hi, lo = mul(parts[c, lay.CAP], np.int64(ONE))
        if parts[c, lay.FENCE] > div(hi, lo, parts[c, lay.MASS]):
            _share_again(s, c)


@jit_without_refcounts
def dissolve_fenced_class(s: State, b: Int, now: Int) -> None:
    """Dissolve a flow class whose rate reached a threshold (fence) of an ignored component."""
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
    """Ignore components with much slack in rate sharing: set their thresholds (fences)."""
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
    """Ignore a component with slack: set its rate threshold (fence), and regroup its flows."""
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
    """Count a component as shared again: remove its threshold (fence), and regroup its flows."""
    parts, _, uses, _ = s
    parts[c, lay.FENCE] = 0
    if parts[c, lay.SHARED]:
        return
    u = parts[c, lay.HEAD]
    parts[c, lay.HEAD] = NONE
    while u != NONE:
        mark_for_regrouping(s, uses[u, lay.OWNER])
        u = uses[u, lay.NEXT_USER]
