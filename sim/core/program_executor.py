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

from ..engine_api import MAX_TICK
from ..errors import SimulationError
from ..spmd.spmd_graph import SpmdGraph
from .jit import Int, jit, jit_without_refcounts
from .program_encoding import (
    COLLECTIVE,
    RECV,
    SEND,
    end_register,
    goes_on,
    is_gate,
    latest_dependency_end,
    next_op_position,
    op_family,
    op_kind,
)
from .rendezvous import Rendezvous
from .replica_draws import ReplicaDraws, drawn_ticks
from .running_breakdown import RunningBreakdown, note_op

Array = NDArray[Any]
Arrays = tuple[Array, ...]

COLUMNS = 32  # a tally: what (local, collective, send, recv) x eight kinds or roles
LED = 12  # collectives once an op, at the rank that leads them
# Of a group that meets: members that are there, meetings before, when the last one came, for how
# long, in which step.
THERE, CALL, LATEST, TAKES, STEP = range(5)
PARKED = 2  # in the state of a run
TOP = 0  # of what is counted: ranks on the stack
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
    met : (collectives, 2) start and end of each; (0, 2) where nobody asks
    mail : ends of sends, as :class:`Rendezvous` lays them out
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    tally: NDArray[np.int64]
    waiting: NDArray[np.int64]
    ops: int
    met: NDArray[np.int64]
    mail: NDArray[np.int64]


def run_programs(
    template: SpmdGraph,
    answered: TimedPrograms,
    meet: Rendezvous,
    chances: ReplicaDraws,
    breakdown: RunningBreakdown | None = None,
    keep_met: bool = False,
) -> ProgramTimes:
    """Run every rank of an SPMD graph.

    Parameters
    ----------
    breakdown : gets the time breakdown of a run whose ops are all of one step
    keep_met : whether starts and ends of collectives are kept

    Raises
    ------
    SimulationError
        Ranks that wait for each other, or a time beyond the range; run the expanded graph to see
        which ops.
    """
    ranks, joint = template.ranks, len(template) - int(template.bases[template.ranks])
    periods = 1 + int(answered.step.max(initial=0))
    start = np.full((ranks, periods), -1, np.int64)
    end, tally = start.copy(), np.zeros((ranks, COLUMNS + 1), np.int64)
    mail = np.full(int(meet.box_at[-1]) + 1, -1, np.int64)
    met = np.empty((joint if keep_met else 0, 2), np.int64)
    state = _initial_state(template, answered, meet)
    counts = np.array([ranks, 0, 0], np.int64)
    boxes = (breakdown or RunningBreakdown.of(0)).tables
    with np.errstate(over="ignore"):
        while counts[TOP]:
            _run_until_blocked(
                answered.programs,
                (
                    template.program.astype(np.int32),
                    answered.step,
                    answered.step_at,
                    template.bases,
                ),
                (meet.group, meet.member_at, meet.member, meet.lead, meet.row),
                (meet.peer, meet.box_at, mail),
                chances.tables,
                (start, end, tally, met),
                boxes,
                state,
                counts,
            )
    _, ops, beyond = counts.tolist()
    stuck = np.count_nonzero(state[PARKED])
    if beyond:
        raise SimulationError("time overflow", "an op of a template ends beyond the range")
    if stuck:
        raise SimulationError("deadlock", f"{stuck} ranks of a template wait for each other")
    return ProgramTimes(start.T, end.T, tally[:, :-1], tally[:, -1], int(ops), met, mail)


def _initial_state(template: SpmdGraph, answered: TimedPrograms, meet: Rendezvous) -> Arrays:
    """Arrays that hold the state of a run before its first op.

    Registers; cursors (op, word, own op); where ranks are parked (1 at a collective, 2 + family at
    a mailbox); arrivals; the stack of ranks that go on; meetings; messages sent and heard.
    """
    ranks = template.ranks
    cursor = np.zeros((ranks, 3), np.int64)
    cursor[:, 1] = answered.begin[template.program]
    return (
        np.zeros((ranks, answered.registers), np.int64),
        cursor,
        np.zeros(ranks, np.uint8),
        np.zeros(ranks, np.int64),
        np.arange(ranks - 1, -1, -1, dtype=np.int32),
        np.zeros((len(meet.row), 5), np.int64),
        np.zeros(meet.peer.shape, np.int32),
        np.zeros(meet.peer.shape, np.int32),
    )


