"""Submissions of policies inside the compiled loop: prepared graphs are copied into memory."""

from __future__ import annotations

import numpy as np

from ...kernel import policy_rows as rows
from ...kernel.jit import Int, jit_without_refcounts
from ...kernel.native_calls import array_at, table_at
from ..capacity import mark_claim_queue
from ..memory import state_layout as lay
from ..memory.block import copy_block
from ..memory.state_layout import NONE
from ..slots import arrive_range_at_release
from .desk_layout import (
    AMOUNTS_AT,
    CELL_COUNT,
    CELLS,
    CELLS_AT,
    CLAIM_COUNT,
    CLAIMS_AT,
    COLLECTIVE_COUNT,
    COLLECTIVES,
    COLLECTIVES_AT,
    EDGES,
    FIRST_OF,
    FIXED_AT,
    FLOW_COUNT,
    FLOWS_AT,
    FOLD,
    FREE_CELLS,
    FREE_COLLECTIVES,
    FREE_EDGES,
    FREE_GRAPHS,
    FULL,
    GRAPH_AS_OPS,
    GRAPH_COUNT,
    GRAPHS,
    GRID,
    HELD,
    HIGH_AT,
    HOLDER_COUNT,
    HOLDERS_AT,
    LIMITS_AT,
    LINK_COUNT,
    LINKS_AT,
    LOW_AT,
    MOST_HELD,
    NAME,
    NOTED,
    NOTED_AMOUNT,
    NOTED_BY,
    NOTED_VERB,
    NOTED_WHAT,
    OP_COUNT,
    OPS,
    OWNERS_AT,
    POOL,
    RESERVED,
    RESERVES,
    ROW,
    SETTLED,
    SETTLED_OF,
    SETTLED_TAG,
    SLOW,
    SUB_AT,
    SUB_BY,
    SUB_CANCELLED,
    SUB_CELL,
    SUB_CLAIM,
    SUB_COLLECTIVE,
    SUB_FIRST,
    SUB_FLOW,
    SUB_FREED,
    SUB_GRAPH,
    SUB_HOLDER,
    SUB_INDEX,
    SUB_OVER,
    SUB_SHAPE,
    SUB_TAG,
    SUB_USE,
    SUBMISSIONS,
    SUBMITTED,
    TAKEN,
    TICK,
    TIMES_AT,
    USE_COUNT,
    USES_AT,
    WAITS,
    Array,
    Desk,
)
from .mail_lists import post_letter
from .noted_actions import note
from .submission_numbers import read_numbers, write_numbers


@jit_without_refcounts
def note_submission(desk: Desk, p: Int, actions: Array, count: Int) -> Int:
    """Note a submission; 0, or why Python must go on with it."""
    now, row = desk.now, desk.now[ROW]
    of, graph = desk.policies[p], actions[row, rows.A]
    if not 0 <= graph < of[GRAPH_COUNT]:
        return SLOW
    k = now[SUBMITTED]
    if k == len(desk.submissions):
        return FULL
    one = desk.submissions[k]
    one[SUB_SHAPE] = of[GRAPHS] + graph
    behind = read_numbers(desk, one, actions, row, count)
    if behind == NONE:
        return SLOW
    shape = desk.shapes[one[SUB_SHAPE]]
    if now[HELD] >= now[MOST_HELD]:
        return FOLD
    if not has_room(desk, shape):
        return FULL
    one[SUB_BY], one[SUB_TAG], one[SUB_GRAPH] = p, actions[row, rows.TAG], graph
    one[SUB_INDEX], one[SUB_FIRST], one[SUB_AT] = now[SUBMISSIONS], now[OPS], now[TICK]
    one[SUB_CELL], one[SUB_OVER], one[SUB_FREED], one[SUB_CANCELLED] = NONE, 0, 0, 0
    desk.names[shape[NAME]] += 1
    now[ROW] += behind
    if shape[POOL] != NONE:
        pool = desk.pools[shape[POOL]]
        pool[RESERVES] -= 1
        reserved = desk.reserved[pool[RESERVED] + pool[RESERVES]]
        one[SUB_FLOW], one[SUB_USE] = reserved[0], reserved[1]
        one[SUB_HOLDER], one[SUB_CLAIM] = reserved[2], reserved[3]
    now[FREE_CELLS] -= shape[CELL_COUNT]
    now[FREE_EDGES] -= shape[LINK_COUNT]
    now[FREE_COLLECTIVES] -= shape[COLLECTIVE_COUNT]
    now[FREE_GRAPHS] -= 1
    now[SUBMITTED] += 1
    now[SUBMISSIONS] += 1
    now[OPS] += shape[OP_COUNT]
    now[HELD] += shape[OP_COUNT] + GRAPH_AS_OPS
    desk.policies[p, WAITS] += 1
    note(desk, p, np.int64(rows.SUBMIT), k, 0, 0)
    return 0


