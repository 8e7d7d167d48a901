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

# parts: node of the queue of those to be solved; rate; flows in flight and the exclusive-or of
# their numbers (the flow, when it is alone); whether two or more share it; level (OPEN: not
# full); whether weights have fractions; weight of stakes; first stake; what is taken of it while it
# is not full (128 bits); weight of all flows in flight, first use of them, and the rate that they
# stay below where it is fenced off (else 0); whether it is in the list of those that may be, and
# the next there
CAP, FLOWS, ONLY, SHARED, LEVEL, FINE, TOTAL, HEAD, LOAD_HI, LOAD_LO = range(NODE, NODE + 10)
MASS, CROWD, FENCE, ROOMY, NEXT_ROOMY = range(LOAD_LO + 1, LOAD_LO + 6)
PART_COLUMNS = NEXT_ROOMY + 1

# flows: node in the heap of its bundle, whose key is its tag, or the work left while it has
# none; its uses; limit; whether it is in flight; its bundle (0: none) and whether it waits for one
TAG_HI, TAG_LO = KEY_HI, KEY_LO
START, COUNT, LIMIT, IN_FLIGHT, BUNDLE, LOOSE, NEXT_LOOSE = range(NODE, NODE + 7)
FLOW_COLUMNS = NEXT_LOOSE + 1

# uses: component and weight; in the rows of a bundle's leader, its stakes: weight of the bundle,
# neighbours among the stakes in the component, bundle, lowest rate allowed elsewhere; then of
# every use: neighbours among the uses of the component by flows in flight, and the flow
COMPONENT, WEIGHT, SUM, NEXT_STAKE, LAST_STAKE, OWNER, OTHER = range(7)
NEXT_USE, LAST_USE, FLOW = range(7, 10)
USE_COLUMNS = FLOW + 1

# bundles: node of what is due, whose key is the tick; rate and the exact integral of it (128
# bits) up to a tick; heap of its flows; leader, members, rate that its flows' limits and unshared
# components allow, lowest fence; whether it is in the list of touched ones and the next there;
# hash, next of equal hash, and (nothing of the bundle) the first bundle of the row's hash bucket;
# the lowest and the next lowest level of its shared components, and which ones have them (`STALE`:
# to be looked for)
DUE = KEY_HI
RATE, CLOCK_HI, CLOCK_LO, SINCE, ROOT, LEADER, SIZE, CEILING, REACH = range(NODE, NODE + 9)
TOUCHED, NEXT_TOUCHED, HASH, CHAIN, BUCKET = range(REACH + 1, REACH + 6)
LOWEST, LOWEST_AT, SECOND, SECOND_AT = range(BUCKET + 1, BUCKET + 5)
BUNDLE_COLUMNS = SECOND_AT + 1
STALE = -2  # of `LOWEST_AT`

# row 0 of bundles
FIRST_DUE, FIRST_QUEUED, FIRST_TOUCHED, FIRST_LOOSE, FIRST_FREE, FRESH, MASK = range(7)
FIRST_ROOMY = MASK + 1
OVERFULL = FIRST_ROOMY + 1  # how often 2^62 went over the top of a mass

OPEN = 2**63 - 1  # the level of a component that is not full; no limit