@jit
def _run_until_blocked(
    programs: Arrays,
    ranks_: Arrays,
    groups: Arrays,
    messages: Arrays,
    chances: Arrays,
    out: Arrays,
    breakdown: Arrays,
    state: Arrays,
    counts: Array,
) -> None:
    """Run ranks until all are done or blocked, or for some millions of ops, then let Python look.

    Counted are the ranks on the stack, the ops that ran, and those beyond the range.
    """
    words, _, length, answer, answer_at = programs
    program, steps, step_at, bases = ranks_
    group_of, member_at, member, lead, group_row = groups
    peer, box_at, mail = messages
    first_start, end, tally, _ = out
    ranks = len(program)
    random = len(chances[1]) > 1
    register, cursor, parked, arrived, stack, meeting, sent, heard = state
    top, done, beyond = counts[0], counts[1], counts[2]
    pause = done + PAUSE
    while top and done < pause:
        top -= 1
        r = stack[top]
        p = program[r]
        i, w, own = cursor[r, 0], cursor[r, 1], cursor[r, 2]
        first = i
        while i < length[p]:
            what, f = op_kind(words, w), op_family(words, w)
            begins = latest_dependency_end(words, w, register, r)
            if what == RECV:
                box = box_at[f * ranks + r] + heard[f, r]
                if mail[box] < 0:
                    parked[r] = 2 + f
                    break
                begins = max(begins, mail[box])
                heard[f, r] += 1
            question = answer_at[p] + words[w + 1]
            took, meta = answer[question, 0], answer[question, 1]
            step = np.int64(steps[step_at[p] + i]) if len(steps) else 0
            if what == COLLECTIVE:
                g = group_of[f, r]
                if lead[g] == r:
                    if random:
                        row, leader = group_row[g] + meeting[g, CALL], member[member_at[g]]
                        took = drawn_ticks(took, meta & 255, row, leader, step, chances)
                    meeting[g, TAKES], meeting[g, STEP] = took, step
                    tally[r, LED] += took
                arrived[r] = begins
                meeting[g, LATEST] = max(meeting[g, LATEST], begins)
                meeting[g, THERE] += 1
                if meeting[g, THERE] < member_at[g + 1] - member_at[g]:
                    parked[r] = 1
                    break
                if meeting[g, TAKES] > MAX_TICK - meeting[g, LATEST]:
                    beyond += 1
                before, top = (
                    top,
                    _run_collective(programs, ranks_, groups, state, out, breakdown, g, r, w, top),
                )
                done += top - before
            else:
                finish: Any = begins
                while True:
                    if random:
                        took = drawn_ticks(took, meta & 255, bases[r] + own, r, step, chances)
                    if took > MAX_TICK - finish:
                        beyond += 1
                    finish += took
                    own += 1
                    if not goes_on(words, w):
                        break
                    i += 1
                    w = next_op_position(words, w)
                    question = answer_at[p] + words[w + 1]
                    took, meta = answer[question, 0], answer[question, 1]
                tally[r, meta >> 8] += finish - begins
                if what == SEND:
                    q = peer[f, r]
                    mail[box_at[f * ranks + q] + sent[f, q]] = finish
                    sent[f, q] += 1
                    if parked[q] == 2 + f:
                        parked[q] = 0
                        stack[top] = q
                        top += 1
                register[r, end_register(words, w)] = finish
                extend_step_span(first_start, end, r, step, begins, finish)
                note_op(breakdown, r, meta >> 8, begins, begins, finish, is_gate(words, w))
            i += 1
            w = next_op_position(words, w)
        done += i - first
        cursor[r, 0], cursor[r, 1], cursor[r, 2] = i, w, own
    counts[0], counts[1], counts[2] = top, done, beyond


@jit_without_refcounts
def _run_collective(
    programs: Arrays,
    ranks_: Arrays,
    groups: Arrays,
    state: Arrays,
    out: Arrays,
    breakdown: Arrays,
    g: Int,
    r: Int,
    w: Int,
    top: Int,
) -> Int:
    """Run collective ``g``, whose last member ``r`` arrived, and push the others on the stack.

    Returns the height of the stack of ranks that go on.
    """
    words, _, _, answer, answer_at = programs
    program, _, _, bases = ranks_
    _, member_at, member, _, group_row = groups
    register, cursor, parked, arrived, stack, meeting, _, _ = state
    first_start, end, tally, met = out
    latest, takes, step = meeting[g, LATEST], meeting[g, TAKES], meeting[g, STEP]
    finish = latest + takes
    for m in range(member_at[g], member_at[g + 1]):
        q = member[m]
        v = cursor[q, 1] if q != r else w
        register[q, end_register(words, v)] = finish
        tally[q, COLUMNS] += latest - arrived[q]
        column = answer[answer_at[program[q]] + words[v + 1], 1] >> 8
        tally[q, column] += takes
        extend_step_span(first_start, end, q, step, latest, finish)
        note_op(breakdown, q, column, arrived[q], latest, finish, is_gate(words, v))
        if q != r:
            cursor[q, 0] += 1
            cursor[q, 1] = next_op_position(words, v)
            parked[q] = 0
            stack[top] = q
            top += 1
    if len(met):
        row = group_row[g] + meeting[g, CALL] - bases[len(program)]
        met[row, 0], met[row, 1] = latest, finish
    meeting[g, THERE], meeting[g, LATEST] = 0, 0
    meeting[g, CALL] += 1
    return top


@jit_without_refcounts
def extend_step_span(first: Array, last: Array, r: Int, step: Int, begin: Int, finish: Int) -> None:
    """Extend the first start and last end of a step of a rank by one op."""
    if first[r, step] < 0 or begin < first[r, step]:
        first[r, step] = begin
    last[r, step] = max(last[r, step], finish)
