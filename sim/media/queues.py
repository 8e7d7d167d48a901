"""Port queues for media plug-ins: each port has a queue of flows and one scheduled tick.

There is a table of ports and a table of flows. The last row of the port table is not a port: it
holds the head of the schedule. A port row begins with its heap node (:mod:`.max_min.pairing_heap`),
the head and tail of its queue, and its rate. A flow row begins with the next flow in its queue. All
other columns belong to the medium.
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
    """Create the table of ports with empty queues, shape (ports + 1, PORT + columns).

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
    """Schedule a port's next action at a tick, in place of the old one; NONE for never."""
    if ports[port, BEFORE] != ABSENT:
        ports[-1, FIRST] = remove(ports, ports[-1, FIRST], port)
    if tick != NONE:
        ports[port, KEY_HI], ports[port, KEY_LO] = tick, port
        ports[-1, FIRST] = insert(ports, ports[-1, FIRST], port)


@jit_without_refcounts
def next_port(ports: Array) -> Int:
    """Port with the earliest scheduled action, the lowest number on a tie; NONE for none."""
    return ports[-1, FIRST]


@jit_without_refcounts
def next_tick(ports: Array) -> Int:
    """Tick of the earliest scheduled action of any port, NONE for never."""
    port = ports[-1, FIRST]
    return np.int64(NONE) if port == NONE else ports[port, KEY_HI]


@jit_without_refcounts
def join(own: tuple[Array, Array], port: Int, f: Int) -> bool:
    """Append a flow to the queue of a port; True if it is now the head."""
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
    """Remove a flow from the queue of a port; True if it was the head."""
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
