"""Memory image of a prepared graph, copied into a run at each submission."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...engine_api.interface import MAX_TICK, NO_LIMIT, ComponentTable, EngineGraph, Numbers
from ...kernel.jit import Int, compiled_for_argument_types, jit_without_refcounts
from ...media.max_min.table_layout import LIMIT, START, TAG_HI, TAG_LO
from ...media.max_min.table_layout import OPEN as UNLIMITED
from . import state_layout as lay
from .state_layout import NONE, Array, Links, Rows

if TYPE_CHECKING:
    from .run_memory import RunMemory


class GraphBlock:
    """Memory image of one prepared graph at tick 0, copied into a run at each submission.

    All indices in the block (cells, links, collectives, flows, uses, holders, claims) count from 0.

    Parameters
    ----------
    parts : table of the system's components, one row each
    lowered : EngineGraph
        Graph in engine form, already checked.
    """

    def __init__(self, parts: ComponentTable, lowered: EngineGraph):
        from .run_memory import RunMemory

        alone = RunMemory(parts)
        alone.add(lowered, 0)
        self.lowered = lowered
        self.ops = len(lowered)
        self.cells = alone.rows[: alone.cells].copy()
        self.times = alone.times[: alone.cells].copy()
        self.links = alone.links[: alone.edges].copy()
        start = int(alone.world[lay.COLLECTIVES])
        table = alone.world[start : start + alone.collectives * lay.COLLECTIVE]
        self.collectives = table.reshape(-1, lay.COLLECTIVE).copy()
        self.flows, self.uses = alone.sharing.rows(len(lowered.flows), len(lowered.flows.component))
        self.holders, self.claims = alone.holder_table.copy(), alone.claim_table.copy()
        self.owners = lowered.flows.op.astype(np.int64)
        self._put: Callable[..., None] | None = None

    def copy_into(self, memory: RunMemory, numbers: Numbers, at: tuple[int, ...]) -> None:
        """Copy the block into a run's memory, with new durations and amounts.

        The memory must already have room for it.
        """
        _, flows, uses, _ = memory.sharing.state
        what = (
            (memory.rows, memory.times, memory.links, memory.world, flows, uses),
            (self.cells, self.times, self.links, self.collectives, self.flows, self.uses),
            (self.holders, self.claims),
            self.owners,
            (
                numbers.fixed,
                numbers.work_hi,
                numbers.work_lo.view(np.int64),
                numbers.limit,
                numbers.amount,
            ),
            at,
        )
        if self._put is None:
            self._put = compiled_for_argument_types(copy_block, *what)
        self._put(*what)


State = tuple[Rows, Array, Links, Array, Array, Array]


@jit_without_refcounts
def copy_block(
    state: State,
    block: State,
    holding: tuple[Array, Array],
    owners: Array,
    numbers: tuple[Array, ...],
    at: tuple[Int, ...],
) -> None:
    """Append a block to the tables of a run, shifting its indices and filling in new numbers.

    Parameters
    ----------
    state, block : tuples of arrays: rows, times, links, world (of the run) or collectives (of the
        block), flows, uses
    holding : tables of holders and claims
    numbers : fixed times, high and low half of the work, limits, and the amount of each claim
    at : index of the first new cell, link, graph, collective, flow, use, holder and claim; then the
        tick
    """
    rows, times, links, world, flows, uses = state
    cells, arrivals, after, collectives, own_flows, own_uses = block
    fixed, work_hi, work_lo, limit, amount = numbers
    base, edge, graph, collective, flow, use, holder, claim, now = at
    n = len(fixed)
    for i in range(len(cells)):
        c = base + i
        rows[c] = cells[i]
        rows[c]["first"] += edge
        if cells[i]["link"] != NONE:
            moved = flow
            if cells[i]["flags"] & lay.FURTHER:
                moved = base
            elif cells[i]["flags"] & lay.WIDE:
                moved = collective
            rows[c]["link"] += moved
        for k in range(3):
            times[c, k] = arrivals[i, k]
        release = -1 - arrivals[i, lay.ARRIVED]
        if i < n:
            rows[c]["left"] = fixed[i]
            if release > MAX_TICK - now:
                rows[c]["flags"] |= lay.NEVER
            if cells[i]["flags"] & lay.ASK:
                world[lay.ONLINE] = 1
        times[c, lay.ARRIVED] = -1 - now - (release if release <= MAX_TICK - now else 0)
    behind = base + len(cells)  # where the successors of the last end
    rows[behind]["first"] = edge + len(after)
    rows[behind]["flags"] = 0
    for i in range(len(after)):
        links[edge + i] = after[i] + base
    for i in range(len(collectives)):
        row = world[lay.COLLECTIVES] + (collective + i) * lay.COLLECTIVE
        for k in range(lay.COLLECTIVE):
            world[row + k] = collectives[i, k]
        world[row + lay.FURTHER_CELL] += base
        if world[row + lay.WIDE_FLOW] != NONE:
            world[row + lay.WIDE_FLOW] += flow
        if world[row + lay.HOLDING] != NONE:
            world[row + lay.HOLDING] += holder
    for i in range(len(own_flows)):
        for k in range(own_flows.shape[1]):
            flows[flow + i, k] = own_flows[i, k]
        flows[flow + i, START] += use
        flows[flow + i, TAG_HI] = work_hi[i]
        flows[flow + i, TAG_LO] = work_lo[i]
        flows[flow + i, LIMIT] = UNLIMITED if limit[i] == NO_LIMIT else limit[i]
        world[world[lay.OWNERS] + flow + i] = base + owners[i]
    for i in range(len(own_uses)):
        for k in range(own_uses.shape[1]):
            uses[use + i, k] = own_uses[i, k]
    copy_claim_rows(world, holding, amount, base, holder, claim)
    row = world[lay.GRAPHS] + graph * lay.GRAPH
    world[row + lay.FIRST_CELL] = base
    world[row + lay.OPEN_OPS] = n
    world[lay.GRAPH_COUNT] = graph + 1
    world[lay.OPEN] += n


@jit_without_refcounts
def copy_claim_rows(
    world: Array, holding: tuple[Array, Array], amount: Array, base: Int, holder: Int, claim: Int
) -> None:
    """Copy the holder and claim rows of a block into a run."""
    holders, claims = holding
    for i in range(len(holders)):
        row = world[lay.HOLDERS] + (holder + i) * lay.HOLDER
        for k in range(lay.HOLDER):
            world[row + k] = holders[i, k]
        world[row + lay.FIRST_CLAIM] += claim
        if world[row + lay.LETTING] != NONE:
            world[row + lay.LETTING] += claim
    for i in range(len(claims)):
        row = world[lay.CLAIMS] + (claim + i) * lay.CLAIM
        for k in range(lay.CLAIM):
            world[row + k] = claims[i, k]
        world[row + lay.AMOUNT] = amount[i]
        world[row + lay.HELD_BY] += base
        if world[row + lay.UNTIL] != NONE:
            world[row + lay.UNTIL] += base
        if world[row + lay.ALSO] != NONE:
            world[row + lay.ALSO] += claim
