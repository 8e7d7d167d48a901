"""Executor of SPMD graphs without shared rates: each rank is a cursor in its program.

Without contention no event queue is needed. The end of an op is the latest end of its dependencies
plus its own duration, in whatever order ends are computed. A rank runs ahead until it meets a
collective that other ranks have not reached, or waits for a message that has not been sent. The
rank that completes the collective, or sends the message, wakes the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
# Rows per member of a block: arrival, begin and end of an op; graph row of its first op.
ARRIVES, BEGINS, ENDS, ROW, ROWS = range(5)
TOP = 0  # index in `counts`: blocks on the stack
PAUSE = 1 << 22  # ops


@dataclass(frozen=True)
class TimedPrograms:
    """Rank programs of an SPMD graph with the duration of each op, as arrays for kernels.

    Parameters
    ----------
    words : (w,) uint32 encoded ops of all programs
    begin, length : (programs,) index of the first word, and number of ops, of each program
    answer : (t, 2) for each timing query: duration in ticks; and one number with the index of its
        random distribution + 1 (0 for none) in the low 8 bits and the tally column in the bits
        above
    answer_at : (programs,) index in ``answer`` of the first timing of each program
    step : (s,) iteration of each op, program after program; shape (0,) if all are 0
    step_at : (programs,) index in ``step`` of the first op of each program
    registers : Number of registers that a rank needs to store ends of ops.
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
        """Combine programs with their timings in ticks; equal programs are stored once.

        Parameters
        ----------
        answers : for each program, the timings of its queries, shape (q, 2), with the columns of
            ``answer``
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
        """Arrays of the programs, in the order that kernels expect."""
        return self.words, self.begin, self.length, self.answer, self.answer_at


def _starts(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


@dataclass(frozen=True)
class ProgramTimes:
    """Times in ticks of all ranks, after a run of an SPMD graph.

    Parameters
    ----------
    start, end : (iterations, ranks) first start and last end of each iteration; -1 if it has no op
    tally : (ranks, 32) total duration of ops by column (kind of op and role)
    waiting : (ranks,) time spent at collectives waiting for late members
    ops : number of ops that ran; a collective counts once per member
    collective_times : (collectives, 2) start and end of each collective; (0, 2) if they were not
        kept
    message_times : end of each send, in the mailbox layout of :class:`Rendezvous`
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    tally: NDArray[np.int64]
    waiting: NDArray[np.int64]
    ops: int
    collective_times: NDArray[np.int64]
    message_times: NDArray[np.int64]


class ProgramRun(NamedTuple):
    """State of a run of rank programs, as one argument for kernels.

    Parameters
    ----------
    words, begin, length, answer, answer_at, steps, step_at : encoded programs and their timings, as
        in `TimedPrograms`
    program, bases : program that each rank runs, and graph row of each rank's first op
    block_at, member_of, block_of, place, whole : fields of `RankBlocks`, which
        divide the ranks into blocks: ``at``, ``member``, ``block_of``, ``index_in_block`` and
        ``is_group``
    group_of, member_at, group_members, lead, group_row, peer, mailbox_at : groups of collectives
        and mailboxes of messages, as in `Rendezvous`
    draws : tables of random factors on durations, as in `ReplicaDraws`
    breakdown : tables of the time breakdown, as in `RunningBreakdown`
    step_start, step_end, tally, collective_times, message_times : result arrays, filled during the
        run, as in `ProgramTimes`
    register : end ticks of ops that later ops wait for, block after block, one row of members per
        register
    cursor : (blocks, 3) for each block: index of the current op, position of its first word, and
        index of the op among the ops that are not collectives
    parked : (blocks,) 1 while waiting at a collective, 2 + family at a mailbox, else 0
    pending : (blocks,) number of members whose collectives have not completed
    arrived : (ranks,) tick of arrival at the current collective
    stack : stack of runnable blocks
    meeting : (groups, 5) state of each group's current collective; columns from `THERE` on
    sent, heard : (families, ranks) number of messages that each rank has sent and received
    member : (4, members of a block) times of the current op; rows from `ARRIVES` on
    counts : (3,) number of blocks on the stack, of ops that ran, and of ops that end after the last
        tick
    """

    words: Array
    begin: Array
    length: Array
    answer: Array
    answer_at: Array
    steps: Array
    step_at: Array
    program: Array
    bases: Array
    block_at: Array
    member_of: Array
    block_of: Array
    place: Array
    whole: Array
    group_of: Array
    member_at: Array
    group_members: Array
    lead: Array
    group_row: Array
    peer: Array
    mailbox_at: Array
    draws: Arrays
    breakdown: Arrays
    step_start: Array
    step_end: Array
    tally: Array
    collective_times: Array
    message_times: Array
    register: Array
    cursor: Array
    parked: Array
    pending: Array
    arrived: Array
    stack: Array
    meeting: Array
    sent: Array
    heard: Array
    member: Array
    counts: Array


