"""Max-min medium of the reference engine: flows are added, and their ends are returned.

Design: ``docs/decisions/0003-a-medium-decides-how-ops-in-flight-share.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..engine_api.interface import NO_LIMIT, ONE
from ..engine_api.medium_api import Flow
from .max_min import max_min_rates


class MaxMin:
    """Max-min medium: weighted fair rates over all components that a flow uses at once.

    Rates are computed once per turn, at the first call of ``next`` after a change.

    Examples
    --------
    >>> wire = MaxMin([10])
    >>> wire.start([Flow(0, 50, {0: ONE}), Flow(1, 20, {0: ONE})])
    >>> wire.next(), wire.rates(), wire.advance(4), wire.next()
    (4, {0: 5, 1: 5}, [1], 7)
    """

    def __init__(self, capacity: Iterable[int]):
        self.capacity = dict(enumerate(capacity))
        self.now, self.stale = 0, False
        self.flows: dict[int, Flow] = {}
        self.left: dict[int, int] = {}
        self.rate: dict[int, int] = {}

    def start(self, flows: Iterable[Flow]) -> None:
        """Add flows at the tick of the last ``advance``."""
        for flow in flows:
            self.flows[flow.op], self.left[flow.op] = flow, flow.work
            self.rate[flow.op] = 0
            self.stale = True

    def stop(self, op: int) -> int:
        """Remove a flow; returns its remaining work."""
        del self.flows[op], self.rate[op]
        self.stale = True
        return self.left.pop(op)

    def change(self, component: int, rate: int) -> None:
        """Change the rate of a component; flows keep their progress."""
        self.capacity[component] = rate
        self.stale = True

    def next(self) -> int | None:
        """Tick of the next flow completion at the current rates; None if no flow will complete."""
        if self.stale:
            self._compute_rates()
        ends = (-(-self.left[op] // rate) for op, rate in self.rate.items() if rate)
        soonest = min(ends, default=None)
        return None if soonest is None else self.now + soonest

    def advance(self, to: int) -> list[int]:
        """Advance to tick ``to``; return the ops whose work is done, and remove their flows.

        ``to`` may not exceed the tick that ``next`` returned, because rates are constant until
        then.
        """
        for op, rate in self.rate.items():
            self.left[op] -= rate * (to - self.now)
        self.now = to
        over = sorted(op for op, left in self.left.items() if left <= 0)
        for op in over:
            self.stop(op)
        return over

    def rates(self) -> dict[int, int]:
        """Rate of every flow as of the last ``next``, by op id, ascending."""
        return dict(sorted(self.rate.items()))

    def rate_of(self, op: int) -> int:
        """Rate of one flow; 0 if it is not in flight."""
        return self.rate.get(op, 0)

    def taken(self, component: int) -> int:
        """Rate of a component that is in use, in rate units, rounded down."""
        used = (f.usage.get(component, 0) * self.rate[op] for op, f in self.flows.items())
        return sum(used) // ONE

    def usage_by_flow(self) -> dict[int, Mapping[int, int]]:
        """For each flow (by op id), the weight on each component that it uses."""
        return {op: flow.usage for op, flow in self.flows.items()}

    def users(self, component: int) -> int:
        """Number of flows in flight that use a component."""
        return sum(component in f.usage for f in self.flows.values())

    def _compute_rates(self) -> None:
        """Compute all rates; the limit of a flow is treated as a component of its own."""
        capacity, uses = dict(self.capacity), {}
        for op, flow in self.flows.items():
            uses[op] = dict(flow.usage)
            if flow.limit != NO_LIMIT:
                capacity[-1 - op] = flow.limit
                uses[op][-1 - op] = ONE
        self.rate = dict.fromkeys(self.flows, 0) | max_min_rates(capacity, uses)
        self.stale = False
