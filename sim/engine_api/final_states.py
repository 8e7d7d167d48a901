"""Final states of ops whose rows the engine has freed."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from .interface import State


class FinalStates:
    """Final states of freed ops: cancelled ones are stored as id ranges, all others have ended.

    Examples
    --------
    >>> past = FinalStates()
    >>> past.add_cancelled(3), past.add_cancelled(4), past.add_cancelled(9)
    (None, None, None)
    >>> past.state(4).name, past.state(5).name, len(past)
    ('CANCELLED', 'ENDED', 2)
    """

    def __init__(self) -> None:
        self._first, self._end = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._first)

    def add_cancelled(self, op: int) -> None:
        """Record that an op was cancelled."""
        k = bisect_right(self._first, op)
        if k and self._end[k - 1] == op:
            self._end[k - 1] = op + 1
        else:
            self._first.insert(k, op)
            self._end.insert(k, op + 1)

    def state(self, op: int) -> State:
        """Final state of an op whose row was freed."""
        k = bisect_right(self._first, op)
        return State.CANCELLED if k and op < self._end[k - 1] else State.ENDED
