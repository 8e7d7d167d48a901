"""Running ahead of the clock: the schedule of a graph in which nobody ever waits for a slot.

Where no slot can be wanted by more ops than there are, the end of an op is the latest end of
what it waits for plus its own ticks, in whatever order that is computed: no queue, no rounds.
The same pass finds cycles, so every graph goes through it when it is handed in; whether the
schedule holds is known when the run begins (no process, nothing shared, no backend to ask).

A slot pool cannot be exceeded when its ops form at most as many *chains* as it has slots, each
op of a chain waiting for the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..life import cycle_error
from ..machine import MAX_TICK, Lowered
from .cells import Array, Links
from .jit import Int, lean

# A place: when it becomes ready (first: its slot), how many it waits for, and its op.  A first
# place is its own op; there, `op` counts the places of the op that wait, then links a stack.
PLACE = np.dtype([("ready", np.int64), ("unmet", np.int32), ("op", np.int32)], align=True)
Places = NDArray[Any]  # of PLACE

BEGIN, FINISH = range(2)  # rows of spans
CHAINS, OPEN = range(2)  # rows of pools
LINKED = 1 << 40  # beside the slot of a place that follows another in a chain


@dataclass
class Ahead:
    """A graph's schedule, if nothing in it waits for a slot.

    Parameters
    ----------
    arrived : (n + e,) ticks
    begin, finish : (n,) ticks
    chains : (c,) how many slots of each component can be wanted at once, at most
    holds : whether there is nothing else that the pass does not know
    """

    arrived: Array
    begin: Array
    finish: Array
    chains: Array
    holds: bool


def run_ahead(graph: Lowered, components: int, now: int) -> Ahead:
    """The schedule of a graph that is handed in at ``now``.

    Raises
    ------
    GraphError
        Ops wait for each other in a cycle.

    Examples
    --------
    >>> from ..script import Case, lowered
    >>> pair = lowered("pair", [Case(((0, ()),), fixed=2), Case(((0, (0,)),), fixed=3)])
    >>> found = run_ahead(pair, 1, now=10)
    >>> found.begin.tolist(), found.finish.tolist(), found.chains.tolist(), found.holds
    ([10, 12], [12, 15], [1], True)
    """
    n, e = len(graph), len(graph.further)
    links = np.require(graph.successors, np.int32, ["C", "W"])
    indptr = np.require(graph.indptr, np.int64, ["C", "W"])
    places = np.zeros(n + e, PLACE)
    places["ready"] = graph.slot
    places["op"][n:] = graph.further
    pools = np.zeros((2, components), np.int64)
    count(indptr, links, places, pools)
    places["ready"] = now
    holds = _add_releases(graph, places, now) and not len(graph.online) and not _works(graph)
    spans = np.full((2, n), now, np.int64)
    spans[FINISH] = graph.fixed
    done, fits = sweep(indptr, links, places, spans)
    if done < n:
        raise _cycle(graph, places)
    begin, finish = spans
    arrived = places["ready"].copy() if e else begin
    return Ahead(arrived, begin, finish, pools[CHAINS], holds and bool(fits))


def _add_releases(graph: Lowered, places: Places, now: int) -> bool:
    """Whether all are within the range of ticks."""
    if not len(graph.release):
        return True
    release = np.minimum(graph.release, MAX_TICK - now)
    places["ready"][: len(graph)] += release
    places["ready"][len(graph) :] += release[graph.further]
    return bool(np.all(graph.release <= MAX_TICK - now))


def _works(graph: Lowered) -> bool:
    return bool(np.any(graph.flows.work_hi) or np.any(graph.flows.work_lo))


def _cycle(graph: Lowered, places: Places) -> Exception:
    n = len(graph)
    op = np.concatenate([np.arange(n), graph.further])
    stuck = np.unique(op[places["unmet"] > 0]).tolist()
    bounds = {i: slice(graph.indptr[i], graph.indptr[i + 1]) for i in stuck}
    return cycle_error(
        graph.name, {i: op[graph.successors[at]].tolist() for i, at in bounds.items()}
    )


@lean
def count(indptr: Array, links: Links, places: Places, pools: Array) -> None:
    """Count what each place waits for, and the chains of each slot pool."""
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


@lean
def sweep(indptr: Array, links: Links, places: Places, spans: Array) -> tuple[int, bool]:
    """Op after op, each when all its places are ready; how many, and whether all fit the range."""
    n = spans.shape[1]
    top, done, fits = np.int64(-1), 0, True
    for p in range(len(places)):
        if places[p]["unmet"] == 0:
            top = ready(places, spans, n, p, top)
    while top >= 0:
        i = top
        top = np.int64(places[i]["op"])
        done += 1
        begin, fixed = spans[BEGIN, i], spans[FINISH, i]
        if fixed > MAX_TICK - begin:
            fits = False
            fixed = 0
        end = begin + fixed
        spans[FINISH, i] = end
        for e in range(indptr[i], indptr[i + 1]):
            v = np.int64(links[e])
            if places[v]["ready"] < end:
                places[v]["ready"] = end
            places[v]["unmet"] -= 1
            if places[v]["unmet"] == 0:
                top = ready(places, spans, n, v, top)
    return done, fits


@lean
def ready(places: Places, spans: Array, n: Int, p: Int, top: Int) -> Int:
    """A place waits no more; with its last place an op goes on the stack, whose top comes back."""
    i = p if p < n else places[p]["op"]
    if spans[BEGIN, i] < places[p]["ready"]:
        spans[BEGIN, i] = places[p]["ready"]
    places[i]["op"] -= 1
    if places[i]["op"] == 0:
        places[i]["op"] = top
        return np.int64(i)
    return top
