"""Compiled process in a run: it calls the kernel once per event, and applies its actions.

The kernel is called by callbacks of SimPy events, at the place where a generator that waits for the
same event would continue. Its actions go through the same methods as those of a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import simpy
from numpy.typing import NDArray
from simpy.events import Initialize

from ...engine_api.capacity_ledger import Grant
from ...engine_api.driven_policy import FixedShape, GridShapes
from ...engine_api.interface import State, Submitted
from ...engine_api.mailbox import Mailbox, Message, Receipt
from ...errors import SimulationError
from ...kernel import policy_rows as rows
from ...record.prepared import Prepared
from ...record.prepared_grid import PreparedGrid
from ...record.schedule import SubmittedRun
from ..losses import Lost
from ..process import Running
from ..run_interface import RunInterface
from .compiled_process import CompiledProcess
from .policy_stores import PolicyStores

Row = Sequence[int]  # columns of an action
OF_SUBMISSIONS = (rows.FLOP, rows.BYTES, rows.KEY, rows.AT, rows.WAY)  # verbs
CANCELLABLE = frozenset((rows.TIMER, rows.ENDED, rows.GRANT, rows.SETTLED))  # kinds of events


class Wait(NamedTuple):
    """What a compiled process waits for: kind and tag of the event, and what it concerns."""

    kind: int
    tag: int
    of: Any = None


class PolicyRun(simpy.Process):
    """Running compiled process; as a SimPy event, it fires when the process is over.

    Parameters
    ----------
    run : Run in progress.
    sim : interface of the process to the run
    described : its description
    job : number of its job
    """

    def __init__(self, run: RunInterface, sim: Running, described: CompiledProcess, job: int):
        simpy.Event.__init__(self, sim.env)
        self._run, self._sim, self._described, self.job = run, sim, described, job
        self.kernel, self.metrics = described.kernel, described.metrics
        self._waits: dict[simpy.Event, Wait] = {}
        self._by_tag: dict[int, dict[simpy.Event, None]] = {}  # what `cancel` finds
        self._watches: dict[int, simpy.Event] = {}  # by number of the submission
        self.receipt: Receipt | None = None
        self.event = np.zeros(rows.EVENT_COLUMNS, np.int64)
        self._act_by_verb = (
            self._stray_number, self._stray_number, self._stray_number, self._stray_number,
            self._after, self._take, self._acquire, self._release, self._send, self._set_rate,
            self._emit, self._cancel, self._watch, self._settle, self._bad_part, self._bad_counter,
            self._stray_number, self._record, self._stray_number, self._wrong_store_verb,
        )  # fmt: skip
        self._target: Any = Initialize(sim.env, self)

    @property
    def name(self) -> str:
        """Name of the process, for messages and records."""
        return self._described.__name__

    def interrupt(self, cause: object = None) -> NoReturn:
        """Refuse to be interrupted: a kernel has no place where it could be.

        Raises
        ------
        SimulationError
            Always.
        """
        raise self._error("a compiled process cannot be interrupted; send it a message")

    def close(self) -> None:
        """End the process where it waits, or before it starts."""
        if self._target.callbacks:
            self._target.callbacks.remove(self._resume)
        self._leave_waits()
        self.succeed()

    # From an event to a call of the kernel.

    def _resume(self, event: simpy.Event) -> None:
        """Start: prepare what the kernel needs, and call it for the first time."""
        self._call_guarded(self._begin)

    def _woken(self, event: simpy.Event) -> None:
        """Call the kernel for an event that it waits for."""
        wait = self._end_wait(event)
        self._call_guarded(lambda: self._handle(wait, event))

    def _call_guarded(self, call: Any) -> None:
        """Call a function as the acting process; its error is that of the process."""
        self.env._active_proc = self
        try:
            call()
        except Exception as error:  # as of any SimPy process, whatever a policy raises
            self._leave_waits()
            self.fail(error)
        finally:
            self.env._active_proc = None

    def _begin(self) -> None:
        sim, of = self._sim, self._described
        self.state, self._call = of.new_state(), _callable_kernel(of.kernel)
        self._graphs: list[Prepared] = [
            sim.prepare(one.graph, one.gpus, ways=one.ways) for one in of.graphs_on_ways
        ]
        self.part_numbers = [sim.system.number(name) for name in of.parts]
        self.boxes: list[Mailbox] = [sim.mailbox(name) for name in of.mail.to]
        self.inbox = sim.mailbox(of.mail.inbox) if of.mail.inbox else None
        counts = self._run.counters.table(self.job, of.counters)
        per_second = self._run.ticks(1.0)
        self.turn = rows.new_turn(of.actions, len(self.part_numbers), counts, per_second)
        kept = self._run.machine.parts.stores
        names = [of.parts[k] for k, c in enumerate(self.part_numbers) if c in kept]
        self._stores = PolicyStores(sim, of.parts, names, self.turn)
        self._arrivals = [int(self.env.now) + at for at in of.arrivals.ticks(self._run.tick)]
        self.arrival_columns = np.ascontiguousarray(of.arrivals.columns)
        self._step(rows.START, 0)
        self._await_arrival(0)
        self._await_message()
        self._check_can_wake()
        self._run.machine.drive(self)

    def _handle(self, wait: Wait, event: simpy.Event) -> None:
        """Call the kernel for an event, and wait for the next one of its kind."""
        if wait.kind == rows.LOST:
            self._report_losses(wait, cast(list[Lost], event.value))
        else:
            self._step(wait.kind, *self._columns(wait, event))
        if wait.kind == rows.ARRIVAL:
            self._await_arrival(wait.tag + 1)
        elif wait.kind == rows.MESSAGE:
            self._await_message()
        self._check_can_wake()

    def _columns(self, wait: Wait, event: simpy.Event) -> tuple[int, ...]:
        """TAG, A, B and C of the kernel's event."""
        if wait.kind == rows.ENDED:
            self._forget_watch(wait.of[0])
            return wait.tag, self._cancelled_ops(wait.of[0]), wait.of[1]
        if wait.kind == rows.GRANT:
            return wait.tag, wait.of, cast(Grant, event).amount
        if wait.kind == rows.MESSAGE:
            a, b, c, box = cast(Message, event.value)
            names = self._described.mail.to
            return names.index(box) if box in names else -1, a, b, c
        if wait.kind == rows.ARRIVAL:
            return wait.tag, *self._described.arrivals.columns[wait.tag].tolist()
        return (wait.tag,)

    def _report_losses(self, wait: Wait, losses: list[Lost]) -> None:
        """Call the kernel once per op that a failure stopped."""
        graph: Submitted = wait.of
        parts = self._described.parts
        for k, lost in enumerate(losses):
            part = parts.index(lost.component) if lost.component in parts else -1
            if self.is_alive:
                self._step(rows.LOST, wait.tag, lost.op - graph.first, part, len(losses) - 1 - k)

    def _step(self, kind: int, tag: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Call the kernel for one event; apply its actions and its return code."""
        self.event[:] = kind, tag, a, b, c, int(self.env.now)
        self._finish(0, self._decide(self._called()))

    def _finish(self, row: int, code: int) -> None:
        """Apply the actions from a row on, and the return code."""
        self._apply(row)
        if code == rows.DONE:
            self.close()

    def _called(self) -> Any:
        """Call the kernel; returns its code."""
        self._observe()
        self.turn.head[rows.COUNT] = 0
        self._stores.begin_call()
        try:
            return self._call(self.state, self.event, self.turn)
        except Exception as error:  # a kernel can raise anything
            raise self._raised(error) from error
        finally:
            self._stores.end_call()

    def _raised(self, error: Exception) -> SimulationError:
        return self._error(f"its kernel raised {type(error).__name__}: {error}; correct it")

    def _decide(self, code: Any) -> int:
        """Checked return code of the kernel, after its state has grown as it asked."""
        head = self.turn.head
        while True:
            if head[rows.COUNT] > head[rows.MOST]:
                raise self._error(
                    f"wrote {head[rows.COUNT]} actions in one call, but actions is "
                    f"{head[rows.MOST]}; set actions= to as many as it may write"
                )
            if code != rows.GROW:
                break
            self._grow()
            code = self._called()
        if code not in (rows.GO_ON, rows.DONE):
            raise self._error(f"its kernel returned {code!r}; return GO_ON, DONE or grow(...)")
        return int(code)

    def _observe(self) -> None:
        """Fill the table of parts: the machine at the end of the last turn."""
        machine, table = self._run.machine, self.turn.parts
        for k, c in enumerate(self.part_numbers):
            total = machine.parts.capacity_of(c)
            is_capacity = total >= 0
            table[k] = (
                total,
                machine.held(c),
                machine.takeable(c) if is_capacity else 0,
                len(machine.waiting(c)) if is_capacity else 0,
                machine.failed(c),
            )

    def _grow(self) -> None:
        """Enlarge an array of the state with zeros."""
        head = self.turn.head
        number, wanted = head.item(rows.GROW_TABLE), head.item(rows.GROW_ROWS)
        fields = getattr(self.state, "_fields", ())
        if head[rows.COUNT] or head[rows.STORE_STATE]:
            raise self._error("wrote actions before it returned grow(...); return it first")
        if not 0 <= number < len(fields):
            raise self._error(f"grows array {number}, but its state has {len(fields)}; correct it")
        old = self.state[number]
        if wanted <= len(old):
            raise self._error(
                f"grows state.{fields[number]} to {wanted} rows, but it has {len(old)}; ask for "
                "more"
            )
        try:
            made = np.zeros((wanted, *old.shape[1:]), old.dtype)
        except (MemoryError, ValueError):
            raise self._error(
                f"grows state.{fields[number]} to {wanted} rows, which do not fit into memory; "
                "ask for fewer"
            ) from None
        made[: len(old)] = old
        self.state = self.state._replace(**{fields[number]: made})

    # The same without SimPy's events: see `DrivenPolicy`.

    @property
    def arrival_ticks(self) -> NDArray[np.int64]:
        """Tick of each arrival."""
        return np.array(self._arrivals, np.int64)

    @property
    def owner(self) -> int:
        """Number of the owner of what it takes."""
        return self._sim.own.owner

    @property
    def wait_count(self) -> int:
        """Number of events that it waits for."""
        return len(self._waits)

    def may_change(self, part: int) -> bool:
        """True if it may change one of its parts, by its number."""
        return self._sim.may_touch(self._described.parts[part])

    def shapes(self) -> list[FixedShape | GridShapes | None]:
        """Its graphs in order; None for one that only Python can submit."""
        return [self._run.fixed_shape(graph, self._sim.own) for graph in self._graphs]

    def way_shapes(self) -> list[list[FixedShape | None]]:
        """For each of its graphs, the shape of each way; None for one of only Python."""
        return [[self._fixed_shape(way) for way in graph.ways_so_far] for graph in self._graphs]

    def _fixed_shape(self, graph: Prepared | None) -> FixedShape | None:
        shape = None if graph is None else self._run.fixed_shape(graph, self._sim.own)
        return shape if isinstance(shape, FixedShape) else None

    def most_held(self) -> float:
        """Size of the graphs in memory, in ops, from which on only Python may submit."""
        return self._run.most_held(max(map(len, self._graphs), default=0))

    def open_submissions(self) -> list[tuple[Any, int, int]]:
        """Handle, tag and number of graph of each submission that it waits for."""
        return [
            (wait.of[0], wait.tag, wait.of[1])
            for event, wait in self._waits.items()
            if wait.kind == rows.ENDED
            and wait.of[0].index not in self._watches
            and len(cast(list[Any], event.callbacks)) == 2  # the job's, and its own
        ]

    def timer(self, event: simpy.Event) -> tuple[int, int] | None:
        """Kind and tag of a timer or arrival that it waits for; None for another event."""
        wait = self._waits.get(event)
        timed = wait is not None and wait.kind in (rows.TIMER, rows.ARRIVAL)
        return wait[:2] if wait is not None and timed else None

    def forget_timer(self, event: simpy.Event) -> None:
        """Wait for a timer no more."""
        self._end_wait(event)

    def add_timer(self, event: simpy.Event, kind: int, tag: int) -> None:
        """Wait for a timer or arrival."""
        self._wait(event, kind, tag)

    def end_receipt(self) -> None:
        """Wait for its receipt no more, as its kernel was called with the message."""
        self._end_wait(cast(Receipt, self.receipt))

    def end_submission(self, handle: Submitted) -> None:
        """Note that a submission has ended, and that the kernel was called for its end."""
        done = handle.done
        self._end_wait(done)
        callbacks, done.callbacks = done.callbacks, cast(Any, None)
        done._ok, done._value = True, None
        for callback in callbacks:
            if callback != self._woken:
                callback(done)

    def add_submission(
        self,
        handle: Submitted,
        graph: int,
        tag: int,
        at: int,
        key: int,
        is_over: bool,
        is_freed: bool,
        submission: Any,
    ) -> None:
        """Record a submission that its kernel made, and wait for its end unless it is over."""
        own, who = self._sim.own, (self._sim.who, self.name)
        if not is_freed:
            run = self._run.driven_run(submission, handle.first, own, self.name, at, key)
            self._run.runs.append(run)
        self._run.note_driven_graphs(who[0], 1, handle.count)
        if is_over:
            own.note_over(handle.count)
        else:
            own.note_submitted(handle)
        if not is_over:
            self._wait(handle.done, rows.ENDED, tag, (handle, graph))

    def submission(
        self, graph: int, way: int | None, point: tuple[int, tuple[int, ...]] | None
    ) -> Any:
        """What was submitted: a graph, on a way or at a point."""
        prepared = self._graphs[graph]
        if point is None:
            return prepared.on_way(way).unchanged
        structure, numbers = point
        return cast(PreparedGrid, prepared).driven(numbers, structure)

    def representative(self, graph: int, way: int | None) -> SubmittedRun:
        """Record of a submission that stands for all of one of its graphs on one way."""
        return self._record_of(self._graphs[graph].on_way(way).unchanged)

    def representative_of_points(
        self, graph: int, structure: int, points: NDArray[np.int64]
    ) -> SubmittedRun:
        """Record that stands for submissions of a grid, with the (k, axes) point of each."""
        prepared = cast(PreparedGrid, self._graphs[graph])
        return self._record_of(prepared.driven_together(points, structure))

    def _record_of(self, made: Any) -> SubmittedRun:
        return self._run.driven_run(made, -1, self._sim.own, self.name, 0, 0)

    def free_ended_graphs(self, more: Sequence[SubmittedRun]) -> NDArray[np.int64] | None:
        """Let the run sum up and free the graphs that are over; see `DrivenPolicy`."""
        return self._run.free_driven(more)

    def note_freed(self, graphs: int, ops: int) -> None:
        """Count submissions of its kernel that ended and were freed."""
        self._run.note_driven_graphs(self._sim.who, graphs, ops)
        self._sim.own.note_over(ops)

    def submission_counts(self) -> dict[str, int]:
        """Number of submissions of its job so far, by name of the graph."""
        return self._sim.own.times

    def record_samples(
        self,
        metrics: Sequence[tuple[int, str]],
        which: NDArray[np.int64],
        ticks: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Record emitted samples: job and name of each metric; then its index, tick and value."""
        emissions = self._run.emissions
        used, first = np.unique(which, return_index=True)
        stream = np.zeros(len(metrics), np.int32)
        for k in used[np.argsort(first)].tolist():
            stream[k] = emissions.stream(*metrics[k])
        emissions.extend(stream[which], ticks, values)

    def go_on(self, row: int, code: int | None, error: Exception | None) -> None:
        """Go on with the call in progress: apply its actions from a row on, and its code."""
        self._call_guarded(lambda: self._go_on(row, code, error))

    def _go_on(self, row: int, code: int | None, error: Exception | None) -> None:
        if error is not None:
            raise self._raised(error) from error
        kind, tag = self.event[rows.KIND], self.event.item(rows.TAG)
        self._finish(row, self._decide(self._called() if code is None else code))
        if kind == rows.ARRIVAL:
            self._await_arrival(tag + 1)
        elif kind == rows.MESSAGE:
            self._await_message()
        self._check_can_wake()

    # Events to wait for.

    def _wait(self, event: simpy.Event, kind: int, tag: int, of: object = None) -> None:
        """Call the kernel when an event fires."""
        self._waits[event] = Wait(kind, tag, of)
        if kind in CANCELLABLE:
            self._by_tag.setdefault(tag, {})[event] = None
        cast(list[Any], event.callbacks).append(self._woken)

    def _end_wait(self, event: simpy.Event) -> Wait:
        """Forget that the kernel waits for an event."""
        wait = self._waits.pop(event)
        if wait.kind in CANCELLABLE:
            del self._by_tag[wait.tag][event]
            if not self._by_tag[wait.tag]:
                del self._by_tag[wait.tag]
        elif wait.kind == rows.LOST:
            del self._watches[wait.of.index]
        return wait

    def _drop(self, event: simpy.Event) -> None:
        """Wait for an event no more."""
        self._end_wait(event)
        if event.callbacks is not None:
            event.callbacks.remove(self._woken)

    def _leave_waits(self) -> None:
        """Wait for nothing any more, in the order in which the waits began."""
        for event in list(self._waits):
            self._drop(event)

    def _await_arrival(self, row: int) -> None:
        if self.is_alive and row < len(self._arrivals):
            event = self.env.timeout(self._arrivals[row] - int(self.env.now))
            self._wait(event, rows.ARRIVAL, row)

    def _await_message(self) -> None:
        if self.is_alive and self.inbox is not None:
            self.receipt = self.inbox.receive()
            self._wait(self.receipt, rows.MESSAGE, 0)

    def _forget_watch(self, graph: Submitted) -> None:
        """Wait for losses of a graph no more, since it is over."""
        if graph.index in self._watches:
            self._drop(self._watches[graph.index])

    def _cancelled_ops(self, graph: Submitted) -> int:
        """Number of its ops that were cancelled, or dropped by a full queue."""
        machine = self._run.machine
        if not machine.cancels and machine.parts.queues is None:
            return 0
        ops = range(graph.first, graph.first + graph.count)
        return sum(machine.state(op) in (State.CANCELLED, State.DROPPED) for op in ops)

    def _check_can_wake(self) -> None:
        """Raise an error if nothing can call the kernel again."""
        if self.is_alive and not self._waits:
            raise self._error(
                "returned GO_ON, but waits for nothing: no timer, submission, request, arrival or "
                "message; return DONE at the end"
            )

    # Actions.

    def _apply(self, at: int) -> None:
        """Apply the actions of one call in order, from a row on."""
        count = self.turn.head.item(rows.COUNT)
        written = self.turn.actions[:count].tolist()
        numbers = self.turn.numbers[:count].tolist()
        while at < count:
            verb = written[at][rows.VERB]
            if verb == rows.SUBMIT:
                at = self._submit(written, numbers, at)
            else:
                self._act_by_verb[verb](written[at], numbers[at])
                at += 1

    def _submit(self, written: Sequence[Row], numbers: Sequence[float], at: int) -> int:
        """Submit a graph with the numbers in the rows behind; returns the row after them."""
        _, tag, graph, *_ = written[at]
        prepared = self._named(self._graphs, graph, "graph", "graphs")
        new: dict[int, dict[int, float]] = {rows.FLOP: {}, rows.BYTES: {}}
        key, way, point, at = None, None, dict[int, int](), at + 1
        while at < len(written) and written[at][rows.VERB] in OF_SUBMISSIONS:
            verb, _, a, b, _ = written[at]
            if verb == rows.KEY:
                key = a
            elif verb == rows.WAY:
                way = a
            elif verb == rows.AT:
                point[a] = b
            else:
                new[verb][a] = numbers[at]
            at += 1
        flop, moved = new[rows.FLOP] or None, new[rows.BYTES] or None
        handle = self._sim.submit(
            prepared, key=key, flop=flop, bytes=moved, way=way, at=self._point(prepared, point)
        )
        self._wait(handle.done, rows.ENDED, tag, (handle, graph))
        return at

    def _point(self, graph: Prepared, numbers: dict[int, int]) -> dict[str, int] | None:
        """Point of a grid by the names of its axes; None if no number is given."""
        if not numbers:
            return None
        names = list(graph.grid.axes) if isinstance(graph, PreparedGrid) else []
        return {self._named(names, k, "axis", "the grid"): x for k, x in numbers.items()}

    def _stray_number(self, row: Row, number: float) -> None:
        raise self._error("gives a number to no submission; write it directly after submit()")

    def _after(self, row: Row, number: float) -> None:
        _, tag, delay, *_ = row
        if delay < 0:
            raise self._error(f"timer {tag}: waits {delay} ticks; wait 0 or longer")
        self._wait(self.env.timeout(delay), rows.TIMER, tag)

    def _take(self, row: Row, number: float) -> None:
        name = self._part(row[rows.A])
        if not self._sim.take(name, row[rows.B]):
            raise AssertionError(f"{name}: take() in a kernel judged otherwise than the engine")

    def _acquire(self, row: Row, number: float) -> None:
        _, tag, part, amount, _ = row
        self._wait(self._sim.acquire(self._part(part), amount), rows.GRANT, tag, part)

    def _release(self, row: Row, number: float) -> None:
        self._sim.release(self._part(row[rows.A]), row[rows.B])

    def _send(self, row: Row, number: float) -> None:
        _, to, a, b, c = row
        box = self._named(self.boxes, to, "mailbox", "mail.to")
        box.send(a, b, c, answer_to=self._described.mail.inbox)

    def _set_rate(self, row: Row, number: float) -> None:
        self._sim.set_rate(self._part(row[rows.A]), number)

    def _emit(self, row: Row, number: float) -> None:
        metrics = self._described.metrics
        self._sim.emit(self._named(metrics, row[rows.A], "metric", "metrics"), number)

    def _record(self, row: Row, number: float) -> None:
        name = self._named(self._described.series, row[rows.A], "series", "series")
        self._sim.record(name, number)

    def _cancel(self, row: Row, number: float) -> None:
        """Cancel all that is open under a tag."""
        tag = row[rows.TAG]
        found = list(self._by_tag.get(tag, ()))
        if not found:
            raise self._error(f"cancels tag {tag}, under which nothing is open; correct it")
        for event in found:
            wait = self._waits[event]
            if wait.kind == rows.ENDED:
                self._sim.cancel(wait.of[0])
                continue
            self._drop(event)
            if wait.kind == rows.GRANT:
                cast(Grant, event).release()

    def _watch(self, row: Row, number: float) -> None:
        tag = row[rows.TAG]
        waits = [self._waits[event] for event in self._by_tag.get(tag, ())]
        graphs: list[Submitted] = [wait.of[0] for wait in waits if wait.kind == rows.ENDED]
        if not graphs:
            raise self._error(f"watches tag {tag}, under which no submission is open; correct it")
        for graph in graphs:
            if graph.index not in self._watches:
                event = self._watches[graph.index] = self._sim.lost(graph)
                self._wait(event, rows.LOST, tag, graph)

    def _settle(self, row: Row, number: float) -> None:
        self._wait(self._sim.settled(), rows.SETTLED, row[rows.TAG])

    def _bad_part(self, row: Row, number: float) -> None:
        self._part(row[rows.A])

    def _bad_counter(self, row: Row, number: float) -> None:
        self._named(self._described.counters, row[rows.A], "counter", "counters")

    def _wrong_store_verb(self, row: Row, number: float) -> None:
        self._stores.raise_again(*row[rows.TAG :])

    def _part(self, number: int) -> str:
        name: str = self._named(self._described.parts, number, "part", "parts")
        return name

    def _named(self, known: Sequence[Any], number: int, what: str, setting: str) -> Any:
        """Entry of a setting by its number."""
        if not 0 <= number < len(known):
            raise self._error(
                f"{what} {number} does not exist; {setting} has {len(known)}, numbered from 0"
            )
        return known[number]

    def _error(self, what: str) -> SimulationError:
        return SimulationError("policy", f"{self.name}: {what}")


def _callable_kernel(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Kernel to call; if it is interpreted, integers overflow silently, as in a compiled one."""
    return kernel if hasattr(kernel, "py_func") else np.errstate(over="ignore")(kernel)
