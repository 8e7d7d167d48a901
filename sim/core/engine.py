"""Compiled engine: takes graphs, runs them with kernels, and returns columns of times.

The kernels run all instants up to the tick of the next SimPy event. They return to Python when a
process must be woken or an online backend must be asked.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast
from weakref import proxy

import numpy as np
import simpy

from ..engine_api.deadlock import StuckState
from ..engine_api.driven_policy import DrivenPolicy
from ..engine_api.interface import (
    MAX_TICK,
    EngineColumns,
    EngineGraph,
    HeldOpTimes,
    Numbers,
    PreparedShape,
)
from ..engine_api.validation import check_graph, check_op
from ..kernel.jit import LINKED
from .cycles import refuse_cycle
from .graph_release import read_and_free_graphs
from .memory.block import GraphBlock
from .memory.state_layout import NONE
from .readout import read_op_columns, stuck_state
from .simpy_loop import SimpyLoop
from .static_schedule import find_static_schedule
from .submitted_graph import SubmittedGraph

if TYPE_CHECKING:
    from .policies.policy_driver import PolicyDriver


class CoreEngine(SimpyLoop):
    """Compiled engine of a run. It gives the same ticks as the reference engine.

    Parameters
    ----------
    parts : table of the system's components, one row each
    env : SimPy environment of the processes; None to create one
    per_second : int
        Number of ticks per second; used in messages.

    Examples
    --------
    >>> from foretrace.sim.engine_api.engine_literal import LiteralOp
    >>> from foretrace.sim.engine_api.engine_literal import literal_components, literal_graph
    >>> engine = CoreEngine(literal_components((1,), (-1,)))
    >>> _ = engine.submit(literal_graph("two on one slot", [LiteralOp(((0, ()),), fixed=5)] * 2))
    >>> engine.run()
    >>> engine.columns().start.tolist(), engine.columns().end.tolist()
    ([0, 5], [5, 10])
    """

    @cached_property
    def _driver(self) -> PolicyDriver:
        """Loop of the compiled processes; loaded and made for the first one."""
        from .policies.policy_driver import PolicyDriver

        return PolicyDriver(proxy(self))

    def submit(self, graph: EngineGraph) -> SubmittedGraph:
        """Submit a graph; it starts at the next turn of the engine."""
        check_graph(self.parts, graph)
        ahead = None
        if self.runs_ahead and self.env.active_process is None:
            ahead = find_static_schedule(graph, self.parts.slots, self._now)
        if ahead is None:
            refuse_cycle(graph)
        return self._register_graph(
            SubmittedGraph(self.env, self.submissions, self.count, graph, self._now, ahead)
        )

    def prepare(self, graph: EngineGraph) -> GraphBlock:
        """Check a graph once and copy it into a form that can be submitted many times."""
        check_graph(self.parts, graph)
        refuse_cycle(graph)
        made = GraphBlock(self.parts, graph)
        self.store.sharing.mark_fractional_weights(made.uses)
        return made

    def submit_prepared(self, shape: PreparedShape, numbers: Numbers) -> SubmittedGraph:
        """Submit a prepared graph with new durations and amounts; it starts at the next turn."""
        block = cast(GraphBlock, shape)
        made = SubmittedGraph(
            self.env, self.submissions, self.count, block, self._now, None, numbers
        )
        return self._register_graph(made)

    def _register_graph(self, graph: SubmittedGraph) -> SubmittedGraph:
        """Add a submitted graph to those that start at the next turn."""
        self.graphs.append(graph)
        self.firsts.append(self.count)
        self.to_join.append(graph)
        self.submissions += 1
        self.count += graph.count
        self.held_ops += graph.count
        self._note_action(lambda: self._join(graph))
        return graph

    def collect_ended(self) -> HeldOpTimes:
        """Return the times of all graphs in memory, then free the finished ones."""
        return read_and_free_graphs(self)

    def ended(self, op: int) -> simpy.Event:
        """Event that fires when an op is over, with ``"ended"``, ``"cancelled"``, ``"dropped"``."""
        op = check_op(op, self.count)
        event = self.ends.get(op)
        if event is None:
            if self._is_over(op):
                return simpy.Event(self.env).succeed(self.state(op).name.lower())
            event = self.ends[op] = simpy.Event(self.env)
            graph = cast(SubmittedGraph, self._graph_of_op(op))
            if graph.base == NONE:
                graph.awaited.append(op)
            else:
                self._watch(graph.base + op - graph.first)
        return event

    def run(self, until: int | None = None) -> None:
        """Run until no op is open, or until a given tick; see ``EngineControl.run``."""
        self.until = MAX_TICK if until is None else until
        if until is None and self._may_run_ahead():
            self._run_ahead()
        super().run(until)

    def columns(self) -> EngineColumns:
        """Times and states so far of all ops, one row per op."""
        return read_op_columns(self)

    def drive(self, policy: DrivenPolicy) -> None:
        """Call the kernel of a compiled process in the compiled loop, where that is possible."""
        if LINKED:
            self.drives |= self._driver.add(policy)

    def run_policies(self) -> tuple[int, int, int] | None:
        """Run what concerns only compiled processes; see ``SimpyAdapter.run_policies``."""
        return self._driver.run()

    def _places(self, op: int) -> int | None:
        graph = self._graph_of_op(op)
        if graph is None:
            return None
        return 1 + int(np.count_nonzero(graph.shape.further == op - graph.first))

    def _stuck(self) -> StuckState:
        return stuck_state(self)
