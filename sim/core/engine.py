"""The compiled engine: graphs come in, columns go out.

The kernels run every instant up to the tick of the next SimPy event, the machine first, and
come back where a process has to be woken or an online backend asked.
"""

from __future__ import annotations

import numpy as np
import simpy

from ..deadlock import Stuck
from ..engine_api import MAX_TICK, EngineColumns, EngineGraph
from ..validation import check_graph
from .cycles import refuse_cycle
from .readout import columns, stuck
from .simpy_loop import SimpyLoop
from .state_layout import CANCELLED, ENDED, NONE
from .static_schedule import run_ahead
from .submitted_graph import SubmittedGraph

_OVER = (ENDED, CANCELLED)


class CoreEngine(SimpyLoop):
    """The compiled engine.

    Parameters
    ----------
    parts : Parts
    env : simpy.Environment or None
    per_second : int
        Ticks in a second; for messages.

    Examples
    --------
    >>> from foretrace.sim.testing.script import Case, Script, lowered
    >>> engine = CoreEngine(Script((1,), (-1,), ()).parts)
    >>> _ = engine.submit(lowered("two on one slot", [Case(((0, ()),), fixed=5)] * 2))
    >>> engine.run()
    >>> engine.columns().start.tolist(), engine.columns().end.tolist()
    ([0, 5], [5, 10])
    """

    def submit(self, graph: EngineGraph) -> SubmittedGraph:
        """Hand in a graph; it joins at the next turn."""
        check_graph(self.parts, graph)
        ahead = run_ahead(graph, self.parts.slots, self._now) if self.runs_ahead else None
        if ahead is None:
            refuse_cycle(graph)
        made = SubmittedGraph(self.env, len(self.graphs), self.count, graph, self._now, ahead)
        self.graphs.append(made)
        self.firsts.append(self.count)
        self.count += len(graph)
        self._note(lambda: self._join(made))
        return made

    def ended(self, op: int) -> simpy.Event:
        """Fires with ``"ended"`` or ``"cancelled"``."""
        graph = self._check_op(op)
        event = self.ends.get(op)
        if event is None:
            event = self.ends[op] = simpy.Event(self.env)
            c = graph.base + op - graph.first
            if graph.base == NONE:
                if graph.over:
                    event.succeed("ended")
            elif self.store.state.item(c) in _OVER:
                event.succeed(self.state(op).name.lower())
            else:
                self._watch(c)
        return event

    def run(self, until: int | None = None) -> None:
        """Go on until nothing is open, or to a tick: see :meth:`~.verbs.Verbs.run`."""
        self.until = MAX_TICK if until is None else until
        if until is None and self._may_run_ahead():
            self._run_ahead()
        super().run(until)

    def columns(self) -> EngineColumns:
        """What has happened so far."""
        return columns(self)

    def _places(self, op: int) -> int:
        graph = self._check_op(op)
        return 1 + int(np.count_nonzero(graph.lowered.further == op - graph.first))

    def _stuck(self) -> Stuck:
        return stuck(self)