def run_programs(
    template: SpmdGraph,
    timed_programs: TimedPrograms,
    rendezvous: Rendezvous,
    draws: ReplicaDraws,
    breakdown: RunningBreakdown | None = None,
    keep_collective_times: bool = False,
) -> ProgramTimes:
    """Run all ranks of an SPMD graph without shared rates.

    Parameters
    ----------
    breakdown : time breakdown that the run fills in; only for graphs of a single iteration
    keep_collective_times : True to keep start and end of every collective

    Raises
    ------
    SimulationError
        Ranks that wait for each other, or a time beyond the range; run the expanded graph to see
        which ops.
    """
    blocks = RankBlocks.of_template(template, rendezvous)
    run = _initial_state(
        blocks, template, timed_programs, rendezvous, draws, breakdown, keep_collective_times
    )
    with np.errstate(over="ignore"):
        while True:
            while run.counts[TOP]:
                _run_until_blocked(run)
            if not run.parked.any() or len(run.block_at) > template.ranks:
                break
            run = _split_into_single_ranks(run, RankBlocks.single_ranks(template, rendezvous))
    _, ops, beyond = run.counts.tolist()
    stuck = np.count_nonzero(run.parked)
    if beyond:
        raise SimulationError(
            "time overflow", "an op of an SPMD graph ends after the last tick; use a coarser tick"
        )
    if stuck:
        raise SimulationError(
            "deadlock",
            f"{stuck} ranks of an SPMD graph wait for each other; correct the order of their "
            "collectives and messages",
        )
    tally, waiting = run.tally[:, :-1], run.tally[:, -1]
    return ProgramTimes(
        run.step_start.T,
        run.step_end.T,
        tally,
        waiting,
        int(ops),
        run.collective_times,
        run.message_times,
    )


def _initial_state(
    blocks: RankBlocks,
    template: SpmdGraph,
    timed_programs: TimedPrograms,
    rendezvous: Rendezvous,
    draws: ReplicaDraws,
    breakdown: RunningBreakdown | None,
    keep_collective_times: bool,
) -> ProgramRun:
    """Initial state of a run: every block is runnable, at the first op of its program."""
    ranks, count = template.ranks, len(blocks.at) - 1
    joint = len(template) - int(template.bases[ranks])
    start = np.full((ranks, 1 + int(timed_programs.step.max(initial=0))), -1, np.int64)
    cursor = np.zeros((count, 3), np.int64)
    cursor[:, 1] = timed_programs.begin[template.program[blocks.member[blocks.at[:-1]]]]
    return ProgramRun._make(
        (
            *timed_programs.programs,
            timed_programs.step,
            timed_programs.step_at,
            template.program.astype(np.int32),
            template.bases,
            *blocks.tables,
            rendezvous.group,
            rendezvous.member_at,
            rendezvous.member,
            rendezvous.lead,
            rendezvous.row,
            rendezvous.peer,
            rendezvous.mailbox_at,
            draws.tables,
            (breakdown or RunningBreakdown.of(0)).tables,
            start,
            start.copy(),
            np.zeros((ranks, COLUMNS + 1), np.int64),
            np.empty((joint if keep_collective_times else 0, 2), np.int64),
            np.full(int(rendezvous.mailbox_at[-1]) + 1, -1, np.int64),
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
            np.array([count, 0, 0], np.int64),
        )
    )


