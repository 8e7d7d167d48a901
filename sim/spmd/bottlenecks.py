"""Removal of components that can never be the bottleneck of an SPMD graph's flows.

This changes no rate. A component that only the flows of one thread use is just a rate limit of
each flow, because these flows are never in flight together. If several components have the same
flows with the same weights, only the slowest can be the bottleneck.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NO_LIMIT, ONE, ComponentTable, Flows
from ..facts.csr import Csr
from ..facts.sampling import random_bits

Numbers = NDArray[np.int64]
MOST = 2**62 - 1  # no flow reaches this rate


def flows_over_bottlenecks(flows: Flows, thread: Numbers, parts: ComponentTable) -> Flows:
    """Flows of an SPMD graph, reduced to the components that can limit their rates.

    Parameters
    ----------
    thread : (flows,) thread of each flow; flows of one thread are never in flight together

    Examples
    --------
    >>> links = ComponentTable(("a", "b", "c"), *np.full((3, 3), -1))
    >>> links.rate[:] = [8, 5, 9]
    >>> one, none = np.array([ONE] * 5), np.array([-1, -1])
    >>> two = Flows(none, none, none, none, np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1]), one)
    >>> found = flows_over_bottlenecks(two, np.array([0, 1]), links)
    >>> found.usage(0) == found.usage(1) == {1: ONE}, found.limit.tolist()
    (True, [9, -1])
    """
    n, row = len(parts), np.repeat(np.arange(len(flows)), np.diff(flows.indptr))
    component, weight = flows.component.astype(np.int64), flows.weight
    lowest, highest = np.full(n, np.iinfo(np.int64).max), np.full(n, -1)
    np.minimum.at(lowest, component, thread[row])
    np.maximum.at(highest, component, thread[row])
    alone = (lowest == highest)[component]
    kept = ~alone & _is_slowest_of_its_users(component, row, weight, parts.rate)[component]
    counts = np.bincount(row[kept], minlength=len(flows))
    return replace(
        flows,
        limit=_lowest_limits(flows.limit, row[alone], parts.rate[component[alone]], weight[alone]),
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        component=flows.component[kept],
        weight=weight[kept],
    )


def _is_slowest_of_its_users(
    component: Numbers, row: Numbers, weight: Numbers, rate: Numbers
) -> NDArray[np.bool_]:
    """(components,) True if no slower component has exactly the same users; ties keep the first."""
    hashes = np.zeros(len(rate), np.uint64)
    np.add.at(hashes, component, random_bits(row, weight))
    order = np.lexsort((np.arange(len(rate)), rate, hashes))
    first = np.ones(len(order), bool)
    first[1:] = hashes[order][1:] != hashes[order][:-1]
    slowest = np.empty(len(rate), np.int64)
    slowest[order] = order[np.flatnonzero(first)[np.cumsum(first) - 1]]
    by = np.lexsort((row, component))
    users = Csr.from_pairs(component[by], by, len(rate))
    own, other = users, users.take(slowest)
    same = own.counts == other.counts
    there = np.repeat(same, own.counts)
    a, b = own.values[there], other.values[np.repeat(same, other.counts)]
    differ = (row[a] != row[b]) | (weight[a] != weight[b])
    same[np.unique(own.owner[there][differ])] = False  # two hashes were one
    return np.asarray(~same | (slowest == np.arange(len(rate))))


def _lowest_limits(limit: Numbers, row: Numbers, rate: Numbers, weight: Numbers) -> Numbers:
    """(flows,) rate limit of each flow, lowered by the components that only its thread uses."""
    pairs, which = np.unique(np.column_stack([rate, weight]), axis=0, return_inverse=True)
    bounds = np.array([min(int(r) * ONE // int(w), MOST) for r, w in pairs.tolist()], np.int64)
    found = np.where(limit == NO_LIMIT, MOST, limit)
    np.minimum.at(found, row, bounds[which.ravel()])
    unbounded = (limit == NO_LIMIT) & (found == MOST)
    return np.where(unbounded, NO_LIMIT, found)
