"""Layout of the compiled engine's state: one record per participant of an op, and ``world``.

A *cell* is the record of one participant: an op on one of its ranks. The first cell of an op also
represents the op. Its field ``link`` is the op's flow or, for a collective, its row in the table of
collectives. A graph's cells are the first participants in row order, then the further ones. Later
graphs follow behind.

A cell is in at most one list at a time (a bucket of the event queue, a slot queue, or a list of
the current round). So one field ``next`` serves all lists, and no list needs memory of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]  # of CELL
Array = NDArray[np.int64]
Links = NDArray[np.int32]

CELL = np.dtype(
    [
        ("left", np.int64),  # remaining fixed ticks; while running, the tick at which they end
        ("next", np.int32),
        ("unmet", np.int32),  # dependencies that have not ended; in some lists, the cell before it
        ("slot", np.int32),
        ("link", np.int32),
        ("first", np.int32),  # index of its first successor; they end where the next cell's begin
        ("state", np.uint8),
        ("at", np.uint8),
        ("flags", np.int16),
    ],
    align=True,
)

NONE = -1  # the end of a list
PENDING, RUNNING, ENDED, STOPPED, CANCELLED, DROPPED = range(6)  # machine.State
# State of a participant. COMING: will join a queue; READY: its op waits for a capacity.
WAITING, COMING, QUEUED, HELD, READY = range(5)

FURTHER = 1  # not the first participant of its op; `link` is the first
WIDE = 2  # `link` is its row in the table of collectives: several participants, or capacities
ASK = 4  # an online backend gives its timing at the start
BARRED = 8  # uses a failed component
WATCHED = 16  # a process waits for its end
TIMED = 32  # in its fixed time; the end is in the event queue
FLOWING = 64  # in its work phase
BEYOND = 128  # the end of its fixed time is beyond the range of ticks
STARTED = 256  # in this attempt
NEVER = 512  # its release is beyond the range of ticks
LAST = 1024  # ended as the last open op of its graph
HOLDS = 2048  # a participant of an op that holds amounts of capacities
LETS = 4096  # other ops hold amounts until its end
COUNTED = 8192  # its end was reported: see `Engine.collect_ended`
SENT = 16384  # a full queue sent it elsewhere; its time there is asked at its start

# Columns of `times`; before arrival, `ARRIVED` is -1 minus the release tick.
ARRIVED, START, END = range(3)

# The first numbers of `world`.
(
    NOW,
    PHASE,
    WATCHING,  # 1 if a process ever waited for the end of an op
    OPEN,  # ops that have neither ended nor been cancelled
    ENDING,  # ops that end in this round
    ARRIVING,  # participants that arrive in this round, first and last
    ARRIVING_LAST,
    JOINING,  # number of them that queue for a slot
    MOVING,  # components whose slot queue may advance
    GRANTED,  # ops that hold all their slots
    GRANTED_LAST,
    ONLINE,  # 1 if any op has an online backend
    ASKING,  # number of ops with an online backend that start in this round
    ASKED,  # the ops that start in this round, first and last, if any is online
    ASKED_LAST,
    BARRIER,  # ops that hold all their slots but use a failed component
    NEWS,  # ended ops that processes wait for
    NEWS_LAST,
    STALE,  # rates have to be computed
    FLOWS,  # flows in flight
    DUE,  # tick of the next instant, NONE for none
    SOONEST,  # tick of the next event, NONE if unknown
    OCCUPIED,  # a bit for each bucket of the event queue that is not empty
    BASE,  # base tick of the event queue: no event is earlier
    PARTS,  # offsets of the tables of components, graphs, collectives, flow owners, and scratch
    GRAPHS,
    GRAPH_COUNT,
    COLLECTIVES,
    OWNERS,
    SCRATCH,
    FLOW_COUNT,
    HOLDERS,  # offsets of the tables of holders and claims
    CLAIMS,
    LINES,  # capacities whose queue may advance
    GRANTS,  # claims of processes that were granted
    CLAIMING,  # number of arriving participants of ops that hold capacities
    PLUGGED,  # 1 if a medium is plugged in; then its next due tick, NONE for never
    PLUGGED_DUE,
    BEGAN,  # ops whose flow began in the plugged-in medium in this turn
    TURNED_AWAY,  # ops that no queue took in this round, first and last
    TURNED_AWAY_LAST,
    QUEUES,  # offset of the table of bounded queues
    HEADER,
) = range(43)

BUCKETS = HEADER  # 64 heads of lists: by the highest bit in which a tick differs from `BASE`
BINS = BUCKETS + 64  # 32 heads of lists for sorting
TABLES = BINS + 32

# Row of a component; for a capacity, SLOTS is the total and its queue contains claims.
# QUEUE is the offset of the row of its bounded queue.
SLOTS, TAKEN, FAILED, HEAD, TAIL, MOVES, IS_PLUGGED, QUEUE, PART = range(9)
UNMOVED = -2  # value of `MOVES`: not in the list of queues that may advance

# Row of a bounded queue: ops that may wait, that wait, and that found it full; offsets of the
# components that they try then, and the component at which they wait in the end (NONE: dropped).
LENGTH, QUEUING, FOUND_FULL, TRIED, TRIED_END, LAST_TRIED, BOUNDED = range(7)

# A row of the graphs.
FIRST_CELL, OPEN_OPS, GRAPH = range(3)

# Row of a collective: slots not yet held, first further participant, flow, holder.
MISSING, FURTHER_CELL, WIDE_FLOW, HOLDING, COLLECTIVE = range(5)

# Row of a holder: its claims, number of claims not granted, number of participants not ready,
# and the first claim that is held until its end.
FIRST_CLAIM, CLAIM_COUNT, UNGRANTED, UNREADY, LETTING, HOLDER = range(6)

# Row of a claim: component, amount, next in the queue, op that holds it (NONE: a process), op until
# whose end it lasts, next claim that lasts until the same end, state, and ticks.
OF, AMOUNT, BEHIND, HELD_BY, UNTIL, ALSO, STANDS, ASKED_AT, GRANTED_AT, RETURNED_AT, CLAIM = range(
    11
)
OUT, IN_LINE, IS_HELD = range(3)  # state of a claim

# Phases, and return codes of `run_instants`.
IDLE, BEGIN, ANSWERED = range(3)
NOTHING, ASKS, TELLS, HEAVY, PAUSES = range(5)
