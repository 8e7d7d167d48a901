"""Ports of a medium: each has a queue of flows, and at most one tick at which it has to do.

Two tables: of ports, whose last row is no port but holds where the plan begins, and of flows.  A
row of ports begins with the node of its plan (:mod:`.max_min.pairing_heap`) and the ends of its
queue and its rate, a row of flows with what comes after it in a queue.  All other columns are the
medium's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernel.jit import Int, jit_without_refcounts
from .max_min.pairing_heap import ABSENT, BEFORE, KEY_HI, KEY_LO, NODE, NONE, insert, remove
from .max_min.table_layout import Array

FIRST, LAST, RATE = range(NODE, NODE + 3)
PORT = NODE + 3  # first of a medium's own columns
BEHIND = 0  # of flows


def new_ports(rates: Sequence[int], columns: int) -> Array:
    """(ports + 1, PORT + columns) Table of ports with nothing to do.

    >>> ports = new_ports([10, 20], 0)
    >>> plan(ports, 1, 5), plan(ports, 0, 5), int(next_port(ports)), int(next_tick(ports))
    (None, None, 0, 5)
    """
    table = np.zeros((len(rates) + 1, PORT + columns), np.int64)
    table[:, [FIRST, LAST]], table[:, BEFORE] = NONE, ABSENT
    table[:-1, RATE] = rates
    return table


@jit_without_refcounts
def plan(ports: Array, port: Int, tick: Int) -> None:
    """Note when a port has to do, in place of what was planned; NONE for never."""
    if ports[port, BEFORE] != ABSENT:
        ports[-1, FIRST] = remove(ports, ports[-1, FIRST], port)
    if tick != NONE:
        ports[port, KEY_HI], ports[port, KEY_LO] = tick, port
        ports[-1, FIRST] = insert(ports, ports[-1, FIRST], port)


@jit_without_refcounts
def next_port(ports: Array) -> Int:
    """Port that has to do first, the least of those of one tick; NONE for none."""
    return ports[-1, FIRST]


@jit_without_refcounts
def next_tick(ports: Array) -> Int:
    """Tick at which a port has to do next, NONE for never."""
    port = ports[-1, FIRST]
    return np.int64(NONE) if port == NONE else ports[port, KEY_HI]


@jit_without_refcounts
def join(own: tuple[Array, Array], port: Int, f: Int) -> bool:
    """Let a flow join the queue of a port; whether it is the first there."""
    ports, flows = own
    flows[f, BEHIND] = NONE
    last = ports[port, LAST]
    ports[port, LAST] = f
    if last == NONE:
        ports[port, FIRST] = f
    else:
        flows[last, BEHIND] = f
    return bool(last == NONE)


@jit_without_refcounts
def leave(own: tuple[Array, Array], port: Int, f: Int) -> bool:
    """Take a flow out of the queue of a port; whether it was the first there."""
    ports, flows = own
    before, at = np.int64(NONE), ports[port, FIRST]
    while at != f:
        before, at = at, flows[at, BEHIND]
    if before == NONE:
        ports[port, FIRST] = flows[f, BEHIND]
    else:
        flows[before, BEHIND] = flows[f, BEHIND]
    if ports[port, LAST] == f:
        ports[port, LAST] = before
    return bool(before == NONE)
