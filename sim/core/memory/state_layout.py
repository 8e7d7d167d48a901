"""Layout of the engine's state: one record per place, and one array of numbers for all else.

A *cell* is a place of an op.  The first place of an op stands for the op too: cell ``c`` with
``link`` as its flow or, for a collective, its row in the table of collectives.  The cells of a
graph are its first places by row, then the further places; later graphs come behind.

A cell is in at most one list at a time (a bucket of the event queue, the line for a slot, or a
list of this round), so that one ``next`` serves them all and no list needs memory of its own.
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
        ("left", np.int64),  # fixed ticks still to do; while they run, the tick at which they end
        ("next", np.int32),
        ("unmet", np.int32),  # dependencies that have not ended; in some lists, the cell before it
        ("slot", np.int32),
        ("link", np.int32),
        ("first", np.int32),  # its successors begin here; the next cell's begin where they end
        ("state", np.uint8),
        ("at", np.uint8),
        ("flags", np.int16),
    ],
    align=True,
)

NONE = -1  # the end of a list
PENDING, RUNNING, ENDED, STOPPED, CANCELLED = range(5)  # machine.State
# Where a place stands; coming: on its way to a queue; ready: its op waits for a capacity.
WAITING, COMING, QUEUED, HELD, READY = range(5)

FURTHER = 1  # not the first place of its op, which is its `link`
WIDE = 2  # a collective, or it holds or lets: `link` is its row in the table of collectives
ASK = 4  # its backend is asked at the start
BARRED = 8  # uses a failed component
WATCHED = 16  # somebody waits for its end
TIMED = 32  # in its fixed time, its end is in the event queue
FLOWING = 64  # in its work phase
BEYOND = 128  # the end of its fixed time is beyond the range of ticks
STARTED = 256  # in this attempt
NEVER = 512  # its release is beyond the range of ticks
LAST = 1024  # ended when its graph had no other open op
HOLDS = 2048  # a place of an op that holds amounts of capacities
LETS = 4096  # others hold amounts until its end
COUNTED = 8192  # its end was reported: see `Engine.collect_ended`

# Columns of `times`; `ARRIVED` of what has not arrived is -1 less the release.
ARRIVED, START, END = range(3)

# The first numbers of `world`.
(
    NOW,
    PHASE,
    WATCHING,  # whether somebody ever waited for the end of an op
    OPEN,  # ops that have neither ended nor been cancelled
    ENDING,  # ops that end in this round
    ARRIVING,  # places that arrive in this round, first and last
    ARRIVING_LAST,
    JOINING,  # how many of them queue for a slot
    MOVING,  # components whose line may move
    GRANTED,  # ops that hold all their places
    GRANTED_LAST,
    ONLINE,  # whether any op asks its backend
    ASKING,  # how many ops that start in this round do
    ASKED,  # the ops that start in such a round, first and last
    ASKED_LAST,
    BARRIER,  # ops that hold all their places but use a failed component
    NEWS,  # ops of which somebody has to be told
    NEWS_LAST,
    STALE,  # rates have to be computed
    FLOWS,  # flows in flight
    DUE,  # tick of the next instant, NONE for none
    SOONEST,  # tick of the next event, NONE when it has to be looked up
    OCCUPIED,  # a bit for each bucket of the event queue that is not empty
    BASE,  # of the event queue: no event is before this tick
    PARTS,  # where the components, graphs, collectives, owners of flows and a scratch list begin
    GRAPHS,
    GRAPH_COUNT,
    COLLECTIVES,
    OWNERS,
    SCRATCH,
    FLOW_COUNT,
    HOLDERS,  # where the holders and the claims begin
    CLAIMS,
    LINES,  # capacities whose line may move
    GRANTS,  # claims of processes that were granted
    CLAIMING,  # how many places of ops that hold arrive in this round
    PLUGGED,  # whether a medium is plugged in, and when something happens in it, NONE for never
    PLUGGED_DUE,
    BEGAN,  # ops whose flow began there in this turn
    HEADER,
) = range(40)

BUCKETS = 40  # 64 heads of lists: by the highest bit in which a tick differs from `BASE`
BINS = BUCKETS + 64  # 32 heads of lists for sorting
TABLES = BINS + 32

# A row of the components; of a capacity, slots are the whole and its line is one of claims.
SLOTS, TAKEN, FAILED, HEAD, TAIL, MOVES, IS_PLUGGED, PART = range(8)
UNMOVED = -2  # of `MOVES`: not in the list of those whose line may move

# A row of the graphs.
FIRST_CELL, OPEN_OPS, GRAPH = range(3)

# A row of the collectives: places that are not held yet, first further place, flow, holder.
MISSING, FURTHER_CELL, WIDE_FLOW, HOLDING, COLLECTIVE = range(5)

# A row of the holders: its claims, how many are not granted, how many places are not ready, and
# the first of the claims that are held until its end.
FIRST_CLAIM, CLAIM_COUNT, UNGRANTED, UNREADY, LETTING, HOLDER = range(6)

# A row of the claims: its component and amount, the next in line, the op that holds it (NONE: a
# process), the op until whose end it does, the next that is held until then, and when.
OF, AMOUNT, BEHIND, HELD_BY, UNTIL, ALSO, STANDS, ASKED_AT, GRANTED_AT, RETURNED_AT, CLAIM = range(
    11
)
OUT, IN_LINE, IS_HELD = range(3)  # where a claim stands

# Phases, and what `run_instants` comes back with.
IDLE, BEGIN, ANSWERED = range(3)
NOTHING, ASKS, TELLS, HEAVY, PAUSES = range(5)
