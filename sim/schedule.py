"""A row an op: every graph of a run as it was placed, timed and lowered, and what happened when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .binding import Answers
from .engine_api import EngineColumns, EngineGraph
from .graph import Graph
from .ops import Ops


@dataclass(frozen=True)
class SubmittedRun:
    """One graph of a run: as placed, as timed, as lowered; its row r has the id ``first + r``.

    ``by`` is the process that submitted it.
    """

    graph: Graph
    answers: Answers
    lowered: EngineGraph
    first: int
    by: str = ""


@dataclass(frozen=True)
class Schedule:
    """A row an op.

    Parameters
    ----------
    runs : tuple of Run
        Every graph that was submitted, in order.
    columns : Columns
        Ready, start, end, state and attempts of every op, in ticks.
    moves : mapping
        Ops that a process resumed elsewhere: the component of each place.
    given : int or None
        Rows of the graph that the run was given: iterations are its own, and what processes
        submit beside it is in none of them.  None: those of every graph.
    """

    runs: tuple[SubmittedRun, ...]
    columns: EngineColumns
    moves: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    given: int | None = None

    @cached_property
    def first_release(self) -> int:
        """Tick at which the first graph may begin."""
        if not self.runs or not len(self.runs[0].lowered):
            return 0
        release = self.runs[0].lowered.release
        return int(release.min(initial=0)) if len(release) else 0

    @cached_property
    def ops(self) -> Ops:
        """Every op, in the order of ids."""
        tables = [r.graph.ops for r in self.runs]
        return Ops.concat(tables) if len(tables) != 1 else tables[0]

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """(n,) The component that was asked about each op; -1 for nobody."""
        return np.concatenate([np.empty(0, np.int32), *(r.answers.component for r in self.runs)])

    def slots(self, run: SubmittedRun) -> NDArray[np.int32]:
        """(n + e,) The component whose slot each place of a graph had last, -1 for none."""
        lowered, found = run.lowered, run.lowered.slot
        for op, to in self.moves.items():
            row = op - run.first
            if 0 <= row < len(lowered):
                found = found.copy() if found is lowered.slot else found
                a, b = np.searchsorted(lowered.further, [row, row + 1])
                found[[row, *range(len(lowered) + a, len(lowered) + b)]] = to
        return found
