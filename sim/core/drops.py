"""Dropped ops: what no queue took is over, with all ops that depend on it."""

from __future__ import annotations

import numpy as np

from ..kernel.jit import Int, jit_without_refcounts
from ..media.max_min.table_layout import State
from .capacity import release_claims_of_ended_op
from .memory import state_layout as lay
from .memory.linked_lists import sort_list
from .memory.state_layout import NONE, Array, Links, Rows
from .op_end import count_op_ended, withdraw_op


@jit_without_refcounts
def drop_ops_turned_away(rows: Rows, times: Array, links: Links, world: Array, s: State) -> None:
    """Drop the ops that no queue took in this round, in order, with the ops that depend on them."""
    c = world[lay.TURNED_AWAY]
    world[lay.TURNED_AWAY] = NONE
    while c != NONE:
        following = rows[c]["next"]
        drop_op(rows, times, links, world, s, c)
        c = following


@jit_without_refcounts
def drop_op(rows: Rows, times: Array, links: Links, world: Array, s: State, c: Int) -> None:
    """Drop one op, and cancel all ops that depend on it; they are over in order of op."""
    withdraw_op(rows, times, world, s, c)
    rows[c]["state"] = lay.DROPPED
    rows[c]["next"] = NONE
    first, last = c, c
    while c != NONE:
        for e in range(rows[c]["first"], rows[c + 1]["first"]):
            p = np.int64(links[e])
            op = np.int64(rows[p]["link"]) if rows[p]["flags"] & lay.FURTHER else p
            if rows[op]["state"] == lay.PENDING or rows[op]["state"] == lay.STOPPED:
                withdraw_op(rows, times, world, s, op)
                rows[op]["state"] = lay.CANCELLED
                rows[op]["next"] = NONE
                rows[last]["next"] = op
                last = op
        c = np.int64(rows[c]["next"])
    c = sort_list(rows, world, first)
    while c != NONE:
        following = rows[c]["next"]
        if rows[c]["flags"] & (lay.HOLDS | lay.LETS):
            release_claims_of_ended_op(rows, world, c)
        count_op_ended(rows, world, c)
        c = following
