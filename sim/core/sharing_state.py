"""The arrays behind the shared-rate medium, and the object that makes and grows them.

Four tables of int64.  Rows of *parts* are components, of *flows* flows, of *uses* what a flow
takes of a component; a row of *bundles* is a set of flows that run at one rate (see
:mod:`.sharing_bundles`), and its row 0 is no bundle but holds where the lists begin.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..errors import BackendError
from ..machine import NO_LIMIT, ONE, Flows, Parts
from .heap import ABSENT, BEFORE, KEY_HI, KEY_LO, NODE, NONE
from .jit import jit

Array = NDArray[np.int64]
State = tuple[Array, Array, Array, Array]

# A row that may be in a heap begins with its node (KEY_HI to BEFORE, see :mod:`.heap`).

# parts: node of the queue of those to be solved; rate; flows in flight and the exclusive-or of
# their numbers (the flow, when it is alone); whether two or more share it; level (OPEN: not
# full); whether weights have fractions; weight of cells; first cell; what is taken of it while it
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

# uses: component and weight; in the rows of a bundle's leader, its cells: weight of the bundle,
# neighbours among the cells of the component, bundle, lowest rate allowed elsewhere; then of
# every use: neighbours among the uses of the component by flows in flight, and the flow
COMPONENT, WEIGHT, SUM, NEXT_CELL, LAST_CELL, OWNER, OTHER = range(7)
NEXT_USE, LAST_USE, FLOW = range(7, 10)
USE_COLUMNS = FLOW + 1

# bundles: node of what is due, whose key is the tick; rate and the exact integral of it (128
# bits) up to a tick; heap of its flows; leader, members, rate that its flows' limits and unshared
# components allow, lowest fence; whether it is in the list of touched ones and the next there;
# hash, next of equal hash, and (nothing of the bundle) the first bundle of the row's hash bucket
DUE = KEY_HI
RATE, CLOCK_HI, CLOCK_LO, SINCE, ROOT, LEADER, SIZE, CEILING, REACH = range(NODE, NODE + 9)
TOUCHED, NEXT_TOUCHED, HASH, CHAIN, BUCKET = range(REACH + 1, REACH + 6)
BUNDLE_COLUMNS = BUCKET + 1

# row 0 of bundles
FIRST_DUE, FIRST_QUEUED, FIRST_TOUCHED, FIRST_LOOSE, FIRST_FREE, FRESH, MASK = range(7)
FIRST_ROOMY = MASK + 1

OPEN = 2**63 - 1  # the level of a component that is not full; no limit
FASTEST = 2**62  # rates lie below


class Sharing:
    """State of the medium of one run; kernels of :mod:`.sharing` take its ``state``.

    Flows of all graphs have one numbering: those of the first `add` come first.  ``state`` is a
    new tuple after `add`, `append` and `set_usage`; fetch it again.  Interpreted, kernels need
    ``np.errstate(over="ignore")``.

    Parameters
    ----------
    parts : Parts
        Components; those without a rate cannot be used.

    Examples
    --------
    >>> from foretrace.sim.core.sharing import due, join, settle
    >>> sharing = Sharing(Parts(("link",), np.array([-1]), np.array([10]), np.array([160])))
    >>> sharing.append(work=40, usage={0: ONE}), sharing.append(work=60, usage={0: ONE})
    (0, 1)
    >>> s = sharing.state
    >>> join(s, 0, 0)
    >>> join(s, 1, 0)
    >>> settle(s, 0)
    >>> int(due(s))  # 40 at a rate of 5
    8
    """

    def __init__(self, parts: Parts):
        self._top = np.maximum(parts.top, 0)
        self._parts = np.zeros((len(parts), PART_COLUMNS), np.int64)
        self._parts[:, CAP] = np.maximum(parts.rate, 0)
        self._parts[:, LEVEL] = OPEN
        self._parts[:, [HEAD, CROWD]] = NONE
        self._parts[:, BEFORE] = ABSENT
        self._flows, self._flow_count = np.zeros((4, FLOW_COLUMNS), np.int64), 0
        self._uses, self._use_count = np.zeros((4, USE_COLUMNS), np.int64), 0
        self._bundles = np.zeros((0, BUNDLE_COLUMNS), np.int64)
        self._grow_bundles(5)
        self._bundles[0, [FIRST_DUE, FIRST_QUEUED]] = NONE
        self._bundles[0, [FIRST_LOOSE, FIRST_ROOMY]] = NONE
        self._bundles[0, FRESH] = 1

    def __len__(self) -> int:
        return self._flow_count

    @property
    def state(self) -> State:
        """What the kernels take."""
        return self._parts, self._flows, self._uses, self._bundles

    def add(self, flows: Flows) -> int:
        """Append flows, not in flight; returns the number of the first.

        Raises
        ------
        BackendError
            A component twice in one usage, or a flow that nothing keeps below 2^62 rate units.
        """
        first, n, m = self._flow_count, len(flows), len(flows.component)
        owner = np.repeat(np.arange(n), np.diff(flows.indptr))
        order = np.lexsort((flows.component, owner))
        component, weight = flows.component[order].astype(np.int64), flows.weight[order]
        self._check(flows, owner, component, weight)
        self._flows = _room(self._flows, first + n)
        self._uses = _room(self._uses, self._use_count + m)
        self._grow_bundles(len(self._flows) + 1)
        uses = self._uses[self._use_count : self._use_count + m]
        uses[:, COMPONENT], uses[:, WEIGHT] = component, weight
        uses[:, FLOW] = first + owner
        self._parts[component[weight % ONE != 0], FINE] = 1
        rows = self._flows[first : first + n]
        rows[:, START] = flows.indptr[:-1] + self._use_count
        rows[:, COUNT] = np.diff(flows.indptr)
        rows[:, LIMIT] = np.where(flows.limit == NO_LIMIT, OPEN, flows.limit)
        rows[:, TAG_HI] = flows.work_hi
        rows[:, TAG_LO] = flows.work_lo.view(np.int64)
        rows[:, BEFORE] = ABSENT
        self._flow_count, self._use_count = first + n, self._use_count + m
        return first

    def append(self, work: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> int:
        """Append one flow; returns its number."""
        return self.add(one(work, usage, limit))

    def set_usage(self, flow: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> None:
        """Replace what a flow uses, while it is not in flight."""
        new = self.append(0, usage, limit)
        for field in (START, COUNT, LIMIT):
            self._flows[flow, field] = self._flows[new, field]
        self._uses[self._flows[new, START] : self._use_count, FLOW] = flow
        self._flow_count = new

    def set_left(self, flow: int, work: int) -> None:
        """Replace the work left of a flow, while it is not in flight."""
        self._flows[flow, TAG_HI] = work >> 64
        self._flows[flow, TAG_LO] = np.uint64(work & (2**64 - 1)).astype(np.int64)

    def left(self, flow: int) -> int:
        """Work left of a flow that is not in flight."""
        hi, lo = self._flows[flow, TAG_HI], self._flows[flow, TAG_LO]
        return (int(hi) << 64) + int(lo) % 2**64

    def _grow_bundles(self, rows: int) -> None:
        """A bundle for every flow, beside row 0; buckets are found again by their new mask."""
        if rows <= len(self._bundles):
            return
        old = len(self._bundles)
        self._bundles = np.concatenate(
            [self._bundles, np.zeros((rows - old, BUNDLE_COLUMNS), np.int64)]
        )
        self._bundles[max(old, 1) :, BEFORE] = ABSENT
        self._bundles[0, MASK] = (1 << (rows.bit_length() - 1)) - 1
        _rehash(self._bundles)

    def _check(self, flows: Flows, owner: Array, component: Array, weight: Array) -> None:
        """Refuse what the kernels cannot hold."""
        twice = np.flatnonzero((np.diff(component) == 0) & (np.diff(owner) == 0))
        if len(twice):
            row = owner[twice[0]]
            raise BackendError(
                f"op {flows.op[row]}: component {component[twice[0]]} twice; add up its weights"
            )
        bound = np.where(flows.limit == NO_LIMIT, np.inf, flows.limit.astype(np.float64))
        np.minimum.at(bound, owner, self._top[component] * (ONE / weight))
        for row in np.flatnonzero(bound >= 0.99 * FASTEST):
            tops = [int(self._top[c]) * ONE // w for c, w in flows.usage(int(row)).items()]
            limits = [int(flows.limit[row])] if flows.limit[row] != NO_LIMIT else []
            if min(tops + limits, default=FASTEST) >= FASTEST:
                raise BackendError(
                    f"op {flows.op[row]}: may run at 2^62 rate units or more; "
                    "give it a limit, or its components a lower max_rate"
                )


@jit
def _rehash(bundles: Array) -> None:
    """Every living bundle into the bucket of its hash."""
    bundles[:, BUCKET] = 0
    for b in range(1, len(bundles)):
        if bundles[b, SIZE]:
            at = bundles[b, HASH] & bundles[0, MASK]
            bundles[b, CHAIN] = bundles[at, BUCKET]
            bundles[at, BUCKET] = b


def _room(table: Array, rows: int) -> Array:
    """The table with space for that many rows, twice as many when it has to grow."""
    if rows <= len(table):
        return table
    more = np.zeros((max(rows, 2 * len(table)) - len(table), table.shape[1]), np.int64)
    return np.concatenate([table, more])


def one(work: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> Flows:
    """The table of one flow.

    >>> one(2**64 + 5, {3: ONE}).work(0) == 2**64 + 5
    True
    """
    return Flows(
        np.zeros(1, np.int32),
        np.array([work >> 64], np.int64),
        np.array([work & (2**64 - 1)], np.uint64),
        np.array([limit], np.int64),
        np.array([0, len(usage)], np.int64),
        np.array(list(usage), np.int32),
        np.array(list(usage.values()), np.int64),
    )
