"""Protocol of ``map``: the builtin, or that of a pool of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class MapFunction(Protocol):
    """Function like ``map``, possibly parallel: applies a function to items, results in order."""

    def __call__(self, do: Callable[[A], B], items: Iterable[A], /) -> Iterable[B]:
        """The answer for each item."""
