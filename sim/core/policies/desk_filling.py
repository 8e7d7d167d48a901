"""Desk of the compiled loop, filled with what policies wait for in SimPy's queue."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from heapq import heapify
from typing import Any, NamedTuple

import numpy as np
import simpy

from ...engine_api.driven_policy import DrivenPolicy, FixedShape, GridShapes
from ...engine_api.interface import MAX_TICK, State
from ..memory import state_layout as lay
from ..memory.state_layout import NONE
from ..simpy_loop import SimpyLoop
from ..submitted_graph import SubmittedGraph
from . import desk_layout as dl
from .desk_layout import GRAPH_AS_OPS, Array, Desk
from .desk_mail import DrivenMail
from .desk_tables import PartTables, shape_row, table
from .desk_ways import WayTables
from .grid_tables import GridTables
from .lent_stores import LentStores

SAMPLES_AT_ONCE, NOTES_AT_ONCE = 1 << 14, 1 << 8


class QueuedWaits(NamedTuple):
    """What policies wait for in SimPy's queue."""

    timers: list[list[int]]
    events: list[tuple[DrivenPolicy, simpy.Event]]
    open: dict[simpy.Event, tuple[Any, int, int, int]]  # handle, policy, tag, graph, by `done`
    ended: list[Any]  # handles of those that ended at one tick, in order
    ended_at: int
    others: list[Any]  # the rest of the queue
    limit: int  # its earliest tick


