"""Driver of compiled processes: between two ticks it runs their kernels in the compiled loop.

What the processes wait for moves from SimPy's queue to the desk, and back when anybody else has an
event, or when Python must decide something. ``sim/run/policies/policy_run.py`` then goes on; so it
defines what a compiled process means, and this module only makes it fast.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from heapq import heapify, heappush
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
import simpy
from simpy.events import NORMAL

from ...engine_api.driven_policy import DrivenPolicy, FixedShape
from ...engine_api.interface import FIRST, LATER, MAX_TICK, State
from ...engine_api.simpy_clock import Turn
from ...kernel import policy_rows as rows
from ...kernel.jit import compiled_for_arrays
from ..flat_graphs import FlatGraphs
from ..memory import state_layout as lay
from ..memory.block import GraphBlock
from ..memory.run_memory import GraphOffsets
from ..memory.state_layout import NONE
from ..simpy_loop import SimpyLoop
from ..submitted_graph import SubmittedGraph
from . import desk_layout as dl
from .desk_layout import Array, Desk
from .desk_tables import PartTables, shape_row, table
from .submissions import GRAPH_AS_OPS

SAMPLES_AT_ONCE, NOTES_AT_ONCE = 1 << 14, 1 << 8
RESERVED_AT_ONCE, MOST_RESERVED = 16, 1 << 10
DULL, LONGEST_WAIT = 16, 1 << 10  # calls in a loop that are too few; events until the next try


class Waits(NamedTuple):
    """What policies wait for in SimPy's queue."""

    timers: list[list[int]]
    events: list[tuple[DrivenPolicy, simpy.Event]]
    open: dict[simpy.Event, tuple[Any, int, int, int]]  # handle, policy, tag, graph, by `done`
    ended: list[Any]  # handles of those that ended at one tick, in order
    ended_at: int
    others: list[Any]  # the rest of the queue
    limit: int  # its earliest tick


class PolicyDriver:
    """Driver of the compiled processes of one run.

    Parameters
    ----------
    engine : compiled engine of the run
    """

    def __init__(self, engine: SimpyLoop):
        self.engine = engine
        self.policies: list[DrivenPolicy] = []
        self.addresses: dict[DrivenPolicy, tuple[int, int]] = {}
        self._arrivals: dict[DrivenPolicy, Array] = {}
        self._wait, self._idle = 0, 0  # events until the next try; and after the one that follows
        self._owner = np.full(1, NONE, np.int64)

    def add(self, policy: DrivenPolicy) -> None:
        """Drive a compiled process, if its kernel is compiled and returns integers."""
        from ...kernel.native_calls import call_addresses

        if not hasattr(policy.kernel, "overloads"):
            return
        found = call_addresses(policy.kernel, policy.state, policy.event, policy.turn)
        if found is not None:
            self.policies.append(policy)
            self.addresses[policy] = found
            self._arrivals[policy] = policy.arrival_ticks

    def run(self) -> tuple[int, int] | None:
        """Run the loop if nothing prevents it; returns calls so far, and at the current tick."""
        if self._wait:
            self._wait -= 1
            return None
        engine = self.engine
        if engine.todo or engine.env.peek() <= engine.env.now or not self._may_run():
            return None
        self.policies = [one for one in self.policies if one.is_alive]
        driven = [one for one in self.policies if one not in engine.watchers]
        if not driven:
            return None
        waits = self._waits(driven)
        due = engine.planned[0] if engine.planned else MAX_TICK
        if due <= waits.ended_at < MAX_TICK:
            return None
        first = min([due, waits.ended_at, *(timer[dl.AT] for timer in waits.timers)])
        if first >= waits.limit:
            return None
        return self._run(driven, waits)

    def _may_run(self) -> bool:
        engine = self.engine
        world, waits = engine.store.world, engine.thresholds
        busy = engine.news or engine.losing or engine.mail.posted or engine.to_join
        return not (
            busy or waits.waiting or waits.next_turn or world.item(lay.ONLINE)
            or engine.store.plugged is not None or engine.parts.queues is not None
        )  # fmt: skip

    def _waits(self, driven: Iterable[DrivenPolicy]) -> Waits:
        """Split SimPy's queue into timers of policies and the rest."""
        number = {policy: k for k, policy in enumerate(driven)}
        timers, events, others, limit = [], [], [], MAX_TICK
        opened = {
            handle.done: (handle, number[p], tag, graph)
            for p in driven
            for handle, tag, graph in p.open_submissions()
        }
        ended = []
        for item in self.engine.env._queue:
            tick, _, order, event = item
            callbacks = event.callbacks
            if isinstance(event, Turn):
                continue  # planned anew after the loop
            if event in opened:
                ended.append((order, opened[event][0], int(tick)))
                continue
            who = getattr(callbacks[0], "__self__", None) if len(callbacks) == 1 else None
            k = number.get(cast(Any, who)) if isinstance(who, simpy.Event) else None
            found = None if k is None else cast(DrivenPolicy, who).timer(event)
            if k is None or found is None:
                others.append(item)
                limit = min(limit, int(tick))
            else:
                timers.append([int(tick), order, k, *found])
                events.append((cast(DrivenPolicy, who), event))
        handles = [handle for _, handle, _ in sorted(ended, key=lambda one: one[0])]
        at = ended[0][2] if ended else MAX_TICK
        return Waits(timers, events, opened, handles, at, others, limit)

    def _run(self, driven: list[DrivenPolicy], waits: Waits) -> tuple[int, int]:
        made = PolicyLoop(self.engine, driven, self.addresses, self._arrivals, waits, self._owner)
        self._owner = made.run()
        events = made.now.item(dl.EVENTS)
        moved = len(waits.timers) + made.now.item(dl.TIMERS)
        if events < DULL + moved // 16:
            self._idle = min(2 * self._idle + 1, LONGEST_WAIT)
            self._wait = self._idle + moved // 16
        else:
            self._idle = 0
        return events, made.now.item(dl.EVENTS_AT_TICK)


