"""Memory and kernels of a medium that is plugged into a run."""

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
    """True if a flow belongs to the plugged-in medium: all components that it uses do."""
    _, flows, uses, _ = s
    if not world[PLUGGED] or not flows[f, COUNT]:
        return False
    part = world[PARTS] + uses[flows[f, START], COMPONENT] * PART
    return bool(world[part + IS_PLUGGED])


class PluggedMemory:
    """Arrays of the plugged-in medium of one run.

    Parameters
    ----------
    medium : the plugged-in medium, with its kernels
    parts : table of the system's components, one row each
    """

    def __init__(self, medium: Medium, parts: ComponentTable):
        inside = parts.plugged
        self.medium, self.kernels = medium, medium.kernels
        self._ports = medium.ports(np.where(inside, parts.rate, -1).tolist())
        self._transfers = np.zeros((4, medium.transfer_columns), np.int64)
        self._passed: tuple[object, object] | None = None

    def medium_arrays(self, s: State) -> Own:
        """Arrays of the medium, grown to one row per flow."""
        if len(self._transfers) < len(s[1]):
            more = np.zeros((len(s[1]) - len(self._transfers), self._transfers.shape[1]), np.int64)
            self._transfers = np.concatenate([self._transfers, more])
        return self._ports, self._transfers

    def kernel_argument(self, s: State) -> Plugged:
        """Arrays and kernels of the medium as one argument of the main loop.

        It must be fetched again after the tables of flows have been replaced.
        """
        own = self.medium_arrays(s)
        if self._passed is None:
            like = s, own, np.zeros(1, np.int64), 1
            kernels = self.kernels.settle, self.kernels.advance
            settle, advance = (as_argument(kernel, *like) for kernel in kernels)
            self._passed = settle, advance
        return own, *self._passed

    def stop(self, s: State, f: int, now: int) -> None:
        """Remove a flow from the medium."""
        self.kernels.stop(s, self.medium_arrays(s), f, now)

    def change(self, s: State, component: int, rate: int, now: int) -> None:
        """Change the rate of a component."""
        self.kernels.change(s, self.medium_arrays(s), component, rate, now)

    def rate(self, s: State, f: int, component: int) -> int:
        """Current rate of a flow on a component, as of the last turn."""
        return int(self.kernels.rate(s, self.medium_arrays(s), f, component))


def plugged_memory(parts: ComponentTable) -> PluggedMemory | None:
    """Create the memory of the plugged-in medium; None if the run has none."""
    return None if parts.medium is None else PluggedMemory(parts.medium, parts)
