"""A graph that was handed in."""

from __future__ import annotations

import simpy

from ..machine import (
    Loss,
    Lowered,
)
from .ahead import Ahead
from .cells import (
    NONE,
)


class Graph:
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
        lowered: Lowered,
        at: int,
        ahead: Ahead | None,
    ):
        self.index, self.first, self.count, self.at = index, first, len(lowered), at
        self.lowered = lowered
        self.ahead = ahead  # its schedule, until it joins or for good
        self.base = NONE  # its first cell, once it joined
        self.over = False  # it ran ahead of the clock, to its end
        self.done = env.event()
        self.lost: simpy.Event | None = None
        self.untold: list[Loss] = []

    def ends_ahead(self) -> int:
        """Tick of the last end by the schedule."""
        return self.at if self.ahead is None else int(self.ahead.finish.max(initial=self.at))