@jit_without_refcounts
def has_room(desk: Desk, shape: Array) -> bool:
    """True if all tables have room for one more submission of a prepared graph."""
    now = desk.now
    if not now[FREE_GRAPHS]:
        return False
    if shape[POOL] != NONE and not desk.pools[shape[POOL], RESERVES]:
        return False
    return bool(
        shape[CELL_COUNT] <= now[FREE_CELLS]
        and shape[LINK_COUNT] <= now[FREE_EDGES]
        and shape[COLLECTIVE_COUNT] <= now[FREE_COLLECTIVES]
    )


@jit_without_refcounts
def apply_noted(machine: tuple, desk: Desk) -> None:  # type: ignore[type-arg]
    """Apply the noted actions in order, as the machine's next turn begins."""
    cells, times, _, world, _ = machine
    now, own = desk.now, desk.own
    first = now[CELLS]
    for i in range(now[NOTED]):
        verb, what = desk.noted[i, NOTED_VERB], desk.noted[i, NOTED_WHAT]
        if verb == rows.SUBMIT:
            join_submission(machine, desk, what)
            continue
        if verb == rows.SEND:
            post_letter(desk.mail, what)
            continue
        if verb == rows.SETTLE:
            one = desk.settled[now[SETTLED]]
            one[SETTLED_OF], one[SETTLED_TAG] = desk.noted[i, NOTED_BY], what
            now[SETTLED] += 1
            continue
        part = world[lay.PARTS] + what * lay.PART
        world[part + lay.TAKEN] += desk.noted[i, NOTED_AMOUNT]
        if verb == rows.TAKE:
            own[own[desk.noted[i, NOTED_BY], FIRST_OF], TAKEN] -= desk.noted[i, NOTED_AMOUNT]
        else:
            mark_claim_queue(world, part)
    now[NOTED] = 0
    arrive_range_at_release(cells, times, world, first, now[CELLS])


@jit_without_refcounts
def join_submission(machine: tuple, desk: Desk, k: Int) -> None:  # type: ignore[type-arg]
    """Copy the prepared graph of a submission into the memory of the run."""
    cells, times, links, world, s = machine
    now, one = desk.now, desk.submissions[k]
    shape, numbers = desk.shapes[one[SUB_SHAPE]], desk.now
    n, m = shape[CELL_COUNT], shape[OP_COUNT]
    flows, claims = shape[FLOW_COUNT], shape[CLAIM_COUNT]
    block = (
        array_at(cells, shape[CELLS_AT], n),
        table_at(times, shape[TIMES_AT], n, times.shape[1]),
        array_at(links, shape[LINKS_AT], shape[LINK_COUNT]),
        table_at(numbers, shape[COLLECTIVES_AT], shape[COLLECTIVE_COUNT], lay.COLLECTIVE),
        table_at(numbers, shape[FLOWS_AT], flows, s[1].shape[1]),
        table_at(numbers, shape[USES_AT], shape[USE_COUNT], s[2].shape[1]),
    )
    holding = (
        table_at(numbers, shape[HOLDERS_AT], shape[HOLDER_COUNT], lay.HOLDER),
        table_at(numbers, shape[CLAIMS_AT], claims, lay.CLAIM),
    )
    given = (
        array_at(numbers, shape[FIXED_AT], m),
        array_at(numbers, shape[HIGH_AT], flows),
        array_at(numbers, shape[LOW_AT], flows),
        array_at(numbers, shape[LIMITS_AT], flows),
        array_at(numbers, shape[AMOUNTS_AT], claims),
    )
    if shape[GRID]:
        write_numbers(desk, one, shape)
    graph = world[lay.GRAPH_COUNT]
    one[SUB_CELL], one[SUB_COLLECTIVE] = now[CELLS], now[COLLECTIVES]
    at = (
        now[CELLS], now[EDGES], graph, now[COLLECTIVES], one[SUB_FLOW], one[SUB_USE],
        one[SUB_HOLDER], one[SUB_CLAIM], one[SUB_AT],
    )  # fmt: skip
    copy_block(
        (cells, times, links, world, s[1], s[2]), block, holding,
        array_at(numbers, shape[OWNERS_AT], flows), given, at,
    )  # fmt: skip
    desk.owner[graph] = k
    now[CELLS] += n
    now[EDGES] += shape[LINK_COUNT]
    now[COLLECTIVES] += shape[COLLECTIVE_COUNT]


@jit_without_refcounts
def graph_row(world: Array, c: Int) -> Int:
    """Row of the graph of a cell in the table of graphs."""
    low, high = 0, world[lay.GRAPH_COUNT]
    while high - low > 1:
        middle = (low + high) >> 1
        if world[world[lay.GRAPHS] + middle * lay.GRAPH + lay.FIRST_CELL] <= c:
            low = middle
        else:
            high = middle
    return low
