"""Execution of an SPMD graph without writing it out: a rank is a cursor in its program.

No queue is needed: where nothing is contended, the end of an op is the latest end of what it
waits for plus its own ticks, in whatever order that is computed.  A rank runs ahead until it
meets a collective that others have not reached, or hears a message that was not sent; whoever
completes it sets the others going again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import MAX_TICK
from ...errors import SimulationError
from ...facts.spmd.program_encoding import (
    COLLECTIVE,
    READS,
    RECV,
    SEND,
    chains_to_next,
    end_register,
    is_gate,
    next_op_position,
    op_family,
    op_kind,
)
from ...facts.spmd.spmd_graph import SpmdGraph
from ...kernel.jit import Int, jit, jit_without_refcounts
from .rank_blocks import MOST, RankBlocks
from .rendezvous import Rendezvous
from .replica_draws import ReplicaDraws, draw_ticks, draw_ticks_of_op
from .running_breakdown import RunningBreakdown, note_op

Array = NDArray[Any]
Arrays = tuple[Array, ...]

COLUMNS = 32  # of a tally: (local, collective, send, recv) x eight kinds or roles
LED = 12  # column of collectives, each counted once, at its lead rank
# Columns of a group: members that arrived, number of earlier collectives, latest arrival, duration,
# iteration.
THERE, CALL, LATEST, TAKES, STEP = range(5)
# Indices in the state of a run, see `_initial_state`.
PARKED, PENDING, ARRIVED, STACK, MEETING, SENT, HEARD, MEMBER = range(2, 10)
# Rows per member of a block: arrival, begin and end of an op; graph row of its first op.
ARRIVES, BEGINS, ENDS, ROW, ROWS = range(5)
TOP = 0  # index in `counts`: blocks on the stack
PAUSE = 1 << 22  # ops


@dataclass(frozen=True)
class TimedPrograms:
    """Programs of an SPMD graph with ticks for each op, in the form that kernels read.

    Parameters
    ----------
    words : (w,) uint32 of all programs
    begin, length : (programs,) first word, and ops, of each
    answer : (t, 2) ticks; and number of the spread + 1, column of the tally << 8
    answer_at : (programs,) where a program's answers begin
    step : (s,) iteration of each op, of one program after the other; (0,) where all are 0
    step_at : (programs,) where a program's steps begin
    registers : int
    """

    words: NDArray[np.uint32]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    answer: NDArray[np.int64]
    answer_at: NDArray[np.int64]
    step: NDArray[np.int32]
    step_at: NDArray[np.int64]
    registers: int

    @classmethod
    def from_answers(
        cls, template: SpmdGraph, answers: Sequence[NDArray[np.int64]]
    ) -> TimedPrograms:
        """Timed programs from the backends' answers, in ticks; equal programs are stored once.

        Parameters
        ----------
        answers : of each program, (q, 2) as ``answer``
        """
        encoded = [p.encoded for p in template.programs]
        once = {id(e): e for e in encoded}
        starts = dict(zip(once, _starts([len(e.words) for e in once.values()]), strict=True))
        sizes = dict(zip(once, _starts([len(e.question) for e in once.values()]), strict=True))
        steps = {id(p.encoded): p.ops.period for p in template.programs}
        several = any(np.any(s) for s in steps.values())
        return cls(
            np.concatenate([e.words for e in once.values()]),
            np.array([starts[id(e)] for e in encoded], np.int64),
            np.array([len(e.question) for e in encoded], np.int64),
            np.ascontiguousarray(np.concatenate(answers)),
            np.array(_starts([len(a) for a in answers]), np.int64),
            np.concatenate(list(steps.values())) if several else np.empty(0, np.int32),
            np.array([sizes[id(e)] for e in encoded], np.int64),
            max(e.registers for e in encoded),
        )

    @property
    def programs(self) -> Arrays:
        """Arrays of the programs, as all kernels take them."""
        return self.words, self.begin, self.length, self.answer, self.answer_at


def _starts(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


@dataclass(frozen=True)
class ProgramTimes:
    """Ticks of all ranks after a run of an SPMD graph.

    Parameters
    ----------
    start, end : (iterations, ranks) first start and last end of each step; -1 where it has none
    tally : (ranks, 32) time of its ops by column
    waiting : (ranks,) time held at collectives whose other members were late
    ops : number of ops that ran, collectives once a member
    collective_times : (collectives, 2) start and end of each; (0, 2) where nobody asks
    message_times : ends of sends, as :class:`Rendezvous` lays them out
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    tally: NDArray[np.int64]
    waiting: NDArray[np.int64]
    ops: int
    collective_times: NDArray[np.int64]
    message_times: NDArray[np.int64]


