"""Commands and observations of processes: the part that both engines share.

A command is checked and recorded at once, and applied in the next turn. Each engine applies it in
its own way: ``reference/engine.py`` and ``core/actions.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from weakref import proxy

import simpy

from ..argument import shown
from ..errors import SimulationError
from .capacity_ledger import CapacityLedger, Grant
from .deadlock import CapacityQueue, CapacityShare, StuckState, diagnose
from .driven_policy import DrivenPolicy
from .final_states import FinalStates
from .interface import (
    Answer,
    ComponentTable,
    EngineColumns,
    EngineGraph,
    HeldOpTimes,
    Numbers,
    PreparedShape,
    State,
    Submitted,
    TimingElsewhere,
)
from .mailbox import MailRoom
from .simpy_adapter import GraphHandle, SimpyAdapter
from .simpy_clock import step_simpy
from .store_control import StoreControl
from .store_interface import StoreInterface
from .threshold import Thresholds
from .validation import (
    check_amount,
    check_answer,
    check_component,
    check_op,
    check_rate,
    check_release,
    check_resume,
)


class EngineControl(SimpyAdapter):
    """Base class of both engines, which accepts commands of processes for the next turn.

    ``elsewhere(op, component)`` gives the timing of an op that a full queue sent to a component. It
    is called when the op starts there.

    Parameters
    ----------
    parts : Table of all components.
    env : SimPy environment to use; None creates one.
    per_second : int
        Ticks in a second, for error messages.
    """

    def __init__(
        self, parts: ComponentTable, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        super().__init__(parts, env, per_second)
        self.thresholds = Thresholds(self)
        weak = proxy(self)  # or the state of a run would stay until Python collects cycles
        self.mail = MailRoom(self.env, lambda action: weak._note_action(action))
        self.ledger = CapacityLedger()
        self.stores = StoreControl(self)
        self.count = 0  # ops submitted so far
        self.held_ops = 0  # ops of the graphs in memory
        self.past = FinalStates()
        self.cancels = 0  # commands that cancelled ops so far
        self.elsewhere: Callable[[int, int], TimingElsewhere] = _no_timing_elsewhere

    # Commands: recorded now, applied at the start of the next turn.

    def set_rate(self, component: int, rate: int) -> None:
        """Change the rate of a component; flows keep their progress."""
        check_rate(self.parts, component, rate)
        self._note_action(lambda: self._set_rate(component, rate))

    def fail(self, component: int) -> None:
        """Fail a component: stop the ops that run on it, use it, or hold a slot of it."""
        check_component(self.parts, component)
        self._note_action(lambda: self._fail(component))

    def restore(self, component: int) -> None:
        """Restore a failed component; its queue moves again, but stopped ops stay stopped."""
        check_component(self.parts, component)
        self._note_action(lambda: self._restore(component))

    def stop(self, op: int) -> None:
        """Stop an op: remove it from its queue, slots and shared components."""
        op = check_op(op, self.count)
        who = self._acting_process()
        self._note_action(lambda: self._stop(op, who))

    def resume(
        self,
        op: int,
        keep: bool = True,
        slots: Sequence[int] | None = None,
        usage: dict[int, int] | None = None,
        there: TimingElsewhere | None = None,
    ) -> None:
        """Let a stopped op queue again; ``there`` is its timing if it moves to other components."""
        op = check_op(op, self.count)
        places = self._places(op)
        if places is not None:
            check_resume(self.parts, op, places, slots, usage)
        if isinstance(there, Answer):
            check_answer(self.parts, op, there)
        self._note_action(lambda: self._resume(op, keep, slots, usage, there))

    def cancel(self, ops: Sequence[int]) -> None:
        """Remove ops and all ops that depend on them."""
        in_range = isinstance(ops, range) and (not ops or 0 <= ops[0] <= ops[-1] < self.count)
        known = ops if in_range else [check_op(op, self.count) for op in ops]
        self.cancels += 1
        self._note_action(lambda: self._cancel(known))

    def acquire(self, component: int, amount: int, owner: int = 0) -> Grant:
        """Request an amount of a capacity; the event fires after the turn that grants it."""
        check_amount(self.parts, component, amount)
        grant = Grant(
            self.env, self.ledger.asked, component, amount, owner, self._acting_process(),
            self._release_grant, self._withdraw_if_forgotten,
        )  # fmt: skip
        self.ledger.note_request(grant)
        self._note_action(lambda: self._request_capacity(grant))
        return grant

    def take(self, component: int, amount: int, owner: int = 0) -> bool:
        """Acquire an amount of a capacity at once, without waiting; returns True on success."""
        check_amount(self.parts, component, amount)
        if amount > self.takeable(component):
            return False
        book = self.ledger
        book.taken[component] = book.taken.get(component, 0) + amount
        book.add(self._now, component, amount, owner, self._acting_process())
        self._note_action(lambda: self._note_taken(component, amount))
        return True

    def takeable(self, component: int) -> int:
        """Largest amount of a capacity that `take` would grant, or of a store refuse, now."""
        book = self.ledger
        if component in self.parts.stores:
            return self.parts.capacity_of(component)  # any amount is an error
        if component in book.waiting or self.failed(component) or self.waiting(component):
            return 0
        return (
            self.parts.capacity_of(component) - self.held(component) - book.taken.get(component, 0)
        )

    def release(self, component: int, amount: int, owner: int = 0) -> None:
        """Release an amount of a capacity."""
        check_amount(self.parts, component, amount)
        check_release(self.parts, component, amount, self.ledger.amount_of_owner(component, owner))
        self._give_back(component, amount, owner, self._acting_process())

    def release_all(self, owner: int) -> None:
        """Release all amounts and entries that an owner holds, and withdraw its requests."""
        self.stores.release_all(owner)
        for line in list(self.ledger.waiting.values()):
            for grant in [grant for grant in line if grant.owner == owner]:
                grant.release()
        for component, amount in list(self.ledger.holds_of_owner(owner)):
            self._give_back(component, amount, owner, self._acting_process())

    def _release_grant(self, grant: Grant) -> None:
        """Release a grant's amount, or withdraw its request if it still waits."""
        if self.ledger.is_waiting(grant):
            self.ledger.drop_request(grant)
            self._note_action(lambda: self._withdraw_request(grant))
        else:
            held = self.ledger.amount_of_owner(grant.component, grant.owner)
            check_release(self.parts, grant.component, grant.amount, held)
            self._give_back(grant.component, grant.amount, grant.owner, grant.who)
        grant.over = True

    def _withdraw_if_forgotten(self, grant: Grant) -> None:
        """Schedule a check that withdraws a grant if no process waits for it by the next turn."""
        self._note_action(lambda: self._drop_grant(grant))

    def _drop_grant(self, grant: Grant) -> None:
        if grant.over or not grant.is_abandoned:
            return
        grant.over = True
        if self.ledger.is_waiting(grant):
            self.ledger.drop_request(grant)
            self._withdraw_request(grant)
        elif self.ledger.amount_of_owner(grant.component, grant.owner) >= grant.amount:
            self.ledger.give_back(self._now, *grant.held)
            self._return_capacity(grant.component, grant.amount)

    def _give_back(self, component: int, amount: int, owner: int, who: str) -> None:
        self.ledger.give_back(self._now, component, amount, owner, who)
        self._note_action(lambda: self._return_capacity(component, amount))

    def _note_taken(self, component: int, amount: int) -> None:
        self.ledger.taken[component] -= amount
        self._hold_capacity(component, amount)

    # Events to wait for.

    def lost(self, graph: Submitted) -> simpy.Event:
        """Event that fires with the losses (list of :class:`LostOp`) that were not reported yet."""
        if not isinstance(graph, GraphHandle):
            who = self._acting_process()
            raise SimulationError(
                "action", f"{who}: graph is {shown(graph)}; give what submit() returned"
            )
        mine = graph
        if mine.lost is None or mine.lost.triggered:
            mine.lost = self.env.event()
            if mine.unreported:
                mine.lost.succeed(mine.take_unreported())
        return mine.lost

    def settled(self) -> simpy.Event:
        """Event that fires after the next turn, when all commands so far are applied."""
        self._note_action(lambda: None)
        return self.thresholds.settled()

    def reaches(
        self, what: str, component: int, at_least: int | None = None, at_most: int | None = None
    ) -> simpy.Event:
        """Event that fires when, after a turn, a quantity of a component is within bounds.

        ``what`` is the ``queue`` length, the ``held`` slots or amount, or the number of ``flows``.
        """
        event = self.thresholds.add(what, component, at_least, at_most)
        self._note_action(lambda: None)
        return event

    def amount(self, what: str, component: int) -> int:
        """Value of the quantity ``what`` of a component, as of the end of the last turn."""
        if what == "flows":
            return self.users(component)
        if what == "held":
            return self.held(component)
        line = self.queue if self.parts.capacity_of(component) < 0 else self.waiting
        return len(line(component))

    # The complete run.

    def drive(self, policy: DrivenPolicy) -> None:
        """Take note of a compiled process; an engine may call its kernel without SimPy."""

    def run(self, until: int | None = None) -> None:
        """Run until no event is left, or up to the engine's first turn at a tick.

        Raises
        ------
        SimulationError
            No event is left, but ops are open or processes wait for a capacity: lost ops, time
            overflow, starvation or deadlock.
        """
        step_simpy(self, until)
        if until is None and (self.has_open_ops() or self.ledger.waiting):
            raise diagnose(self._stuck())

    def blocked_queues(
        self, held: Mapping[int, Sequence[tuple[int, int]]]
    ) -> dict[int, CapacityQueue]:
        """Non-empty queues of capacities in the final state, with their waiters and holders.

        Parameters
        ----------
        held : (op, amount) pairs that ops hold, by component; ``op`` is the one whose end releases
            the amount
        """
        found, book = {}, self.ledger
        for c in range(len(self.parts)) if len(self.parts.capacity) else ():
            if waiting := self.waiting(c):
                names = iter([grant.who for grant in book.waiting.get(c, ())])
                line = [CapacityShare(op, _op_name(op) or next(names), n) for op, n in waiting]
                mine = book.held.get(c, {}).items()
                holding = [CapacityShare(op, _op_name(op), n) for op, n in held.get(c, ())]
                holding += [CapacityShare(-1, who, n) for (_, who), n in mine]
                found[c] = CapacityQueue(self.parts.capacity_of(c), line, holding, self.failed(c))
        return found

    def _cannot_resume_error(self, op: int, why: str) -> SimulationError:
        message = f"op {op}: it cannot be resumed: {why}"
        return SimulationError("action", message, (op,), self.open_ops())

    # Methods that each engine implements.

    @abstractmethod
    def submit(self, graph: EngineGraph) -> Submitted:
        """Submit a graph; its ops join the run at the next turn."""

    @abstractmethod
    def prepare(self, graph: EngineGraph) -> PreparedShape:
        """Check a graph once, so that it can be submitted many times."""

    @abstractmethod
    def submit_prepared(self, shape: PreparedShape, numbers: Numbers) -> Submitted:
        """Submit a prepared graph with the given numbers; its ops join the run at the next turn."""

    @property
    @abstractmethod
    def held_graphs(self) -> int:
        """Number of graphs in memory: submitted, and not freed yet."""

    @abstractmethod
    def collect_ended(self) -> HeldOpTimes:
        """Times of all graphs in memory; ended graphs are then freed, except for final states.

        Call it between turns. A graph with losses that were not reported yet is kept.
        """

    @abstractmethod
    def columns(self) -> EngineColumns:
        """Times and states of all ops so far."""

    @abstractmethod
    def ended(self, op: int) -> simpy.Event:
        """Event that fires with ``"ended"``, ``"cancelled"`` or ``"dropped"`` at an op's end."""

    @abstractmethod
    def state(self, op: int) -> State:
        """State of one op, as of the end of the last turn."""

    @abstractmethod
    def usage(self, op: int) -> dict[int, int]:
        """``{component: weight}`` of one op, as of the end of the last turn; weights in 2^-40."""

    @abstractmethod
    def rates(self) -> dict[int, int]:
        """Current rate of every op in its work phase, by op."""

    @abstractmethod
    def capacity(self, component: int) -> int:
        """Current rate of a component as of the last turn; of a capacity, its total amount."""

    @abstractmethod
    def queue(self, component: int) -> list[tuple[int, int]]:
        """Queue of a component's slots as (op, member index) pairs, in the order of service."""

    @abstractmethod
    def found_full(self, component: int) -> int:
        """Number of ops so far that were sent to a component and found its queue full."""

    @abstractmethod
    def waiting(self, component: int) -> list[tuple[int, int]]:
        """Queue of a capacity as (op, amount) pairs, in order of service; op -1 for a process."""

    @abstractmethod
    def held(self, component: int) -> int:
        """Slots or amount in use; of a rate component, the sum of weight x rate, rounded down."""

    @abstractmethod
    def failed(self, component: int) -> bool:
        """True if a component has failed, as of the end of the last turn."""

    @abstractmethod
    def users(self, component: int) -> int:
        """Number of flows in flight that use a component."""

    @abstractmethod
    def _places(self, op: int) -> int | None:
        """Number of members (places) of an op; None if its rows were freed."""

    @abstractmethod
    def _new_store(self, component: int) -> StoreInterface:
        """Empty store of a component."""

    @abstractmethod
    def _stuck(self) -> StuckState:
        """Final state, as input for the deadlock diagnosis."""

    @abstractmethod
    def _set_rate(self, component: int, rate: int) -> None: ...

    @abstractmethod
    def _fail(self, component: int) -> None: ...

    @abstractmethod
    def _restore(self, component: int) -> None: ...

    @abstractmethod
    def _stop(self, op: int, who: str) -> None: ...

    @abstractmethod
    def _resume(
        self,
        op: int,
        keep: bool,
        slots: Sequence[int] | None,
        usage: dict[int, int] | None,
        there: TimingElsewhere | None,
    ) -> None: ...

    @abstractmethod
    def _cancel(self, ops: Sequence[int]) -> None: ...

    @abstractmethod
    def _request_capacity(self, grant: Grant) -> None:
        """Append a process's request to the queue of a capacity."""

    @abstractmethod
    def _withdraw_request(self, grant: Grant) -> None:
        """Remove a process's request from the queue of a capacity."""

    @abstractmethod
    def _hold_capacity(self, component: int, amount: int) -> None:
        """Add to the amount that processes hold."""

    @abstractmethod
    def _return_capacity(self, component: int, amount: int) -> None:
        """Subtract from the amount that processes hold."""


def _no_timing_elsewhere(op: int, component: int) -> TimingElsewhere:
    """Timing of an op that a full queue sent elsewhere; each run sets a function of its own."""
    raise SimulationError("action", f"op {op}: its time on component {component} is not known")


def _op_name(op: int) -> str:
    """Name of an op for error messages; "" for a process."""
    return f"op {op}" if op >= 0 else ""