def _split_into_single_ranks(run: ProgramRun, single_ranks: RankBlocks) -> ProgramRun:
    """Split stuck blocks into blocks of one rank; returns the new state of the run.

    A rank whose collective is complete continues after it. A rank at a mailbox checks it again.
    """
    ranks = len(run.program)
    each, kept, block_at = len(run.register) // ranks, run.register.copy(), run.block_at
    for b in np.flatnonzero(np.diff(block_at) > 1).tolist():
        some = slice(block_at[b] * each, block_at[b + 1] * each)
        kept[some] = run.register[some].reshape(each, -1).T.ravel()
    by_rank = np.empty((ranks, each), np.int64)
    by_rank[run.member_of] = kept.reshape(ranks, each)
    at, was = run.cursor[run.block_of], run.parked[run.block_of]
    waits = (was == 1) & (run.arrived >= 0)
    for r in np.flatnonzero((was == 1) & ~waits).tolist():
        at[r, 0] += 1
        at[r, 1] = next_op_position(run.words, at[r, 1])
    stack = np.zeros(ranks, np.int32)
    able = np.flatnonzero((was > 0) & ~waits)[::-1]
    stack[: len(able)] = able
    run.counts[TOP] = len(able)
    block_at, member_of, block_of, place, whole = single_ranks.tables
    return run._replace(
        block_at=block_at, member_of=member_of, block_of=block_of, place=place, whole=whole,
        register=by_rank.ravel(), cursor=at, parked=waits.astype(np.uint8),
        pending=waits.astype(np.int64), stack=stack,
    )  # fmt: skip


@jit
def _run_until_blocked(run: ProgramRun) -> None:
    """Run blocks until all are finished or parked, or until some million ops have run.

    The pause lets Python handle signals. ``counts`` contains the number of blocks on the stack, of
    ops that ran, and of ops that end beyond the range of ticks.
    """
    words, length, answer, answer_at = run.words, run.length, run.answer, run.answer_at
    program, steps, step_at, bases = run.program, run.steps, run.step_at, run.bases
    block_at, member_of, whole, member = run.block_at, run.member_of, run.whole, run.member
    cursor, parked, pending, stack, counts = (
        run.cursor, run.parked, run.pending, run.stack, run.counts,
    )  # fmt: skip
    each = len(run.register) // len(program)
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
            if what == RECV and not _are_all_sent(run, first, n, f):
                parked[b] = 2 + f
                break
            _read_ready_ticks(run, w, base, n)
            if what == RECV:
                _receive_messages(run, first, n, f)
            question = answer_at[p] + words[w + 1]
            duration, meta = answer[question, 0], answer[question, 1]
            step = np.int64(steps[step_at[p] + i]) if len(steps) else 0
            if what == COLLECTIVE and whole[f, b]:
                beyond += _run_block_collective(run, first, n, f, duration, meta, step)
            elif what == COLLECTIVE:
                over, woken, top = _join_collectives(run, b, f, w, duration, meta, step, top)
                beyond += over
                done += woken
                if pending[b]:
                    parked[b] = 1
                    break
                i += 1
                w = next_op_position(words, w)
                continue
            else:
                for m in range(n):
                    member[BEGINS, m] = member[ENDS, m] = member[ARRIVES, m]
                while True:
                    beyond += _add_durations(run, n, duration, meta & 255, own, first, step)
                    own += 1
                    if not chains_to_next(words, w):
                        break
                    i += 1
                    w = next_op_position(words, w)
                    question = answer_at[p] + words[w + 1]
                    duration, meta = answer[question, 0], answer[question, 1]
            kept, gate = base + end_register(words, w) * n, is_gate(words, w)
            _note_ends(run, first, n, kept, gate, meta >> 8, step)
            if what == SEND:
                top = _send_messages(run, first, n, f, top)
            i += 1
            w = next_op_position(words, w)
        done += (i - before) * n
        cursor[b, 0], cursor[b, 1], cursor[b, 2] = i, w, own
    counts[0], counts[1], counts[2] = top, done, beyond


