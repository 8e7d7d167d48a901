"""Layout of the four tables of the max-min medium, column by column.

All int64.  Rows of *parts* are components, of *flows* flows, of *uses* what a flow takes of a
component; a row of *bundles* is a set of flows that run at one rate (:mod:`.flow_classes`), and its
row 0 is no bundle but holds where the lists begin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .pairing_heap import KEY_HI, KEY_LO, NODE

Array = NDArray[np.int64]
State = tuple[Array, Array, Array, Array]

# A row that may be in a heap begins with its node (KEY_HI to BEFORE, see :mod:`.pairing_heap`).
# Rows of parts, uses and bundles are whole lines of a cache, of eight numbers, and tables begin at
# one: what is looked at together stands in one line, since most time is spent waiting for them.

LINE = 8  # columns

# parts, in line 1: node of the queue of those to be solved; weight of stakes; first use in the list
# of its users (see :mod:`.usage_lists`); whether weights have fractions
TOTAL, HEAD, FINE = range(NODE, LINE)
# in line 2: rate; flows in flight and the exclusive-or of their numbers (the flow, when it is
# alone); whether two or more share it; level (OPEN: not full); the rate that all flows stay below
# where it is fenced off (else 0); weight of all flows in flight
CAP, FLOWS, ONLY, SHARED, LEVEL, FENCE, MASS = range(LINE, LINE + 7)
# in line 3: what is taken of it while it is not full (128 bits); whether it is in the list of those
# that may be, and the next there
LOAD_HI, LOAD_LO, ROOMY, NEXT_ROOMY = range(2 * LINE, 2 * LINE + 4)
PART_COLUMNS = 3 * LINE

# flows: node in the heap of its bundle, whose key is its tag, or the work left while it has
# none; its uses; limit; whether it is in flight; its bundle (0: none) and whether it waits for one
TAG_HI, TAG_LO = KEY_HI, KEY_LO
START, COUNT, LIMIT, IN_FLIGHT, BUNDLE, LOOSE, NEXT_LOOSE = range(NODE, NODE + 7)
FLOW_COLUMNS = NEXT_LOOSE + 1

# uses: component and weight; neighbours in the list of the component's users, and who that is: a
# bundle, in the rows of its leader, or where the component is fenced off a flow; of a bundle also
# its weight and the lowest rate allowed elsewhere
COMPONENT, WEIGHT, SUM, NEXT_USER, LAST_USER, OWNER, OTHER = range(LINE - 1)
USE_COLUMNS = LINE

# bundles, in line 1: node of what is due, whose key is the tick; hash, next of equal hash, and
# (nothing of the bundle) the first bundle of the row's hash bucket
DUE = KEY_HI
HASH, CHAIN, BUCKET = range(NODE, LINE)
# in line 2: rate and the exact integral of it (128 bits) up to a tick; heap of its flows; members;
# lowest fence
RATE, CLOCK_HI, CLOCK_LO, SINCE, ROOT, SIZE, REACH = range(LINE, LINE + 7)
# in line 3: leader; rate that its flows' limits and unshared components allow; the lowest and the
# next lowest level of its shared components, and which ones have them (`STALE`: to be looked for);
# whether it is in the list of touched ones and the next there
LEADER, CEILING, LOWEST, LOWEST_AT, SECOND, SECOND_AT = range(2 * LINE, 2 * LINE + 6)
TOUCHED, NEXT_TOUCHED = range(SECOND_AT + 1, SECOND_AT + 3)
BUNDLE_COLUMNS = 3 * LINE
STALE = -2  # of `LOWEST_AT`

# row 0 of bundles, which has a hash bucket too
FIRST_DUE, FIRST_QUEUED, FIRST_TOUCHED, FIRST_LOOSE, FIRST_FREE, FRESH, MASK = range(LINE, LINE + 7)
FIRST_ROOMY = MASK + 1
OVERFULL = FIRST_ROOMY + 1  # how often 2^62 went over the top of a mass
RATES_GIVEN = OVERFULL + 1  # how often a flow was given another rate

OPEN = 2**63 - 1  # the level of a component that is not full; no limit
