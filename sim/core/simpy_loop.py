"""Turns of the compiled engine as SimPy events: commands, timings of online backends, wake-ups."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np
import simpy

from ..engine_api.interface import FIRST, MAX_TICK, NO_LIMIT, Answer, ComponentTable, OnlineTiming
from ..engine_api.medium_api import Medium
from ..engine_api.remaining_work import ALL
from ..engine_api.simpy_clock import Turn
from ..engine_api.validation import check_answer, excess_weight_error
from ..kernel.jit import INTERPRETED, compiled_for_argument_types
from ..media.max_min.table_layout import State
from .actions import Actions
from .executor import run_instants
from .memory import state_layout as lay
from .memory.plugged_memory import Plugged
from .memory.run_memory import RunMemory
from .memory.state_layout import NONE
from .slots import arrive_range_at_release
from .submitted_graph import SubmittedGraph

OVER = {lay.ENDED: "ended", lay.CANCELLED: "cancelled", lay.DROPPED: "dropped"}


@cache
def _compiled_loop(medium: Medium | None) -> Callable[..., int]:
    """Main loop of the engine, compiled for the argument types of a run."""
    nothing = np.empty(0, np.int64)
    of = RunMemory(ComponentTable((), nothing.astype(np.int32), nothing, nothing, medium=medium))
    state = of.sharing.state
    plugged = None if of.plugged is None else of.plugged.kernel_argument(state)
    types = of.rows, of.times, of.links, of.world, state, 0, 1, plugged
    return compiled_for_argument_types(run_instants, *types)


class SimpyLoop(Actions):
    """Turns of the compiled engine as SimPy events; between two turns only kernels run."""

    def _run_turn(self, now: int) -> None:
        self.store.world[lay.NOW] = now
        if INTERPRETED:
            with np.errstate(over="ignore"):
                self._apply_commands()
                self._run_until_wake(now)
        else:
            if self.todo:
                self._apply_commands()
            self._run_until_wake(now)

    def _apply_commands(self) -> None:
        """Apply the commands that processes gave since the last turn, in order."""
        todo, self.todo = self.todo, []
        for action in todo:
            action()
        roots, self.roots = self.roots, []
        for first, last in roots:
            arrive_range_at_release(
                self.store.rows, self.store.times, self.store.world, first, last
            )

    def _plugged(self, medium: State) -> Plugged | None:
        plugged = self.store.plugged
        return None if plugged is None else plugged.kernel_argument(medium)

    def _run_until_wake(self, began: int) -> None:
        """Run instants until a process must be woken or SimPy has an event."""
        store, code = self.store, lay.TELLS
        world, medium = store.world, store.sharing.state
        world[lay.PHASE] = lay.BEGIN
        limit, plugged = int(min(self.env.peek(), self.until)), self._plugged(medium)
        run = _compiled_loop(self.parts.medium)
        while True:
            if code == lay.TELLS:
                stepwise = self._is_awaited()
            code = run(
                store.rows, store.times, store.links, world, medium, limit, stepwise, plugged
            )
            if code == lay.ASKS:
                self._ask()
                world, medium = store.world, store.sharing.state  # answers may make them grow
                if plugged is not None:
                    plugged = self._plugged(medium)
            elif code == lay.HEAVY:
                raise self.excess_weight_error()
            elif code != lay.PAUSES and (
                code != lay.TELLS or self._wake_processes(world.item(lay.NOW), began)
            ):
                break
        now, due = world.item(lay.NOW), world.item(lay.DUE)
        if now != began:
            self.tick, self.turn = now, 0
        if due != NONE:
            self._plan_turn(due, FIRST)
        elif now > began and self.until == MAX_TICK:
            self._advance_simpy_clock(now)

    def excess_weight_error(self) -> Exception:
        """Error that names the component whose weights in flight are too large."""
        usage = {op: self.usage(op) for op in self.rates()}
        usage = {op: own for op, own in usage.items() if not self.parts.is_plugged(own)}
        return excess_weight_error(self.parts, usage, self.open_ops) or AssertionError(
            "the kernels report too large weights in flight, but no component has them"
        )

    def _is_awaited(self) -> int:
        """1 if a process waits for the end of the current instant, else 0."""
        waits = self.thresholds
        mail = self.mail.posted
        return int(bool(self.news or self.losing or waits.waiting or waits.next_turn or mail))

    def _advance_simpy_clock(self, tick: int) -> None:
        """Advance SimPy's clock to the tick of the engine."""
        self.catching_up = tick, FIRST
        event = Turn(self.env, self._caught_up)
        self.env.schedule(event, FIRST, tick - self._now)  # type: ignore[arg-type]

    def _caught_up(self, _: simpy.Event) -> None:
        self.catching_up = None

    def _wake_processes(self, tick: int, began: int) -> bool:
        """Wake processes: ends, losses, grants, messages, thresholds and `settled`, in this order.

        True if any was woken.
        """
        online_times = self._ends()
        if self.news:
            online_times, self.news = self.news + online_times, []
        if self.losing:
            online_times += self._losses_by_graph()
        if self.store.world.item(lay.GRANTS) != NONE:
            online_times += self._grant_events(tick)
        if self.mail.posted:
            online_times += self.mail.deliveries()
        if self.thresholds.waiting or self.thresholds.next_turn:
            online_times += [(event, None) for event in self.thresholds.reached()]
        for event, value in online_times:
            self._wake_in(tick - began, event, value)
        return bool(online_times)

    def _grant_events(self, tick: int) -> list[tuple[simpy.Event, object]]:
        """Events of capacity requests that were granted in this instant, in request order."""
        store = self.store
        number, store.world[lay.GRANTS] = store.world.item(lay.GRANTS), NONE
        found = []
        while number != NONE:
            found.append(self.asked.pop(number))
            store.claim_rows.free(number, 1)
            number = int(store.claim_table[number, lay.BEHIND])
        return [(grant, None) for grant in self.ledger.note_grants(tick, found)]

    def _ends(self) -> list[tuple[simpy.Event, object]]:
        """Events of awaited op ends in this instant; a graph's end follows its last op's."""
        store = self.store
        c = store.world.item(lay.NEWS)
        online_times: list[tuple[simpy.Event, object]] = []
        if c != NONE:
            store.world[lay.NEWS] = NONE
        while c != NONE:
            flags, graph = store.flags.item(c), self._graph(c)
            if flags & lay.WATCHED:
                store.flags[c] = flags & ~lay.WATCHED
                event = self.ends.pop(graph.first + c - graph.base)
                online_times.append((event, OVER[store.state.item(c)]))
            if flags & lay.LAST:
                online_times.append((graph.done, None))
            c = store.next.item(c)
        return online_times

    def _ask(self) -> None:
        """Ask online backends to time the ops that started in this round, one call per backend."""
        store, world = self.store, self.store.world
        asked: dict[tuple[int, int], list[int]] = {}
        c = world.item(lay.ASKED)
        while c != NONE:
            if store.flags.item(c) & lay.ASK:
                k = bisect_right(self.bases, c) - 1
                graph = self.joined[k]
                row = c - graph.base
                # a moved op gets its own call
                alone = row in graph.moved or store.flags.item(c) & lay.SENT
                backend = NONE - c if alone else graph.shape.online.item(row)
                asked.setdefault((k, backend), []).append(c)
            c = store.next.item(c)
        now = world.item(lay.NOW)
        for (k, backend), cells in asked.items():
            graph = self.joined[k]
            base = graph.base
            if backend < 0:
                ask = self._timing_elsewhere(graph, cells[0])
            else:
                ask = graph.backends[backend]
            answers = ask([c - base for c in cells], now)
            for c, answer in zip(cells, answers, strict=True):
                self._answer(graph, c, answer)
        store.world[lay.ASKING] = 0

    def _timing_elsewhere(self, graph: SubmittedGraph, c: int) -> OnlineTiming:
        """Backend of a moved op, or of one that a full queue sent elsewhere."""
        row = c - graph.base
        if self.store.flags.item(c) & lay.SENT:
            self.store.flags[c] = self.store.flags.item(c) & ~lay.SENT
            slot = int(self.store.rows[c]["slot"])
            graph.moved[row] = there = self.elsewhere(self.op_id(c), slot)
            if isinstance(there, Answer):
                return lambda rows, now: [there]
        return cast(OnlineTiming, graph.moved[row])

    def _answer(self, graph: SubmittedGraph, c: int, answer: Answer) -> None:
        """Store the timing that an online backend returned for an op."""
        store, (fixed, work, usage, limit) = self.store, answer
        plain = not work and not usage and limit == NO_LIMIT
        if not plain or not 0 <= fixed <= MAX_TICK:
            check_answer(self.parts, self.op_id(c), answer)
        graph.set_online_times(c - graph.base, fixed, work)
        if graph.share:
            fixed, work = graph.share.pop(c - graph.base, ALL).apply_to(fixed, work)
        store.left[c] = fixed
        store.flags[c] = store.flags.item(c) & ~lay.ASK
        if not plain or store.flow(c) != NONE:
            self._use(c, work, usage, limit)

    def _wake_in(self, ticks: int, event: simpy.Event, value: object) -> None:
        event._ok, event._value = True, value
        self.env.schedule(event, FIRST, ticks)  # type: ignore[arg-type]

    def _may_run_ahead(self) -> bool:
        """True if all open graphs can follow static schedules, unobserved by processes."""
        fresh = self._graphs_to_join()
        lonely = all(isinstance(event, Turn) for *_, event in self.env._queue)
        if not (self.runs_ahead and fresh and lonely and len(self.todo) == len(fresh)):
            return False
        if self.store.world[lay.OPEN] or self.store.failed.any() or self.thresholds.waiting:
            return False
        if any(g.ahead is None or g.done.callbacks for g in fresh):
            return False
        if any(op >= fresh[0].first for op in self.ends):
            return False
        wanted = sum(g.ahead.chains for g in fresh if g.ahead is not None)
        return bool(np.all((wanted <= self.parts.slots) | (self.parts.slots < 0)))

    def _run_ahead(self) -> None:
        """Advance directly to the end of all static schedules, and set SimPy's clock."""
        self.todo, self.planned = [], None
        if self.next_turn is not None:
            self.next_turn.cancel()
        last, fresh = self._now, self._graphs_to_join()
        self.to_join = []
        for graph in fresh:
            end = graph.last_scheduled_end()
            graph.over, last = True, max(last, end)
            self._wake_in(end - self._now, graph.done, None)
        if last > self._now:
            self._advance_simpy_clock(last)

    def _graphs_to_join(self) -> list[SubmittedGraph]:
        """Submitted graphs that have not yet been added to the run."""
        return self.to_join

    def due(self) -> tuple[int, int] | None:
        """Tick and SimPy priority of the engine's next planned turn."""
        return self.planned or self.catching_up
