"""Max-min and a plugged-in medium, combined into one medium for the reference engine."""

from __future__ import annotations

from collections.abc import Iterable

from ..engine_api.interface import ONE, ComponentTable
from ..engine_api.medium_api import Flow, Medium
from .medium import MaxMin


class TwoMedia(MaxMin):
    """Combined medium: flows over components of the plugged-in medium go there, others to max-min.

    Flows that begin in one turn are passed to the plugged-in medium at the end of the turn, in op
    order.
    """

    def __init__(self, parts: ComponentTable, medium: Medium):
        super().__init__(parts.rate.tolist())
        self.parts = parts
        rates = zip(parts.rate.tolist(), parts.plugged.tolist(), strict=True)
        self.plugged = medium.plain([rate if inside else -1 for rate, inside in rates])
        self.began: dict[int, Flow] = {}
        self.inside: dict[int, Flow] = {}

    def start(self, flows: Iterable[Flow]) -> None:
        """Add flows, each to the medium of its components."""
        for flow in flows:
            if self.parts.is_plugged(flow.usage):
                self.began[flow.op] = flow
            else:
                super().start([flow])

    def stop(self, op: int) -> int:
        """Remove a flow; returns its remaining work."""
        if op in self.began:
            return self.began.pop(op).work
        if op in self.inside:
            del self.inside[op]
            return self.plugged.stop(op)
        return super().stop(op)

    def change(self, component: int, rate: int) -> None:
        """Change the rate of a component."""
        if self.parts.is_plugged([component]):
            self.plugged.change(component, rate)
        else:
            super().change(component, rate)

    def next(self) -> int | None:
        """Tick of the next event in either medium; None if there is none."""
        self.plugged.start([flow for _, flow in sorted(self.began.items())])
        self.inside |= self.began
        self.began = {}
        found = [tick for tick in (super().next(), self.plugged.next()) if tick is not None]
        return min(found, default=None)

    def advance(self, to: int) -> list[int]:
        """Advance both media to tick ``to``; returns the ops whose work is done."""
        over = self.plugged.advance(to)
        for op in over:
            del self.inside[op]
        return sorted([*super().advance(to), *over])

    def rates(self) -> dict[int, int]:
        """Rate of every flow by op id, ascending; if it differs between components, the highest."""
        plugged = {op: self._rate(flow) for op, flow in self.inside.items()}
        return dict(sorted((super().rates() | plugged).items()))

    def rate_of(self, op: int) -> int:
        """Rate of one flow, the highest over its components; 0 if it is not in flight."""
        return self._rate(self.inside[op]) if op in self.inside else super().rate_of(op)

    def _rate(self, flow: Flow) -> int:
        return max(self.plugged.rate(flow.op, c) for c in flow.usage)

    def taken(self, component: int) -> int:
        """Rate of a component that is in use, in rate units, rounded down."""
        if not self.parts.is_plugged([component]):
            return super().taken(component)
        using = [flow for flow in self.inside.values() if component in flow.usage]
        used = [flow.usage[component] * self.plugged.rate(flow.op, component) for flow in using]
        return sum(used) // ONE

    def users(self, component: int) -> int:
        """Number of flows in flight that use a component."""
        there = sum(component in flow.usage for flow in self.inside.values())
        return super().users(component) + there
