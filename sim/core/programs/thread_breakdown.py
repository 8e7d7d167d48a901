"""Compiled time breakdown of an SPMD graph with shared rates, thread by thread of each rank.

Like :mod:`.time_breakdown`, for runs of :mod:`.thread_executor`: after the run all ends are known,
and each thread is replayed once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...facts.spmd.program_encoding import COLLECTIVE, RECV
from ...facts.spmd.spmd_graph import SpmdGraph
from ...kernel.jit import Int, jit, jit_without_refcounts
from .layer_boxes import BOX, BOXES, LAYER, LAYERS
from .program_threads import CALL, CELL, GOES_ON, KIN, OWN, PAIR, QUESTION, STEP, WAITS, WHAT
from .replica_draws import ReplicaDraws, draw_ticks
from .thread_executor import ThreadTimes
from .thread_plan import PartnerTables, ThreadPlan
from .time_breakdown import add_boxes_of_rank, add_place

Array = NDArray[Any]
Arrays = tuple[Array, ...]


def breakdown_of_threads(
    template: SpmdGraph,
    plan: ThreadPlan,
    partners: PartnerTables,
    draws: ReplicaDraws,
    run_times: ThreadTimes,
    edges: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Ticks in each category, shape (7, windows, ranks), of a finished run with shared rates."""
    out = np.zeros((BOXES, len(edges) - 1, template.ranks), np.int64)
    sizes = np.bincount(plan.rank, plan.end - plan.first, template.ranks)
    with np.errstate(over="ignore"):
        _replay_threads(
            plan.programs,
            plan.owners,
            (
                template.bases,
                run_times.notes,
                run_times.collective_starts,
                run_times.flow_ends,
                run_times.flow_end_offsets,
            ),
            partners.groups,
            partners.messages,
            draws.tables,
            (LAYER, BOX, edges, out),
            int(sizes.max(initial=0)),
        )
    return out


@jit
def _replay_threads(
    programs: Arrays,
    owners: Arrays,
    times: Arrays,
    groups: Arrays,
    messages: Arrays,
    draws: Arrays,
    tables: Arrays,
    most: int,
) -> None:
    op, wait, answer, flow_of = programs
    rank, first, end_of, answer_at, pair_at, cell_at = owners
    bases, notes, latest, own, own_at = times
    layer_of, box, edges, out = tables
    ranks = len(answer_at)
    busy, found = np.empty((LAYERS, most, 2), np.int64), np.zeros((LAYERS, 2), np.int64)
    x = 0
    for r in range(ranks):
        while x < len(rank) and rank[x] == r:
            last, owns = np.int64(0), own_at[x]
            i = first[x]
            while i < end_of[x]:
                what, arrived = op[i, WHAT], last
                for k in range(op[i, WAITS], op[i + 1, WAITS]):
                    arrived = max(arrived, notes[cell_at[r] + wait[k]])
                question = answer_at[r] + op[i, QUESTION]
                meta = answer[question, 1]
                if what == COLLECTIVE:
                    j = groups[4][groups[0][op[i, KIN], r]] + op[i, CALL]
                    start, last = latest[j], notes[j]
                else:
                    if what == RECV:
                        note = messages[1][op[i, KIN] * ranks + r] + op[i, CALL]
                        arrived = max(arrived, notes[note])
                    start = arrived
                    if flow_of[pair_at[r] + op[i, PAIR]] >= 0:
                        last = own[owns]
                        owns += 1
                    else:
                        last = start + _ticks_taken(programs, bases, draws, question, i, r)
                        while op[i, CELL] == GOES_ON and flow_of[pair_at[r] + op[i + 1, PAIR]] < 0:
                            i += 1
                            question = answer_at[r] + op[i, QUESTION]
                            last += _ticks_taken(programs, bases, draws, question, i, r)
                add_place(busy, found, layer_of[meta >> 8], arrived, start, last)
                i += 1
            x += 1
        add_boxes_of_rank(busy, found, box, edges, out, r)


@jit_without_refcounts
def _ticks_taken(
    programs: Arrays, bases: Array, draws: Arrays, question: Int, i: Int, r: Int
) -> Int:
    """Duration in ticks of an op of a rank that is not a flow."""
    op, _, answer, _ = programs
    took = answer[question, 0]
    if len(draws[1]) > 1:
        row, step = bases[r] + op[i, OWN], np.int64(op[i, STEP])
        took = draw_ticks(took, answer[question, 1] & 255, row, r, step, draws)
    return took
