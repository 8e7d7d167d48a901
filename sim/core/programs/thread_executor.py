"""Execution of an SPMD graph whose ops share rates, without writing it out.

Each thread of a rank is a cursor in its program, and runs ahead of the clock until what it waits
for is not known yet: an op that shares a rate, as a *flow* of the max-min medium, ends when the
medium says.  Such ops begin their work in the order of time, all of one tick before rates are
computed: only they need a clock.  Every other end is the latest end of what an op waits for plus
its own ticks, in whatever order that is computed.

Who waits, waits for a *note*: the end of one op, which is a collective, a message, or what another
thread of the rank waits for.  A note that is not written yet holds the list of those who wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from .thread_plan import Partners, ThreadPlan

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Numbers = NDArray[np.int64]

UNKNOWN = (
    -1
)  # end unknown and no thread waits; -2 minus a thread: the last thread that began to wait
# Indices in `counts`: threads on the stack, clock, ops that ran, ops beyond the range, next flow to
# begin its work, 1 if rates are stale, flows in flight, 1 if the run is over.
TOP, CLOCK, DONE, BEYOND, SOONEST, STALE, FLYING, OVER, COUNTS = range(9)
TOO_HEAVY = 2  # value of `OVER`: weights in flight overflow
PAUSE = 1 << 21  # ops


@dataclass(frozen=True)
class ThreadTimes:
    """Ticks of all ranks after a run of an SPMD graph whose ops share rates.

    Parameters
    ----------
    start, end : (iterations, ranks) first start and last end of each step; -1 where it has none
    tally : (ranks, 32) time of its ops by column
    waiting : (ranks,) time held at collectives whose other members were late
    sources : (ranks, sources) time of its ops by source, collectives left out
    collective_ticks : (groups, sources) time of its collectives by source
    collective_starts : (collectives,) start of each
    notes : ends of collectives and messages, and of what other threads wait for
    flow_ends : (own flows,) ends of the ops of each thread that are flows of its own, where kept
    flow_end_offsets : (x,) where those of each thread begin
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


def run_threads(
    template: SpmdGraph,
    plan: ThreadPlan,
    partners: Partners,
    parts: ComponentTable,
    flows: Flows,
    draws: ReplicaDraws,
    sources: int,
    flow_end_offsets: Numbers,
) -> ThreadTimes:
    """Run every rank of an SPMD graph whose ops share rates.

    Parameters
    ----------
    flows : of ``plan.flow_of``
    sources : number of them
    flow_end_offsets : (x + 1,) where ends of the own flows of each thread are kept; all 0 for none

    Raises
    ------
    SimulationError
        Ranks that wait for each other or for work at rate 0, weights that sum to too much, or a
        time beyond the range; run the expanded graph to see which ops.
    """
    ranks, threads = template.ranks, len(plan.rank)
    periods = 1 + int(plan.op[:, STEP].max(initial=0))
    start = np.full((ranks, periods), -1, np.int64)
    end, tally = start.copy(), np.zeros((ranks, TALLY + 1), np.int64)
    by_source = np.zeros((ranks, sources), np.int64)
    joint = np.zeros((len(partners.groups[3]), sources), np.int64)
    medium = MaxMinMemory(parts)
    medium.add(flows)
    notes = np.full(int(plan.cell_at[-1]), UNKNOWN, np.int64)
    meeting = (
        np.zeros(partners.collectives, np.int64),
        np.zeros((partners.collectives, 2), np.int32),
    )
    counts = np.zeros(COUNTS, np.int64)
    counts[TOP], counts[SOONEST] = threads, NONE
    own = np.full(int(flow_end_offsets[-1]), -1, np.int64)
    out = start, end, tally, by_source, joint, own
    state = (
        plan.first.copy(),
        np.zeros((threads, 2), np.int64),  # end of its last op; start of the current one
        np.full(threads, NONE, np.int32),
        np.arange(threads - 1, -1, -1, dtype=np.int32),
        flow_end_offsets[:-1].copy(),
    )
    waiting = np.zeros((len(flows), NODE), np.int64)
    waiting[:, BEFORE] = ABSENT
    flow_state = (
        waiting,
        np.zeros(len(flows), np.int64),
        flows.work_hi,
        flows.work_lo,
        np.zeros(len(flows), np.int64),
    )
    with np.errstate(over="ignore"):
        while not counts[OVER]:
            _run_until_blocked(
                plan.programs, plan.owners, (template.bases, notes, *meeting), partners.groups,
                partners.messages, draws.tables, out, state, flow_state, medium.state, counts,
            )  # fmt: skip
    if counts[OVER] == TOO_HEAVY:
        raise SimulationError(
            "weight", "the weights of concurrent ops of an SPMD graph sum to 2^22 or more"
        )
    if counts[BEYOND]:
        raise SimulationError("time overflow", "an op of an SPMD graph ends after the last tick")
    stuck = int(np.count_nonzero(state[0] < plan.end))
    if stuck:
        raise SimulationError("deadlock", f"{stuck} streams of an SPMD graph wait for each other")
    return ThreadTimes(
        start.T,
        end.T,
        tally[:, :-1],
        tally[:, -1],
        by_source,
        joint,
        meeting[0],
        notes,
        own,
        flow_end_offsets,
    )


