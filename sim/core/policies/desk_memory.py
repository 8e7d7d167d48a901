"""Memory of the desk and of the run while the compiled loop runs: room, and ended graphs."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from ...kernel import policy_rows as rows
from ..flat_graphs import FlatGraphs
from ..memory import state_layout as lay
from ..memory.state_layout import NONE
from ..submitted_graph import SubmittedGraph
from . import desk_layout as dl
from .desk_filling import FilledDesk
from .desk_layout import GRAPH_AS_OPS, Array
from .desk_mail import with_more_letters
from .desk_tables import table

RESERVED_AT_ONCE, MOST_RESERVED = 16, 1 << 10  # submissions for which rows are reserved
CELLS_AT_ONCE = 1 << 16  # places for which memory is reserved, except for one large graph


class DeskMemory(FilledDesk):
    """Desk whose tables grow, and which frees graphs that are over."""

    def _make_room(self) -> None:
        """Make room in all tables for what the loop may add next."""
        desk, now = self.desk, self.now
        self._give_samples()
        self._give_changes()
        timers, submissions = desk.timers, desk.submissions
        noted, settled = desk.noted, desk.settled
        if now[dl.TIMERS] > len(timers) // 2:
            timers = _grown(timers)
        if now[dl.NOTED] > len(noted) // 2:
            noted, settled = _grown(noted), _grown(settled)
        if now[dl.SUBMITTED] > len(submissions) // 2:
            submissions = _grown(submissions)
        wakes = np.zeros(len(submissions), np.int64)
        wakes[: len(desk.wakes)] = desk.wakes
        self.desk = desk._replace(
            timers=timers, noted=noted, settled=settled, submissions=submissions, wakes=wakes
        )
        self.desk = self.desk._replace(mail=with_more_letters(self.desk.mail))
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
        few = min(max(64, now.item(dl.SUBMITTED)), 1 + CELLS_AT_ONCE // int(most[0]))
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
        """Reserve rows of flows, uses, holders and claims for pools that have few left."""
        pools, store, found = self.desk.pools, self.engine.store, list[Any]()
        for (flows, uses, holders, claims), k in self.ways.sizes.items():
            first, left = pools[k].tolist()
            mine = [tuple(row) for row in self.desk.reserved[first : first + left].tolist()]
            used = self.reserved.get(k, [])
            mine += self.returned.pop(k, [])
            if not mine:
                most = 1 + CELLS_AT_ONCE // (flows + uses + holders + claims)
                more = min(max(RESERVED_AT_ONCE, len(used)), most, MOST_RESERVED)
                for _ in range(more):
                    one = store.reserve_rows(flows, uses, holders, claims)
                    mine.append(one)
                    used.append(one)
                self.reserved[k] = used
            pools[k, dl.RESERVED], pools[k, dl.RESERVES] = len(found), len(mine)
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
        """For each submission, a record of one or all of the same prepared graph."""
        subs, found = self.desk.submissions[new], dict[int, Any]()
        shapes, at = np.unique(subs[:, dl.SUB_SHAPE], return_index=True)
        for shape, row in zip(shapes.tolist(), at.tolist(), strict=True):
            policy, graph = self.driven[subs.item(row, dl.SUB_BY)], subs.item(row, dl.SUB_GRAPH)
            structure = self.grids.structures.get(shape)
            if structure is not None:
                points = subs[subs[:, dl.SUB_SHAPE] == shape, dl.SUB_POINT : dl.SUB]
                used = points[:, points[0] != NONE]
                found[shape] = policy.representative_of_points(graph, structure, used)
            elif shape not in self.records:
                way = self.ways.way_of.get(shape)
                self.records[shape] = policy.representative(graph, way)
        found |= self.records
        return [found[shape] for shape in subs[:, dl.SUB_SHAPE].tolist()]

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
        self._reuse_rows(subs[freed])
        end = now.item(dl.SUBMITTED)
        gone = (subs[:end, dl.SUB_FREED] & subs[:end, dl.SUB_OVER]).astype(np.bool_)
        self._count_freed(subs[:end][gone])
        to = np.cumsum(~gone) - 1
        left = subs[:end][~gone]
        subs[: len(left)] = left
        now[dl.SUBMITTED] = len(left)
        waking = slice(now.item(dl.WAKE), now.item(dl.WAKES))
        desk.wakes[waking] = to[desk.wakes[waking]]
        self._renumber_noted(to)
        self._find_owners()

    def _count_freed(self, subs: Array) -> None:
        """Count submissions that the desk forgets."""
        ops = self.desk.shapes[subs[:, dl.SUB_SHAPE], dl.OP_COUNT]
        for p in np.unique(subs[:, dl.SUB_BY]).tolist():
            mine = subs[:, dl.SUB_BY] == p
            self.driven[p].note_freed(int(np.count_nonzero(mine)), int(ops[mine].sum()))

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

    def _reuse_rows(self, subs: Array) -> None:
        """Reserve the rows of freed submissions for the next ones of their shapes."""
        pools = self.desk.shapes[subs[:, dl.SUB_SHAPE], dl.POOL]
        columns = [dl.SUB_FLOW, dl.SUB_USE, dl.SUB_HOLDER, dl.SUB_CLAIM]
        for pool in self.reserved:
            own = subs[pools == pool][:, columns].tolist()
            self.returned.setdefault(pool, []).extend(map(tuple, own))

    def _give_changes(self) -> None:
        """Move the changes of held amounts to the ledger."""
        self.engine.ledger.note_changes(self.desk.changes[: self.now[dl.CHANGES]])
        self.now[dl.CHANGES] = 0

    def _give_samples(self) -> None:
        """Move the samples to the run."""
        self.lent.give_samples()
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
