"""Max-min and the medium that is plugged in beside it, as one medium of the reference engine."""

from __future__ import annotations

from collections.abc import Iterable

from ..engine_api.interface import ONE, ComponentTable
from ..engine_api.medium_api import Flow, Medium
from .medium import MaxMin


class TwoMedia(MaxMin):
    """Max-min, but for flows over components of the plugged medium.

    What begins in one turn reaches that medium when the turn settles, by op.
    """

    def __init__(self, parts: ComponentTable, medium: Medium):
        super().__init__(parts.rate.tolist())
        self.parts = parts
        rates = zip(parts.rate.tolist(), parts.plugged.tolist(), strict=True)
        self.plugged = medium.plain([rate if inside else -1 for rate, inside in rates])
        self.began: dict[int, Flow] = {}
        self.inside: dict[int, Flow] = {}

    def start(self, flows: Iterable[Flow]) -> None:
        """Add flows, each to its medium."""
        for flow in flows:
            if self.parts.is_plugged(flow.usage):
                self.began[flow.op] = flow
            else:
                super().start([flow])

    def stop(self, op: int) -> int:
        """Work left of a flow, which is removed."""
        if op in self.began:
            return self.began.pop(op).work
        if op in self.inside:
            del self.inside[op]
            return self.plugged.stop(op)
        return super().stop(op)

    def change(self, component: int, rate: int) -> None:
        """Change a rate."""
        if self.parts.is_plugged([component]):
            self.plugged.change(component, rate)
        else:
            super().change(component, rate)

    def next(self) -> int | None:
        """Tick at which something happens next in either; None where nothing is in sight."""
        self.plugged.start([flow for _, flow in sorted(self.began.items())])
        self.inside |= self.began
        self.began = {}
        found = [tick for tick in (super().next(), self.plugged.next()) if tick is not None]
        return min(found, default=None)

    def advance(self, to: int) -> list[int]:
        """Ops whose work is done by tick ``to``."""
        over = self.plugged.advance(to)
        for op in over:
            del self.inside[op]
        return sorted([*super().advance(to), *over])

    def rates(self) -> dict[int, int]:
        """Rate of every flow, ascending by op, where it is fastest."""
        plugged = {op: self._rate(flow) for op, flow in self.inside.items()}
        return dict(sorted((super().rates() | plugged).items()))

    def rate_of(self, op: int) -> int:
        """Rate of one flow, where it is fastest; 0 where it is not in flight."""
        return self._rate(self.inside[op]) if op in self.inside else super().rate_of(op)

    def _rate(self, flow: Flow) -> int:
        return max(self.plugged.rate(flow.op, c) for c in flow.usage)

    def taken(self, component: int) -> int:
        """Rate units taken of a component, rounded down."""
        if not self.parts.is_plugged([component]):
            return super().taken(component)
        using = [flow for flow in self.inside.values() if component in flow.usage]
        used = [flow.usage[component] * self.plugged.rate(flow.op, component) for flow in using]
        return sum(used) // ONE

    def users(self, component: int) -> int:
        """Flows that use a component."""
        there = sum(component in flow.usage for flow in self.inside.values())
        return super().users(component) + there