@jit
def _run_until_blocked(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    groups: Arrays,
    messages: Arrays,
    draws: Arrays,
    out: Arrays,
    state: Arrays,
    flow_state: Arrays,
    s: State,
    counts: Array,
) -> None:
    """Run all threads until all are done or blocked, or for some millions of ops."""
    stack, coming = state[3], flow_state[0]
    pause = counts[DONE] + PAUSE
    while counts[DONE] < pause:
        if counts[TOP]:
            counts[TOP] -= 1
            x = np.int64(stack[counts[TOP]])
            _run_thread(
                programs,
                owners,
                joint,
                groups,
                messages,
                draws,
                out,
                state,
                flow_state,
                s,
                counts,
                x,
            )
            continue
        f = counts[SOONEST]
        if f != NONE and coming[f, KEY_LO] == counts[CLOCK]:
            counts[SOONEST] = remove(coming, f, f)
            if s[1][f, TAG_HI] != 0 or s[1][f, TAG_LO] != 0:
                join(s, f, counts[CLOCK])
                counts[FLYING] += 1
                counts[STALE] = 1
            else:
                _end_flow(
                    programs, owners, joint, groups, messages, out, state, flow_state, counts, f
                )
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
                over = flow_state[4]
                counts[CLOCK] = tick
                n = take_due(s, tick, over)
                counts[FLYING] -= n
                counts[STALE] = 1
                for i in range(n):
                    _end_flow(
                        programs, owners, joint, groups, messages, out, state, flow_state, counts,
                        over[i],
                    )  # fmt: skip
                continue
        if tick == NONE or counts[BEYOND]:
            counts[OVER] = 1
            return
        counts[CLOCK] = tick


