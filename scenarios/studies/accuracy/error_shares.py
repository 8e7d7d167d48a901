"""Shares of components in an error: one at a time, all but one, and Shapley values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial

MOST = 5  # most components for which every combination is run
Time = Callable[[frozenset[str]], float]


@dataclass(frozen=True)
class ErrorShare:
    """Effect of one component on the time of the run.

    Parameters
    ----------
    component : as it was swapped
    swap_in : s, it alone real, against no device
    leave_out : s, all real, against all but it
    shapley : s, the mean over all orders in which components become real; None beyond five
    """

    component: str
    swap_in: float
    leave_out: float
    shapley: float | None


def error_shares(names: Sequence[str], run_time: Time) -> tuple[list[ErrorShare], float]:
    """Share of each component, and the rest, which is their interaction.

    Parameters
    ----------
    names : of the components
    run_time : s of the run with these components real

    Examples
    --------
    >>> both, left = error_shares("ab", lambda real: {0: 10.0, 1: 12.0, 2: 15.0}[len(real)])
    >>> [(s.component, s.swap_in, s.leave_out, s.shapley) for s in both], left
    ([('a', 2.0, 3.0, 2.5), ('b', 2.0, 3.0, 2.5)], 1.0)
    """
    every = frozenset(names)
    known: dict[frozenset[str], float] = {}

    def of(real: frozenset[str]) -> float:
        if real not in known:
            known[real] = run_time(real)
        return known[real]

    found = [
        ErrorShare(
            name,
            of(frozenset({name})) - of(frozenset()),
            of(every) - of(every - {name}),
            _shapley_value(name, every, of) if len(names) <= MOST else None,
        )
        for name in names
    ]
    return found, of(every) - of(frozenset()) - sum(s.swap_in for s in found)


def _shapley_value(name: str, every: frozenset[str], time_of: Time) -> float:
    """Shapley value of one component (Shapley 1953, doi:10.1515/9781400881970-018)."""
    others, n, total = sorted(every - {name}), len(every), 0.0
    for size in range(n):
        weight = factorial(size) * factorial(n - size - 1) / factorial(n)
        for before in map(frozenset, combinations(others, size)):
            total += weight * (time_of(before | {name}) - time_of(before))
    return total
