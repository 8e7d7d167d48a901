"""Memory of a run: allocation and growth of the arrays that kernels work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import MAX_TICK, ComponentTable, EngineGraph, Numbers
from ...kernel.row_allocator import RowAllocator
from ...media.max_min.medium_memory import MaxMinMemory
from . import state_layout as lay
from .claims import collectives_and_holders, holder_and_claim_tables, holder_rows
from .compact import compact, mark_newly_ended, renumber_claims, renumber_owners
from .plugged_memory import plugged_memory
from .queue_rows import queue_rows_size, write_queue_rows
from .row_reset import reset_graph_rows
from .state_layout import NONE, Array, Links, Rows

if TYPE_CHECKING:
    from .block import GraphBlock

_LISTS = (
    lay.ENDING, lay.ARRIVING, lay.MOVING, lay.GRANTED, lay.ASKED, lay.BARRIER, lay.NEWS,
    lay.SOONEST, lay.DUE, lay.LINES, lay.GRANTS, lay.BEGAN, lay.PLUGGED_DUE, lay.TURNED_AWAY,
)  # fmt: skip


class GraphOffsets(NamedTuple):
    """Offset and count of one graph's rows in each table of a run."""

    cell: int
    cells: int
    collective: int
    collectives: int
    flow: int
    use: int
    holder: int
    holders: int
    claim: int
    claims: int