@jit_without_refcounts
def _run_thread(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    groups: Arrays,
    messages: Arrays,
    draws: Arrays,
    out: Arrays,
    state: Arrays,
    flow_state: Arrays,
    s: State,
    counts: Array,
    x: Int,
) -> None:
    """Run one thread until it waits, or one of its ops is a flow, or it is done."""
    op, wait, answer, flow_of = programs
    rank, _, end_of, answer_at, pair_at, cell_at = owners
    bases, notes, latest, there = joint
    group_of, member_at, _, lead, group_at = groups
    _, mailbox_at = messages
    cursor, times, behind, _, _ = state
    coming, owner, work_hi, work_lo, _ = flow_state
    r: Int = np.int64(rank[x])
    ranks = len(answer_at)
    while cursor[x] < end_of[x]:
        i: Int = cursor[x]
        what, begins = op[i, WHAT], times[x, 0]
        for k in range(op[i, WAITS], op[i + 1, WAITS]):
            note = cell_at[r] + wait[k]
            if notes[note] < 0:
                _wait_for_end(notes, behind, note, x)
                return
            begins = max(begins, notes[note])
        if what == RECV:
            note = mailbox_at[op[i, KIN] * ranks + r] + op[i, CALL]
            if notes[note] < 0:
                _wait_for_end(notes, behind, note, x)
                return
            begins = max(begins, notes[note])
        times[x, 1] = begins
        if what == COLLECTIVE:
            g = group_of[op[i, KIN], r]
            j = group_at[g] + op[i, CALL]
            if lead[g] == r:
                there[j, 1] = i
            latest[j] = max(latest[j], begins)
            there[j, 0] += 1
            _wait_for_end(notes, behind, j, x)
            if there[j, 0] < member_at[g + 1] - member_at[g]:
                return
            i, r = np.int64(there[j, 1]), np.int64(lead[g])
            begins = latest[j]
            row, drawn, holder = bases[ranks] + j, np.int64(groups[2][member_at[g]]), -1 - j
        else:
            row, drawn, holder = bases[r] + op[i, OWN], r, x
        question = answer_at[r] + op[i, QUESTION]
        f = np.int64(flow_of[pair_at[r] + op[i, PAIR]])
        fixed, hi, lo = answer[question, 0], np.int64(0), np.uint64(0)
        if f >= 0:
            hi, lo = work_hi[f], work_lo[f]
        if len(draws[1]) > 1:
            fixed, hi, lo = draw_ticks_and_work(
                fixed,
                hi,
                lo,
                answer[question, 1] & 255,
                row,
                drawn,
                np.int64(op[i, STEP]),
                draws,
            )
        if fixed > MAX_TICK - begins:
            counts[BEYOND] += 1
            return
        if f >= 0:
            s[1][f, TAG_HI], s[1][f, TAG_LO] = hi, np.int64(lo)
            owner[f] = holder
            coming[f, KEY_HI], coming[f, KEY_LO] = 0, begins + fixed
            counts[SOONEST] = insert(coming, counts[SOONEST], f)
            return
        if what == COLLECTIVE:
            _end_collective(programs, owners, joint, groups, out, state, counts, j, begins + fixed)
            return
        tick = begins + fixed
        if op[i, CELL] == GOES_ON:
            tick = _end_consecutive_ops(programs, owners, joint, draws, out, state, counts, x, tick)
        _end_own_op(programs, owners, joint, messages, out, state, counts, x, tick)


@jit_without_refcounts
def _end_consecutive_ops(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    draws: Arrays,
    out: Arrays,
    state: Arrays,
    counts: Array,
    x: Int,
    tick: Int,
) -> Int:
    """End all ops but the last that go on from the one that a thread has under way.

    Parameters
    ----------
    tick : end of the op under way

    Returns
    -------
    int
        End of the last, which is under way then.
    """
    op, _, answer, flow_of = programs
    rank, _, _, answer_at, pair_at, _ = owners
    tally, by_source = out[2], out[3]
    cursor, times = state[0], state[1]
    r, i = np.int64(rank[x]), cursor[x]
    first, since, began = i, times[x, 1], times[x, 1]
    question = answer_at[r] + op[i, QUESTION]
    step = np.int64(op[i, STEP])
    while op[i, CELL] == GOES_ON and flow_of[pair_at[r] + op[i + 1, PAIR]] < 0:
        if answer[question, 2] >= 0:
            by_source[r, answer[question, 2]] += tick - began
        i += 1
        question = answer_at[r] + op[i, QUESTION]
        took, began = answer[question, 0], tick
        if len(draws[1]) > 1:
            row = joint[0][r] + op[i, OWN]
            took = draw_ticks(took, answer[question, 1] & 255, row, r, step, draws)
        if took > MAX_TICK - began:
            counts[BEYOND] += 1
            break
        tick = began + took
    if i > first:
        tally[r, answer[question, 1] >> 8] += began - since
        extend_step_span(out[0], out[1], r, step, since, began)
        cursor[x], times[x, 1] = i, began
        counts[DONE] += i - first
    return tick


@jit_without_refcounts
def _wait_for_end(notes: Array, behind: Array, note: Int, x: Int) -> None:
    """Put a thread into the list of those who wait for a note."""
    behind[x] = -2 - notes[note] if notes[note] != UNKNOWN else NONE
    notes[note] = -2 - x


