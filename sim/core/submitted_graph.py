"""Graph that was handed in: its static schedule until it joins, then the offset of its cells."""

from __future__ import annotations

import simpy

from ..engine_api import EngineGraph, Numbers, Online
from ..simpy_adapter import Handed
from .block import GraphBlock
from .run_memory import Lies, RunMemory
from .state_layout import NONE
from .static_schedule import StaticSchedule

Rows = tuple[int, int]  # first, count


class SubmittedGraph(Handed):
    """Graph that was handed in to the compiled engine.

    Parameters
    ----------
    index : how many were handed in before
    first : id of its row 0
    graph : as it is, or what was prepared of it
    at : tick at which it was handed in
    """

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        first: int,
        graph: EngineGraph | GraphBlock,
        at: int,
        ahead: StaticSchedule | None = None,
        numbers: Numbers | None = None,
    ):
        self.shape = graph.lowered if isinstance(graph, GraphBlock) else graph
        super().__init__(env, index, first, len(self.shape))
        self.block = graph if isinstance(graph, GraphBlock) else None
        self.numbers, self.at = numbers, at
        self.ahead = ahead  # its schedule, until it joins or for good
        self.base = NONE  # its first cell, once it joined
        self.lies: Lies | None = None  # all of where it is
        self.over = False  # it ran ahead of the clock, to its end
        self.awaited: list[int] = []  # ops for whose end somebody waited before it joined
        self.extra: list[tuple[Rows, Rows]] = []  # further flows and uses that its ops got

    @property
    def lowered(self) -> EngineGraph:
        """The graph with its numbers."""
        return self.shape if self.numbers is None else self.numbers.put_into(self.shape)

    @property
    def backends(self) -> tuple[Online, ...]:
        """Backends of its online ops."""
        return self.shape.backends if self.numbers is None else self.numbers.backends

    def join(self, store: RunMemory) -> None:
        """Add the graph to the memory of the run."""
        if self.block is None or self.numbers is None:
            self.lies = store.add(self.shape, self.at)
        else:
            self.lies = store.add_block(self.block, self.numbers, self.at)
        self.base = self.lies.cell

    def give_rows(self, store: RunMemory) -> None:
        """Free its rows in the tables of flows, holders and claims."""
        flows = self.shape.flows
        if self.lies is not None and len(flows):
            uses = len(flows.component)
            store.sharing.give((self.lies.flow, len(flows)), (self.lies.use, uses))
        if self.lies is not None:
            store.holder_rows.give(self.lies.holder, self.lies.holders)
            store.claim_rows.give(self.lies.claim, self.lies.claims)
        for more_flows, more_uses in self.extra:
            store.sharing.give(more_flows, more_uses)

    def move(self, to: Lies) -> None:
        """Note the new offsets of its cells after a compaction."""
        self.lies, self.base = to, to.cell

    def ends_ahead(self) -> int:
        """Tick of the last end in its static schedule."""
        return self.at if self.ahead is None else int(self.ahead.finish.max(initial=self.at))
