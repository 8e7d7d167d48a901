"""Compiled time breakdown: ticks of each rank in each of the seven categories of ``activity.py``.

For an SPMD graph that has run, the program of each rank is replayed with the known times of its
collectives. For an explicit graph, the participants of its ops are taken rank by rank. Either way,
the intervals of one rank are merged per layer and then split into categories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...facts.spmd.program_encoding import (
    COLLECTIVE,
    RECV,
    end_register,
    latest_dependency_end,
    next_op_position,
    op_family,
    op_kind,
)
from ...facts.spmd.spmd_graph import SpmdGraph
from ...kernel.jit import Int, jit, jit_without_refcounts
from .layer_boxes import BOX, BOXES, LAYER, LAYERS, NETWORK, WAITING
from .program_executor import ProgramTimes, TimedPrograms
from .rendezvous import Rendezvous
from .replica_draws import ReplicaDraws, draw_ticks

Array = NDArray[Any]
Arrays = tuple[Array, ...]


def breakdown_of_ranks(
    template: SpmdGraph,
    timed_programs: TimedPrograms,
    rendezvous: Rendezvous,
    draws: ReplicaDraws,
    run_times: ProgramTimes,
    edges: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Ticks in each category, shape (7, windows, ranks), of an SPMD graph after its run."""
    out = np.zeros((BOXES, len(edges) - 1, template.ranks), np.int64)
    with np.errstate(over="ignore"):
        _replay_programs(
            timed_programs.programs,
            (
                template.program.astype(np.int32),
                timed_programs.step,
                timed_programs.step_at,
                template.bases,
            ),
            (rendezvous.group, rendezvous.row, run_times.collective_times),
            (rendezvous.mailbox_at, run_times.message_times),
            draws.tables,
            (LAYER, BOX, edges, out),
            timed_programs.registers,
        )
    return out


def breakdown_of_places(
    rank: NDArray[np.int32],
    layer: NDArray[np.int8],
    arrived: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    edges: NDArray[np.int64],
    ranks: int,
    further: NDArray[np.int32] | None = None,
) -> NDArray[np.int64]:
    """Ticks in each category of ``activity.py``, shape (7, windows, ranks), from times of ops.

    Parameters
    ----------
    rank, arrived : (n + e,) rank and arrival tick of each participant of an op
    layer : (n,) index of the layer that each op keeps busy; -1 for none
    start, end : (n,) start and end tick of each op
    edges : (windows + 1,) ticks of the window boundaries
    further : (e,) op of each further participant; None if every op has one participant

    Examples
    --------
    >>> one, t = np.zeros(2, np.int32), np.array
    >>> layer = np.array([0, 1], np.int8)
    >>> breakdown_of_places(one, layer, t([0, 2]), t([0, 3]), t([5, 9]), t([0, 10]), 1).ravel()
    array([3, 2, 4, 0, 0, 0, 1])
    """
    out = np.zeros((BOXES, len(edges) - 1, ranks), np.int64)
    order, begins = np.empty(len(rank), np.int32), np.zeros(ranks + 1, np.int64)
    _places_by_rank(rank, order, begins)
    more = np.empty(0, np.int32) if further is None else further
    _by_rank(order, begins, layer, more, (arrived, start, end), (BOX, edges, out))
    return out


@jit
def _places_by_rank(rank: Array, order: Array, begins: Array) -> None:
    """Sort the participants of ops by rank; those of rank r are at begins[r] to begins[r + 1]."""
    for p in range(len(rank)):
        begins[rank[p] + 1] += 1
    for r in range(1, len(begins)):
        begins[r] += begins[r - 1]
    free = begins[:-1].copy()
    for p in range(len(rank)):
        order[free[rank[p]]] = p
        free[rank[p]] += 1


@jit
def _by_rank(
    order: Array, begins: Array, layer: Array, further: Array, times: Arrays, tables: Arrays
) -> None:
    arrived, start, end = times
    box, edges, out = tables
    most = 0
    for r in range(len(begins) - 1):
        most = max(most, begins[r + 1] - begins[r])
    busy, found = np.empty((LAYERS, most, 2), np.int64), np.zeros((LAYERS, 2), np.int64)
    for r in range(len(begins) - 1):
        for k in range(begins[r], begins[r + 1]):
            p = np.int64(order[k])
            op = p if p < len(start) else np.int64(further[p - len(start)])
            add_place(busy, found, np.int64(layer[op]), arrived[p], start[op], end[op])
        add_boxes_of_rank(busy, found, box, edges, out, r)