def run_programs(
    template: SpmdGraph,
    timed_programs: TimedPrograms,
    rendezvous: Rendezvous,
    draws: ReplicaDraws,
    breakdown: RunningBreakdown | None = None,
    keep_collective_times: bool = False,
) -> ProgramTimes:
    """Run every rank of an SPMD graph.

    Parameters
    ----------
    breakdown : gets the time breakdown of a run whose ops are all of one step
    keep_collective_times : whether starts and ends of collectives are kept

    Raises
    ------
    SimulationError
        Ranks that wait for each other, or a time beyond the range; run the expanded graph to see
        which ops.
    """
    ranks, joint = template.ranks, len(template) - int(template.bases[template.ranks])
    periods = 1 + int(timed_programs.step.max(initial=0))
    start = np.full((ranks, periods), -1, np.int64)
    end, tally = start.copy(), np.zeros((ranks, COLUMNS + 1), np.int64)
    message_times = np.full(int(rendezvous.mailbox_at[-1]) + 1, -1, np.int64)
    collective_times = np.empty((joint if keep_collective_times else 0, 2), np.int64)
    blocks = RankBlocks.of_template(template, rendezvous)
    state = _initial_state(blocks, template, timed_programs, rendezvous)
    counts = np.array([len(blocks.at) - 1, 0, 0], np.int64)
    boxes = (breakdown or RunningBreakdown.of(0)).tables
    with np.errstate(over="ignore"):
        while True:
            while counts[TOP]:
                _run_until_blocked(
                    timed_programs.programs,
                    (
                        template.program.astype(np.int32),
                        timed_programs.step,
                        timed_programs.step_at,
                        template.bases,
                    ),
                    blocks.tables,
                    (
                        rendezvous.group,
                        rendezvous.member_at,
                        rendezvous.member,
                        rendezvous.lead,
                        rendezvous.row,
                    ),
                    (rendezvous.peer, rendezvous.mailbox_at, message_times),
                    draws.tables,
                    (start, end, tally, collective_times),
                    boxes,
                    state,
                    counts,
                )
            if not state[PARKED].any() or len(blocks.at) > ranks:
                break
            blocks, state, counts[TOP] = _split_into_single_ranks(
                blocks, template, rendezvous, timed_programs.words, state
            )
    _, ops, beyond = counts.tolist()
    stuck = np.count_nonzero(state[PARKED])
    if beyond:
        raise SimulationError("time overflow", "an op of an SPMD graph ends after the last tick")
    if stuck:
        raise SimulationError("deadlock", f"{stuck} ranks of an SPMD graph wait for each other")
    return ProgramTimes(
        start.T, end.T, tally[:, :-1], tally[:, -1], int(ops), collective_times, message_times
    )


