"""Medium that is plugged into a run: its arrays, and its kernels as the executor is given them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine_api.interface import ComponentTable
from ...engine_api.medium_api import Medium
from ...kernel.jit import Int, as_argument, jit_without_refcounts
from ...media.max_min.table_layout import COMPONENT, COUNT, START, Array, State
from .state_layout import IS_PLUGGED, PART, PARTS, PLUGGED

Own = tuple[Array, Array]
Plugged = tuple[Own, Any, Any]  # the arrays of a medium, and its settle and advance


@jit_without_refcounts
def is_plugged(world: Array, s: State, f: Int) -> bool:
    """Whether a flow is in the plugged medium, as all that it uses is."""
    _, flows, uses, _ = s
    if not world[PLUGGED] or not flows[f, COUNT]:
        return False
    part = world[PARTS] + uses[flows[f, START], COMPONENT] * PART
    return bool(world[part + IS_PLUGGED])


class PluggedMemory:
    """Arrays of the plugged medium of one run.

    Parameters
    ----------
    medium : Medium
    parts : ComponentTable
    """

    def __init__(self, medium: Medium, parts: ComponentTable):
        inside = parts.plugged
        self.medium, self.kernels = medium, medium.kernels
        self._ports = medium.ports(np.where(inside, parts.rate, -1).tolist())
        self._transfers = np.zeros((4, medium.transfer_columns), np.int64)
        self._passed: tuple[object, object] | None = None

    def own(self, s: State) -> Own:
        """Arrays of the medium, with a row for every row of flows."""
        if len(self._transfers) < len(s[1]):
            more = np.zeros((len(s[1]) - len(self._transfers), self._transfers.shape[1]), np.int64)
            self._transfers = np.concatenate([self._transfers, more])
        return self._ports, self._transfers

    def kernel_argument(self, s: State) -> Plugged:
        """The medium as an argument of the executor; again where the tables of flows are new."""
        own = self.own(s)
        if self._passed is None:
            like = s, own, np.zeros(1, np.int64), 1
            kernels = self.kernels.settle, self.kernels.advance
            settle, advance = (as_argument(kernel, *like) for kernel in kernels)
            self._passed = settle, advance
        return own, *self._passed

    def stop(self, s: State, f: int, now: int) -> None:
        """Take a flow out of the medium."""
        self.kernels.stop(s, self.own(s), f, now)

    def change(self, s: State, component: int, rate: int, now: int) -> None:
        """Change the rate of a component."""
        self.kernels.change(s, self.own(s), component, rate, now)

    def rate(self, s: State, f: int, component: int) -> int:
        """Rate of a flow on a component, as the last turn left it."""
        return int(self.kernels.rate(s, self.own(s), f, component))


def plugged_memory(parts: ComponentTable) -> PluggedMemory | None:
    """Memory of the medium that is plugged into a run; None for none."""
    return None if parts.medium is None else PluggedMemory(parts.medium, parts)
