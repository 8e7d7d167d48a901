"""Contribution of each component to the error: alone, all but one, and Shapley values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial

MOST = 5  # most components for which every combination is run
Time = Callable[[frozenset[str]], float]


@dataclass(frozen=True)
class ErrorShare:
    """Effect of one component's device on the time of the run.

    Parameters
    ----------
    component : name of the swapped component
    swap_in : change of the run time in s if only this component is real
    leave_out : difference in run time, in s, between all components real and all but this one real
    shapley : mean change of the run time in s over all orders in which components become real; None
        for more than five components
    """

    component: str
    swap_in: float
    leave_out: float
    shapley: float | None


def error_shares(names: Sequence[str], run_time: Time) -> tuple[list[ErrorShare], float]:
    """Contribution of each component, and the remainder, which is their interaction.

    Parameters
    ----------
    names : names of the components
    run_time : function from the set of real components to the time of the run in s

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
