"""Counting what each place waits for."""

from __future__ import annotations

from .cells import Links, Rows
from .jit import Int, lean


@lean
def count_unmet(rows: Rows, links: Links, first: Int, last: Int) -> None:
    """Count the links ``first`` to ``last`` on the cells they point to."""
    for e in range(first, last):
        rows[links[e]]["unmet"] += 1
