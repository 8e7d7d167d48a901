"""Final states of ops whose rows the engine has freed."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from .interface import State


class _Ranges:
    """Set of op ids, stored as ranges."""

    def __init__(self) -> None:
        self._first, self._end = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._first)

    def add(self, op: int) -> None:
        k = bisect_right(self._first, op)
        if k and self._end[k - 1] == op:
            self._end[k - 1] = op + 1
        else:
            self._first.insert(k, op)
            self._end.insert(k, op + 1)

    def __contains__(self, op: int) -> bool:
        k = bisect_right(self._first, op)
        return k > 0 and op < self._end[k - 1]


class FinalStates:
    """Final states of freed ops: cancelled and dropped ones are id ranges, all others have ended.

    Examples
    --------
    >>> past = FinalStates()
    >>> for op in (3, 4, 9):
    ...     past.add(op, State.CANCELLED)
    >>> past.add(5, State.DROPPED)
    >>> past.state(4).name, past.state(5).name, past.state(6).name, len(past)
    ('CANCELLED', 'DROPPED', 'ENDED', 3)
    """

    def __init__(self) -> None:
        self._ops = {State.CANCELLED: _Ranges(), State.DROPPED: _Ranges()}

    def __len__(self) -> int:
        return sum(map(len, self._ops.values()))

    def add(self, op: int, state: State) -> None:
        """Record that an op was cancelled or dropped."""
        self._ops[state].add(op)

    def state(self, op: int) -> State:
        """Final state of an op whose row was freed."""
        return next((state for state, ops in self._ops.items() if op in ops), State.ENDED)
