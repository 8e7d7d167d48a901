"""Protocol of ``map``: the builtin, or that of a pool of threads; and one that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class MapFunction(Protocol):
    """Function like ``map``, possibly parallel: applies a function to items, results in order."""

    def __call__(self, do: Callable[[A], B], items: Iterable[A], /) -> Iterable[B]:
        """The answer for each item."""


Counted = Callable[[int, int], None]
"""Told how many are done, and of about how many."""


class SimulationCounter:
    """Counter of the simulations that map functions have done.

    Parameters
    ----------
    expected : about how many there will be
    counted : told after each

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
        """Expect so many more than are done: a search knows what is left of it."""
        self.expected = self.done + more

    def over(self, map_function: MapFunction) -> MapFunction:
        """A map function that counts each answer."""

        def counting(do: Callable[[A], B], items: Iterable[A], /) -> Iterable[B]:
            def done(item: A) -> B:
                answer = do(item)
                with self._lock:
                    self.done += 1
                    self.counted(self.done, max(self.done, self.expected))
                return answer

            return map_function(done, items)

        return counting