def _initial_state(
    blocks: RankBlocks, template: SpmdGraph, timed_programs: TimedPrograms, rendezvous: Rendezvous
) -> Arrays:
    """Arrays that hold the state of a run before its first op.

    Registers, of a block after the other, each with the ends of all its members; cursors of blocks
    (op, word, own op); where blocks are parked (1 at a collective, 2 + family at a mailbox), and
    for how many members' meetings; arrivals; the stack of blocks that go on; meetings; messages
    sent and heard; of the members of a block, ticks of an op and the first row of each.
    """
    ranks, count = template.ranks, len(blocks.at) - 1
    cursor = np.zeros((count, 3), np.int64)
    cursor[:, 1] = timed_programs.begin[template.program[blocks.member[blocks.at[:-1]]]]
    return (
        np.zeros(ranks * timed_programs.registers, np.int64),
        cursor,
        np.zeros(count, np.uint8),
        np.zeros(count, np.int64),
        np.full(ranks, -1, np.int64),
        np.arange(count - 1, -1, -1, dtype=np.int32),
        np.zeros((len(rendezvous.row), 5), np.int64),
        np.zeros(rendezvous.peer.shape, np.int32),
        np.zeros(rendezvous.peer.shape, np.int32),
        np.zeros((ROWS, MOST), np.int64),
    )


def _split_into_single_ranks(
    blocks: RankBlocks, template: SpmdGraph, rendezvous: Rendezvous, words: Array, state: Arrays
) -> tuple[RankBlocks, Arrays, int]:
    """Each rank as a block of its own, in the state in which its block is stuck; how many go on.

    A rank whose meeting has been goes on behind it, one at a mailbox looks again.
    """
    register, cursor, parked, _, arrived, _, *others = state
    ranks, each, kept = template.ranks, len(register) // template.ranks, register.copy()
    for b in np.flatnonzero(np.diff(blocks.at) > 1).tolist():
        some = slice(blocks.at[b] * each, blocks.at[b + 1] * each)
        kept[some] = register[some].reshape(each, -1).T.ravel()
    by_rank = np.empty((ranks, each), np.int64)
    by_rank[blocks.member] = kept.reshape(ranks, each)
    at, was = cursor[blocks.block_of], parked[blocks.block_of]
    waits = (was == 1) & (arrived >= 0)
    for r in np.flatnonzero((was == 1) & ~waits).tolist():
        at[r, 0] += 1
        at[r, 1] = next_op_position(words, at[r, 1])
    stack = np.zeros(ranks, np.int32)
    able = np.flatnonzero((was > 0) & ~waits)[::-1]
    stack[: len(able)] = able
    now = waits.astype(np.uint8), waits.astype(np.int64)
    return (
        RankBlocks.single_ranks(template, rendezvous),
        (by_rank.ravel(), at, *now, arrived, stack, *others),
        len(able),
    )


@jit
def _run_until_blocked(
    programs: Arrays,
    ranks_: Arrays,
    blocks: Arrays,
    groups: Arrays,
    messages: Arrays,
    draws: Arrays,
    out: Arrays,
    breakdown: Arrays,
    state: Arrays,
    counts: Array,
) -> None:
    """Run blocks until all are done or parked, or for some millions of ops, then let Python look.

    Counted are the blocks on the stack, the ops that ran, and those beyond the range.
    """
    words, _, length, answer, answer_at = programs
    program, steps, step_at, bases = ranks_
    block_at, member_of, _, _, whole = blocks
    register, cursor, parked, _, _, stack, _, _, _, member = state
    each = len(register) // len(program)
    top, done, beyond = counts[0], counts[1], counts[2]
    pause = done + PAUSE
    while top and done < pause:
        top -= 1
        b = stack[top]
        first, n = block_at[b], block_at[b + 1] - block_at[b]
        p, base = program[member_of[first]], first * each
        i, w, own = cursor[b, 0], cursor[b, 1], cursor[b, 2]
        for m in range(n):
            member[ROW, m] = bases[member_of[first + m]]
        before = i
        while i < length[p]:
            what, f = op_kind(words, w), op_family(words, w)
            if what == RECV and not _are_all_sent(blocks, messages, state, first, n, f):
                parked[b] = 2 + f
                break
            _read_ready_ticks(words, w, register, base, n, member)
            if what == RECV:
                _receive_messages(blocks, messages, state, first, n, f)
            question = answer_at[p] + words[w + 1]
            duration, meta = answer[question, 0], answer[question, 1]
            step = np.int64(steps[step_at[p] + i]) if len(steps) else 0
            if what == COLLECTIVE and whole[f, b]:
                beyond += _run_block_collective(blocks, groups, draws, out, state, first, n, f,
                                        duration, meta, step, bases)  # fmt: skip
            elif what == COLLECTIVE:
                over, woken, top = _join_collectives(
                    programs, ranks_, blocks, groups, draws, out, breakdown, state,
                    b, f, w, duration, meta, step, top,
                )  # fmt: skip
                beyond += over
                done += woken
                if state[PENDING][b]:
                    parked[b] = 1
                    break
                i += 1
                w = next_op_position(words, w)
                continue
            else:
                for m in range(n):
                    member[BEGINS, m] = member[ENDS, m] = member[ARRIVES, m]
                while True:
                    beyond += _add_durations(member, n, duration, meta & 255, own, member_of, first,
                                             step, draws)  # fmt: skip
                    own += 1
                    if not chains_to_next(words, w):
                        break
                    i += 1
                    w = next_op_position(words, w)
                    question = answer_at[p] + words[w + 1]
                    duration, meta = answer[question, 0], answer[question, 1]
            kept, gate = base + end_register(words, w) * n, is_gate(words, w)
            _note_ends(member_of, first, n, out, breakdown, register, member, kept, gate,
                       meta >> 8, step)  # fmt: skip
            if what == SEND:
                top = _send_messages(blocks, messages, state, first, n, f, top)
            i += 1
            w = next_op_position(words, w)
        done += (i - before) * n
        cursor[b, 0], cursor[b, 1], cursor[b, 2] = i, w, own
    counts[0], counts[1], counts[2] = top, done, beyond


