"""A graph that was handed in: its schedule, until it joins, and then where its cells begin."""

from __future__ import annotations

import simpy

from ..engine_api import EngineGraph
from ..simpy_adapter import Handed
from .state_layout import NONE
from .static_schedule import StaticSchedule


class SubmittedGraph(Handed):
    """A graph that was handed in.

    Parameters
    ----------
    index : how many were handed in before
    first : id of its row 0
    """

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        first: int,
        lowered: EngineGraph,
        at: int,
        ahead: StaticSchedule | None,
    ):
        super().__init__(env, index, first, len(lowered))
        self.lowered, self.at = lowered, at
        self.ahead = ahead  # its schedule, until it joins or for good
        self.base = NONE  # its first cell, once it joined
        self.claims_at = NONE  # its first claim, likewise
        self.over = False  # it ran ahead of the clock, to its end

    def ends_ahead(self) -> int:
        """Tick of the last end by the schedule."""
        return self.at if self.ahead is None else int(self.ahead.finish.max(initial=self.at))
