"""Return of what policies wait for, and of what they did, from the desk to SimPy and the run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from itertools import count
from typing import Any, cast

import simpy
from simpy.events import NORMAL

from ...engine_api.driven_policy import FixedShape
from ...engine_api.interface import FIRST, LATER
from ...kernel import policy_rows as rows
from ..memory import state_layout as lay
from ..memory.block import GraphBlock
from ..memory.run_memory import GraphOffsets
from ..memory.state_layout import NONE
from ..submitted_graph import SubmittedGraph
from . import desk_layout as dl
from .desk_memory import DeskMemory


class ReturnedDesk(DeskMemory):
    """Desk that becomes SimPy's events, handles and noted actions again."""

    def _return_to_simpy(self, code: int, error: Exception | None) -> None:
        engine, now, env = self.engine, self.now, self.engine.env
        world = engine.store.world
        tick = world.item(lay.NOW) if code in (dl.OVER, lay.PAUSES) else now.item(dl.TICK)
        env._now = max(tick, now.item(dl.TICK))
        env._eid = count(now.item(dl.NUMBER))
        engine.tick, engine.turn = env._now, now.item(dl.TURNS_AT_TICK)
        engine.turns += now.item(dl.TURNS)
        self._give_samples()
        self._return_amounts()
        self._return_stores()
        for time, order, k, kind, tag in self._timers():
            heappush(env._queue, (time, NORMAL, order, self._due_event(k, kind, tag)))
        self.mail.give_back(self.desk.mail)
        handles = self._return_submissions()
        self._return_noted(handles)
        if code == lay.HEAVY:
            raise engine.excess_weight_error()
        if code == lay.TELLS:
            self.mail.undo_deliveries(self.desk.mail)
            engine.thresholds.next_turn += self._settled()
            engine._wake_processes(env._now, env._now)
        else:
            self._return_wakes(handles)
        due = world.item(lay.DUE)
        if engine.todo:
            engine._plan_turn(env._now, LATER)
        elif due != NONE:
            engine._plan_turn(due, FIRST)
        self.desk.owner[:] = NONE
        if now[dl.CALLING] != NONE:
            called = bool(now[dl.CALLED])
            policy = self.driven[now.item(dl.CALLING)]
            if policy.event[rows.KIND] == rows.MESSAGE:
                policy.end_receipt()
            policy.go_on(now.item(dl.ROW), now.item(dl.CODE) if called else None, error)

    def _due_event(self, k: int, kind: int, tag: int) -> simpy.Event:
        """Event of a timer, an arrival or a kept message of a policy."""
        if kind == rows.MESSAGE:
            event, value = self.mail.fill(self.desk.mail.letters[tag].tolist())
            event._ok, event._value = True, value
            return event
        made = simpy.Event(self.engine.env)
        made._ok, made._value = True, None
        self.driven[k].add_timer(made, kind, tag)
        return made

    def _timers(self) -> list[list[int]]:
        found: list[list[int]] = self.desk.timers[: self.now[dl.TIMERS]].tolist()
        return sorted(found)

    def _return_submissions(self) -> list[SubmittedGraph]:
        """Give Python the submissions of the loop; returns the handle of each."""
        engine, now = self.engine, self.now
        subs = self.desk.submissions[: now[dl.SUBMITTED]].tolist()
        for one, handle in zip(subs, self.handed, strict=False):
            if one[dl.SUB_OVER]:
                self.driven[one[dl.SUB_BY]].end_submission(handle)
        handles = list(self.handed)
        self._free_reserved(subs)
        self._note_sizes()
        handles.extend(map(self._handle, subs[len(self.handed) :]))
        engine.submissions, engine.count = now.item(dl.SUBMISSIONS), now.item(dl.OPS)
        counts = self.desk.names.tolist()
        for (job, name), total in zip(self.names, counts, strict=True):
            owner = next(p for p in self.driven if p.job == job)
            if name:
                owner.submission_counts()[name] = total
        return handles

    def _handle(self, one: list[int]) -> SubmittedGraph:
        """Handle of a submission of the loop."""
        engine, is_over = self.engine, bool(one[dl.SUB_OVER])
        shape = cast(FixedShape, self.given[one[dl.SUB_SHAPE]])
        block = cast(GraphBlock, shape.shape)
        policy, point = self.driven[one[dl.SUB_BY]], self.grids.point(one)
        way = self.ways.way_of.get(one[dl.SUB_SHAPE])
        given = policy.submission(one[dl.SUB_GRAPH], way, point)
        made = SubmittedGraph(
            engine.env, one[dl.SUB_INDEX], one[dl.SUB_FIRST], block, one[dl.SUB_AT], None,
            shape.numbers if point is None else lambda: given.numbers,
        )  # fmt: skip
        is_freed = bool(one[dl.SUB_FREED])  # then only its end is still to be reported
        if not is_freed:
            engine.graphs.append(made)
            engine.firsts.append(made.first)
            engine.held_ops += made.count
            self._place(made, one)
        if is_over:
            made.done._ok, made.done._value, made.done.callbacks = True, None, cast(Any, None)
        policy.add_submission(
            made, one[dl.SUB_GRAPH], one[dl.SUB_TAG], one[dl.SUB_AT], one[dl.SUB_KEY], is_over,
            is_freed, given,
        )  # fmt: skip
        return made

    def _place(self, made: SubmittedGraph, one: list[int]) -> None:
        """Tell the engine where a submission of the loop lies in memory, if it joined."""
        engine, block = self.engine, cast(GraphBlock, made.block)
        if one[dl.SUB_CELL] == NONE:
            engine.to_join.append(made)
            return
        cell, collective, flow, use, holder, claim = one[dl.SUB_CELL : dl.SUB_OVER]
        made.move(
            GraphOffsets(
                cell, len(block.cells), collective, len(block.collectives), flow, use,
                holder, len(block.holders), claim, len(block.claims),
            )
        )  # fmt: skip
        engine.joined.append(made)
        engine.bases.append(made.base)

    def _free_reserved(self, subs: list[list[int]]) -> None:
        """Free the reserved rows that no graph in memory uses."""
        store, pool_of = self.engine.store, self.desk.shapes[:, dl.POOL].tolist()
        joined = {
            (pool_of[one[dl.SUB_SHAPE]], one[dl.SUB_FLOW], one[dl.SUB_CLAIM])
            for one in subs[len(self.handed) :]
            if one[dl.SUB_CELL] != NONE and not one[dl.SUB_FREED]
        }
        for sizes, k in self.ways.sizes.items():
            for flow, use, holder, claim in self.reserved.get(k, ()):
                if (k, flow, claim) not in joined:
                    flows, uses, holders, claims = sizes
                    store.free_reserved_rows(
                        (flow, flows), (use, uses), (holder, holders), (claim, claims)
                    )

    def _return_noted(self, handles: list[SubmittedGraph]) -> None:
        """Note the actions of the loop that are not applied yet."""
        engine = self.engine
        noted = self.desk.noted[: self.now[dl.NOTED]].tolist()
        for verb, what, amount, by in noted:
            engine.todo.append(self._action(verb, what, amount, by, handles))
        if noted:
            engine.actor = self.driven[self.now.item(dl.ACTOR)].name

    def _action(
        self, verb: int, what: int, amount: int, by: int, handles: list[SubmittedGraph]
    ) -> Callable[[], None]:
        engine = self.engine
        if verb == rows.SUBMIT:
            return lambda: engine._join(handles[what])
        if verb == rows.SEND:
            return self.mail.post(self.desk.mail.letters[what].tolist())
        if verb == rows.SETTLE:
            self.driven[by].add_timer(engine.thresholds.settled(), rows.SETTLED, what)
            return lambda: None
        if verb == rows.TAKE:
            return lambda: engine._note_taken(what, amount)
        return lambda: engine._return_capacity(what, -amount)

    def _return_stores(self) -> None:
        """Give the stores back, and let those that changed settle in the next turn."""
        settles = self.lent.give_back()
        if settles is not None:
            self.engine.todo.append(settles)
            self.engine.actor = self.driven[self.now.item(dl.ACTOR)].name

    def _return_wakes(self, handles: list[SubmittedGraph]) -> None:
        """Schedule the ends and messages of this turn for which no kernel was called yet."""
        for row in self.desk.wakes[self.now[dl.WAKE] : self.now[dl.WAKES]].tolist():
            self.engine._wake_in(0, handles[row].done, None)
        for letter in self.mail.delivered(self.desk.mail):
            self.engine._wake_in(0, *self.mail.fill(letter))
        for event in self._settled():
            self.engine._wake_in(0, event, None)

    def _settled(self) -> list[simpy.Event]:
        """Events SETTLED of this turn for which no kernel was called yet."""
        which, events = slice(self.now[dl.NEXT_SETTLED], self.now[dl.SETTLED]), []
        for k, tag in self.desk.settled[which].tolist():
            events.append(self.engine.env.event())
            self.driven[k].add_timer(events[-1], rows.SETTLED, tag)
        return events

    def _return_amounts(self) -> None:
        """Record what processes hold now."""
        self._give_changes()
        book, begun = self.engine.ledger, []
        for row, (key, own) in enumerate(zip(self.keys.keys, self.desk.own.tolist(), strict=True)):
            (component, *_), who = key, key[1:]
            holding, began, taken, first = own
            line = book.held.get(component, {})
            if row == first:
                book.taken[component] = taken
            if began != NONE or not holding:
                line.pop(who, None)
            else:
                line[who] = holding
            if began != NONE and holding:
                begun.append((began, component, who, holding))
        for _, component, who, holding in sorted(begun):
            book.held.setdefault(component, {})[who] = holding
