"""Layout of the *desk*: the arrays by which the compiled loop calls the kernels of policies.

While the loop runs, the desk holds what compiled processes wait for and what they noted. Python
takes it from SimPy's events before, and returns it to them afterwards (``policy_driver.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..memory.state_layout import NONE
from .mail_layout import DeskMail
from .store_desk import StoreDesk

Array = NDArray[np.int64]
LATE = 2**63 - 1

# Numbers of the loop (`Desk.now`)
(
    TICK,  # of the event in progress
    LIMIT,  # tick of the next event that concerns anybody else
    CALLING,  # policy whose call is in progress, NONE for none
    CALLED,  # 1 if its kernel has returned, and its actions are being noted
    CODE,  # that its kernel returned
    ROW,  # next action of the call to note
    WAKE,  # next submission of `Desk.wakes`, and their number
    WAKES,
    TIMERS,  # number of timers
    NUMBER,  # that SimPy's next event would have
    SAMPLES,  # number of samples
    NOTED,  # number of noted actions
    ACTOR,  # policy that noted the last action
    EVENTS,  # calls so far; at this tick
    EVENTS_AT_TICK,
    TURNS,  # of the machine by actions of policies; at this tick
    TURNS_AT_TICK,
    CELLS,  # used rows in the memory of the run
    EDGES,
    COLLECTIVES,
    FREE_CELLS,  # rows that further submissions may use
    FREE_EDGES,
    FREE_COLLECTIVES,
    FREE_GRAPHS,
    SUBMITTED,  # rows of submissions
    SUBMISSIONS,  # graphs so far, ops so far; size of those in memory
    OPS,
    HELD,
    MOST_HELD,  # size at which Python frees ended graphs, or refuses more
    CANCELS,  # 1 if ops were ever cancelled
    CHANGES,  # number of changes of held amounts
    BEGINS,  # number of times that a process began to hold something
    SETTLED,  # rows of `Desk.settled`, and the next one whose kernel is to be called
    NEXT_SETTLED,
    NUMBERS,
) = range(35)

# Row of a policy: addresses of its adapter and arrays, sizes, and what it waits for.
(
    ADAPTER,
    EVENT,
    HEAD,
    ACTIONS,
    VALUES,
    PARTS,
    PART_COUNT,
    METRICS,  # number of its metrics
    GRAPHS,  # first row of its graphs in the table of shapes, and number of them
    GRAPH_COUNT,
    USED,  # first row of its parts in the table of used parts
    ARRIVALS,  # address of the ticks of its arrivals, of their columns; number
    ARRIVAL_COLUMNS,
    ARRIVAL_COUNT,
    WAITS,  # number of events that it waits for
    POLICY,
) = range(16)

# Row of a timer: tick and number of its event, which order it; policy, kind of event, tag.
AT, ORDER, WHOSE, KIND, TAG, TIMER = range(6)

# Row of a sample; its value is in `Desk.values`.
BY, METRIC, WHEN, SAMPLE = range(4)

# Row of a part that a policy observes or changes: component, total (-1: none), 1 if it has a rate,
# if the policy may change it, if a process waits for it (NONE: it is a store); row of what is held.
COMPONENT, AMOUNT, HAS_RATE, MAY, BLOCKED, OWN, USED_PART = range(7)

# Row of what processes of one name and owner hold of a capacity: amount; number of the change
# by which they began to hold it, NONE if before the loop; taken of the component since the last
# turn is in the first row of that component.
HOLDING, BEGAN, TAKEN, FIRST_OF, OWN_ROW = range(5)

# Row of a change of held amounts.
CHANGED_AT, CHANGED, CHANGE_BY, CHANGE = range(4)

# Row of a noted action: verb; submission, component or tag; amount; what is held, or the policy.
NOTED_VERB, NOTED_WHAT, NOTED_AMOUNT, NOTED_BY, NOTE = range(5)

# Row of an event SETTLED of this turn.
SETTLED_OF, SETTLED_TAG, SETTLED_ROW = range(3)

# Row of a submission: policy, tag, number among the policy's graphs, shape; number and id of its
# first op; tick, key; first rows in memory; rows reserved in tables of flows and amounts; 1 if the
# kernel was called for its end; cancelled ops; 1 if its memory was freed; point of a grid.
(
    SUB_BY,
    SUB_TAG,
    SUB_GRAPH,
    SUB_SHAPE,
    SUB_INDEX,
    SUB_FIRST,
    SUB_AT,
    SUB_KEY,
    SUB_CELL,
    SUB_COLLECTIVE,
    SUB_FLOW,
    SUB_USE,
    SUB_HOLDER,
    SUB_CLAIM,
    SUB_OVER,
    SUB_CANCELLED,
    SUB_FREED,
    SUB_POINT,
) = range(18)
SUB = SUB_POINT + 4  # one number per axis

# Row of a prepared graph: addresses and sizes of its block (GraphBlock), of its numbers, and the
# row of the number of its name's submissions; pool of its reserved rows, NONE if it needs none;
# first row of its ways in the table of ways, and their number. A grid has a row without ops, and
# one per variant.
(
    CELLS_AT,
    CELL_COUNT,
    TIMES_AT,
    LINKS_AT,
    LINK_COUNT,
    COLLECTIVES_AT,
    COLLECTIVE_COUNT,
    FLOWS_AT,
    FLOW_COUNT,
    USES_AT,
    USE_COUNT,
    HOLDERS_AT,
    HOLDER_COUNT,
    CLAIMS_AT,
    CLAIM_COUNT,
    OWNERS_AT,
    FIXED_AT,
    HIGH_AT,
    LOW_AT,
    LIMITS_AT,
    AMOUNTS_AT,
    OP_COUNT,  # 0: Python must submit it
    NAME,
    POOL,
    FIRST_WAY,
    WAY_COUNT,
    GRID,  # 1 + row in the table of grids, 0 for none
    SHAPE,
) = range(28)

# Row of a pool of reserved rows: the first in `Desk.reserved`, and number of those left.
RESERVED, RESERVES, RESERVE_POOL = range(3)

GRAPH_AS_OPS = 30  # size of a graph in memory, in ops; as in ``run/held_graphs.py``
BUSY = 10_000  # calls or turns at one tick, from which on Python looks for endless loops
PAUSE = 1 << 12  # calls between two looks of Python
ROUND = 1 << 16  # calls before what is waited for goes back to SimPy

# Return codes of the loop, next to those of `run_instants`.
OVER, SLOW, CROWDED, FULL, FOLD = range(10, 15)


class Desk(NamedTuple):
    """Arrays of the loop.

    Parameters
    ----------
    now : numbers of the loop
    calls : addresses of the kernel's arguments, one row per policy
    policies : one row per policy
    timers : heap of what is due, by tick and number
    samples, values : emitted samples
    used, own, changes : parts of policies, what is held of them, changes of that
    noted : actions for the next turn
    settled : policies that wake when this turn has settled
    submissions : open ones of Python, then those of the loop
    wakes : submissions that ended in this turn
    owner : row of the submission, for each graph in memory; NONE for others
    shapes : prepared graphs
    reserved : rows of flows, uses, holders and claims for further submissions
    pools : reserved rows of each combination of sizes
    ways : row of the shape of each way of each graph; NONE if Python must submit it
    names : number of submissions per name of a graph
    mail : mailboxes of policies
    grids : prepared grids, see ``grid_layout.py``
    words : array of the type of unsigned words
    stores : stores that their kernels use
    """

    now: Array
    calls: Array
    policies: Array
    timers: Array
    samples: Array
    values: NDArray[Any]
    used: Array
    own: Array
    changes: Array
    noted: Array
    settled: Array
    submissions: Array
    wakes: Array
    owner: Array
    shapes: Array
    reserved: Array
    pools: Array
    ways: Array
    names: Array
    mail: DeskMail
    grids: Array
    words: NDArray[np.uint64]
    stores: StoreDesk


def new_numbers() -> Array:
    """Numbers of a loop in which nothing is in progress."""
    now = np.zeros(NUMBERS, np.int64)
    now[[CALLING, ACTOR]] = NONE
    return now
