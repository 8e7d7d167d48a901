"""Whether the ops of a graph wait for each other in a cycle."""

from __future__ import annotations

import numpy as np

from ..life import cycle_error
from ..machine import Lowered
from .cells import Array, Links
from .jit import jit


def refuse_cycle(graph: Lowered) -> None:
    """Refuse a graph whose ops wait for each other.

    Raises
    ------
    GraphError
        Names a shortest cycle.
    """
    n, e = len(graph), len(graph.further)
    waits = np.zeros(n + e, np.int32)
    op = np.concatenate([np.arange(n, dtype=np.int32), graph.further])
    missing = np.bincount(op, minlength=n).astype(np.int32)
    if unwind(graph.indptr, graph.successors, np.stack([waits, op]), missing) < n:
        stuck = np.flatnonzero(missing > 0).tolist()
        after = {
            i: op[graph.successors[graph.indptr[i] : graph.indptr[i + 1]]].tolist() for i in stuck
        }
        raise cycle_error(graph.name, after)


@jit
def unwind(indptr: Array, links: Links, places: Links, missing: Links) -> int:
    """Take ops out whose places wait for nobody, one after the other; how many there were.

    Parameters
    ----------
    places : (2, n + e) zeros, and the op of each place
    missing : (n,) places of each op; 0 where it was taken out
    """
    waits, op = places
    for e in range(len(links)):
        waits[links[e]] += 1
    for p in range(len(waits)):
        if waits[p] == 0:
            missing[op[p]] -= 1
    todo = np.empty(len(missing), np.int32)
    last = 0
    for i in range(len(missing)):
        if missing[i] == 0:
            todo[last] = i
            last += 1
    first = 0
    while first < last:
        i = todo[first]
        first += 1
        for e in range(indptr[i], indptr[i + 1]):
            p = links[e]
            waits[p] -= 1
            if waits[p] == 0:
                missing[op[p]] -= 1
                if missing[op[p]] == 0:
                    todo[last] = op[p]
                    last += 1
    return last
