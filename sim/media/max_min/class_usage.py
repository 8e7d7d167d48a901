"""Usage of shared components by flow classes (*bundles*).

The total weight of a class on one component is called its *stake*. It is stored in the use rows of
one member of the class, the leader. All members use the same shared components, and uses are
sorted by component. So the shared uses of any member match those of the leader one to one.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from . import table_layout as lay
from .int128 import mul, sub
from .max_min_levels import queue_for_new_level
from .table_layout import State
from .usage_lists import link_use, replace_use, unlink_use


@jit_without_refcounts
def first_shared_use(s: State, u: Int, end: Int) -> Int:
    """First use at or after row ``u`` whose component is shared; ``end`` if there is none."""
    while u < end and not s[0][s[2][u, lay.COMPONENT], lay.SHARED]:
        u += 1
    return u


@jit_without_refcounts
def use_same_shared_components(s: State, f: Int, g: Int) -> bool:
    """True if two flows use the same shared components."""
    _, flows, uses, _ = s
    u, v = flows[f, lay.START], flows[g, lay.START]
    end_u, end_v = u + flows[f, lay.COUNT], v + flows[g, lay.COUNT]
    while True:
        u, v = first_shared_use(s, u, end_u), first_shared_use(s, v, end_v)
        if u == end_u or v == end_v:
            return bool(u == end_u and v == end_v)
        if uses[u, lay.COMPONENT] != uses[v, lay.COMPONENT]:
            return False
        u += 1
        v += 1


@jit_without_refcounts
def add_class_to_components(s: State, b: Int) -> None:
    """Register a new flow class on the shared components that its leader uses."""
    parts, flows, uses, bundles = s
    f = bundles[b, lay.LEADER]
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.SHARED]:
            parts[c, lay.TOTAL] += uses[u, lay.WEIGHT]
            uses[u, lay.SUM] = uses[u, lay.WEIGHT]
            link_use(s, u, b)
            queue_for_new_level(s, c)


@jit_without_refcounts
def raise_class_weights(s: State, f: Int, b: Int) -> None:
    """Add the weights of a new member to the total weights of its flow class."""
    parts, flows, uses, bundles = s
    v, end_v = flows[bundles[b, lay.LEADER], lay.START], np.int64(lay.OPEN)
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c = uses[u, lay.COMPONENT]
        if parts[c, lay.SHARED]:
            v = first_shared_use(s, v, end_v)
            parts[c, lay.TOTAL] += uses[u, lay.WEIGHT]
            uses[v, lay.SUM] += uses[u, lay.WEIGHT]
            queue_for_new_level(s, c)
            v += 1


@jit_without_refcounts
def lower_class_weights(s: State, f: Int, b: Int) -> None:
    """Subtract a leaving flow's weights from the totals of its class and of its components.

    Components that are full are queued for a new max-min level.
    """
    parts, flows, uses, bundles = s
    v, end_v = flows[bundles[b, lay.LEADER], lay.START], np.int64(lay.OPEN)
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        c, weight = uses[u, lay.COMPONENT], uses[u, lay.WEIGHT]
        if parts[c, lay.SHARED]:
            v = first_shared_use(s, v, end_v)
            parts[c, lay.TOTAL] -= weight
            uses[v, lay.SUM] -= weight
            if parts[c, lay.LEVEL] != lay.OPEN:
                queue_for_new_level(s, c)
            else:
                hi, lo = mul(weight, bundles[b, lay.RATE])
                hi, lo = sub(parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO], hi, lo)
                parts[c, lay.LOAD_HI], parts[c, lay.LOAD_LO] = hi, lo
            v += 1


@jit_without_refcounts
def change_leader(s: State, b: Int, g: Int) -> None:
    """Make another flow the leader of its class, and move the total weights to its uses."""
    parts, flows, uses, bundles = s
    f = bundles[b, lay.LEADER]
    bundles[b, lay.LEADER] = g
    v, end_v = flows[g, lay.START], np.int64(lay.OPEN)
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        if parts[uses[u, lay.COMPONENT], lay.SHARED]:
            v = first_shared_use(s, v, end_v)
            uses[v, lay.SUM] = uses[u, lay.SUM]
            replace_use(s, u, v, b)
            v += 1


@jit_without_refcounts
def remove_class_from_components(s: State, b: Int) -> None:
    """Remove an empty flow class from its shared components."""
    parts, flows, uses, bundles = s
    f = bundles[b, lay.LEADER]
    for u in range(flows[f, lay.START], flows[f, lay.START] + flows[f, lay.COUNT]):
        if parts[uses[u, lay.COMPONENT], lay.SHARED]:
            unlink_use(s, u)