@jit
def _replay_programs(
    programs: Arrays,
    ranks_: Arrays,
    groups: Arrays,
    messages: Arrays,
    draws: Arrays,
    tables: Arrays,
    registers: int,
) -> None:
    """Replay the program of each rank alone, with the known times of its collectives."""
    words, begin, length, answer, answer_at = programs
    program, steps, step_at, bases = ranks_
    group_of, group_row, collective_times = groups
    mailbox_at, message_times = messages
    layer_of, box, edges, out = tables
    ranks, random = len(program), len(draws[1]) > 1
    most = 0
    for p in range(len(length)):
        most = max(most, length[p])
    busy, found = np.empty((LAYERS, most, 2), np.int64), np.zeros((LAYERS, 2), np.int64)
    register = np.zeros((1, registers), np.int64)
    calls = np.zeros(len(group_of), np.int64)
    heard = np.zeros((len(mailbox_at) - 1) // ranks, np.int64)
    for r in range(ranks):
        p = program[r]
        own: Any = 0
        w: Any = begin[p]
        calls[:] = 0
        heard[:] = 0
        for i in range(length[p]):
            what, f = op_kind(words, w), op_family(words, w)
            arrived = latest_dependency_end(words, w, register, 0)
            question = answer_at[p] + words[w + 1]
            took, meta = answer[question, 0], answer[question, 1]
            start: Any = arrived
            if what == COLLECTIVE:
                m = group_row[group_of[f, r]] - bases[ranks] + calls[f]
                start, finish = collective_times[m, 0], collective_times[m, 1]
                calls[f] += 1
            else:
                if what == RECV:
                    start = max(arrived, message_times[mailbox_at[f * ranks + r] + heard[f]])
                    heard[f] += 1
                    arrived = start
                if random:
                    step = np.int64(steps[step_at[p] + i]) if len(steps) else 0
                    took = draw_ticks(took, meta & 255, bases[r] + own, r, step, draws)
                finish = start + took
                own += 1
            register[0, end_register(words, w)] = finish
            add_place(busy, found, layer_of[meta >> 8], arrived, start, finish)
            w = next_op_position(words, w)
        add_boxes_of_rank(busy, found, box, edges, out, r)


@jit_without_refcounts
def add_place(busy: Array, found: Array, layer: Int, arrived: Int, start: Int, end: Int) -> None:
    """Add the busy interval of an op on a rank to the intervals of its layer.

    The rank counts as waiting from the arrival of a network op to its start.

    Parameters
    ----------
    busy : (LAYERS, most, 2) first and last tick of each interval
    found : (LAYERS, 2) number of intervals, and 1 if they are not sorted
    """
    if layer >= 0:
        _add_interval(busy, found, layer, start, end)
        if layer == NETWORK:
            _add_interval(busy, found, WAITING, arrived, start)


@jit_without_refcounts
def _add_interval(busy: Array, found: Array, layer: Int, begin: Int, end: Int) -> None:
    if end <= begin:
        return
    m = found[layer, 0]
    if m > 0 and begin >= busy[layer, m - 1, 0] and begin <= busy[layer, m - 1, 1]:
        busy[layer, m - 1, 1] = max(busy[layer, m - 1, 1], end)
        return
    if m > 0 and begin < busy[layer, m - 1, 0]:
        found[layer, 1] = 1
    busy[layer, m, 0], busy[layer, m, 1] = begin, end
    found[layer, 0] = m + 1


@jit
def add_boxes_of_rank(
    busy: Array, found: Array, box: Array, edges: Array, out: Array, r: Any
) -> None:
    """Add the ticks per category of one rank to ``out``, and clear its busy intervals."""
    size = np.zeros(LAYERS, np.int64)
    for layer in range(LAYERS):
        size[layer] = found[layer, 0]
        if found[layer, 1]:
            size[layer] = _sort_and_join(busy[layer], found[layer, 0])
    found[:] = 0
    at = np.zeros(LAYERS, np.int64)
    now, window = edges[0], 0
    while window < len(edges) - 1:
        until, mask = edges[window + 1], 0
        for layer in range(LAYERS):
            while at[layer] < size[layer] and busy[layer, at[layer], 1] <= now:
                at[layer] += 1
            if at[layer] < size[layer]:
                if busy[layer, at[layer], 0] <= now:
                    mask |= 1 << layer
                    until = min(until, busy[layer, at[layer], 1])
                else:
                    until = min(until, busy[layer, at[layer], 0])
        if until > now:
            out[box[mask], window, r] += until - now
            now = until
        while window < len(edges) - 1 and now >= edges[window + 1]:
            window += 1


@jit
def _sort_and_join(busy: Array, m: Any) -> Any:
    """Sort the first ``m`` intervals and merge those that touch; returns how many are left."""
    order = np.argsort(busy[:m, 0].copy(), kind="mergesort")
    busy[:m] = busy[:m].copy()[order]
    last = 0
    for i in range(1, m):
        if busy[i, 0] <= busy[last, 1]:
            busy[last, 1] = max(busy[last, 1], busy[i, 1])
        else:
            last += 1
            busy[last, 0], busy[last, 1] = busy[i, 0], busy[i, 1]
    return last + 1