@jit_without_refcounts
def _read_ready_ticks(
    words: Array, w: Int, register: Array, base: Int, n: Int, member: Array
) -> None:
    """Read when each member of a block could begin the op at a word, behind what it waits for."""
    for m in range(n):
        member[ARRIVES, m] = 0
    for k in range(1, (np.int64(words[w]) >> READS) + 1):
        pair = np.int64(words[w + 2 + (k >> 1)])
        at = base + ((pair >> 16) if k & 1 else (pair & 0xFFFF)) * n
        for m in range(n):
            member[ARRIVES, m] = max(member[ARRIVES, m], register[at + m])


@jit_without_refcounts
def _note_ends(
    member_of: Array,
    first: Int,
    n: Int,
    out: Arrays,
    breakdown: Arrays,
    register: Array,
    member: Array,
    kept: Int,
    gate: Int,
    column: Int,
    step: Int,
) -> None:
    """Note the ends of an op, or of a run of ops of one kind, of all members of a block."""
    first_start, end, tally, _ = out
    for m in range(n):
        r = member_of[first + m]
        arrives, begins, ends = member[ARRIVES, m], member[BEGINS, m], member[ENDS, m]
        register[kept + m] = ends
        tally[r, COLUMNS] += begins - arrives
        tally[r, column] += ends - begins
        extend_step_span(first_start, end, r, step, begins, ends)
        note_op(breakdown, r, column, arrives, begins, ends, gate)


@jit_without_refcounts
def _add_durations(
    member: Array,
    n: Int,
    duration: Int,
    spread: Int,
    own: Int,
    member_of: Array,
    first: Int,
    step: Int,
    draws: Arrays,
) -> Int:
    """Add the ticks of one op to the ends of all members of a block; how many are beyond the range.

    Parameters
    ----------
    own : which of the ops that a rank has for itself
    """
    _, at, _ = draws
    beyond = 0
    if spread == 0 or len(at) == 1:
        for m in range(n):
            beyond += duration > MAX_TICK - member[ENDS, m]
            member[ENDS, m] += duration
    elif at[2 * spread - 2] < at[2 * spread - 1]:
        for m in range(n):
            r = member_of[first + m]
            drawn = draw_ticks(duration, spread, member[ROW, m] + own, r, step, draws)
            beyond += drawn > MAX_TICK - member[ENDS, m]
            member[ENDS, m] += drawn
    else:
        for m in range(n):
            drawn = draw_ticks_of_op(duration, spread, member[ROW, m] + own, draws)
            beyond += drawn > MAX_TICK - member[ENDS, m]
            member[ENDS, m] += drawn
    return beyond