class PolicyLoop:
    """One run of the compiled loop, from SimPy's events and back to them."""

    def __init__(
        self,
        engine: SimpyLoop,
        driven: list[DrivenPolicy],
        addresses: dict[DrivenPolicy, tuple[int, int]],
        arrivals: dict[DrivenPolicy, Array],
        waits: Waits,
        owner: Array,
    ):
        self.engine, self.driven = engine, driven
        self.keys: PartTables = PartTables()
        self.names: dict[tuple[int, str], int] = {}
        self.given: list[FixedShape | None] = []
        self.handed: list[SubmittedGraph] = []
        self.reserved: dict[int, list[tuple[int, int, int, int]]] = {}
        self.returned: dict[int, list[tuple[int, int, int, int]]] = {}
        self.records: dict[int, Any] = {}
        self._leave_simpy(waits)
        self.desk = self._desk(addresses, arrivals, waits, owner)
        self.now = self.desk.now
        self._hand_in_submissions(waits)

    # From SimPy to the desk.

    def _leave_simpy(self, waits: Waits) -> None:
        engine, env = self.engine, self.engine.env
        env._queue = waits.others  # type: ignore[assignment]
        heapify(env._queue)
        for policy, event in waits.events:
            policy.forget_timer(event)
        engine.planned = engine.next_turn = engine.catching_up = None
        engine.store.world[lay.PHASE] = lay.IDLE

    def _desk(
        self,
        addresses: dict[DrivenPolicy, tuple[int, int]],
        arrivals: dict[DrivenPolicy, Array],
        waits: Waits,
        owner: Array,
    ) -> Desk:
        from ...kernel.native_calls import call_row, table_of_rows

        engine, now = self.engine, dl.new_numbers()
        now[dl.TICK], now[dl.LIMIT] = int(engine.env.now), waits.limit
        now[dl.NUMBER], now[dl.TIMERS] = next(engine.env._eid), len(waits.timers)
        now[dl.SUBMISSIONS], now[dl.OPS] = engine.submissions, engine.count
        now[dl.HELD] = engine.held_ops + GRAPH_AS_OPS * engine.held_graphs
        now[dl.MOST_HELD] = self._most_held()
        now[dl.CANCELS], now[dl.CELLS] = int(engine.cancels > 0), engine.store.cells
        now[dl.EDGES], now[dl.COLLECTIVES] = engine.store.edges, engine.store.collectives
        calls, policies, shapes = [], [], list[list[int]]()
        may_flow = not engine.store.failed.any()
        for p in self.driven:
            adapter, kernel = addresses[p]
            calls.append(call_row(kernel, p.state, p.event, p.turn))
            arrays = p.event, p.turn.head, p.turn.actions, p.turn.numbers, p.turn.parts
            given, used, waiting = p.shapes(), len(self.keys.used), p.wait_count
            for part in range(len(p.part_numbers)):
                self.keys.add(engine, p, part)
            mine = [timer for timer in waits.timers if timer[dl.WHOSE] == len(policies)]
            ticks = arrivals[p]
            policies.append(
                [
                    adapter, *(one.ctypes.data for one in arrays), len(p.part_numbers),
                    len(p.metrics), len(shapes), len(given), used, ticks.ctypes.data,
                    p.arrival_columns.ctypes.data, len(ticks), waiting + len(mine),
                ]  # fmt: skip
            )
            for shape in given:
                key = p.job, "" if shape is None else shape.name
                name = self.names.setdefault(key, len(self.names))
                shapes.append(shape_row(shape, name, may_flow))
            self.given += given
        counts = {p.job: p.submission_counts() for p in self.driven}
        names = [counts[job].get(name, 0) for job, name in self.names]
        timers = np.zeros((2 * len(waits.timers) + 64, dl.TIMER), np.int64)
        timers[: len(waits.timers)] = table(sorted(waits.timers), dl.TIMER)
        if len(owner) < engine.store.room[lay.GRAPHS]:
            owner = np.full(engine.store.room[lay.GRAPHS], NONE, np.int64)
        return Desk(
            now, table_of_rows(calls), table(policies, dl.POLICY), timers,
            np.zeros((SAMPLES_AT_ONCE, dl.SAMPLE), np.int64), np.zeros(SAMPLES_AT_ONCE),
            table(self.keys.used, dl.USED_PART), table(self.keys.own, dl.OWN_ROW),
            np.zeros((SAMPLES_AT_ONCE, dl.CHANGE), np.int64),
            np.zeros((NOTES_AT_ONCE, dl.NOTE), np.int64),
            np.zeros((64, dl.SUB), np.int64), np.zeros(64, np.int64), owner, table(shapes, dl.SHAPE),
            np.zeros((0, 4), np.int64), np.array(names, np.int64).reshape(-1),
        )  # fmt: skip

    def _hand_in_submissions(self, waits: Waits) -> None:
        """Move the open submissions of policies to the desk, and those whose ends wake now."""
        engine, found, ended = self.engine, [], list[int]()
        for handle, *who in waits.open.values():
            one = [0] * dl.SUB
            one[: dl.SUB_SHAPE] = who
            at = bisect_right(engine.bases, handle.base) - 1
            self.desk.owner[at] = len(found)
            found.append(one)
            self.handed.append(handle)
        if len(found) > len(self.desk.submissions) // 2:
            rows = 2 * len(found)
            self.desk = self.desk._replace(
                submissions=np.zeros((rows, dl.SUB), np.int64), wakes=np.zeros(rows, np.int64)
            )
        self.desk.submissions[: len(found)] = table(found, dl.SUB)
        self.now[dl.SUBMITTED] = len(found)
        if waits.ended:
            row_of = {id(handle): row for row, handle in enumerate(self.handed)}
            ended = [row_of[id(handle)] for handle in waits.ended]
            self.desk.wakes[: len(ended)], self.now[dl.WAKES] = ended, len(ended)
            self.now[dl.TICK] = waits.ended_at
        for row, handle in zip(ended, waits.ended, strict=True) if engine.cancels else ():
            ops = range(handle.first, handle.first + handle.count)
            gone = sum(engine.state(op) != State.ENDED for op in ops)
            self.desk.submissions[row, dl.SUB_CANCELLED] = gone

    # The loop.

    def run(self) -> Array:
        """Run until Python must decide; returns the array of the owners of graphs."""
        from .policy_loop import run_policies

        self._make_room()
        error, call = None, None
        while True:
            store = self.engine.store
            machine = store.rows, store.times, store.links, store.world, store.sharing.state
            if call is None:
                call = compiled_for_arrays(run_policies, machine, self.desk)
            try:
                code = call(machine, self.desk)
            except Exception as raised:  # a kernel can raise anything
                code, error = dl.SLOW, raised
                break
            if code == lay.PAUSES and self.now[dl.EVENTS] < dl.ROUND:
                self._give_samples()
                self._give_changes()
            elif code == dl.FULL or (code == dl.FOLD and self._free_ended_graphs()):
                self._make_room()
            else:
                break
        self._return_to_simpy(code, error)
        return self.desk.owner

    def _make_room(self) -> None:
        """Make room in all tables for what the loop may add next."""
        desk, now = self.desk, self.now
        self._give_samples()
        self._give_changes()
        timers, noted, submissions = desk.timers, desk.noted, desk.submissions
        if now[dl.TIMERS] > len(timers) // 2:
            timers = _grown(timers)
        if now[dl.NOTED] > len(noted) // 2:
            noted = _grown(noted)
        if now[dl.SUBMITTED] > len(submissions) // 2:
            submissions = _grown(submissions)
        wakes = np.zeros(len(submissions), np.int64)
        wakes[: len(desk.wakes)] = desk.wakes
        self.desk = desk._replace(timers=timers, noted=noted, submissions=submissions, wakes=wakes)
        self._make_room_for_graphs()

    def _make_room_for_graphs(self) -> None:
        """Make room in the memory of the run for further submissions of all prepared graphs."""
        shapes = self.desk.shapes
        if not len(shapes) or not shapes[:, dl.OP_COUNT].any():
            return
        now, store = self.now, self.engine.store
        self._note_sizes()
        ahead = self._noted_sizes()
        most = shapes[:, [dl.CELL_COUNT, dl.LINK_COUNT, dl.COLLECTIVE_COUNT]].max(axis=0)
        few = max(64, min(now.item(dl.SUBMITTED), 4096))
        wanted = ahead[1:] + most * few
        store.reserve(int(ahead[0]) + few, *wanted.tolist())
        self._reserve_rows()
        now[dl.FREE_CELLS] = len(store.rows) - 1 - store.cells - ahead[1]
        now[dl.FREE_EDGES] = len(store.links) - store.edges - ahead[2]
        free = store.room[lay.COLLECTIVES] - store.collectives - ahead[3]
        now[dl.FREE_COLLECTIVES], now[dl.FREE_GRAPHS] = free, 0
        now[dl.FREE_GRAPHS] = store.room[lay.GRAPHS] - store.graphs - ahead[0]
        if len(self.desk.owner) < store.room[lay.GRAPHS]:
            owner = np.full(store.room[lay.GRAPHS], NONE, np.int64)
            owner[: len(self.desk.owner)] = self.desk.owner
            self.desk = self.desk._replace(owner=owner)

    def _noted_sizes(self) -> Array:
        """Noted submissions: their number, and their cells, links and collectives."""
        noted = self.desk.noted[: self.now[dl.NOTED]]
        subs = noted[noted[:, dl.NOTED_VERB] == rows.SUBMIT, dl.NOTED_WHAT]
        shapes = self.desk.shapes[self.desk.submissions[subs, dl.SUB_SHAPE]]
        sums = shapes[:, [dl.CELL_COUNT, dl.LINK_COUNT, dl.COLLECTIVE_COUNT]].sum(axis=0)
        return np.array([len(subs), *sums.tolist()], np.int64)

    def _reserve_rows(self) -> None:
        """Reserve rows of flows, uses, holders and claims for shapes that have few left."""
        shapes, store, found = self.desk.shapes, self.engine.store, list[Any]()
        for k, shape in enumerate(shapes.tolist()):
            flows, uses = shape[dl.FLOW_COUNT], shape[dl.USE_COUNT]
            holders, claims = shape[dl.HOLDER_COUNT], shape[dl.CLAIM_COUNT]
            if not flows and not claims:
                continue
            first, left = shape[dl.RESERVED], shape[dl.RESERVES]
            mine = [tuple(row) for row in self.desk.reserved[first : first + left].tolist()]
            used = self.reserved.get(k, [])
            mine += self.returned.pop(k, [])
            if not mine:
                more = min(max(RESERVED_AT_ONCE, len(used)), MOST_RESERVED)
                for _ in range(more):
                    one = store.reserve_rows(flows, uses, holders, claims)
                    mine.append(one)
                    used.append(one)
                self.reserved[k] = used
            shapes[k, dl.RESERVED], shapes[k, dl.RESERVES] = len(found), len(mine)
            found += mine
        self.desk = self.desk._replace(reserved=table(found, 4))

    def _note_sizes(self) -> None:
        """Set the sizes of the run's memory to those of the loop."""
        now, store = self.now, self.engine.store
        store.cells, store.edges = now.item(dl.CELLS), now.item(dl.EDGES)
        store.collectives = now.item(dl.COLLECTIVES)
        store.graphs = store.world.item(lay.GRAPH_COUNT)

    def _free_ended_graphs(self) -> bool:
        """Sum up the graphs that are over, and free their memory; True if there is room then."""
        engine, now, policy = self.engine, self.now, self.driven[0]
        engine.env._now = now.item(dl.TICK)
        self._note_sizes()
        new = len(self.handed) + np.flatnonzero(
            self.desk.submissions[len(self.handed) : now[dl.SUBMITTED], dl.SUB_FREED] == 0
        )
        engine.flat = flat = self._flat_graphs(self.desk.submissions[new])
        engine.held_ops += int(flat.ops.sum())
        stays = policy.free_ended_graphs(self._representatives(new))
        if stays is not None:
            self._note_freed(flat, new, stays)
        ops = int(flat.ops.sum() if stays is None else flat.ops[stays].sum())
        engine.held_ops -= ops
        engine.flat = FlatGraphs.none()
        graphs = len(engine.graphs) + (len(new) if stays is None else len(stays))
        now[dl.HELD] = engine.held_ops + ops + GRAPH_AS_OPS * graphs
        now[dl.MOST_HELD] = self._most_held()
        return bool(now[dl.HELD] < now[dl.MOST_HELD])

    def _flat_graphs(self, subs: Array) -> FlatGraphs:
        """Columns of submissions of the loop."""
        shapes = self.desk.shapes[subs[:, dl.SUB_SHAPE]]
        offsets = np.stack(
            [
                subs[:, dl.SUB_CELL], shapes[:, dl.CELL_COUNT], subs[:, dl.SUB_COLLECTIVE],
                shapes[:, dl.COLLECTIVE_COUNT], subs[:, dl.SUB_FLOW], subs[:, dl.SUB_USE],
                subs[:, dl.SUB_HOLDER], shapes[:, dl.HOLDER_COUNT], subs[:, dl.SUB_CLAIM],
                shapes[:, dl.CLAIM_COUNT],
            ],
            axis=1,
        )  # fmt: skip
        return FlatGraphs(
            subs[:, dl.SUB_FIRST], subs[:, dl.SUB_INDEX], shapes[:, dl.OP_COUNT],
            shapes[:, dl.CELL_COUNT], offsets, shapes[:, dl.FLOW_COUNT],
        )  # fmt: skip

    def _representatives(self, new: Array) -> list[Any]:
        """For each submission, a record of one of the same prepared graph."""
        subs = self.desk.submissions
        shapes, at = np.unique(subs[new, dl.SUB_SHAPE], return_index=True)
        for shape, row in zip(shapes.tolist(), new[at].tolist(), strict=True):
            if shape not in self.records:
                policy = self.driven[subs.item(row, dl.SUB_BY)]
                self.records[shape] = policy.representative(subs.item(row, dl.SUB_GRAPH))
        return [self.records[shape] for shape in subs[new, dl.SUB_SHAPE].tolist()]

    def _note_freed(self, flat: FlatGraphs, new: Array, stays: Array) -> None:
        """Update the desk after graphs were freed; those whose kernels know it are forgotten."""
        desk, now, store = self.desk, self.now, self.engine.store
        now[dl.CELLS], now[dl.EDGES] = store.cells, store.edges
        now[dl.COLLECTIVES] = store.collectives
        subs, kept = desk.submissions, np.zeros(len(new), np.bool_)
        kept[stays] = True
        subs[new, dl.SUB_CELL] = flat.offsets[:, 0]
        subs[new, dl.SUB_COLLECTIVE] = flat.offsets[:, 2]
        freed = new[~kept]
        subs[freed, dl.SUB_FREED] = 1
        for row in subs[freed].tolist() if self.reserved else ():
            self._reuse_rows(row)
        end = now.item(dl.SUBMITTED)
        gone = (subs[:end, dl.SUB_FREED] & subs[:end, dl.SUB_OVER]).astype(np.bool_)
        for p, count in zip(*np.unique(subs[:end][gone, dl.SUB_BY], return_counts=True)):
            rows_of = subs[:end][gone & (subs[:end, dl.SUB_BY] == p)]
            ops = int(desk.shapes[rows_of[:, dl.SUB_SHAPE], dl.OP_COUNT].sum())
            self.driven[int(p)].note_freed(int(count), ops)
        to = np.cumsum(~gone) - 1
        left = subs[:end][~gone]
        subs[: len(left)] = left
        now[dl.SUBMITTED] = len(left)
        waking = slice(now.item(dl.WAKE), now.item(dl.WAKES))
        desk.wakes[waking] = to[desk.wakes[waking]]
        self._renumber_noted(to)
        self._find_owners()

    def _renumber_noted(self, to: Array) -> None:
        """Replace numbers of submissions in the noted actions."""
        noted = self.desk.noted[: self.now[dl.NOTED]]
        which = noted[:, dl.NOTED_VERB] == rows.SUBMIT
        noted[which, dl.NOTED_WHAT] = to[noted[which, dl.NOTED_WHAT]]

    def _find_owners(self) -> None:
        """Find the submission of each graph in memory that has not ended."""
        engine, owner = self.engine, self.desk.owner
        owner[:] = NONE
        table_of = engine.store.graph_table
        if not len(table_of):
            return
        subs = self.desk.submissions[: self.now[dl.SUBMITTED]]
        cells = subs[:, dl.SUB_CELL].copy()
        cells[: len(self.handed)] = [
            NONE if self._is_freed(handle) else handle.base for handle in self.handed
        ]
        at = np.searchsorted(table_of[:, lay.FIRST_CELL], cells)
        here = (cells != NONE) & (subs[:, dl.SUB_FREED] == 0)
        at[~here] = 0
        here &= table_of[at, lay.OPEN_OPS] > 0
        owner[at[here]] = np.flatnonzero(here)

    def _is_freed(self, handle: SubmittedGraph) -> bool:
        k = bisect_right(self.engine.firsts, handle.first) - 1
        return k < 0 or self.engine.graphs[k] is not handle

    def _reuse_rows(self, row: list[int]) -> None:
        """Reserve the rows of a freed submission for the next one of its shape."""
        shape = row[dl.SUB_SHAPE]
        if shape in self.reserved:
            self.returned.setdefault(shape, []).append(
                (row[dl.SUB_FLOW], row[dl.SUB_USE], row[dl.SUB_HOLDER], row[dl.SUB_CLAIM])
            )

    def _most_held(self) -> int:
        return min(MAX_TICK, *(int(min(p.most_held(), 2.0**62)) for p in self.driven))

    # From the desk to SimPy.

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
        for time, order, k, kind, tag in self._timers():
            event = simpy.Event(env)
            event._ok, event._value = True, None
            self.driven[k].add_timer(event, kind, tag)
            heappush(env._queue, (time, NORMAL, order, event))
        handles = self._return_submissions()
        self._return_noted(handles)
        if code == lay.HEAVY:
            raise engine.excess_weight_error()
        if code == lay.TELLS:
            engine._wake_processes(env._now, env._now)
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
            policy.go_on(now.item(dl.ROW), now.item(dl.CODE) if called else None, error)

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
        for one in subs[len(self.handed) :]:
            handles.append(self._handle(one))
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
        made = SubmittedGraph(
            engine.env, one[dl.SUB_INDEX], one[dl.SUB_FIRST], block, one[dl.SUB_AT], None,
            shape.numbers,
        )  # fmt: skip
        is_freed = bool(one[dl.SUB_FREED])
        if not is_freed:
            engine.graphs.append(made)
            engine.firsts.append(made.first)
            engine.held_ops += made.count
        if is_freed:
            pass  # only its end is still to be told
        elif one[dl.SUB_CELL] == NONE:
            engine.to_join.append(made)
        else:
            made.move(
                GraphOffsets(
                    one[dl.SUB_CELL], len(block.cells), one[dl.SUB_COLLECTIVE],
                    len(block.collectives), one[dl.SUB_FLOW], one[dl.SUB_USE],
                    one[dl.SUB_HOLDER], len(block.holders), one[dl.SUB_CLAIM], len(block.claims),
                )  # fmt: skip
            )
            engine.joined.append(made)
            engine.bases.append(made.base)
        if is_over:
            made.done._ok, made.done._value, made.done.callbacks = True, None, cast(Any, None)
        policy = self.driven[one[dl.SUB_BY]]
        policy.add_submission(
            made, one[dl.SUB_GRAPH], one[dl.SUB_TAG], one[dl.SUB_AT], one[dl.SUB_KEY], is_over,
            is_freed,
        )  # fmt: skip
        return made

    def _free_reserved(self, subs: list[list[int]]) -> None:
        """Free the reserved rows that no graph in memory uses."""
        store, shapes = self.engine.store, self.desk.shapes.tolist()
        joined = {
            (one[dl.SUB_SHAPE], one[dl.SUB_FLOW], one[dl.SUB_CLAIM])
            for one in subs[len(self.handed) :]
            if one[dl.SUB_CELL] != NONE and not one[dl.SUB_FREED]
        }
        for k, taken in self.reserved.items():
            for flow, use, holder, claim in taken:
                if (k, flow, claim) not in joined:
                    shape = shapes[k]
                    store.free_reserved_rows(
                        (flow, shape[dl.FLOW_COUNT]), (use, shape[dl.USE_COUNT]),
                        (holder, shape[dl.HOLDER_COUNT]), (claim, shape[dl.CLAIM_COUNT]),
                    )  # fmt: skip

    def _return_noted(self, handles: list[SubmittedGraph]) -> None:
        """Note the actions of the loop that are not applied yet."""
        engine = self.engine
        noted = self.desk.noted[: self.now[dl.NOTED]].tolist()
        for verb, what, amount, _ in noted:
            engine.todo.append(self._action(verb, what, amount, handles))
        if noted:
            engine.actor = self.driven[self.now.item(dl.ACTOR)].name

    def _action(
        self, verb: int, what: int, amount: int, handles: list[SubmittedGraph]
    ) -> Callable[[], None]:
        engine = self.engine
        if verb == rows.SUBMIT:
            return lambda: engine._join(handles[what])
        if verb == rows.TAKE:
            return lambda: engine._note_taken(what, amount)
        return lambda: engine._return_capacity(what, -amount)

    def _return_wakes(self, handles: list[SubmittedGraph]) -> None:
        """Schedule the ends of this turn for which no kernel was called yet."""
        for row in self.desk.wakes[self.now[dl.WAKE] : self.now[dl.WAKES]].tolist():
            self.engine._wake_in(0, handles[row].done, None)

    def _return_amounts(self) -> None:
        """Record what processes hold now."""
        self._give_changes()
        book, own = self.engine.ledger, self.desk.own.tolist()
        begun = []
        for key, (holding, began, taken, first) in zip(self.keys.keys, own, strict=True):
            component, *who = key
            line = book.held.get(component, {})
            if self.keys.keys[key] == first:
                book.taken[component] = taken
            if began != NONE:
                line.pop(cast(Any, tuple(who)), None)
                begun.append((began, component, tuple(who), holding))
            elif tuple(who) in line:
                if holding:
                    line[cast(Any, tuple(who))] = holding
                else:
                    del line[cast(Any, tuple(who))]
        for _, component, who, holding in sorted(begun):
            if holding:
                book.held.setdefault(component, {})[cast(Any, who)] = holding

    def _give_changes(self) -> None:
        """Move the changes of held amounts to the ledger."""
        self.engine.ledger.note_changes(self.desk.changes[: self.now[dl.CHANGES]])
        self.now[dl.CHANGES] = 0

    def _give_samples(self) -> None:
        """Move the samples to the run."""
        n = self.now.item(dl.SAMPLES)
        if not n:
            return
        first = np.cumsum([0, *(len(p.metrics) for p in self.driven)])
        names = [(p.job, metric) for p in self.driven for metric in p.metrics]
        found = self.desk.samples[:n]
        self.driven[0].record_samples(
            names, first[found[:, dl.BY]] + found[:, dl.METRIC], found[:, dl.WHEN],
            self.desk.values[:n],
        )  # fmt: skip
        self.now[dl.SAMPLES] = 0


def _grown(array: Array) -> Array:
    """Copy of a table with twice as many rows."""
    made = np.zeros((2 * len(array), array.shape[1]), array.dtype)
    made[: len(array)] = array
    return made
