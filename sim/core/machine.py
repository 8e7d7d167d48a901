"""The compiled engine as a process sees it: verbs noted now, applied in the next turn.

The kernels run every instant up to the tick of the next SimPy event, the machine first, and
come back where a process has to be woken or an online backend asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import simpy

from .. import machine
from ..check import check_answer, check_component, check_graph, check_rate, check_resume
from ..clock import Turn, drive, zero_time_loop
from ..deadlock import diagnose
from ..errors import GraphError, SimulationError
from ..machine import (
    FIRST,
    LATER,
    MAX_TICK,
    NO_LIMIT,
    ONE,
    Answer,
    Columns,
    Loss,
    Lowered,
    Parts,
    State,
    Submitted,
)
from ..threshold import Threshold, Thresholds
from .ahead import Ahead, run_ahead
from .cells import (
    ASK,
    ASKED,
    ASKING,
    ASKS,
    BARRED,
    BEGIN,
    CANCELLED,
    DUE,
    ENDED,
    FAILED,
    FLOWING,
    FURTHER,
    HEAD,
    HELD,
    LIMIT,
    NEWS,
    NONE,
    NOW,
    OPEN,
    OPEN_OPS,
    PART,
    PARTS,
    PENDING,
    PHASE,
    RUNNING,
    STALE,
    STARTED,
    STEPWISE,
    STOPPED,
    TAKEN,
    TELLS,
    WATCHED,
    WATCHING,
)
from .ends import leave_all
from .executor import advance
from .final import columns, stuck
from .sharing import rate as rate_of
from .sharing import set_rate, users
from .slots import await_all, moves
from .store import Store
from .usage import flows_on, limit, usage


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


class CoreMachine:
    """The compiled engine.

    Parameters
    ----------
    parts : Parts
    env : simpy.Environment or None
    per_second : int
        Ticks in a second; for messages.

    Examples
    --------
    >>> from foretrace.sim.script import Case, Script, lowered
    >>> engine = CoreMachine(Script((1,), (-1,), ()).parts)
    >>> _ = engine.submit(lowered("two on one slot", [Case(((0, ()),), fixed=5)] * 2))
    >>> engine.run()
    >>> engine.columns().start.tolist(), engine.columns().end.tolist()
    ([0, 5], [5, 10])
    """

    def __init__(
        self, parts: Parts, env: simpy.Environment | None = None, per_second: int = 10**12
    ):
        self.env = env or simpy.Environment(initial_time=0)
        self.parts, self.per_second = parts, per_second
        self.watchers: set[simpy.Process] = set()
        self.store = Store(parts)
        self.rate = [int(r) for r in parts.rate]
        self.thresholds = _Thresholds(self)
        self.graphs: list[Graph] = []
        self.firsts: list[int] = []  # id of row 0 of each graph
        self.joined: list[Graph] = []
        self.bases: list[int] = []  # first cell of each graph that joined
        self.runs_ahead = True  # where that is the same; False is for tests and measurements
        self.count = 0
        self.ends: dict[int, simpy.Event] = {}  # who waits for the end of an op
        self.earlier: dict[int, int] = {}  # attempts that were broken off
        self.stopped_by: dict[int, str] = {}
        self.roots: list[tuple[int, int]] = []  # cells that may arrive in the turn that comes
        self.losing: set[int] = set()  # graphs with losses nobody was told of
        self.todo: list[Callable[[], None]] = []
        self.news: list[tuple[simpy.Event, object]] = []
        self.actor = "nobody"
        self.tick, self.turn, self.until = -1, 0, MAX_TICK
        self.planned: tuple[int, int] | None = None
        self.catching_up: tuple[int, int] | None = None
        self.next_turn: Turn | None = None
        self._plan(self._now, FIRST)

    # What a process may do: noted now, applied at the start of the next turn.

    def submit(self, graph: Lowered) -> Graph:
        """Hand in a graph; it joins at the next turn."""
        check_graph(self.parts, graph)
        ahead = run_ahead(graph, len(self.parts), self._now)
        made = Graph(self.env, len(self.graphs), self.count, graph, self._now, ahead)
        self.graphs.append(made)
        self.firsts.append(self.count)
        self.count += len(graph)
        self._note(lambda: self._join(made))
        return made

    def set_rate(self, component: int, rate: int) -> None:
        """Change a rate; flows keep their progress."""
        check_rate(self.parts, component, rate)
        self._note(lambda: self._set_rate(component, rate))

    def fail(self, component: int) -> None:
        """Stop what runs on it, uses it, or holds a place on it."""
        check_component(self.parts, component)
        self._note(lambda: self._fail(component))

    def restore(self, component: int) -> None:
        """Let its queue move again; resumes nothing."""
        check_component(self.parts, component)
        self._note(lambda: self._restore(component))

    def stop(self, op: int) -> None:
        """Take an op out of its queue, place and components."""
        self._check_op(op)
        who = self._who()
        self._note(lambda: None if self._is_over(op) else self._stop(self.cell(op), who))

    def resume(
        self,
        op: int,
        keep: bool = True,
        slots: Sequence[int] | None = None,
        usage: dict[int, int] | None = None,
    ) -> None:
        """Let a stopped op queue again."""
        graph = self._check_op(op)
        places = 1 + int(np.count_nonzero(graph.lowered.further == op - graph.first))
        check_resume(self.parts, op, places, slots, usage)
        self._note(lambda: self._resume(op, keep, slots, usage))

    def cancel(self, ops: Sequence[int]) -> None:
        """Remove ops and all that depends on them."""
        for op in ops:
            self._check_op(op)
        self._note(lambda: self._cancel(ops))

    # What a process may wait for.

    def ended(self, op: int) -> simpy.Event:
        """Fires with ``"ended"`` or ``"cancelled"``."""
        graph = self._check_op(op)
        event = self.ends.get(op)
        if event is None:
            event = self.ends[op] = self.env.event()
            state = self.state(op)
            if state in (State.ENDED, State.CANCELLED):
                event.succeed(state.name.lower())
            elif graph.base != NONE:
                self._watch(self.cell(op))
        return event

    def lost(self, graph: Submitted) -> simpy.Event:
        """Fires with the losses (list of :class:`Loss`) nobody was told of."""
        mine = self.graphs[graph.index]
        if mine.lost is None or mine.lost.triggered:
            mine.lost = self.env.event()
            if mine.untold:
                mine.lost.succeed(mine.untold)
                mine.untold = []
        return mine.lost

    def settled(self) -> simpy.Event:
        """Fires after the next turn."""
        self._note(lambda: None)
        return self.thresholds.settled()

    def reaches(
        self, what: str, component: int, at_least: int | None = None, at_most: int | None = None
    ) -> simpy.Event:
        """Fires when a turn settles with ``what`` of a component within the bound."""
        event = self.thresholds.add(what, component, at_least, at_most)
        self._note(lambda: None)
        return event

    # What a process may see: the machine as its last turn left it.

    def queue(self, component: int) -> list[tuple[int, int]]:
        """(op, number of the place) that wait there, first in line first."""
        rows, found = self.store.rows, []
        c = int(self.store.part_table[component, HEAD])
        while c != NONE:
            op = self.op_cell(c)
            found.append((self.id(op), self.store.places(op).index(c)))
            c = int(rows[c]["next"])
        return found

    def held(self, component: int) -> int:
        """Slots taken; of a rate component, the sum of weight x rate, rounded down."""
        if self.rate[component] < 0:
            return int(self.store.part_table[component, TAKEN])
        s = self.store.sharing.state
        taken = 0
        for flow in self._in_flight():
            weight = usage(self.store.sharing, flow).get(component, 0)
            taken += weight * int(rate_of(s, flow))
        return taken // ONE

    def rates(self) -> dict[int, int]:
        """Rate of every op in its work phase."""
        s, owners = self.store.sharing.state, self.store.owners
        return {
            self.id(int(owners[flow])): int(rate_of(s, flow))
            for flow in sorted(self._in_flight(), key=lambda flow: int(owners[flow]))
        }

    def capacity(self, component: int) -> int:
        """Its rate, as the last turn left it."""
        return self.rate[component]

    def failed(self, component: int) -> bool:
        """Whether it is out of order, as the last turn left it."""
        return bool(self.store.part_table[component, FAILED])

    def state(self, op: int) -> State:
        """Of one op, as the last turn left it."""
        graph = self._check_op(op)
        if graph.base == NONE:
            return State.ENDED if graph.over else State.PENDING
        return State(int(self.store.rows[self.cell(op)]["state"]))

    def usage(self, op: int) -> dict[int, int]:
        """``{component: weight}`` that one op uses, as the last turn left it."""
        graph = self._check_op(op)
        if graph.base != NONE:
            return self._usage(self.cell(op))
        flows, row = graph.lowered.flows, op - graph.first
        at = int(np.searchsorted(flows.op, row))
        return flows.usage(at) if at < len(flows) and flows.op[at] == row else {}

    def _is_over(self, op: int) -> bool:
        return self.state(op) in (State.ENDED, State.CANCELLED)

    # Numbers of ops and cells.

    def _check_op(self, op: int) -> Graph:
        if not 0 <= op < self.count:
            raise GraphError("unknown op", f"op {op}: there are {self.count}", (op,))
        return self.graphs[bisect_right(self.firsts, op) - 1]

    def cell(self, op: int) -> int:
        """First place of an op that joined."""
        graph = self.graphs[bisect_right(self.firsts, op) - 1]
        return graph.base + op - graph.first

    def id(self, c: int) -> int:
        """Of the op of a first place."""
        graph = self._graph(c)
        return graph.first + c - graph.base

    def _graph(self, c: int) -> Graph:
        return self.joined[bisect_right(self.bases, c) - 1]

    def op_cell(self, c: int) -> int:
        """First place of the op of a place."""
        row = self.store.rows[c]
        return int(row["link"]) if row["flags"] & FURTHER else c

    def _in_flight(self) -> list[int]:
        rows = self.store.rows[: self.store.cells]
        cells = np.flatnonzero(rows["flags"] & FLOWING)
        return [self.store.flow(int(c)) for c in cells]

    # Turns.

    def _note(self, action: Callable[[], None]) -> None:
        self.todo.append(action)
        self.actor = self._who()
        if self.planned is None or self.planned[0] != self._now:
            self._plan(self._now, LATER)

    @property
    def _now(self) -> int:
        return int(self.env.now)

    def _who(self) -> str:
        process = self.env.active_process
        return str(process.name) if process is not None else "the program"

    def _plan(self, tick: int, priority: int) -> None:
        """The next turn; whatever was planned before is void."""
        if self.next_turn is not None:
            self.next_turn.void = True
        self.planned = tick, priority
        self.next_turn = Turn(self.env, self._take_turn)
        self.env.schedule(self.next_turn, priority, tick - self._now)  # type: ignore[arg-type]

    def _take_turn(self) -> None:
        now, world = self._now, self.store.world
        self.turn = self.turn + 1 if now == self.tick else 0
        self.tick, self.planned = now, None
        if self.turn > machine.MAX_TURNS:
            raise zero_time_loop(self, f"{self.turn} turns", self.actor)
        world[NOW] = now
        with np.errstate(over="ignore"):
            todo, self.todo = self.todo, []
            for action in todo:
                action()
            roots, self.roots = self.roots, []
            for first, last in roots:
                await_all(self.store.rows, self.store.times, self.store.world, first, last)
            self.store.world[PHASE] = BEGIN
            self._go()

    def _go(self) -> None:
        """Instants, until somebody is woken or the next SimPy event is due."""
        limit = int(min(self.env.peek(), self.until))
        store = self.store
        while True:
            world = store.world
            world[LIMIT] = limit
            world[STEPWISE] = bool(
                self.news or self.losing or self.thresholds.waiting or self.thresholds.next_turn
            )
            code = advance(store.rows, store.times, store.links, world, store.sharing.state)
            if code == ASKS:
                self._ask()
            elif code != TELLS or self._tell(int(world[NOW])):
                break
        now, due = int(store.world[NOW]), int(store.world[DUE])
        if now != self.tick:
            self.tick, self.turn = now, 0
        if due != NONE:
            self._plan(due, FIRST)
        elif now > self._now and self.until == MAX_TICK:
            self._catch_up(now)

    def _catch_up(self, tick: int) -> None:
        """Let SimPy's clock come to where the machine already is."""
        self.catching_up = tick, FIRST
        event = Turn(self.env, self._caught_up)
        self.env.schedule(event, FIRST, tick - self._now)  # type: ignore[arg-type]

    def _caught_up(self) -> None:
        self.catching_up = None

    def _tell(self, tick: int) -> bool:
        """Wake who waits: ends as they happened, losses by graph, thresholds, the settled."""
        told, self.news = self.news, []
        told += self._ends()
        for k in sorted(self.losing):
            graph = self.graphs[k]
            if graph.untold and graph.lost is not None and not graph.lost.triggered:
                told.append((graph.lost, graph.untold))
                graph.untold = []
        self.losing = {k for k in self.losing if self._owes(self.graphs[k])}
        told += [(event, None) for event in self.thresholds.reached()]
        for event, value in told:
            self._wake_at(tick, event, value)
        return bool(told)

    @staticmethod
    def _owes(graph: Graph) -> bool:
        """Whether somebody waits for the losses of a graph and there are some."""
        return bool(graph.untold and graph.lost is not None and not graph.lost.triggered)

    def _ends(self) -> list[tuple[simpy.Event, object]]:
        """Ends of this instant that somebody waits for, and of graphs."""
        store, rows, ended = self.store, self.store.rows, []
        c = int(store.world[NEWS])
        while c != NONE:
            ended.append(c)
            c = int(rows[c]["next"])
        store.world[NEWS] = NONE
        last = {bisect_right(self.bases, c) - 1: c for c in ended}
        told: list[tuple[simpy.Event, object]] = []
        for c in ended:
            told += self._end_of(c)
            k = bisect_right(self.bases, c) - 1
            if last[k] == c and store.graph_table[k, OPEN_OPS] == 0:
                told.append((self.joined[k].done, None))
        return told

    def _end_of(self, c: int) -> list[tuple[simpy.Event, object]]:
        """Tell who waits for the end of an op, if anybody does."""
        row = self.store.rows[c]
        if not row["flags"] & WATCHED:
            return []
        row["flags"] &= ~WATCHED
        self.store.world[WATCHING] -= 1
        return [(self.ends[self.id(c)], State(int(row["state"])).name.lower())]

    def _watch(self, c: int) -> None:
        self.store.rows[c]["flags"] |= WATCHED
        self.store.world[WATCHING] += 1

    # Online backends.

    def _ask(self) -> None:
        """Ask the backends of ops that started in this round, one call each."""
        store, rows = self.store, self.store.rows
        asked: dict[tuple[int, int], list[int]] = {}
        c = int(store.world[ASKED])
        while c != NONE:
            if rows[c]["flags"] & ASK:
                k = bisect_right(self.bases, c) - 1
                lowered = self.joined[k].lowered
                asked.setdefault((k, int(lowered.online[c - self.bases[k]])), []).append(c)
            c = int(rows[c]["next"])
        now = int(store.world[NOW])
        for (k, backend), cells in asked.items():
            base = self.bases[k]
            answers = self.joined[k].lowered.backends[backend]([c - base for c in cells], now)
            for c, answer in zip(cells, answers, strict=True):
                self._answer(c, answer)
        store.world[ASKING] = 0

    def _answer(self, c: int, answer: Answer) -> None:
        check_answer(self.parts, self.id(c), answer)
        row = self.store.rows[c]
        row["left"] = answer.fixed
        row["flags"] &= ~ASK
        if answer.work or answer.usage or answer.limit != NO_LIMIT or self.store.flow(c) != NONE:
            self._use(c, answer.work, answer.usage, answer.limit)

    def _use(self, c: int, work: int, usage: dict[int, int], limit: int) -> None:
        """Give an op a flow, or another one in its place."""
        sharing, flow = self.store.sharing, self.store.flow(c)
        if not usage and limit == NO_LIMIT:
            self.store.drop_flow(c)
        elif flow == NONE:
            self.store.add_flow(c, sharing.append(work, usage, limit))
        else:
            sharing.set_usage(flow, usage, limit)
            sharing.set_left(flow, work)
        self._bar(c)

    # What happens to one op.

    def _join(self, graph: Graph) -> None:
        graph.ahead = None
        graph.base = self.store.add(graph.lowered, graph.at)
        self.joined.append(graph)
        self.bases.append(graph.base)
        self.roots.append((graph.base, self.store.cells))
        for op in [op for op in self.ends if graph.first <= op < graph.first + graph.count]:
            self._watch(self.cell(op))
        if self.store.failed.any():
            for op in graph.lowered.flows.op.tolist():
                self._bar(graph.base + op)
        if not graph.count:
            self.news.append((graph.done, None))

    def _bar(self, c: int) -> None:
        """Note whether an op uses a failed component."""
        failed, row = self.store.failed, self.store.rows[c]
        row["flags"] &= ~BARRED
        if any(failed[k] for k in self._usage(c)):
            row["flags"] |= BARRED

    def _users(self, component: int) -> Iterable[int]:
        """Ops that use a component, whatever their state."""
        owners, rows = self.store.owners, self.store.rows
        for flow in flows_on(self.store.sharing, component):
            c = int(owners[flow])
            if self.store.flow(c) == flow and rows[c]["state"] not in (ENDED, CANCELLED):
                yield c

    def _set_rate(self, component: int, rate: int) -> None:
        self.rate[component] = rate
        if not self.failed(component):
            self._change(component, rate)

    def _change(self, component: int, rate: int) -> None:
        set_rate(self.store.sharing.state, component, rate)
        self.store.world[STALE] = 1

    def _fail(self, component: int) -> None:
        store = self.store
        store.part_table[component, FAILED] = 1
        rows = store.rows[: store.cells]
        holding = np.flatnonzero((rows["slot"] == component) & (rows["at"] == HELD))
        hit = {self.op_cell(int(c)) for c in holding}
        if self.rate[component] >= 0:
            self._change(component, 0)
            for c in self._users(component):
                rows[c]["flags"] |= BARRED
                if rows[c]["state"] == RUNNING:
                    hit.add(c)
        for c in sorted(hit):
            self._stop(c, f"the failure of {self.parts.names[component]}")
            graph = self._graph(c)
            left = self._work_left(c)
            graph.untold.append(Loss(self.id(c), int(rows[c]["left"]), left, component))
            self.losing.add(graph.index)

    def _work_left(self, c: int) -> int:
        flow = self.store.flow(c)
        return 0 if flow == NONE else self.store.sharing.left(flow)

    def _restore(self, component: int) -> None:
        store = self.store
        store.part_table[component, FAILED] = 0
        if self.rate[component] >= 0:
            self._change(component, self.rate[component])
            for c in self._users(component):
                self._bar(c)
        moves(store.world, int(store.world[PARTS]) + component * PART)

    def _leave(self, c: int) -> None:
        store = self.store
        if store.rows[c]["flags"] & STARTED:
            op = self.id(c)
            self.earlier[op] = self.earlier.get(op, 0) + 1
        leave_all(store.rows, store.times, store.world, store.sharing.state, c)

    def _stop(self, c: int, who: str) -> None:
        row = self.store.rows[c]
        if row["state"] in (PENDING, RUNNING):
            self._leave(c)
            row["state"] = STOPPED
            self.stopped_by[self.id(c)] = who

    def _resume(
        self, op: int, keep: bool, slots: Sequence[int] | None, usage: dict[int, int] | None
    ) -> None:
        if self._is_over(op):
            return
        store, c = self.store, self.cell(op)
        row = store.rows[c]
        if row["state"] != STOPPED:
            state = State(int(row["state"])).name.lower()
            raise self._refused(op, f"it is {state}; stop it first")
        row["state"] = PENDING
        if not keep:
            self._start_over(c)
        places = store.places(c)
        for p, slot in zip(places, slots or (), strict=slots is not None):
            store.rows[p]["slot"] = slot
        bound, left = self._limit(c), self._work_left(c)
        uses = self._usage(c) if usage is None else dict(usage)
        if left and bound == NO_LIMIT and not uses:
            raise self._refused(op, "neither usage nor limit bounds the rate of its work")
        if usage is not None:
            self._use(c, left, uses, bound)
        self.roots += [(p, p + 1) for p in places]

    def _start_over(self, c: int) -> None:
        """All the work is to be done again; an online backend is asked again."""
        graph = self._graph(c)
        row, lowered = c - graph.base, graph.lowered
        cell, flow = self.store.rows[c], self.store.flow(c)
        cell["left"] = lowered.fixed[row]
        if len(lowered.online) and lowered.online[row] >= 0:
            cell["flags"] |= ASK
        at = int(np.searchsorted(lowered.flows.op, row))
        if at < len(lowered.flows) and lowered.flows.op[at] == row:
            work = lowered.flows.work(at)
            if flow != NONE:
                self.store.sharing.set_left(flow, work)
            elif work:
                raise self._refused(self.id(c), "nothing bounds the rate of its work")
        elif flow != NONE:
            self.store.sharing.set_left(flow, 0)

    def _usage(self, c: int) -> dict[int, int]:
        flow = self.store.flow(c)
        return {} if flow == NONE else usage(self.store.sharing, flow)

    def _limit(self, c: int) -> int:
        flow = self.store.flow(c)
        return NO_LIMIT if flow == NONE else limit(self.store.sharing, flow)

    def _refused(self, op: int, why: str) -> SimulationError:
        message = f"op {op}: cannot be resumed: {why}"
        return SimulationError("action", message, (op,), self.open_ops())

    def _cancel(self, ops: Sequence[int]) -> None:
        store, rows, links = self.store, self.store.rows, self.store.links
        gone: set[int] = set()
        todo = [self.cell(op) for op in ops if not self._is_over(op)]
        while todo:
            c = todo.pop()
            if c not in gone and rows[c]["state"] not in (ENDED, CANCELLED):
                gone.add(c)
                after = links[rows[c]["first"] : rows[c + 1]["first"]]
                todo += [self.op_cell(p) for p in after.tolist()]
        for c in sorted(gone):
            self._leave(c)
            rows[c]["state"] = CANCELLED
            self.news += self._end_of(c)
            store.world[OPEN] -= 1
            k = bisect_right(self.bases, c) - 1
            store.graph_table[k, OPEN_OPS] -= 1
            if store.graph_table[k, OPEN_OPS] == 0:
                self.news.append((self.joined[k].done, None))

    # The run as a whole.

    def due(self) -> tuple[int, int] | None:
        """Tick and priority of the turn that is planned."""
        return self.planned or self.catching_up

    def open_ops(self) -> tuple[int, ...]:
        """Ops that have neither ended nor been cancelled."""
        found: list[int] = []
        for graph in self.graphs:
            if graph.base == NONE:
                found += [] if graph.over else range(graph.first, graph.first + graph.count)
            else:
                state = self.store.rows["state"][graph.base : graph.base + graph.count]
                live = np.flatnonzero((state != ENDED) & (state != CANCELLED))
                found += (graph.first + live).tolist()
        return tuple(found)

    def run(self, until: int | None = None) -> None:
        """Go on until nothing is open, or to a tick: its first turn included, no process.

        Raises
        ------
        SimulationError
            Nothing can happen and ops are open: lost, time overflow, starvation, deadlock.
        """
        self.until = MAX_TICK if until is None else until
        if until is None and self._may_run_ahead():
            self._run_ahead()
        drive(self, until)
        if until is None and self.store.world[OPEN]:
            raise diagnose(stuck(self))

    def _may_run_ahead(self) -> bool:
        """Whether all that is open follows its schedule: nobody can see or alter it on the way."""
        fresh = [g for g in self.graphs if g.base == NONE and not g.over]
        lonely = all(isinstance(event, Turn) for *_, event in self.env._queue)
        if not (self.runs_ahead and fresh and lonely and len(self.todo) == len(fresh)):
            return False
        if self.store.world[OPEN] or self.store.failed.any() or self.thresholds.waiting:
            return False
        if any(g.ahead is None or not g.ahead.holds or g.done.callbacks for g in fresh):
            return False
        if any(op >= fresh[0].first for op in self.ends):
            return False
        wanted = sum(g.ahead.chains for g in fresh if g.ahead is not None)
        return bool(np.all((wanted <= self.parts.slots) | (self.parts.slots < 0)))

    def _run_ahead(self) -> None:
        """All ops end as scheduled; SimPy's clock follows."""
        self.todo = []
        if self.next_turn is not None:
            self.next_turn.void = True
        self.planned, last = None, self._now
        for graph in [g for g in self.graphs if g.base == NONE and not g.over]:
            assert graph.ahead is not None
            end = int(graph.ahead.finish.max(initial=graph.at))
            graph.over, last = True, max(last, end)
            self._wake_at(end, graph.done, None)
        if last > self._now:
            self._catch_up(last)

    def _wake_at(self, tick: int, event: simpy.Event, value: object) -> None:
        event._ok, event._value = True, value
        self.env.schedule(event, FIRST, tick - self._now)  # type: ignore[arg-type]

    def columns(self) -> Columns:
        """What has happened so far."""
        return columns(self)


class _Thresholds(Thresholds):
    """The same, read off the core."""

    engine: CoreMachine

    def _value(self, one: Threshold) -> int:
        if one.what == "flows":
            return int(users(self.engine.store.sharing.state, one.component))
        if one.what == "queue":
            return len(self.engine.queue(one.component))
        return self.engine.held(one.component)
