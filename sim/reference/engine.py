"""Reference engine in plain SimPy: ``docs/semantics.md`` as a program.

Commands of processes (``sim/engine_api/engine_control.py``) are queued and applied, in order, at
the start of the engine's next turn. So a process always observes the state at the end of the last
turn. All numbers are Python integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import simpy

from ..engine_api.capacity_ledger import Grant
from ..engine_api.deadlock import StuckState
from ..engine_api.interface import (
    OVER,
    EngineColumns,
    EngineGraph,
    HeldOpTimes,
    LostOp,
    Numbers,
    PreparedShape,
    State,
    TimingElsewhere,
)
from ..engine_api.remaining_work import ALL
from ..engine_api.store_interface import StoreInterface
from ..engine_api.validation import check_graph, check_op, why_move_refused
from .capacity import Claim
from .deadlock_state import stuck_state
from .entry_store import EntryStore
from .event_loop import EventLoop
from .op_state import (
    HELD,
    OpState,
    PreparedGraph,
    SubmittedGraph,
    held_op_times,
    op_columns,
    op_states,
)


class ReferenceEngine(EventLoop):
    """Reference engine: it defines the exact ticks of a run; the compiled engine must equal it.

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
    >>> engine = ReferenceEngine(literal_components((1,), (-1,)))
    >>> _ = engine.submit(literal_graph("two on one slot", [LiteralOp(((0, ()),), fixed=5)] * 2))
    >>> engine.run()
    >>> engine.columns().start.tolist(), engine.columns().end.tolist()
    ([0, 5], [5, 10])
    """

    def submit(self, graph: EngineGraph) -> SubmittedGraph:
        """Submit a graph; it starts at the next turn of the engine."""
        check_graph(self.parts, graph)
        return self._register_graph(graph)

    def prepare(self, graph: EngineGraph) -> PreparedGraph:
        """Check a graph once, so that it can be submitted many times."""
        check_graph(self.parts, graph)
        op_states(graph, SubmittedGraph(self.env, 0, 0, len(graph), graph.backends), 0)
        return PreparedGraph(graph)

    def submit_prepared(self, shape: PreparedShape, numbers: Numbers) -> SubmittedGraph:
        """Submit a prepared graph with new durations and amounts; it starts at the next turn."""
        return self._register_graph(numbers.put_into(shape.lowered))

    def _register_graph(self, graph: EngineGraph) -> SubmittedGraph:
        batch = SubmittedGraph(self.env, self.submissions, self.count, len(graph), graph.backends)
        self.rows |= {row.id: row for row in op_states(graph, batch, self._now)}
        self.batches.append(batch)
        self.submissions += 1
        self.open += len(graph)
        self.count += len(graph)
        self.held_ops += len(graph)
        self._note_action(lambda: self._join(batch))
        return batch

    def collect_ended(self) -> HeldOpTimes:
        """Return the times of all graphs in memory, then free the finished ones."""
        rows = [self._rows(batch) for batch in self.batches]
        found = held_op_times(self.batches, rows)
        for batch, own, over in zip(self.batches, rows, found.over.tolist(), strict=True):
            if over:
                self.held_ops -= batch.count
                for row in own:
                    if row.state != State.ENDED:
                        self.past.add(row.id, row.state)
                    del self.rows[row.id]
        self.batches = [b for b, over in zip(self.batches, found.over, strict=True) if not over]
        return found

    def _rows(self, batch: SubmittedGraph) -> list[OpState]:
        return [self.rows[op] for op in range(batch.first, batch.first + batch.count)]

    # What a process may wait for.

    def ended(self, op: int) -> simpy.Event:
        """Event that fires when an op is over, with ``"ended"``, ``"cancelled"``, ``"dropped"``."""
        state = self.state(op)
        if state in OVER:
            return self.env.event().succeed(state.name.lower())
        row = self.rows[op]
        if row.done is None:
            row.done = self.env.event()
        return row.done

    # What a process may see: the machine as its last turn left it.

    def queue(self, component: int) -> list[tuple[int, int]]:
        """Slot queue of a component, first in line first, as (op, index of participant)."""
        return [stamp[3:] for stamp in self.at[component].queue]

    def found_full(self, component: int) -> int:
        """Number of ops so far that were sent to a component and found its queue full."""
        return self.at[component].found_full

    def waiting(self, component: int) -> list[tuple[int, int]]:
        """Queue of a capacity, first in line first, as (op, amount); op is -1 for a process."""
        line = self.at[component].line
        return [(-1 if c.row is None else c.row.id, c.amount) for c in line]

    def held(self, component: int) -> int:
        """Slots or amount of a component in use; for a shared rate, the used rate, rounded down."""
        part = self.at[component]
        return part.held if part.rate < 0 else self.medium.taken(component)

    def users(self, component: int) -> int:
        """Number of flows in flight that use a component."""
        return self.medium.users(component)

    def rates(self) -> dict[int, int]:
        """Current rate of every op in its work phase, by op id."""
        return self.medium.rates()

    def capacity(self, component: int) -> int:
        """Current rate of a shared component, or the total amount of a capacity."""
        part = self.at[component]
        return part.rate if part.whole < 0 else part.whole

    def failed(self, component: int) -> bool:
        """True if a component was failed at the end of the last turn."""
        return self.at[component].failed

    def state(self, op: int) -> State:
        """State of one op at the end of the last turn."""
        row = self._row(op)
        return self.past.state(op) if row is None else row.state

    def usage(self, op: int) -> dict[int, int]:
        """Components that an op uses, as ``{component: weight}``, at the end of the last turn."""
        row = self._row(op)
        return {} if row is None else dict(row.usage)

    # What the verbs do, when the next turn applies them.

    def _join(self, batch: SubmittedGraph) -> None:
        batch.joined = True
        for row in self._rows(batch):
            self._await_release(row)
        if not batch.count:
            self.news.append((batch.done, None))

    def _set_rate(self, component: int, rate: int) -> None:
        part = self.at[component]
        part.rate = rate
        if not part.failed:
            self.medium.change(component, rate)

    def _fail(self, component: int) -> None:
        part = self.at[component]
        part.failed = True
        if part.rate >= 0:
            self.medium.change(component, 0)
        for row in self.rows.values():
            holds = any(
                s == component and a == HELD for s, a in zip(row.slots, row.at, strict=True)
            )
            if holds or (row.state == State.RUNNING and component in row.usage):
                self._halt(row, f"the failure of {self.parts.names[component]}")
                row.batch.unreported.append(
                    LostOp(row.id, row.fixed_left, row.work_left, component)
                )
                self.losing.add(row.batch)

    def _restore(self, component: int) -> None:
        part = self.at[component]
        part.failed = False
        if part.rate >= 0:
            self.medium.change(component, part.rate)
        self.moving.add(component)
        self.lines.moving.add(component)

    def _stop(self, op: int, who: str) -> None:
        if op in self.rows:
            self._halt(self.rows[op], who)

    def _halt(self, row: OpState, who: str) -> None:
        if row.live and row.state != State.STOPPED:
            self._leave(row)
            row.state, row.stopped_by = State.STOPPED, who

    def _resume(
        self,
        op: int,
        keep: bool,
        slots: Sequence[int] | None,
        usage: dict[int, int] | None,
        there: TimingElsewhere | None,
    ) -> None:
        row = self.rows.get(op)
        if row is None or not row.live:
            return
        if row.state != State.STOPPED:
            raise self._cannot_resume_error(op, f"it is {row.state.name.lower()}; stop it first")
        row.state = State.PENDING
        if there is not None:
            row.move(there, row.left if keep else ALL)
        elif not keep:
            row.asks, row.share = row.is_online, ALL
            row.fixed_left, row.work_left = row.fixed, row.work
        row.slots = row.slots if slots is None else list(slots)
        if row.work_left and usage and (wrong := why_move_refused(self.parts, row.usage, usage)):
            raise self._cannot_resume_error(op, wrong)
        row.usage = row.usage if usage is None else dict(usage)
        if row.work_left and not row.usage and row.limit < 0:
            why = "neither usage nor limit bounds the rate of its work"
            raise self._cannot_resume_error(op, why)
        self._await_release(row)

    def _cancel(self, ops: Sequence[int]) -> None:
        self._cancel_with_dependents([self.rows[op] for op in ops if op in self.rows])

    def _request_capacity(self, grant: Grant) -> None:
        self.lines.request(Claim(grant.component, grant.amount, grant=grant), self.tick)

    def _withdraw_request(self, grant: Grant) -> None:
        line = self.at[grant.component].line
        self.lines.withdraw(next(c for c in line if c.grant is grant), self.tick)

    def _hold_capacity(self, component: int, amount: int) -> None:
        self.lines.hold(component, amount)

    def _return_capacity(self, component: int, amount: int) -> None:
        self.lines.hold(component, -amount)

    def _new_store(self, component: int) -> StoreInterface:
        return EntryStore(self.parts.capacity_of(component), self.parts.stores[component])

    # The run as a whole.

    def columns(self) -> EngineColumns:
        """Times and states so far of all ops, one row per op."""
        return op_columns(list(self.rows.values()))

    def _row(self, op: int) -> OpState | None:
        """State of an op; None if its graph was freed."""
        check_op(op, self.count)
        return self.rows.get(op)

    def _places(self, op: int) -> int | None:
        row = self.rows.get(op)
        return None if row is None else len(row.slots)

    def _stuck(self) -> StuckState:
        return stuck_state(self)
