"""Graph submitted to the compiled engine, with its static schedule or its place in memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
import simpy

from ..engine_api.interface import (
    Answer,
    EngineGraph,
    Numbers,
    OnlineTiming,
    TimingElsewhere,
)
from ..engine_api.remaining_work import RemainingWork
from ..engine_api.simpy_adapter import GraphHandle
from .memory.block import GraphBlock
from .memory.run_memory import GraphOffsets, RunMemory
from .memory.state_layout import NONE
from .static_schedule import StaticSchedule

Rows = tuple[int, int]  # first, count


class SubmittedGraph(GraphHandle):
    """Graph that was submitted to the compiled engine.

    Parameters
    ----------
    index : number of graphs submitted before it
    first : id of the op in its row 0
    graph : the graph itself, or its prepared form
    at : tick at which it was submitted
    ahead : its static schedule
    numbers : its durations, work and amounts, or a function that computes them on first use
    """

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        first: int,
        graph: EngineGraph | GraphBlock,
        at: int,
        ahead: StaticSchedule | None = None,
        numbers: Numbers | Callable[[], Numbers] | None = None,
    ):
        self.shape = graph.lowered if isinstance(graph, GraphBlock) else graph
        super().__init__(env, index, first, len(self.shape))
        self.block = graph if isinstance(graph, GraphBlock) else None
        self._numbers, self.at, self.ahead = numbers, at, ahead
        self.base = NONE  # its first cell after it joined
        self.lies: GraphOffsets | None = None  # offsets of all its rows
        self.over = False  # it ran ahead of the clock and has ended
        self.awaited: list[int] = []  # ops awaited by a process before the graph joined
        self.extra: list[tuple[Rows, Rows]] = []  # additional flows and uses of its ops
        self.moved: dict[
            int, TimingElsewhere
        ] = {}  # moved rows, with their timing on the new components
        self.share: dict[
            int, RemainingWork
        ] = {}  # remaining fraction of rows whose online backend must be asked
        self._fixed = array("q")  # timings from online backends: fixed ticks and work of each row
        self._work: dict[int, int] = {}

    @property
    def numbers(self) -> Numbers | None:
        """Durations, work and amounts of this submission; None for those of the graph."""
        if callable(self._numbers):
            self._numbers = self._numbers()
        return self._numbers

    @property
    def backends(self) -> tuple[OnlineTiming, ...]:
        """Backends that time its ops when they start."""
        numbers = self.numbers
        return (self.shape if numbers is None else numbers).backends

    @property
    def lowered(self) -> EngineGraph:
        """The graph in engine form, with the durations and amounts of this submission."""
        return self.shape if self.numbers is None else self.numbers.put_into(self.shape)

    def is_online(self, row: int) -> bool:
        """True if the op in a row gets its timing from its backend when it starts."""
        if row in self.moved:
            return not isinstance(self.moved[row], Answer)
        return len(self.shape.online) > 0 and bool(self.shape.online[row] >= 0)

    def full_times(self, row: int) -> tuple[int, int]:
        """Full fixed time (ticks) and work of an op, as submitted or after it was moved."""
        if row in self.moved:
            there = self.moved[row]
            return (there.fixed, there.work) if isinstance(there, Answer) else (0, 0)
        lowered = self.lowered
        at = int(np.searchsorted(lowered.flows.op, row))
        has = at < len(lowered.flows) and lowered.flows.op[at] == row
        return int(lowered.fixed[row]), lowered.flows.work(at) if has else 0

    def set_online_times(self, row: int, fixed: int, work: int) -> None:
        """Store the fixed time (ticks) and work that an online backend returned for an op."""
        if not self._fixed:
            self._fixed = array("q", bytes(8 * self.count))
        self._fixed[row] = fixed
        if work or self._work:
            self._work[row] = work

    def online_times(self, row: int) -> tuple[int, int]:
        """Fixed time (ticks) and work that an online backend returned for an op."""
        return (self._fixed[row] if self._fixed else 0), self._work.get(row, 0)

    def join(self, memory: RunMemory) -> None:
        """Add the graph to the memory of the run."""
        if self.block is None or self.numbers is None:
            self.lies = memory.add(self.shape, self.at)
        else:
            self.lies = memory.add_block(self.block, self.numbers, self.at)
        self.base = self.lies.cell

    def free_rows(self, memory: RunMemory) -> None:
        """Free the graph's rows in the tables of flows, holders and claims."""
        flows = self.shape.flows
        if self.lies is not None and len(flows):
            uses = len(flows.component)
            memory.sharing.free_rows((self.lies.flow, len(flows)), (self.lies.use, uses))
        if self.lies is not None:
            memory.holder_rows.free(self.lies.holder, self.lies.holders)
            memory.claim_rows.free(self.lies.claim, self.lies.claims)
        for more_flows, more_uses in self.extra:
            memory.sharing.free_rows(more_flows, more_uses)

    def move(self, to: GraphOffsets) -> None:
        """Store the new offsets of the graph's rows after a compaction of memory."""
        self.lies, self.base = to, to.cell

    def last_scheduled_end(self) -> int:
        """Tick of the last end in the graph's static schedule."""
        return self.at if self.ahead is None else int(self.ahead.finish.max(initial=self.at))
