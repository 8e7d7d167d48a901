"""Column layout of the four int64 tables of the max-min medium.

*parts* has one row per component, *flows* one row per flow, *uses* one row per flow and component,
and *bundles* one row per flow class (:mod:`.flow_classes`). Row 0 of *bundles* is not a class: it
holds the heads of lists.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .pairing_heap import KEY_HI, KEY_LO, NODE

Array = NDArray[np.int64]
State = tuple[Array, Array, Array, Array]

# A row that may be in a heap begins with its node (KEY_HI to BEFORE, see :mod:`.pairing_heap`).
# Rows of parts, uses and bundles are aligned to cache lines of eight numbers. Values that are read
# together are in one line, because cache misses dominate the run time.

LINE = 8  # columns

# parts, line 1: heap node of the queue of components to solve; total weight of classes; first use
# in the list of its users (see :mod:`.usage_lists`); 1 if weights are fractional
TOTAL, HEAD, FINE = range(NODE, LINE)
# line 2: rate; number of flows in flight, and the XOR of their numbers (the flow itself, if
# single); 1 if two or more flows share it; level (OPEN: not full); fence, a rate that all flows
# stay below (else 0); total weight of flows in flight
CAP, FLOWS, ONLY, SHARED, LEVEL, FENCE, MASS = range(LINE, LINE + 7)
# line 3: load while it is not full (128 bits); 1 if it is in the list of components that may have
# slack, and the next one in that list
LOAD_HI, LOAD_LO, ROOMY, NEXT_ROOMY = range(2 * LINE, 2 * LINE + 4)
PART_COLUMNS = 3 * LINE

# flows: heap node in its bundle, whose key is its tag, or the work left if it has no bundle; first
# use and number of uses; limit; 1 if in flight; bundle (0: none); 1 if it waits for a bundle
TAG_HI, TAG_LO = KEY_HI, KEY_LO
START, COUNT, LIMIT, IN_FLIGHT, BUNDLE, LOOSE, NEXT_LOOSE = range(NODE, NODE + 7)
FLOW_COLUMNS = NEXT_LOOSE + 1

# uses: component and weight; neighbours in the list of the component's users; the owner, which is a
# bundle (in its leader's rows) or, on a fenced component, a flow; for a bundle also its total
# weight and the lowest rate that other components allow
COMPONENT, WEIGHT, SUM, NEXT_USER, LAST_USER, OWNER, OTHER = range(LINE - 1)
USE_COLUMNS = LINE

# bundles, line 1: heap node of completions, whose key is the tick; hash, next bundle of equal hash,
# and (unrelated to the bundle) the first bundle of the row's hash bucket
DUE = KEY_HI
HASH, CHAIN, BUCKET = range(NODE, LINE)
# line 2: rate, and its exact integral (128 bits) up to a tick; heap of its flows; number of
# members; lowest fence
RATE, CLOCK_HI, CLOCK_LO, SINCE, ROOT, SIZE, REACH = range(LINE, LINE + 7)
# line 3: leader; rate that its flows' limits and unshared components allow; the two lowest levels
# of its shared components, and the components that have them (`STALE`: unknown); 1 if it is in the
# list of changed bundles, and the next one in that list
LEADER, CEILING, LOWEST, LOWEST_AT, SECOND, SECOND_AT = range(2 * LINE, 2 * LINE + 6)
TOUCHED, NEXT_TOUCHED = range(SECOND_AT + 1, SECOND_AT + 3)
BUNDLE_COLUMNS = 3 * LINE
STALE = -2  # of `LOWEST_AT`

# row 0 of bundles, which has a hash bucket too
FIRST_DUE, FIRST_QUEUED, FIRST_TOUCHED, FIRST_LOOSE, FIRST_FREE, FRESH, MASK = range(LINE, LINE + 7)
FIRST_ROOMY = MASK + 1
OVERFULL = FIRST_ROOMY + 1  # number of overflows of 2^62 in total weights (MASS)
RATES_GIVEN = OVERFULL + 1  # number of rate changes of flows

OPEN = 2**63 - 1  # the level of a component that is not full; no limit