class RunMemory:
    """Arrays of one run: rows, times, links, and ``world``, which holds all other numbers.

    Parameters
    ----------
    parts : table of the system's components, one row each
    """

    def __init__(self, parts: ComponentTable):
        self.parts = parts
        self.sharing = MaxMinMemory(parts)
        self.plugged = plugged_memory(parts)
        self.rows: Rows = np.zeros(1, lay.CELL)
        self.times: Array = np.full((1, 3), -1, np.int64)
        self.links: Links = np.empty(0, np.int32)
        self.cells = self.edges = self.graphs = self.collectives = self.holders = self.claims = 0
        self.borrowed = False  # True if the links are the array of a single graph, not a copy
        self.holder_rows, self.claim_rows = RowAllocator(), RowAllocator()
        self.room = {
            lay.GRAPHS: 1,
            lay.COLLECTIVES: 0,
            lay.OWNERS: 0,
            lay.HOLDERS: 0,
            lay.CLAIMS: 0,
        }
        self.world: Array = np.zeros(0, np.int64)
        self._refresh_field_views()
        self._allocate_world()

    def _refresh_field_views(self) -> None:
        """Recreate the views of single fields of the rows, which are faster to read and write."""
        self.next, self.flags = self.rows["next"], self.rows["flags"]
        self.state, self.left, self.link = (self.rows[n] for n in ("state", "left", "link"))

    def _allocate_world(self) -> None:
        """Allocate the state array ``world`` with room for all tables, and copy the old content."""
        sizes = {
            lay.PARTS: len(self.parts) * lay.PART,
            lay.QUEUES: queue_rows_size(self.parts.queues),
            lay.GRAPHS: self.room[lay.GRAPHS] * lay.GRAPH,
            lay.COLLECTIVES: self.room[lay.COLLECTIVES] * lay.COLLECTIVE,
            lay.OWNERS: self.room[lay.OWNERS],
            lay.SCRATCH: self.room[lay.OWNERS],
            lay.HOLDERS: self.room[lay.HOLDERS] * lay.HOLDER,
            lay.CLAIMS: self.room[lay.CLAIMS] * lay.CLAIM,
        }
        old, world = self.world, np.zeros(lay.TABLES + sum(sizes.values()), np.int64)
        at = lay.TABLES
        if len(old):
            world[: lay.TABLES] = old[: lay.TABLES]
        else:
            world[lay.BUCKETS : lay.TABLES] = NONE
            world[list(_LISTS)] = NONE
        for table, size in sizes.items():
            kept = old[old[table] :][: self._size(table)] if len(old) else old
            world[at : at + len(kept)] = kept
            world[table] = at
            at += size
        self.world = world
        if not len(old):
            rows = self.part_table
            rows[:, lay.SLOTS] = self.parts.slots
            if len(self.parts.capacity):
                holds = self.parts.capacity >= 0
                rows[holds, lay.SLOTS] = self.parts.capacity[holds]
            rows[:, [lay.HEAD, lay.TAIL]] = NONE
            if self.plugged is not None:
                rows[:, lay.IS_PLUGGED], world[lay.PLUGGED] = self.parts.plugged, 1
            rows[:, lay.MOVES] = lay.UNMOVED
            rows[:, lay.QUEUE] = NONE
            if self.parts.queues is not None:
                write_queue_rows(world, rows, self.parts.queues)

    def _size(self, table: int) -> int:
        return {
            lay.PARTS: len(self.parts) * lay.PART,
            lay.QUEUES: queue_rows_size(self.parts.queues),
            lay.GRAPHS: self.graphs * lay.GRAPH,
            lay.COLLECTIVES: self.collectives * lay.COLLECTIVE,
            lay.OWNERS: int(self.world[lay.FLOW_COUNT]),
            lay.SCRATCH: 0,
            lay.HOLDERS: self.holders * lay.HOLDER,
            lay.CLAIMS: self.claims * lay.CLAIM,
        }[table]

    @property
    def part_table(self) -> Array:
        """View of the component table in the state array ``world``, shape (components, fields)."""
        at = int(self.world[lay.PARTS])
        return self.world[at : at + len(self.parts) * lay.PART].reshape(-1, lay.PART)

    @property
    def graph_table(self) -> Array:
        """View of the graph table in the state array ``world``, shape (graphs, fields)."""
        at = int(self.world[lay.GRAPHS])
        return self.world[at : at + self.graphs * lay.GRAPH].reshape(-1, lay.GRAPH)

    @property
    def owners(self) -> Array:
        """(flows,) cell number of the op that owns each flow."""
        at = int(self.world[lay.OWNERS])
        return self.world[at : at + int(self.world[lay.FLOW_COUNT])]

    def collective_row(self, c: int) -> Array:
        """Row of an op in the table of ops with several participants, from its first cell ``c``."""
        at = int(self.world[lay.COLLECTIVES]) + int(self.rows[c]["link"]) * lay.COLLECTIVE
        return self.world[at : at + lay.COLLECTIVE]

    def _make_room(self, **more: int) -> None:
        """Grow the state array ``world`` for more graphs, collectives, flows and claims."""
        have = {
            lay.GRAPHS: self.graphs,
            lay.COLLECTIVES: self.collectives,
            lay.OWNERS: int(self.world[lay.FLOW_COUNT]),
            lay.HOLDERS: self.holders,
            lay.CLAIMS: self.claims,
        }
        wanted = {
            lay.GRAPHS: "graphs",
            lay.COLLECTIVES: "collectives",
            lay.OWNERS: "flows",
            lay.HOLDERS: "holders",
            lay.CLAIMS: "claims",
        }
        grown = False
        for table, name in wanted.items():
            need = have[table] + more.get(name, 0)
            if need > self.room[table]:
                self.room[table] = max(need, 2 * have[table])
                grown = True
        if grown:
            self._allocate_world()

    def queue_row(self, component: int) -> Array:
        """Row of a component's bounded queue; zeros if it has none."""
        at = int(self.part_table[component, lay.QUEUE])
        return np.zeros(lay.BOUNDED, np.int64) if at == NONE else self.world[at : at + lay.BOUNDED]

    def add_flow(self, c: int, flow: int) -> None:
        """Record the op that owns a new flow."""
        self._grow_flow_owners()
        self.owners[flow] = c
        if self.rows[c]["flags"] & lay.WIDE:
            self.collective_row(c)[lay.WIDE_FLOW] = flow
        else:
            self.rows[c]["link"] = flow

    def _grow_flow_owners(self) -> None:
        """Grow the array of flow owners to the number of flows."""
        have, need = self.world.item(lay.FLOW_COUNT), len(self.sharing)
        if need > have:
            self._make_room(flows=need - have)
            self.world[lay.FLOW_COUNT] = need

    def drop_flow(self, c: int) -> None:
        """Detach the flow from an op."""
        if self.rows[c]["flags"] & lay.WIDE:
            self.collective_row(c)[lay.WIDE_FLOW] = NONE
        else:
            self.rows[c]["link"] = NONE

    def flow(self, c: int) -> int:
        """Number of the flow of an op, from the op's cell; -1 if it has no flow."""
        if self.flags.item(c) & lay.WIDE:
            return int(self.collective_row(c)[lay.WIDE_FLOW])
        return int(self.link.item(c))

    def places(self, c: int) -> list[int]:
        """Cells of all participants of an op."""
        if not self.rows[c]["flags"] & lay.WIDE:
            return [c]
        first = last = int(self.collective_row(c)[lay.FURTHER_CELL])
        while self.rows[last]["flags"] & lay.FURTHER and self.rows[last]["link"] == c:
            last += 1
        return [c, *range(first, last)]

    def add(self, graph: EngineGraph, now: int) -> GraphOffsets:
        """Add a graph to the memory of the run at tick ``now``."""
        n, e, base = len(graph), len(graph.further), self.cells
        wide, at, places = np.unique(graph.further, return_index=True, return_counts=True)
        at, ops = at + n, graph.claims.op
        if len(ops):
            ops = holder_rows(graph.claims)
            wide, at, places = collectives_and_holders(wide, at, places, ops)
        self._make_room(graphs=1, collectives=len(wide))
        self._make_cells(n + e)
        edges = self._add_links(graph.successors)
        collective = self.collectives
        rows = self.rows[: base + n + e + 1]
        rows["slot"][base:-1] = graph.slot
        rows["first"][base : base + n] = graph.indptr[:-1]
        fixed = np.require(graph.fixed, np.int64, ["C", "W"])
        reset_graph_rows(rows, self.times, self.links[: self.edges], fixed, base, edges)
        self._add_further(graph, base, wide, at, places)
        holder, claim = self._add_claims(graph, base, ops)
        flow, use = self._add_flows(graph, base)
        self._add_releases(graph, base, now)
        if len(graph.online):
            rows["flags"][base : base + n][graph.online >= 0] |= lay.ASK
            self.world[lay.ONLINE] |= int(np.any(graph.online >= 0))
        self.graphs += 1
        self.world[lay.GRAPH_COUNT] = self.graphs
        self.world[lay.OPEN] += n
        self.graph_table[-1, [lay.FIRST_CELL, lay.OPEN_OPS]] = base, n
        self.cells += n + e
        return GraphOffsets(
            base, n + e, collective, len(wide), flow, use, holder, len(ops), claim,
            len(graph.claims),
        )  # fmt: skip

    def add_block(self, block: GraphBlock, numbers: Numbers, now: int) -> GraphOffsets:
        """Add a prepared graph with the given durations and amounts at tick ``now``."""
        if self.graphs >= self.room[lay.GRAPHS] or (
            self.collectives + len(block.collectives) > self.room[lay.COLLECTIVES]
        ):
            self._make_room(graphs=1, collectives=len(block.collectives))
        base, edges, m = self.cells, self.edges, len(block.cells)
        self._make_cells(m)
        if len(block.links):
            self._make_links(len(block.links))
        flow = use = 0
        if len(block.flows):
            flow, use = self.sharing.reserve_rows(len(block.flows), len(block.uses))
            self._grow_flow_owners()
        holders, claims = len(block.holders), len(block.claims)
        holder, claim = self._take(holders, claims) if claims else (0, 0)
        at = base, edges, self.graphs, self.collectives, flow, use, holder, claim, now
        block.copy_into(self, numbers, at)
        self.graphs += 1
        self.cells += m
        self.edges += len(block.links)
        self.collectives += len(block.collectives)
        return GraphOffsets(
            base, m, at[3], len(block.collectives), flow, use, holder, holders, claim, claims
        )  # fmt: skip

    def reserve(self, graphs: int, cells: int, links: int, collectives: int) -> None:
        """Make room for more graphs, whose rows kernels will add."""
        self._make_room(graphs=graphs, collectives=collectives)
        self._make_cells(cells)
        if links:
            self._make_links(links)

    def reserve_rows(
        self, flows: int, uses: int, holders: int, claims: int
    ) -> tuple[int, int, int, int]:
        """Reserve rows of flows, uses, holders and claims; returns the first row of each."""
        flow = use = holder = claim = 0
        if flows:
            flow, use = self.sharing.reserve_rows(flows, uses)
            self._grow_flow_owners()
        if claims:
            holder, claim = self._take(holders, claims)
        return flow, use, holder, claim

    def free_reserved_rows(
        self,
        flows: tuple[int, int],
        uses: tuple[int, int],
        holders: tuple[int, int],
        claims: tuple[int, int],
    ) -> None:
        """Free reserved rows that were not used, each as (first, count)."""
        if flows[1]:
            self.sharing.free_rows(flows, uses)
        if claims[1]:
            self.holder_rows.free(*holders)
            self.claim_rows.free(*claims)

    def newly_ended_ops(self) -> NDArray[np.uint8]:
        """(cells,) 1 for ops that ended since the last call, else 0."""
        fresh: NDArray[np.uint8] = np.zeros(self.cells, np.uint8)
        mark_newly_ended(self.rows, fresh)
        return fresh

    def keep_graphs(
        self, graphs: Sequence[int], offsets: Sequence[GraphOffsets]
    ) -> list[GraphOffsets]:
        """Remove all other graphs, compact the memory, and return the new offsets of those kept.

        Parameters
        ----------
        graphs : rows of the kept graphs in the table of graphs
        offsets : current offsets of the kept graphs
        """
        table = np.zeros((len(offsets), 8), np.int64)
        cell = link = collective = 0
        moved = []
        for g, lies in enumerate(offsets):
            first = int(self.rows[lies.cell]["first"])
            after = int(self.rows[lies.cell + lies.cells]["first"])
            table[g] = (
                lies.cell, first, lies.collective, cell, link, collective, lies.cells,
                lies.collectives,
            )  # fmt: skip
            moved.append(lies._replace(cell=cell, collective=collective))
            cell, link = cell + lies.cells, link + after - first
            collective += lies.collectives
        self._make_links(0)
        to = np.empty(self.cells + 1, np.int32)
        opened = self.graph_table[list(graphs), lay.OPEN_OPS]
        lines = np.flatnonzero(self.parts.slots >= 0)
        compact(self.rows, self.times, self.links, self.world, table, lines, to)
        renumber_owners(
            self.world, int(self.world[lay.OWNERS]), int(self.world[lay.FLOW_COUNT]), to
        )
        renumber_claims(self.world, int(self.world[lay.CLAIMS]), self.claims, to)
        self.rows["first"][cell], self.rows["flags"][cell] = link, 0
        self.cells, self.edges, self.collectives = cell, link, collective
        self.graphs = self.world[lay.GRAPH_COUNT] = len(offsets)
        self.graph_table[:, lay.FIRST_CELL], self.graph_table[:, lay.OPEN_OPS] = table[:, 3], opened
        return moved

    def _make_cells(self, more: int) -> None:
        need = self.cells + more + 1  # one behind the last, for where its successors end
        have = len(self.rows)
        if need > have:
            size = need if self.cells == 0 else max(need, 2 * have)
            rows, times = np.empty(size, lay.CELL), np.empty((size, 3), np.int64)
            rows[:have], times[:have] = self.rows, self.times
            self.rows, self.times = rows, times
            self._refresh_field_views()

    def _add_links(self, successors: Links) -> int:
        """Append the dependency links of a new graph; returns their offset.

        The array of a single graph is used without a copy.
        """
        first, more = self.edges, len(successors)
        if self.graphs == 0 and self.cells == 0 and not len(self.links):
            self.links, self.edges = np.require(successors, np.int32, ["C", "A", "W"]), more
            self.borrowed = True
            return 0
        self._make_links(more)
        self.edges += more
        np.add(successors, self.cells, out=self.links[first : self.edges], casting="unsafe")
        return first

    def _make_links(self, more: int) -> None:
        need = self.edges + more
        if need > len(self.links) or self.borrowed:
            links = np.empty(max(need, 2 * self.edges), np.int32)
            links[: self.edges] = self.links[: self.edges]
            self.links, self.borrowed = links, False

    def _add_further(
        self,
        graph: EngineGraph,
        base: int,
        wide: NDArray[np.int32],
        at: NDArray[np.int64],
        places: NDArray[np.int64],
    ) -> None:
        n, e = len(graph), len(graph.further)
        if not len(wide):
            return
        rows = self.rows[base : base + n + e]
        rows["link"][n:] = graph.further + base
        rows["flags"][wide] |= lay.WIDE
        rows["link"][wide] = self.collectives + np.arange(len(wide))
        start = int(self.world[lay.COLLECTIVES]) + self.collectives * lay.COLLECTIVE
        table = self.world[start : start + len(wide) * lay.COLLECTIVE].reshape(-1, lay.COLLECTIVE)
        none = np.full(len(wide), NONE)
        table[:] = np.stack([places + 1, base + at, none, none], axis=1)
        self.collectives += len(wide)

    def _take(self, holders: int, claims: int) -> tuple[int, int]:
        """Reserve rows for holders and claims; returns the first row of each."""
        holder, claim = self.holder_rows.take(holders), self.claim_rows.take(claims)
        more = self.holder_rows.top - self.holders, self.claim_rows.top - self.claims
        if any(more):
            self._make_room(holders=more[0], claims=more[1])
            self.holders, self.claims = self.holder_rows.top, self.claim_rows.top
        return holder, claim

    def _add_claims(self, graph: EngineGraph, base: int, ops: NDArray[np.int32]) -> tuple[int, int]:
        """Add the holders and claims of a graph; returns the first row of each."""
        if not len(ops):
            return 0, 0
        claims, n = graph.claims, len(graph)
        holder, claim = self._take(len(ops), len(claims))
        rows = self.rows[base : base + n + len(graph.further)]
        rows["flags"][claims.op] |= lay.HOLDS
        rows["flags"][n:][np.isin(graph.further, claims.op)] |= lay.HOLDS
        rows["flags"][claims.until[claims.until >= 0]] |= lay.LETS
        row = int(self.world[lay.COLLECTIVES]) + rows["link"][ops].astype(np.int64) * lay.COLLECTIVE
        self.world[row + lay.HOLDING] = holder + np.arange(len(ops))
        holding, held = holder_and_claim_tables(
            claims, ops, self.world[row + lay.MISSING], base, claim
        )
        self.holder_table[holder : holder + len(ops)] = holding
        self.claim_table[claim : claim + len(claims)] = held
        return holder, claim

    @property
    def holder_table(self) -> Array:
        """Table of the ops that hold capacities, a view into ``world``, shape (holders, fields)."""
        at = int(self.world[lay.HOLDERS])
        return self.world[at : at + self.holders * lay.HOLDER].reshape(-1, lay.HOLDER)

    @property
    def claim_table(self) -> Array:
        """Table of the claims on capacities, a view into ``world``, shape (claims, fields)."""
        at = int(self.world[lay.CLAIMS])
        return self.world[at : at + self.claims * lay.CLAIM].reshape(-1, lay.CLAIM)

    def claims_of(self, c: int) -> Array:
        """Rows of the claims of an op that holds amounts."""
        of = int(self.world[lay.HOLDERS]) + int(self.collective_row(c)[lay.HOLDING]) * lay.HOLDER
        first, count = self.world[of + lay.FIRST_CLAIM], self.world[of + lay.CLAIM_COUNT]
        return self.claim_table[first : first + count]

    def add_claim(self, component: int, amount: int) -> int:
        """Add a claim of a process on a capacity; returns its number."""
        _, number = self._take(0, 1)
        claim = self.claim_table[number]
        claim[[lay.OF, lay.AMOUNT]], claim[[lay.HELD_BY, lay.UNTIL, lay.ALSO]] = (
            (component, amount),
            NONE,
        )
        return number

    def _add_flows(self, graph: EngineGraph, base: int) -> tuple[int, int]:
        """Add the flows of a graph to the medium; returns the first rows of flows and of uses."""
        op = graph.flows.op
        if not len(op):
            return 0, 0
        first = self.sharing.add(graph.flows)
        number = first + np.arange(len(op))
        self._grow_flow_owners()
        self.owners[first : first + len(op)] = op + base
        rows = self.rows[base : base + len(graph)]
        wide = (rows["flags"][op] & lay.WIDE) != 0
        rows["link"][op[~wide]] = number[~wide]
        start = int(self.world[lay.COLLECTIVES])
        self.world[start + rows["link"][op[wide]] * lay.COLLECTIVE + lay.WIDE_FLOW] = number[wide]
        return first, self.sharing.uses_of(first)[0]

    def _add_releases(self, graph: EngineGraph, base: int, now: int) -> None:
        n, e = len(graph), len(graph.further)
        arrived = self.times[base : base + n + e, lay.ARRIVED]
        if now:
            arrived -= now
        if not len(graph.release):
            return
        beyond = graph.release > MAX_TICK - now
        arrived[:n] -= np.where(beyond, 0, graph.release)
        arrived[n:] = arrived[graph.further]
        self.rows["flags"][base : base + n][beyond] |= lay.NEVER

    @property
    def failed(self) -> NDArray[np.bool_]:
        """(components,) True if the component has failed."""
        found: NDArray[np.bool_] = self.part_table[:, lay.FAILED] != 0
        return found
