"""Read access of processes to the compiled engine's state, as the last turn left it."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import simpy

from ..engine_api.capacity_ledger import Grant
from ..engine_api.engine_control import EngineControl
from ..engine_api.interface import MAX_TICK, ONE, OVER, ComponentTable, State
from ..engine_api.validation import check_op
from ..media.max_min.medium import rate as rate_of
from ..media.max_min.medium import users
from .flat_graphs import FlatGraphs
from .memory import state_layout as lay
from .memory.run_memory import RunMemory
from .memory.state_layout import NONE
from .submitted_graph import SubmittedGraph


class StateView(EngineControl):
    """State of a run with read access for processes.

    Parameters
    ----------
    parts : table of the system's components, one row each
    env : SimPy environment of the processes; None to create one
    per_second : int
        Number of ticks per second; used in messages.
    """

    def __init__(
        self, parts: ComponentTable, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        super().__init__(parts, env, per_second)
        self.store = RunMemory(parts)
        self.rate: list[int] = parts.rate.tolist()
        self.graphs: list[SubmittedGraph] = []  # that are held
        self.firsts: list[int] = []  # id of row 0 of each
        self.to_join: list[SubmittedGraph] = []  # those that did not join yet
        self.joined: list[SubmittedGraph] = []
        self.bases: list[int] = []  # first cell of each graph that joined
        self.runs_ahead = True  # where that is the same; False is for tests and measurements
        self.flat = FlatGraphs.none()  # behind `joined`
        self.ends: dict[int, simpy.Event] = {}  # who waits for the end of an open op
        self.earlier: dict[int, int] = {}  # attempts that were broken off
        self.asked: dict[int, Grant] = {}  # who waits for a capacity, by claim
        self.stopped_by: dict[int, str] = {}
        self.roots: list[tuple[int, int]] = []  # cells that may arrive in the turn that comes
        self.until = MAX_TICK
        self.catching_up: tuple[int, int] | None = None

    def users(self, component: int) -> int:
        """Number of flows in flight that use a component."""
        if self.parts.is_plugged([component]):
            return sum(component in self.store.sharing.usage(f) for f in self._in_flight())
        return int(users(self.store.sharing.state, component))

    def queue(self, component: int) -> list[tuple[int, int]]:
        """Slot queue of a component, first in line first, as (op, index of participant)."""
        rows, found = self.store.rows, []
        if self.parts.capacity_of(component) >= 0:
            return []
        c = int(self.store.part_table[component, lay.HEAD])
        while c != NONE:
            op = self.first_cell_of_op(c)
            found.append((self.op_id(op), self.store.places(op).index(c)))
            c = int(rows[c]["next"])
        return found

    def found_full(self, component: int) -> int:
        """Number of ops so far that were sent to a component and found its queue full."""
        return int(self.store.queue_row(component)[lay.FOUND_FULL])

    def waiting(self, component: int) -> list[tuple[int, int]]:
        """Queue of a capacity, first in line first, as (op, amount); op is -1 for a process."""
        found: list[tuple[int, int]] = []
        if self.parts.capacity_of(component) < 0:
            return found
        number, table = int(self.store.part_table[component, lay.HEAD]), self.store.claim_table
        while number != NONE:
            claim = table[number]
            by = int(claim[lay.HELD_BY])
            found.append((-1 if by == NONE else self.op_id(by), int(claim[lay.AMOUNT])))
            number = int(claim[lay.BEHIND])
        return found

    def held(self, component: int) -> int:
        """Slots or amount of a component in use; for a shared rate, the used rate, rounded down."""
        if self.rate[component] < 0:
            return int(self.store.part_table[component, lay.TAKEN])
        taken = 0
        for flow in self._in_flight():
            weight = self.store.sharing.usage(flow).get(component, 0)
            taken += weight * self._rate_on(flow, component) if weight else 0
        return taken // ONE

    def rates(self) -> dict[int, int]:
        """Current rate of every op in its work phase, by op id."""
        owners = self.store.owners
        return {
            self.op_id(int(owners[flow])): self.rate_of_flow(flow)
            for flow in sorted(self._in_flight(), key=lambda flow: int(owners[flow]))
        }

    def rate_of_flow(self, flow: int) -> int:
        """Rate of a flow in flight; if it differs between components, the highest."""
        usage = self.store.sharing.usage(flow)
        return max([self._rate_on(flow, c) for c in usage] or [self._rate_on(flow, NONE)])

    def _rate_on(self, flow: int, component: int) -> int:
        """Rate of a flow in flight on a component that it uses."""
        s, plugged = self.store.sharing.state, self.store.plugged
        if component != NONE and plugged is not None and self.parts.is_plugged([component]):
            return plugged.rate(s, flow, component)
        return int(rate_of(s, flow))

    def capacity(self, component: int) -> int:
        """Current rate of a shared component, or the total amount of a capacity."""
        whole = self.parts.capacity_of(component)
        return self.rate[component] if whole < 0 else whole

    def failed(self, component: int) -> bool:
        """True if a component was failed at the end of the last turn."""
        return bool(self.store.part_table[component, lay.FAILED])

    def state(self, op: int) -> State:
        """State of one op at the end of the last turn."""
        graph = self._graph_of_op(op)
        if graph is None:
            return self.past.state(op)
        if graph.base == NONE:
            return State.ENDED if graph.over else State.PENDING
        return State(self.store.state.item(graph.base + op - graph.first))

    def usage(self, op: int) -> dict[int, int]:
        """Components that an op uses, as ``{component: weight}``, at the end of the last turn."""
        graph = self._graph_of_op(op)
        if graph is None:
            return {}
        if graph.base != NONE:
            return self._usage(self.cell(op))
        flows, row = graph.lowered.flows, op - graph.first
        at = int(np.searchsorted(flows.op, row))
        return flows.usage(at) if at < len(flows) and flows.op[at] == row else {}

    def _is_over(self, op: int) -> bool:
        graph = self._graph_of_op(op)
        if graph is None or graph.base == NONE:
            return self.state(op) in OVER
        return self.store.state.item(graph.base + op - graph.first) in OVER

    def _graph_of_op(self, op: int) -> SubmittedGraph | None:
        """Graph that contains an op; None if the graph was freed."""
        check_op(op, self.count)
        k = bisect_right(self.firsts, op) - 1
        graph = self.graphs[k] if k >= 0 else None
        return graph if graph is not None and op < graph.first + graph.count else None

    def cell(self, op: int) -> int:
        """Cell number of an op: the cell of its first participant."""
        graph = self.graphs[bisect_right(self.firsts, op) - 1]
        return graph.base + op - graph.first

    def op_id(self, c: int) -> int:
        """Id of an op, from the number of its first cell."""
        graph = self._graph(c)
        return graph.first + c - graph.base

    def _graph(self, c: int) -> SubmittedGraph:
        return self.joined[bisect_right(self.bases, c) - 1]

    def first_cell_of_op(self, c: int) -> int:
        """Cell of an op's first participant, from the cell of any of its participants."""
        row = self.store.rows[c]
        return int(row["link"]) if row["flags"] & lay.FURTHER else c

    def _in_flight(self) -> list[int]:
        rows = self.store.rows[: self.store.cells]
        cells = np.flatnonzero(rows["flags"] & lay.FLOWING)
        return [self.store.flow(int(c)) for c in cells]

    def _usage(self, c: int) -> dict[int, int]:
        flow = self.store.flow(c)
        return {} if flow == NONE else self.store.sharing.usage(flow)

    @property
    def held_graphs(self) -> int:
        """Number of graphs in memory: submitted and not yet freed."""
        return len(self.graphs) + len(self.flat)

    def has_open_ops(self) -> bool:
        """True if some op has neither ended nor been cancelled."""
        return bool(self.store.world.item(lay.OPEN)) or any(g.count for g in self.to_join)

    def open_ops(self) -> tuple[int, ...]:
        """Ids of ops that have neither ended nor been cancelled."""
        found: list[int] = []
        for graph in self.graphs:
            if graph.base == NONE:
                found += [] if graph.over else range(graph.first, graph.first + graph.count)
            else:
                state = self.store.rows["state"][graph.base : graph.base + graph.count]
                live = np.flatnonzero(~np.isin(state, [*OVER]))
                found += (graph.first + live).tolist()
        return tuple(found)
