"""Protocol of ``map``-like functions, and a counter of the simulations that they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class MapFunction(Protocol):
    """Function like ``map``, possibly parallel: applies a function to items, results in order."""

    def __call__(self, do: Callable[[A], B], items: Iterable[A], /) -> Iterable[B]:
        """Apply a function to each item."""


Counted = Callable[[int, int], None]
"""Function of the number of finished simulations and the expected total."""


class SimulationCounter:
    """Counter of the simulations run by map functions.

    Parameters
    ----------
    expected : approximate total number
    counted : called after each simulation with the number done and the expected total

    Examples
    --------
    >>> counter = SimulationCounter(2, lambda done, of: print(f"{done}/{of}"))
    >>> list(counter.over(map)(abs, [-1, -2, -3]))
    1/2
    2/2
    3/3
    [1, 2, 3]
    """

    def __init__(self, expected: int, counted: Counted):
        self.expected, self.counted = expected, counted
        self.done = 0
        self._lock = Lock()  # threads count, each its own

    def expect(self, more: int) -> None:
        """Set the expected total to the number done so far plus ``more``."""
        self.expected = self.done + more

    def over(self, map_function: MapFunction) -> MapFunction:
        """Wrapper of a map function that counts each item as one simulation."""

        def counting(do: Callable[[A], B], items: Iterable[A], /) -> Iterable[B]:
            def done(item: A) -> B:
                answer = do(item)
                with self._lock:
                    self.done += 1
                    self.counted(self.done, max(self.done, self.expected))
                return answer

            return map_function(done, items)

        return counting