@jit_without_refcounts
def _read_ready_ticks(run: ProgramRun, w: Int, base: Int, n: Int) -> None:
    """Store, for each member of a block, the tick at which its op's dependencies have ended."""
    words, member = run.words, run.member
    for m in range(n):
        member[ARRIVES, m] = 0
    for k in range(1, (np.int64(words[w]) >> READS) + 1):
        pair = np.int64(words[w + 2 + (k >> 1)])
        at = base + ((pair >> 16) if k & 1 else (pair & 0xFFFF)) * n
        for m in range(n):
            member[ARRIVES, m] = max(member[ARRIVES, m], run.register[at + m])


@jit_without_refcounts
def _note_ends(
    run: ProgramRun, first: Int, n: Int, kept: Int, gate: Int, column: Int, step: Int
) -> None:
    """Record the end of an op, or of consecutive ops of one kind, for all members of a block."""
    member, tally = run.member, run.tally
    for m in range(n):
        r = run.member_of[first + m]
        arrives, begins, ends = member[ARRIVES, m], member[BEGINS, m], member[ENDS, m]
        run.register[kept + m] = ends
        tally[r, COLUMNS] += begins - arrives
        tally[r, column] += ends - begins
        extend_step_span(run.step_start, run.step_end, r, step, begins, ends)
        note_op(run.breakdown, r, column, arrives, begins, ends, gate)


@jit_without_refcounts
def _add_durations(
    run: ProgramRun, n: Int, duration: Int, spread: Int, own: Int, first: Int, step: Int
) -> Int:
    """Add the duration of one op to the ends of all members of a block.

    Returns how many ends are beyond the range of ticks.

    Parameters
    ----------
    own : index of the op among the non-collective ops of a rank
    """
    member, draws, beyond = run.member, run.draws, 0
    at = draws[1]
    if spread == 0 or len(at) == 1:
        for m in range(n):
            beyond += duration > MAX_TICK - member[ENDS, m]
            member[ENDS, m] += duration
    elif at[2 * spread - 2] < at[2 * spread - 1]:
        for m in range(n):
            r = run.member_of[first + m]
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
def _are_all_sent(run: ProgramRun, first: Int, n: Int, f: Int) -> bool:
    """True if the next message to each member of a block has been sent."""
    for m in range(n):
        r = run.member_of[first + m]
        if run.message_times[run.mailbox_at[f * len(run.member_of) + r] + run.heard[f, r]] < 0:
            return False
    return True


@jit_without_refcounts
def _receive_messages(run: ProgramRun, first: Int, n: Int, f: Int) -> None:
    """Receive each block member's next message; its op cannot start before that arrives."""
    member = run.member
    for m in range(n):
        r = run.member_of[first + m]
        came = run.message_times[run.mailbox_at[f * len(run.member_of) + r] + run.heard[f, r]]
        member[ARRIVES, m] = max(member[ARRIVES, m], came)
        run.heard[f, r] += 1


@jit_without_refcounts
def _send_messages(run: ProgramRun, first: Int, n: Int, f: Int, top: Int) -> Int:
    """Send one message from each rank of a block; blocks that wait for one become runnable.

    Returns the new height of the stack of runnable blocks.
    """
    sent = run.sent
    for m in range(n):
        q = run.peer[f, run.member_of[first + m]]
        run.message_times[run.mailbox_at[f * len(run.member_of) + q] + sent[f, q]] = run.member[
            ENDS, m
        ]
        sent[f, q] += 1
        b = run.block_of[q]
        if run.parked[b] == 2 + f:
            run.parked[b] = 0
            run.stack[top] = b
            top += 1
    return top


@jit_without_refcounts
def _run_block_collective(
    run: ProgramRun, first: Int, n: Int, f: Int, duration: Int, meta: Int, step: Int
) -> Int:
    """Run a collective whose group is exactly the block; returns 1 if it ends beyond the range."""
    meeting, member, collective_times = run.meeting, run.member, run.collective_times
    g = run.group_of[f, run.member_of[first]]
    row = run.group_row[g] + meeting[g, CALL]
    if len(run.draws[1]) > 1:
        leader = run.group_members[run.member_at[g]]
        duration = draw_ticks(duration, meta & 255, row, leader, step, run.draws)
    run.tally[run.lead[g], LED] += duration
    latest: Int = member[ARRIVES, 0]
    for m in range(1, n):
        latest = max(latest, member[ARRIVES, m])
    for m in range(n):
        member[BEGINS, m], member[ENDS, m] = latest, latest + duration
    if len(collective_times):
        at = row - run.bases[len(run.bases) - 2]
        collective_times[at, 0], collective_times[at, 1] = latest, latest + duration
    meeting[g, CALL] += 1
    return np.int64(duration > MAX_TICK - latest)