@jit_without_refcounts
def _are_all_sent(
    blocks: Arrays, messages: Arrays, state: Arrays, first: Int, n: Int, f: Int
) -> bool:
    """Whether the next message to each member of a block was sent."""
    member_of, (_, mailbox_at, message_times), heard = blocks[1], messages, state[HEARD]
    for m in range(n):
        r = member_of[first + m]
        if message_times[mailbox_at[f * len(member_of) + r] + heard[f, r]] < 0:
            return False
    return True


@jit_without_refcounts
def _receive_messages(
    blocks: Arrays, messages: Arrays, state: Arrays, first: Int, n: Int, f: Int
) -> None:
    """Take the next message to each member of a block, which cannot begin before it is there."""
    member_of, (_, mailbox_at, message_times), heard, member = (
        blocks[1],
        messages,
        state[HEARD],
        state[MEMBER],
    )
    for m in range(n):
        r = member_of[first + m]
        came = message_times[mailbox_at[f * len(member_of) + r] + heard[f, r]]
        member[ARRIVES, m] = max(member[ARRIVES, m], came)
        heard[f, r] += 1


@jit_without_refcounts
def _send_messages(
    blocks: Arrays, messages: Arrays, state: Arrays, first: Int, n: Int, f: Int, top: Int
) -> Int:
    """Send the messages of all members of a block, and push on the stack who waits for them."""
    _, member_of, block_of, _, _ = blocks
    peer, mailbox_at, message_times = messages
    parked, stack, sent, member = state[PARKED], state[STACK], state[SENT], state[MEMBER]
    for m in range(n):
        q = peer[f, member_of[first + m]]
        message_times[mailbox_at[f * len(member_of) + q] + sent[f, q]] = member[ENDS, m]
        sent[f, q] += 1
        b = block_of[q]
        if parked[b] == 2 + f:
            parked[b] = 0
            stack[top] = b
            top += 1
    return top


@jit_without_refcounts
def _run_block_collective(
    blocks: Arrays,
    groups: Arrays,
    draws: Arrays,
    out: Arrays,
    state: Arrays,
    first: Int,
    n: Int,
    f: Int,
    duration: Int,
    meta: Int,
    step: Int,
    bases: Array,
) -> Int:
    """Run a collective whose group is the block; whether it ends beyond the range."""
    _, member_of, _, _, _ = blocks
    group_of, member_at, group_members, lead, group_row = groups
    _, _, tally, collective_times = out
    meeting, member = state[MEETING], state[MEMBER]
    g = group_of[f, member_of[first]]
    row = group_row[g] + meeting[g, CALL]
    if len(draws[1]) > 1:
        leader = group_members[member_at[g]]
        duration = draw_ticks(duration, meta & 255, row, leader, step, draws)
    tally[lead[g], LED] += duration
    latest: Int = member[ARRIVES, 0]
    for m in range(1, n):
        latest = max(latest, member[ARRIVES, m])
    for m in range(n):
        member[BEGINS, m], member[ENDS, m] = latest, latest + duration
    if len(collective_times):
        at = row - bases[len(bases) - 2]
        collective_times[at, 0], collective_times[at, 1] = latest, latest + duration
    meeting[g, CALL] += 1
    return np.int64(duration > MAX_TICK - latest)