@jit_without_refcounts
def _publish_end(notes: Array, state: Arrays, counts: Array, note: Int, tick: Int) -> None:
    """Write a note, and let all who wait for it go on."""
    _, _, behind, stack, _ = state
    x: Int = -2 - notes[note]
    if notes[note] == UNKNOWN:
        x = np.int64(NONE)
    notes[note] = tick
    while x != NONE:
        stack[counts[TOP]] = x
        counts[TOP] += 1
        x = np.int64(behind[x])


@jit_without_refcounts
def _end_flow(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    groups: Arrays,
    messages: Arrays,
    out: Arrays,
    state: Arrays,
    flow_state: Arrays,
    counts: Array,
    f: Int,
) -> None:
    """End the op of a flow whose work is done now."""
    x, now = flow_state[1][f], counts[CLOCK]
    if x < 0:
        _end_collective(programs, owners, joint, groups, out, state, counts, -1 - x, now)
        return
    own, _, _, stack, own_next = out[5], state[1], state[2], state[3], state[4]
    if len(own):
        own[own_next[x]] = now
        own_next[x] += 1
    _end_own_op(programs, owners, joint, messages, out, state, counts, x, now)
    stack[counts[TOP]] = x
    counts[TOP] += 1


@jit_without_refcounts
def _end_own_op(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    messages: Arrays,
    out: Arrays,
    state: Arrays,
    counts: Array,
    x: Int,
    tick: Int,
) -> None:
    """End the op that a thread has under way, which is no collective."""
    op, _, answer, _ = programs
    rank, _, _, answer_at, _, _ = owners
    peer, mailbox_at = messages
    notes, tally, by_source = joint[1], out[2], out[3]
    r, i = np.int64(rank[x]), state[0][x]
    question = answer_at[r] + op[i, QUESTION]
    took = tick - state[1][x, 1]
    tally[r, answer[question, 1] >> 8] += took
    if answer[question, 2] >= 0:
        by_source[r, answer[question, 2]] += took
    if op[i, WHAT] == SEND:
        to = mailbox_at[op[i, KIN] * len(answer_at) + peer[op[i, KIN], r]]
        _publish_end(notes, state, counts, to + op[i, CALL], tick)
    _advance_thread(
        programs, owners, joint, out, state, counts, x, state[1][x, 1], tick, op[i, STEP]
    )


@jit_without_refcounts
def _end_collective(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    groups: Arrays,
    out: Arrays,
    state: Arrays,
    counts: Array,
    j: Int,
    tick: Int,
) -> None:
    """End a collective; the threads that it held go on."""
    op, _, answer, _ = programs
    rank, _, _, answer_at, _, _ = owners
    _, notes, latest, there = joint
    tally, by_source = out[2], out[4]
    cursor, times, behind, _, _ = state
    begins, led = latest[j], np.int64(there[j, 1])
    took = tick - begins
    x: Int = -2 - notes[j]
    while x != NONE:
        r: Int = np.int64(rank[x])
        i = cursor[x]
        question = answer_at[r] + op[i, QUESTION]
        tally[r, answer[question, 1] >> 8] += took
        tally[r, TALLY] += begins - times[x, 1]
        g = groups[0][op[i, KIN], r]
        if i == led and groups[3][g] == r:
            tally[r, LED] += took
            if answer[question, 2] >= 0:
                by_source[g, answer[question, 2]] += took
        _advance_thread(programs, owners, joint, out, state, counts, x, begins, tick, op[led, STEP])
        x = np.int64(behind[x])
    _publish_end(notes, state, counts, j, tick)


@jit_without_refcounts
def _advance_thread(
    programs: Arrays,
    owners: Arrays,
    joint: Arrays,
    out: Arrays,
    state: Arrays,
    counts: Array,
    x: Int,
    begins: Int,
    tick: Int,
    step: Int,
) -> None:
    """Let a thread go on behind the op that it has under way, which ends at a tick."""
    op, cursor, times = programs[0], state[0], state[1]
    r, i = np.int64(owners[0][x]), cursor[x]
    extend_step_span(out[0], out[1], r, np.int64(step), begins, tick)
    times[x, 0] = tick
    cursor[x] = i + 1
    counts[DONE] += 1
    if op[i, CELL] >= 0:
        _publish_end(joint[1], state, counts, owners[5][r] + op[i, CELL], tick)
