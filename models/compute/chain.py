"""Chain of backends: the first one that can time an op does so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.ops import Ops
from ...sim.facts.system import System
from ...sim.facts.timing_merge import Merge

SHOWN = 3  # number of ops that an error message lists


@backend("chain")
class Chain(Backend):
    """Backend that tries several backends in order; the first that knows an op times it.

    Parameters
    ----------
    links : Sequence[Backend]
        Backends in order of preference: at least one, and no chains.

    Examples
    --------
    >>> from .recorded import Recorded
    >>> from .table import MeasuredTable
    >>> table = MeasuredTable.of(["compute:mm fp32[8x8]"], [1e-6])
    >>> chain = Chain.of(table, Recorded())
    >>> texts = ("compute:mm fp32[8x8]", "compute:softmax fp32[8]")
    >>> timing = chain.timing(Ops.of(signature=[0, 1], duration=5e-6, signatures=texts))
    >>> timing.fixed.tolist(), timing.source[0], timing.source[1]
    ([1e-06, 5e-06], 'table:<memory>', 'recorded: trace')
    """

    def __init__(self, *, links: Sequence[Backend]):
        if not links:
            raise BackendError("chain: has no links; name at least one backend, such as 'recorded'")
        self.links = tuple(links)
        self.online = any(link.online for link in links)
        self.uniform = all(link.uniform for link in links)

    @classmethod
    def of(cls, *links: Backend) -> Chain:
        """Chain of these backends.

        >>> Chain.of(Backend(), Backend()).knows(Ops.of(flop=[1.0])).tolist()
        [True]
        """
        return cls(links=links)

    @property
    def source(self) -> str:  # type: ignore[override]
        """Sources of all backends, in order."""
        return ", else ".join(link.source for link in self.links)

    def open(self, system: System) -> None:
        """Open every backend of the chain."""
        for link in self.links:
            link.open(system)

    def close(self) -> None:
        """Close every backend of the chain."""
        for link in self.links:
            link.close()

    def timing_groups(self, system: System) -> NDArray[np.int64] | None:
        """Class number of each component: equal if all backends time their ops equally."""
        each = [link.timing_groups(system) for link in self.links]
        known = [numbers for numbers in each if numbers is not None]
        if len(known) < len(each):
            return None
        found: NDArray[np.int64] = np.unique(np.stack(known), axis=1, return_inverse=True)[1]
        return found.reshape(-1)

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops that any backend of the chain can time, shape (n,)."""
        return self.link_of_ops(ops) >= 0

    def link_of_ops(self, ops: Ops) -> NDArray[np.int16]:
        """Index of the backend that times each op, shape (n,); -1 if none can."""
        who = np.full(len(ops), -1, np.int16)
        for number, link in enumerate(self.links):
            left = np.flatnonzero(who < 0)
            if len(left):
                who[left[link.knows(ops.take_with_placement(left))]] = number
        return who

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timing of each op by the first backend that knows it, with that backend's source.

        Raises
        ------
        BackendError
            Some ops are unknown to every backend: their number, the largest of them, and what to
            add.
        """
        who = self.link_of_ops(ops)
        if np.any(who < 0):
            self._refuse_unknown_ops(ops, np.flatnonzero(who < 0))
        merge = Merge(len(ops))
        for number, link in enumerate(self.links):
            rows = np.flatnonzero(who == number)
            if len(rows):
                asked = None if ops.at is None else ops.at.component[rows]
                merge.add(rows, link.timing(ops.take_with_placement(rows), now), asked, link.source)
        return merge.timing()

    def _refuse_unknown_ops(self, ops: Ops, rows: NDArray[np.int64]) -> None:
        names = ", ".join(link.registered_name for link in self.links)
        largest = largest_ops(ops, rows, ops.duration)
        told = ", ".join(one.text for one in largest[:SHOWN])
        more = f" and {len(largest) - SHOWN} more kinds of op" * (len(largest) > SHOWN)
        raise BackendError(
            f"op {largest[0].row} ({told}){more}: no backend of the chain ({names}) can time "
            f"{'it' if len(rows) == 1 else 'them'}; add measured times (table), or "
            "keep recorded durations, with 'recorded' as the last link"
        )


class LargestOp(NamedTuple):
    """Ops with the same signature, and their total time.

    Parameters
    ----------
    text : their signature, or their kind if they have none
    row : row of the first one
    ops : number of ops
    seconds : total time in s
    """

    text: str
    row: int
    ops: int
    seconds: float


def largest_ops(ops: Ops, rows: NDArray[np.int64], seconds: NDArray[np.float64]) -> list[LargestOp]:
    """Selected ops grouped by signature, in descending order of total time.

    Parameters
    ----------
    seconds : (n,) time of all ops in s; NaN counts as 0

    Examples
    --------
    >>> ops = Ops.of(signature=[0, 1, 1], signatures=("copy:h2d", "compute:mm"))
    >>> largest_ops(ops, np.arange(3), np.array([3.0, 2.0, 2.0]))[0]
    LargestOp(text='compute:mm', row=1, ops=2, seconds=4.0)
    """
    key = ops.signature[rows].astype(np.int64) * 256 + ops.kind[rows]
    _, first, which, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    whole = np.bincount(which.reshape(-1), np.nan_to_num(seconds[rows]), len(first))
    order = np.argsort(-whole, kind="stable")
    at = rows[first]
    return [
        LargestOp(
            ops.signature_text(int(at[i])) or ops.kind_names[int(at[i])],
            int(at[i]), int(count[i]), float(whole[i]),
        )
        for i in order.tolist()
    ]  # fmt: skip
