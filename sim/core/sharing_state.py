"""The arrays behind the shared-rate medium, and the object that makes and grows them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..machine import NO_LIMIT, Flows, Parts

# Columns of `parts`, a row a component.
CAP, FLOWS, LEVEL, REST_HI, REST_LO, WIDTH = range(6)
# Columns of `flows`, a row a flow.
START, COUNT, LIMIT, ON, RATE, SINCE, LEFT_HI, LEFT_LO = range(8)
# Columns of `uses`, a row a use of a component by a flow.
COMPONENT, WEIGHT = range(2)

Array = NDArray[np.int64]


class Sharing:
    """State of the medium of one run; kernels of :mod:`.sharing` take its ``state``.

    Flows of all graphs have one numbering: those of the first `add` come first.  ``state`` is a new
    tuple after `add` and `set_usage`; fetch it again.

    Parameters
    ----------
    parts : Parts
        Components; those without a rate cannot be used.

    Examples
    --------
    >>> from foretrace.sim.core.sharing import due, join, settle
    >>> from foretrace.sim.machine import ONE
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
        self._parts = np.zeros((len(parts), WIDTH + 1), np.int64)
        self._parts[:, CAP] = np.maximum(parts.rate, 0)
        self._parts[:, LEVEL] = -1
        self._flows = np.zeros((0, LEFT_LO + 1), np.int64)
        self._uses = np.zeros((0, WEIGHT + 1), np.int64)
        self._queue = np.zeros((1, 1), np.int64)

    def __len__(self) -> int:
        return len(self._flows)

    @property
    def state(self) -> tuple[Array, Array, Array, Array]:
        """What the kernels take."""
        return self._parts, self._flows, self._uses, self._queue

    def add(self, flows: Flows) -> int:
        """Append flows, not in flight; returns the number of the first."""
        first = len(self._flows)
        rows = np.zeros((len(flows), self._flows.shape[1]), np.int64)
        rows[:, START] = flows.indptr[:-1] + len(self._uses)
        rows[:, COUNT] = np.diff(flows.indptr)
        rows[:, LIMIT] = flows.limit
        rows[:, LEFT_HI] = flows.work_hi
        rows[:, LEFT_LO] = flows.work_lo.view(np.int64)
        uses = np.zeros((len(flows.component), self._uses.shape[1]), np.int64)
        uses[:, COMPONENT], uses[:, WEIGHT] = flows.component, flows.weight
        self._flows = np.concatenate([self._flows, rows])
        self._uses = np.concatenate([self._uses, uses])
        return first

    def append(self, work: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> int:
        """Append one flow; returns its number."""
        return self.add(one(work, usage, limit))

    def set_usage(self, flow: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> None:
        """Replace what a flow uses, while it is not in flight."""
        new = self.append(0, usage, limit)
        for field in (START, COUNT, LIMIT):
            self._flows[flow, field] = self._flows[new, field]
        self._flows = self._flows[:new]

    def set_left(self, flow: int, work: int) -> None:
        """Replace the work left of a flow, while it is not in flight."""
        hi, lo = work >> 64, work & (2**64 - 1)
        self._flows[flow, LEFT_HI] = hi
        self._flows[flow, LEFT_LO] = np.uint64(lo).astype(np.int64)

    def left(self, flow: int) -> int:
        """Work left of a flow that is not in flight."""
        return (int(self._flows[flow, LEFT_HI]) << 64) + int(self._flows[flow, LEFT_LO]) % 2**64


def one(work: int, usage: Mapping[int, int], limit: int = NO_LIMIT) -> Flows:
    """The table of one flow.

    >>> one(2**64 + 5, {3: 1 << 40}).work(0) == 2**64 + 5
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
