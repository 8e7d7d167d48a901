"""Executor of SPMD graphs whose ops share rates, without expanding the graph.

Each thread of a rank is a cursor in its program. It runs ahead of the clock until it needs an end
that is not yet known. The end of an op that shares a rate (a *flow* of the max-min medium) is
computed by the medium. Flows begin in order of time, and all flows of one tick begin before rates
are computed, so only flows need a clock. Every other end is the latest end of an op's dependencies
plus its own duration.

A *note* stores the end tick of one op that other threads may wait for: a collective, a message, or
an op of another thread of the rank. Until it is known, the note holds the list of waiting threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import MAX_TICK, ComponentTable, Flows
from ...errors import SimulationError
from ...facts.spmd.program_encoding import COLLECTIVE, RECV, SEND
from ...facts.spmd.spmd_graph import SpmdGraph
from ...kernel.jit import Int, jit, jit_without_refcounts
from ...media.max_min.medium import due, join, settle, take_due
from ...media.max_min.medium_memory import MaxMinMemory
from ...media.max_min.pairing_heap import ABSENT, BEFORE, KEY_HI, KEY_LO, NODE, NONE, insert, remove
from ...media.max_min.table_layout import OVERFULL, TAG_HI, TAG_LO, State
from .program_executor import COLUMNS as TALLY
from .program_executor import LED, extend_step_span
from .program_threads import CALL, CELL, GOES_ON, KIN, OWN, PAIR, QUESTION, STEP, WAITS, WHAT
from .replica_draws import ReplicaDraws, draw_ticks
from .submission_draws import draw_ticks_and_work
from .thread_plan import PartnerTables, ThreadPlan

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Numbers = NDArray[np.int64]

UNKNOWN = -1
"""End unknown and no thread waits; -2 minus a thread: the last thread that began to wait."""
# Indices in `counts`: threads on the stack, clock, ops that ran, ops beyond the range, next flow to
# begin its work, 1 if rates are stale, flows in flight, 1 if the run is over.
TOP, CLOCK, DONE, BEYOND, SOONEST, STALE, FLYING, OVER, COUNTS = range(9)
TOO_HEAVY = 2  # value of `OVER`: weights in flight overflow
PAUSE = 1 << 21  # ops


@dataclass(frozen=True)
class ThreadTimes:
    """Times in ticks of all ranks, after a run of an SPMD graph whose ops share rates.

    Parameters
    ----------
    start, end : (iterations, ranks) first start and last end of each iteration; -1 if it has no op
    tally : (ranks, 32) total duration of ops by column (kind of op and role)
    waiting : (ranks,) time spent at collectives waiting for late members
    sources : (ranks, sources) total duration of non-collective ops by source of their timing
    collective_ticks : (groups, sources) total duration of collectives by source of their timing
    collective_starts : (collectives,) start of each collective: the arrival of its last member
    notes : end tick of each collective and message, and of each op that another thread waits for
    flow_ends : (own flows,) ends of non-collective ops that are flows, thread after thread, if kept
    flow_end_offsets : (threads + 1,) offset in ``flow_ends`` of each thread
    """

    start: Numbers
    end: Numbers
    tally: Numbers
    waiting: Numbers
    sources: Numbers
    collective_ticks: Numbers
    collective_starts: Numbers
    notes: Numbers
    flow_ends: Numbers
    flow_end_offsets: Numbers


class ThreadRun(NamedTuple):
    """State of a run, as kernels take it.

    Parameters
    ----------
    op, wait, answer, flow_of : ops of all threads with their timings and flows, as in `ThreadPlan`
    rank, first, end_of, answer_at, pair_at, cell_at : tables of threads and ranks, as in
        `ThreadPlan`
    group_of, member_at, member, lead, group_at, peer, mailbox_at : groups of collectives and
        mailboxes of messages, as in `Rendezvous`
    draws : tables of random factors on durations, as in `ReplicaDraws`
    bases : row of the first op of each rank, and of the first collective
    step_start, step_end, tally, by_source, by_group, flow_ends : result arrays, filled during the
        run, as in `ThreadTimes`
    notes, latest : end tick of each collective, message and awaited op (negative if unknown);
        latest arrival so far at each collective
    there : (collectives, 2) number of members that arrived, and the op of the lead member
    cursor : (threads,) index of the current op
    times : (threads, 2) end of the last op; start of the current one
    behind : (threads,) next thread that waits for the same end
    stack : stack of runnable threads
    own_next : (threads,) index in `flow_ends` of the thread's next flow
    coming : heap of flows whose work has not begun
    owner : (flows,) thread whose op the flow belongs to; for a collective, -1 minus its index
    work_hi, work_lo : (flows,) typical work of each flow as a 128-bit integer: high and low word
    over : buffer for the flows that end at one tick
    medium : state of the max-min medium, which shares rates among the flows in flight
    counts : counters of the main loop, such as the number of threads on the stack; indices from
        `TOP` on
    """

    op: Array
    wait: Array
    answer: Array
    flow_of: Array
    rank: Array
    first: Array
    end_of: Array
    answer_at: Array
    pair_at: Array
    cell_at: Array
    group_of: Array
    member_at: Array
    member: Array
    lead: Array
    group_at: Array
    peer: Array
    mailbox_at: Array
    draws: Arrays
    bases: Array
    step_start: Array
    step_end: Array
    tally: Array
    by_source: Array
    by_group: Array
    flow_ends: Array
    notes: Array
    latest: Array
    there: Array
    cursor: Array
    times: Array
    behind: Array
    stack: Array
    own_next: Array
    coming: Array
    owner: Array
    work_hi: Array
    work_lo: Array
    over: Array
    medium: State
    counts: Array


def run_threads(
    template: SpmdGraph,
    plan: ThreadPlan,
    partners: PartnerTables,
    parts: ComponentTable,
    flows: Flows,
    draws: ReplicaDraws,
    sources: int,
    flow_end_offsets: Numbers,
) -> ThreadTimes:
    """Run all ranks of an SPMD graph whose ops share rates.

    Parameters
    ----------
    flows : flows that ``plan.flow_of`` refers to
    sources : number of sources of timings
    flow_end_offsets : (threads + 1,) offset of each thread's flow ends in
        ``ThreadTimes.flow_ends``; all 0 to keep none

    Raises
    ------
    SimulationError
        Ranks that wait for each other or for work at rate 0, weights that sum to too much, or a
        time beyond the range; run the expanded graph to see which ops.
    """
    ranks, threads, joint = template.ranks, len(plan.rank), partners.collectives
    start = np.full((ranks, 1 + int(plan.op[:, STEP].max(initial=0))), -1, np.int64)
    medium = MaxMinMemory(parts)
    medium.add(flows)
    coming = np.zeros((len(flows), NODE), np.int64)
    coming[:, BEFORE] = ABSENT
    counts = np.zeros(COUNTS, np.int64)
    counts[TOP], counts[SOONEST] = threads, NONE
    run = ThreadRun._make(
        (
            *plan.programs,
            *plan.owners,
            *partners.groups,
            *partners.messages,
            draws.tables,
            template.bases,
            start,
            start.copy(),
            np.zeros((ranks, TALLY + 1), np.int64),
            np.zeros((ranks, sources), np.int64),
            np.zeros((len(partners.groups[3]), sources), np.int64),
            np.full(int(flow_end_offsets[-1]), -1, np.int64),
            np.full(int(plan.cell_at[-1]), UNKNOWN, np.int64),
            np.zeros(joint, np.int64),
            np.zeros((joint, 2), np.int32),
            plan.first.copy(),
            np.zeros((threads, 2), np.int64),
            np.full(threads, NONE, np.int32),
            np.arange(threads - 1, -1, -1, dtype=np.int32),
            flow_end_offsets[:-1].copy(),
            coming,
            np.zeros(len(flows), np.int64),
            flows.work_hi,
            flows.work_lo,
            np.zeros(len(flows), np.int64),
            medium.state,
            counts,
        )
    )
    with np.errstate(over="ignore"):
        while not counts[OVER]:
            _run_until_blocked(run)
    if counts[OVER] == TOO_HEAVY:
        raise SimulationError(
            "weight",
            "the weights of concurrent ops of an SPMD graph sum to 2^22 or more; divide the rates "
            "and weights by one number",
        )
    if counts[BEYOND]:
        raise SimulationError(
            "time overflow", "an op of an SPMD graph ends after the last tick; use a coarser tick"
        )
    stuck = int(np.count_nonzero(run.cursor < plan.end))
    if stuck:
        raise SimulationError(
            "deadlock",
            f"{stuck} streams of an SPMD graph wait for each other; correct the order of their "
            "collectives and messages",
        )
    return ThreadTimes(
        run.step_start.T, run.step_end.T, run.tally[:, :-1], run.tally[:, -1],
        run.by_source, run.by_group, run.latest, run.notes, run.flow_ends, flow_end_offsets,
    )  # fmt: skip


@jit
def _run_until_blocked(run: ThreadRun) -> None:
    """Run all threads until all are finished or blocked, or until some million ops have run."""
    stack, coming, s, counts = run.stack, run.coming, run.medium, run.counts
    pause = counts[DONE] + PAUSE
    while counts[DONE] < pause:
        if counts[TOP]:
            counts[TOP] -= 1
            x = np.int64(stack[counts[TOP]])
            _run_thread(run, x)
            continue
        f = counts[SOONEST]
        if f != NONE and coming[f, KEY_LO] == counts[CLOCK]:
            counts[SOONEST] = remove(coming, f, f)
            if s[1][f, TAG_HI] != 0 or s[1][f, TAG_LO] != 0:
                join(s, f, counts[CLOCK])
                counts[FLYING] += 1
                counts[STALE] = 1
            else:
                _end_flow(run, f)
            continue
        if counts[STALE]:
            if s[3][0, OVERFULL]:
                counts[OVER] = TOO_HEAVY
                return
            settle(s, counts[CLOCK])
            counts[STALE] = 0
        tick = coming[f, KEY_LO] if f != NONE else np.int64(NONE)
        if counts[FLYING]:
            ends = due(s)
            if ends != NONE and (tick == NONE or ends <= tick):
                tick = ends
                counts[CLOCK] = tick
                n = take_due(s, tick, run.over)
                counts[FLYING] -= n
                counts[STALE] = 1
                for i in range(n):
                    _end_flow(run, run.over[i])
                continue
        if tick == NONE or counts[BEYOND]:
            counts[OVER] = 1
            return
        counts[CLOCK] = tick


@jit_without_refcounts
def _run_thread(run: ThreadRun, x: Int) -> None:
    """Run one thread until it waits, starts a flow, or is finished."""
    op, answer, answer_at, counts = run.op, run.answer, run.answer_at, run.counts
    notes, latest, there, lead = run.notes, run.latest, run.there, run.lead
    cursor, times, behind, coming = run.cursor, run.times, run.behind, run.coming
    r: Int = np.int64(run.rank[x])
    ranks = len(answer_at)
    while cursor[x] < run.end_of[x]:
        i: Int = cursor[x]
        what, begins = op[i, WHAT], times[x, 0]
        for k in range(op[i, WAITS], op[i + 1, WAITS]):
            note = run.cell_at[r] + run.wait[k]
            if notes[note] < 0:
                _wait_for_end(notes, behind, note, x)
                return
            begins = max(begins, notes[note])
        if what == RECV:
            note = run.mailbox_at[op[i, KIN] * ranks + r] + op[i, CALL]
            if notes[note] < 0:
                _wait_for_end(notes, behind, note, x)
                return
            begins = max(begins, notes[note])
        times[x, 1] = begins
        if what == COLLECTIVE:
            g = run.group_of[op[i, KIN], r]
            j = run.group_at[g] + op[i, CALL]
            if lead[g] == r:
                there[j, 1] = i
            latest[j] = max(latest[j], begins)
            there[j, 0] += 1
            _wait_for_end(notes, behind, j, x)
            if there[j, 0] < run.member_at[g + 1] - run.member_at[g]:
                return
            i, r = np.int64(there[j, 1]), np.int64(lead[g])
            begins, drawn = latest[j], np.int64(run.member[run.member_at[g]])
            row, holder = run.bases[ranks] + j, -1 - j
        else:
            row, drawn, holder = run.bases[r] + op[i, OWN], r, x
        question = answer_at[r] + op[i, QUESTION]
        f = np.int64(run.flow_of[run.pair_at[r] + op[i, PAIR]])
        fixed, hi, lo = answer[question, 0], np.int64(0), np.uint64(0)
        if f >= 0:
            hi, lo = run.work_hi[f], run.work_lo[f]
        if len(run.draws[1]) > 1:
            spread, step = answer[question, 1] & 255, np.int64(op[i, STEP])
            fixed, hi, lo = draw_ticks_and_work(fixed, hi, lo, spread, row, drawn, step, run.draws)
        if fixed > MAX_TICK - begins:
            counts[BEYOND] += 1
            return
        if f >= 0:
            run.medium[1][f, TAG_HI], run.medium[1][f, TAG_LO] = hi, np.int64(lo)
            run.owner[f] = holder
            coming[f, KEY_HI], coming[f, KEY_LO] = 0, begins + fixed
            counts[SOONEST] = insert(coming, counts[SOONEST], f)
            return
        if what == COLLECTIVE:
            _end_collective(run, j, begins + fixed)
            return
        tick = begins + fixed
        if op[i, CELL] == GOES_ON:
            tick = _end_consecutive_ops(run, x, tick)
        _end_own_op(run, x, tick)


@jit_without_refcounts
def _end_consecutive_ops(run: ThreadRun, x: Int, tick: Int) -> Int:
    """Complete a sequence of consecutive local ops of a thread, except the last one.

    Parameters
    ----------
    tick : end of the thread's current op

    Returns
    -------
    int
        End tick of the last op, which is then the current op of the thread.
    """
    op, answer, answer_at, cursor, times = run.op, run.answer, run.answer_at, run.cursor, run.times
    r, i = np.int64(run.rank[x]), cursor[x]
    first, since, began = i, times[x, 1], times[x, 1]
    question = answer_at[r] + op[i, QUESTION]
    step = np.int64(op[i, STEP])
    while op[i, CELL] == GOES_ON and run.flow_of[run.pair_at[r] + op[i + 1, PAIR]] < 0:
        if answer[question, 2] >= 0:
            run.by_source[r, answer[question, 2]] += tick - began
        i += 1
        question = answer_at[r] + op[i, QUESTION]
        took, began = answer[question, 0], tick
        if len(run.draws[1]) > 1:
            row = run.bases[r] + op[i, OWN]
            took = draw_ticks(took, answer[question, 1] & 255, row, r, step, run.draws)
        if took > MAX_TICK - began:
            run.counts[BEYOND] += 1
            break
        tick = began + took
    if i > first:
        run.tally[r, answer[question, 1] >> 8] += began - since
        extend_step_span(run.step_start, run.step_end, r, step, since, began)
        cursor[x], times[x, 1] = i, began
        run.counts[DONE] += i - first
    return tick


@jit_without_refcounts
def _wait_for_end(notes: Array, behind: Array, note: Int, x: Int) -> None:
    """Add a thread to the list of threads that wait for an end tick."""
    behind[x] = -2 - notes[note] if notes[note] != UNKNOWN else NONE
    notes[note] = -2 - x


@jit_without_refcounts
def _publish_end(run: ThreadRun, note: Int, tick: Int) -> None:
    """Store an end tick, and make all threads that wait for it runnable."""
    notes, counts = run.notes, run.counts
    x: Int = -2 - notes[note]
    if notes[note] == UNKNOWN:
        x = np.int64(NONE)
    notes[note] = tick
    while x != NONE:
        run.stack[counts[TOP]] = x
        counts[TOP] += 1
        x = np.int64(run.behind[x])


@jit_without_refcounts
def _end_flow(run: ThreadRun, f: Int) -> None:
    """End the op of a flow whose work is done at the current tick."""
    counts = run.counts
    x, now = run.owner[f], counts[CLOCK]
    if x < 0:
        _end_collective(run, -1 - x, now)
        return
    if len(run.flow_ends):
        run.flow_ends[run.own_next[x]] = now
        run.own_next[x] += 1
    _end_own_op(run, x, now)
    run.stack[counts[TOP]] = x
    counts[TOP] += 1


@jit_without_refcounts
def _end_own_op(run: ThreadRun, x: Int, tick: Int) -> None:
    """End the current op of a thread, which is not a collective."""
    op, answer, answer_at = run.op, run.answer, run.answer_at
    r, i, began = np.int64(run.rank[x]), run.cursor[x], run.times[x, 1]
    question = answer_at[r] + op[i, QUESTION]
    run.tally[r, answer[question, 1] >> 8] += tick - began
    if answer[question, 2] >= 0:
        run.by_source[r, answer[question, 2]] += tick - began
    if op[i, WHAT] == SEND:
        to = run.mailbox_at[op[i, KIN] * len(answer_at) + run.peer[op[i, KIN], r]]
        _publish_end(run, to + op[i, CALL], tick)
    _advance_thread(run, x, began, tick, op[i, STEP])


@jit_without_refcounts
def _end_collective(run: ThreadRun, j: Int, tick: Int) -> None:
    """End a collective; the threads of its members continue."""
    op, answer, tally = run.op, run.answer, run.tally
    begins, led = run.latest[j], np.int64(run.there[j, 1])
    took = tick - begins
    x: Int = -2 - run.notes[j]
    while x != NONE:
        r: Int = np.int64(run.rank[x])
        i = run.cursor[x]
        question = run.answer_at[r] + op[i, QUESTION]
        tally[r, answer[question, 1] >> 8] += took
        tally[r, TALLY] += begins - run.times[x, 1]
        g = run.group_of[op[i, KIN], r]
        if i == led and run.lead[g] == r:
            tally[r, LED] += took
            if answer[question, 2] >= 0:
                run.by_group[g, answer[question, 2]] += took
        _advance_thread(run, x, begins, tick, op[led, STEP])
        x = np.int64(run.behind[x])
    _publish_end(run, j, tick)


@jit_without_refcounts
def _advance_thread(run: ThreadRun, x: Int, begins: Int, tick: Int, step: Int) -> None:
    """Advance a thread past its current op, which ends at ``tick``, and record its times."""
    r, i = np.int64(run.rank[x]), run.cursor[x]
    extend_step_span(run.step_start, run.step_end, r, np.int64(step), begins, tick)
    run.times[x, 0] = tick
    run.cursor[x] = i + 1
    run.counts[DONE] += 1
    if run.op[i, CELL] >= 0:
        _publish_end(run, run.cell_at[r] + run.op[i, CELL], tick)