@jit_without_refcounts
def _join_collectives(
    programs: Arrays,
    ranks_: Arrays,
    blocks: Arrays,
    groups: Arrays,
    draws: Arrays,
    out: Arrays,
    breakdown: Arrays,
    state: Arrays,
    b: Int,
    f: Int,
    w: Int,
    duration: Int,
    meta: Int,
    step: Int,
    top: Int,
) -> tuple[Int, Int, Int]:
    """Let the members of a block arrive at their collectives, and run those that are complete.

    Returns how many end beyond the range, how many ops of other blocks ended, and the height of the
    stack.
    """
    block_at, member_of, _, _, _ = blocks
    group_of, member_at, group_members, lead, group_row = groups
    _, _, tally, _ = out
    pending, arrived, meeting, member = (
        state[PENDING], state[ARRIVED], state[MEETING], state[MEMBER],
    )  # fmt: skip
    beyond, woken = 0, 0
    for m in range(block_at[b + 1] - block_at[b]):
        r = member_of[block_at[b] + m]
        g = group_of[f, r]
        if lead[g] == r:
            takes = duration
            if len(draws[1]) > 1:
                row, leader = group_row[g] + meeting[g, CALL], group_members[member_at[g]]
                takes = draw_ticks(duration, meta & 255, row, leader, step, draws)
            meeting[g, TAKES], meeting[g, STEP] = takes, step
            tally[r, LED] += takes
        arrived[r] = member[ARRIVES, m]
        meeting[g, LATEST] = max(meeting[g, LATEST], arrived[r])
        meeting[g, THERE] += 1
        pending[b] += 1
        if meeting[g, THERE] == member_at[g + 1] - member_at[g]:
            beyond += meeting[g, TAKES] > MAX_TICK - meeting[g, LATEST]
            ops, top = _run_collective(
                programs, ranks_, blocks, groups, state, out, breakdown, g, b, w, top
            )
            woken += ops
    return beyond, woken, top


@jit_without_refcounts
def _run_collective(
    programs: Arrays,
    ranks_: Arrays,
    blocks: Arrays,
    groups: Arrays,
    state: Arrays,
    out: Arrays,
    breakdown: Arrays,
    g: Int,
    b: Int,
    w: Int,
    top: Int,
) -> tuple[Int, Int]:
    """Run collective ``g``, whose last member, of block ``b``, arrived, and push blocks that go on.

    Returns how many ops of other blocks ended, and the height of the stack of blocks that go on.
    """
    words, _, _, answer, answer_at = programs
    program, _, _, bases = ranks_
    block_at, _, block_of, place, _ = blocks
    _, member_at, group_members, _, group_row = groups
    register, cursor, parked, pending, arrived, stack, meeting, _, _, _ = state
    first_start, end, tally, collective_times = out
    latest, takes, step = meeting[g, LATEST], meeting[g, TAKES], meeting[g, STEP]
    finish, woken, each = latest + takes, 0, len(register) // len(program)
    for k in range(member_at[g], member_at[g + 1]):
        q = group_members[k]
        c = block_of[q]
        v = cursor[c, 1] if c != b else w
        n = block_at[c + 1] - block_at[c]
        register[block_at[c] * each + end_register(words, v) * n + place[q]] = finish
        tally[q, COLUMNS] += latest - arrived[q]
        column = answer[answer_at[program[q]] + words[v + 1], 1] >> 8
        tally[q, column] += takes
        extend_step_span(first_start, end, q, step, latest, finish)
        note_op(breakdown, q, column, arrived[q], latest, finish, is_gate(words, v))
        arrived[q] = -1
        pending[c] -= 1
        if c != b and pending[c] == 0:
            cursor[c, 0] += 1
            cursor[c, 1] = next_op_position(words, v)
            parked[c] = 0
            stack[top] = c
            top += 1
            woken += n
    if len(collective_times):
        at = group_row[g] + meeting[g, CALL] - bases[len(program)]
        collective_times[at, 0], collective_times[at, 1] = latest, finish
    meeting[g, THERE], meeting[g, LATEST] = 0, 0
    meeting[g, CALL] += 1
    return woken, top


@jit_without_refcounts
def extend_step_span(first: Array, last: Array, r: Int, step: Int, begin: Int, finish: Int) -> None:
    """Extend the first start and last end of a step of a rank by one op."""
    if first[r, step] < 0 or begin < first[r, step]:
        first[r, step] = begin
    last[r, step] = max(last[r, step], finish)