@jit_without_refcounts
def _join_collectives(
    run: ProgramRun, b: Int, f: Int, w: Int, duration: Int, meta: Int, step: Int, top: Int
) -> tuple[Int, Int, Int]:
    """Let the members of a block arrive at their collectives, and run those that are now complete.

    Returns the number of collectives that end beyond the range, the number of ops of other blocks
    that ended, and the height of the stack.
    """
    block_at, member_at, arrived, meeting = run.block_at, run.member_at, run.arrived, run.meeting
    beyond, woken = 0, 0
    for m in range(block_at[b + 1] - block_at[b]):
        r = run.member_of[block_at[b] + m]
        g = run.group_of[f, r]
        if run.lead[g] == r:
            takes = duration
            if len(run.draws[1]) > 1:
                row, leader = run.group_row[g] + meeting[g, CALL], run.group_members[member_at[g]]
                takes = draw_ticks(duration, meta & 255, row, leader, step, run.draws)
            meeting[g, TAKES], meeting[g, STEP] = takes, step
            run.tally[r, LED] += takes
        arrived[r] = run.member[ARRIVES, m]
        meeting[g, LATEST] = max(meeting[g, LATEST], arrived[r])
        meeting[g, THERE] += 1
        run.pending[b] += 1
        if meeting[g, THERE] == member_at[g + 1] - member_at[g]:
            beyond += meeting[g, TAKES] > MAX_TICK - meeting[g, LATEST]
            ops, top = _run_collective(run, g, b, w, top)
            woken += ops
    return beyond, woken, top


@jit_without_refcounts
def _run_collective(run: ProgramRun, g: Int, b: Int, w: Int, top: Int) -> tuple[Int, Int]:
    """Run collective ``g``, completed by a rank of block ``b``; blocks that waited become runnable.

    Returns the number of ops of other blocks that ended, and the height of the stack of runnable
    blocks.
    """
    words, program, block_at, register = run.words, run.program, run.block_at, run.register
    cursor, pending, arrived, meeting = run.cursor, run.pending, run.arrived, run.meeting
    tally, collective_times = run.tally, run.collective_times
    latest, takes, step = meeting[g, LATEST], meeting[g, TAKES], meeting[g, STEP]
    finish, woken, each = latest + takes, 0, len(register) // len(program)
    for k in range(run.member_at[g], run.member_at[g + 1]):
        q = run.group_members[k]
        c = run.block_of[q]
        v = cursor[c, 1] if c != b else w
        n = block_at[c + 1] - block_at[c]
        register[block_at[c] * each + end_register(words, v) * n + run.place[q]] = finish
        tally[q, COLUMNS] += latest - arrived[q]
        column = run.answer[run.answer_at[program[q]] + words[v + 1], 1] >> 8
        tally[q, column] += takes
        extend_step_span(run.step_start, run.step_end, q, step, latest, finish)
        note_op(run.breakdown, q, column, arrived[q], latest, finish, is_gate(words, v))
        arrived[q] = -1
        pending[c] -= 1
        if c != b and pending[c] == 0:
            cursor[c, 0] += 1
            cursor[c, 1] = next_op_position(words, v)
            run.parked[c] = 0
            run.stack[top] = c
            top += 1
            woken += n
    if len(collective_times):
        at = run.group_row[g] + meeting[g, CALL] - run.bases[len(program)]
        collective_times[at, 0], collective_times[at, 1] = latest, finish
    meeting[g, THERE], meeting[g, LATEST] = 0, 0
    meeting[g, CALL] += 1
    return woken, top


@jit_without_refcounts
def extend_step_span(first: Array, last: Array, r: Int, step: Int, begin: Int, finish: Int) -> None:
    """Extend the first start and last end of a rank's iteration by one op."""
    if first[r, step] < 0 or begin < first[r, step]:
        first[r, step] = begin
    last[r, step] = max(last[r, step], finish)
