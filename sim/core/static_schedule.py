"""Static schedule of a graph in which no op ever waits for a slot.

If no slot pool can be exceeded, the end of an op is the latest end of its dependencies plus its
own duration. No queue and no rounds are needed. The schedule is valid only if, when the run
begins, there is no process and no other graph that needs the same slots.

A slot pool cannot be exceeded if its ops form at most as many *chains* as it has slots. In a chain
each op depends on the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import MAX_TICK, EngineGraph
from ..kernel.jit import Int, jit_without_refcounts
from .memory.state_layout import Array, Links

# A place: when it becomes ready (first: its slot), how many it waits for, and its op.  A first
# place is its own op; there, `op` counts the places of the op that wait, then links a stack.
PLACE = np.dtype([("ready", np.int64), ("unmet", np.int32), ("op", np.int32)], align=True)
Places = NDArray[Any]  # of PLACE

BEGIN, FINISH = range(2)  # rows of spans
CHAINS, OPEN = range(2)  # rows of pools
LINKED = 1 << 40  # added to the slot of a participant that follows another in a chain


@dataclass
class StaticSchedule:
    """Start and end ticks of a graph, valid as long as no other graph needs its slots.

    Parameters
    ----------
    arrived : (n + e,) tick at which each participant of an op arrives
    begin, finish : (n,) start and end tick of each op
    chains : (c,) upper bound of the slots of each component that are in use at once
    """

    arrived: Array
    begin: Array
    finish: Array
    chains: Array


def find_static_schedule(graph: EngineGraph, slots: Links, now: int) -> StaticSchedule | None:
    """Compute the static schedule of a graph submitted at tick ``now``.

    None if an op may have to wait for a slot.

    Parameters
    ----------
    slots : (c,) number of slots of each component, -1 for none

    Examples
    --------
    >>> from ..engine_api.engine_literal import LiteralOp, literal_graph
    >>> ops = [LiteralOp(((0, ()),), fixed=2), LiteralOp(((0, (0,)),), fixed=3)]
    >>> pair = literal_graph("pair", ops)
    >>> found = find_static_schedule(pair, np.array([1]), now=10)
    >>> found.begin.tolist(), found.finish.tolist(), found.chains.tolist()
    ([10, 12], [12, 15], [1])
    """
    if (
        len(graph.online)
        or len(graph.claims)
        or _works(graph)
        or graph.release.max(initial=0) > MAX_TICK - now
    ):
        return None
    n, e = len(graph), len(graph.further)
    links = np.require(graph.successors, np.int32, ["C", "W"])
    indptr = np.require(graph.indptr, np.int64, ["C", "W"])
    places = np.zeros(n + e, PLACE)
    places["ready"] = graph.slot
    places["op"][n:] = graph.further
    pools = np.zeros((2, len(slots)), np.int64)
    count_dependencies_and_chains(indptr, links, places, pools)
    if np.any(pools[CHAINS] > np.maximum(slots, 0)):
        return None
    places["ready"] = now
    if len(graph.release):
        places["ready"][:n] += graph.release
        places["ready"][n:] += graph.release[graph.further]
    spans = np.empty((2, n), np.int64)
    spans[BEGIN], spans[FINISH] = now, graph.fixed
    if compute_op_ends(indptr, links, places, spans) < n:
        return None
    begin, finish = spans
    return StaticSchedule(places["ready"].copy() if e else begin, begin, finish, pools[CHAINS])


def _works(graph: EngineGraph) -> bool:
    return bool(np.any(graph.flows.work_hi) or np.any(graph.flows.work_lo))


@jit_without_refcounts
def count_dependencies_and_chains(
    indptr: Array, links: Links, places: Places, pools: Array
) -> None:
    """Count the dependencies of each participant, and the chains in each slot pool."""
    n = len(indptr) - 1
    last = n  # the further places of the ops so far end here
    for i in range(n):
        first = last
        slot = places[i]["ready"] & ~LINKED
        places[i]["op"] += 1
        if slot >= 0:
            pools[CHAINS, slot] += 1
            pools[OPEN, slot] += 1
        while last < len(places) and places[last]["op"] == i:
            places[i]["op"] += 1
            more = places[last]["ready"] & ~LINKED
            if more >= 0:
                pools[CHAINS, more] += 1
                pools[OPEN, more] += 1
            last += 1
        for e in range(indptr[i], indptr[i + 1]):
            v = np.int64(links[e])
            places[v]["unmet"] += 1
            wants = places[v]["ready"]
            if 0 <= wants < LINKED and pools[OPEN, wants] > 0:
                pools[OPEN, wants] -= 1
                pools[CHAINS, wants] -= 1
                places[v]["ready"] = wants | LINKED
        if slot >= 0:
            pools[OPEN, slot] = 0
        for p in range(first, last):
            more = places[p]["ready"] & ~LINKED
            if more >= 0:
                pools[OPEN, more] = 0


@jit_without_refcounts
def compute_op_ends(indptr: Array, links: Links, places: Places, spans: Array) -> Int:
    """Compute the end of each op in dependency order; returns how many ends are within range."""
    n = spans.shape[1]
    top, done = np.int64(-1), 0
    for p in range(len(places)):
        if places[p]["unmet"] == 0:
            top = count_down_dependency(places, spans, n, p, top)
    while top >= 0:
        i = top
        top = np.int64(places[i]["op"])
        begin, fixed = spans[BEGIN, i], spans[FINISH, i]
        if fixed > MAX_TICK - begin:
            return done
        done += 1
        end = begin + fixed
        spans[FINISH, i] = end
        for e in range(indptr[i], indptr[i + 1]):
            v = np.int64(links[e])
            if places[v]["ready"] < end:
                places[v]["ready"] = end
            places[v]["unmet"] -= 1
            if places[v]["unmet"] == 0:
                top = count_down_dependency(places, spans, n, v, top)
    return done


@jit_without_refcounts
def count_down_dependency(places: Places, spans: Array, n: Int, p: Int, top: Int) -> Int:
    """Count one dependency of an op as met, and push the op on the stack when none is left.

    Returns the new top of the stack.
    """
    i = p if p < n else places[p]["op"]
    if spans[BEGIN, i] < places[p]["ready"]:
        spans[BEGIN, i] = places[p]["ready"]
    places[i]["op"] -= 1
    if places[i]["op"] == 0:
        places[i]["op"] = top
        return np.int64(i)
    return top