class FilledDesk:
    """Desk of one run of the compiled loop.

    Parameters
    ----------
    engine : compiled engine of the run
    driven : policies whose kernels are called
    addresses : of the adapter and the kernel of each
    arrivals : ticks of the arrivals of each
    waits : what they wait for
    owner : array for the submission of each graph in memory
    """

    def __init__(
        self,
        engine: SimpyLoop,
        driven: list[DrivenPolicy],
        addresses: dict[DrivenPolicy, tuple[int, int]],
        arrivals: dict[DrivenPolicy, Array],
        waits: QueuedWaits,
        owner: Array,
    ):
        self.engine, self.driven = engine, driven
        self.keys: PartTables = PartTables()
        self.mail = DrivenMail(engine.mail, driven)
        self.names: dict[tuple[int, str], int] = {}
        self.given: list[FixedShape | None] = []
        self.grids: GridTables = GridTables()
        self.ways = WayTables()
        self.handed: list[SubmittedGraph] = []
        self.reserved: dict[int, list[tuple[int, int, int, int]]] = {}
        self.returned: dict[int, list[tuple[int, int, int, int]]] = {}
        self.records: dict[int, Any] = {}
        self.lent = LentStores(engine, driven)
        self._leave_simpy(waits)
        self.desk = self._desk(addresses, arrivals, waits, owner)
        self.now = self.desk.now
        self._hand_in_submissions(waits)

    def _leave_simpy(self, waits: QueuedWaits) -> None:
        engine, env = self.engine, self.engine.env
        env._queue = waits.others
        heapify(env._queue)
        for policy, event in waits.events:
            policy.forget_timer(event)
        engine.planned = engine.next_turn = engine.catching_up = None
        engine.store.world[lay.PHASE] = lay.IDLE

    def _desk(
        self,
        addresses: dict[DrivenPolicy, tuple[int, int]],
        arrivals: dict[DrivenPolicy, Array],
        waits: QueuedWaits,
        owner: Array,
    ) -> Desk:
        from ...kernel.native_calls import call_row, table_of_rows  # only where kernels are linked

        engine = self.engine
        calls, policies, shapes = list[list[int]](), list[list[int]](), list[list[int]]()
        may_flow = not engine.store.failed.any()
        due = Counter(timer[dl.WHOSE] for timer in waits.timers)

        def append(p: DrivenPolicy, shape: FixedShape | GridShapes | None) -> None:
            key = p.job, "" if shape is None else shape.name
            name = self.names.setdefault(key, len(self.names))
            fixed = None if isinstance(shape, GridShapes) else shape
            if isinstance(shape, GridShapes):
                self.grids.add(shape, len(shapes), name)
            shapes.append(shape_row(fixed, name, may_flow))
            self.given.append(fixed)

        for p in self.driven:
            adapter, kernel = addresses[p]
            calls.append(call_row(kernel, p.state, p.event, p.turn))
            given = p.shapes()
            sizes = len(self.keys.used), len(shapes), len(given), due[len(policies)]
            policies.append(_policy_row(p, adapter, arrivals[p], sizes))
            for part in range(len(p.part_numbers)):
                self.keys.add(engine, p, part)
            for shape in given:
                append(p, shape)
        self.given += self.grids.add_variants(shapes, may_flow)
        for p, row in zip(self.driven, policies, strict=True):
            self.ways.add(p, row[dl.GRAPHS], shapes, append)
        self.ways.set_pools(shapes)
        timers = np.zeros((2 * len(waits.timers) + 64, dl.TIMER), np.int64)
        timers[: len(waits.timers)] = table(sorted(waits.timers), dl.TIMER)
        if len(owner) < engine.store.room[lay.GRAPHS]:
            owner = np.full(engine.store.room[lay.GRAPHS], NONE, np.int64)
        return Desk(
            self._numbers(waits), table_of_rows(calls), table(policies, dl.POLICY), timers,
            np.zeros((SAMPLES_AT_ONCE, dl.SAMPLE), np.int64), np.zeros(SAMPLES_AT_ONCE),
            table(self.keys.used, dl.USED_PART), table(self.keys.own, dl.OWN_ROW),
            np.zeros((SAMPLES_AT_ONCE + len(self.lent.stores), dl.CHANGE), np.int64),
            np.zeros((NOTES_AT_ONCE, dl.NOTE), np.int64),
            np.zeros((NOTES_AT_ONCE, dl.SETTLED_ROW), np.int64),
            np.zeros((64, dl.SUB), np.int64), np.zeros(64, np.int64), owner,
            table(shapes, dl.SHAPE), np.zeros((0, 4), np.int64),
            np.zeros((len(self.ways.sizes), dl.RESERVE_POOL), np.int64),
            np.array(self.ways.rows, np.int64), self._name_counts(), self.mail.arrays(),
            self.grids.table(), np.empty(0, np.uint64), self.lent.desk,
        )  # fmt: skip

    def _numbers(self, waits: QueuedWaits) -> Array:
        """Numbers of the loop as it begins."""
        engine, now = self.engine, dl.new_numbers()
        now[dl.TICK], now[dl.LIMIT] = int(engine.env.now), waits.limit
        now[dl.NUMBER], now[dl.TIMERS] = next(engine.env._eid), len(waits.timers)
        now[dl.SUBMISSIONS], now[dl.OPS] = engine.submissions, engine.count
        now[dl.HELD] = engine.held_ops + GRAPH_AS_OPS * engine.held_graphs
        now[dl.MOST_HELD] = self._most_held()
        now[dl.CANCELS], now[dl.CELLS] = int(engine.cancels > 0), engine.store.cells
        now[dl.EDGES], now[dl.COLLECTIVES] = engine.store.edges, engine.store.collectives
        return now

    def _most_held(self) -> int:
        """Size of the graphs in memory, in ops, at which Python must make room."""
        return min(MAX_TICK, *(int(min(p.most_held(), 2.0**62)) for p in self.driven))

    def _name_counts(self) -> Array:
        """Number of submissions so far of each name of a graph."""
        counts = {p.job: p.submission_counts() for p in self.driven}
        found = [counts[job].get(name, 0) for job, name in self.names]
        return np.array(found, np.int64).reshape(-1)

    def _hand_in_submissions(self, waits: QueuedWaits) -> None:
        """Move the open submissions of policies to the desk, and those whose ends wake now."""
        engine, found, ended = self.engine, list[list[int]](), list[int]()
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


def _policy_row(
    policy: DrivenPolicy, adapter: int, ticks: Array, sizes: tuple[int, int, int, int]
) -> list[int]:
    """Row of a policy; ``sizes`` are used parts and shapes so far, own shapes, and timers."""
    used, shapes, given, timers = sizes
    turn = policy.turn
    arrays = policy.event, turn.head, turn.actions, turn.numbers, turn.parts
    return [
        adapter, *(one.ctypes.data for one in arrays), len(policy.part_numbers),
        len(policy.metrics), shapes, given, used, ticks.ctypes.data,
        policy.arrival_columns.ctypes.data, len(ticks), policy.wait_count + timers,
    ]  # fmt: skip
