"""Templates run without being written out: a program once a class, a rank is a cursor in it.

No queue is needed: where nothing is contended, the end of an op is the latest end of what it
waits for plus its own ticks, in whatever order that is computed.  A rank runs ahead until it
meets a collective that others have not reached, or hears a message that was not sent; whoever
completes it sets the others going again.

A program becomes a stream of 32-bit words, 8 to 12 bytes an op: what it is, which duration,
and the registers (at most 65,536 ends that are still needed) that it reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..csr import Csr
from ..draws import GOLDEN, mix, scaled
from ..errors import SimulationError
from ..ops import Kind
from ..template import Program, Template
from .jit import jit

Array = NDArray[Any]
Arrays = tuple[Array, ...]

LOCAL, COLLECTIVE, SEND, RECV = range(4)
_WHAT = {Kind.COLLECTIVE: COLLECTIVE, Kind.SEND: SEND, Kind.RECV: RECV}

# A word: 2 bits what, 6 family, 4 spread + 1, 4 activity, 16 number of registers read.
_FAMILY, _SPREAD, _ACTIVITY, _READS = 2, 8, 12, 16
MAX_FAMILY, MAX_SPREADS, MAX_REGISTERS = 1 << 6, 15, 1 << 16

ACTIVITIES = ("compute", "host", "copy", "network", "other")
_ACTIVITY_OF = {
    Kind.COMPUTE: 0,
    Kind.HOST: 1,
    Kind.COPY: 2,
    Kind.SEND: 3,
    Kind.RECV: 3,
    Kind.COLLECTIVE: 3,
}


@dataclass(frozen=True)
class Compiled:
    """Programs as words, and the durations that they name.

    Parameters
    ----------
    words : (w,) uint32
    begin : (programs,) first word of each
    length : (programs,) ops of each
    times : (t,) int64 ticks
    step : (t',) iteration of each op, of one program after the other; (0,) where all are 0
    step_at : (programs,) where a program's steps begin
    registers : int
    """

    words: NDArray[np.uint32]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    times: NDArray[np.int64]
    step: NDArray[np.uint16]
    step_at: NDArray[np.int64]
    registers: int


def compile_programs(
    template: Template,
    fixed: Sequence[NDArray[np.int64]],
    spread: Sequence[NDArray[np.int8]],
) -> Compiled:
    """Turn programs into words.

    Parameters
    ----------
    fixed : of each program, (n,) ticks of its ops
    spread : of each program, (n,) number of the table its factors come from, -1 for none
    """
    times, index = np.unique(np.concatenate([np.empty(0, np.int64), *fixed]), return_inverse=True)
    words: list[NDArray[np.uint32]] = []
    begin, registers, at = [0], 1, 0
    for program, varies in zip(template.programs, spread, strict=True):
        made, used = _encode(program, index[at : at + len(program)], varies)
        words.append(made)
        begin.append(begin[-1] + len(made))
        registers, at = max(registers, used), at + len(program)
    steps = [p.ops.iteration for p in template.programs]
    several = any(np.any(s) for s in steps)
    lengths = np.array([len(p) for p in template.programs], np.int64)
    return Compiled(
        np.concatenate(words),
        np.array(begin[:-1], np.int64),
        lengths,
        times,
        np.concatenate(steps) if several else np.empty(0, np.uint16),
        np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64),
        registers,
    )


def _encode(
    program: Program, time: NDArray[np.int64], spread: NDArray[np.int8]
) -> tuple[NDArray[np.uint32], int]:
    """The words of one program, and how many registers it needs."""
    n = len(program)
    families, spreads = int(program.family.max(initial=0)), int(spread.max(initial=0))
    if families >= MAX_FAMILY or spreads >= MAX_SPREADS:
        raise OverflowError(f"{families} families, {spreads} spreads; {MAX_FAMILY}, {MAX_SPREADS}")
    what = np.array([_WHAT.get(k, LOCAL) for k in Kind], np.int64)[program.ops.kind]
    activity = np.array([_ACTIVITY_OF.get(k, 4) for k in Kind], np.int64)[program.ops.kind]
    head = (
        what
        | np.maximum(program.family, 0).astype(np.int64) << _FAMILY
        | (spread.astype(np.int64) + 1) << _SPREAD
        | activity << _ACTIVITY
    )
    incoming = Csr.from_pairs(program.successors.values, program.successors.owner, n)
    if incoming.counts.max(initial=0) >= MAX_REGISTERS:
        raise OverflowError(f"an op waits for {incoming.counts.max()} others; {MAX_REGISTERS}")
    words = np.zeros(int((2 + (incoming.counts + 2) // 2).sum()), np.uint32)
    used = int(_allocate(head, time, (incoming.indptr, incoming.values), words))
    if used > MAX_REGISTERS:
        raise OverflowError(f"a program keeps {used} ends at once; {MAX_REGISTERS} can be kept")
    return words, used


@jit
def _allocate(head: Array, time: Array, incoming: Arrays, words: Array) -> int:
    """Write the words of a program; an end is kept in a register until its last reader."""
    indptr, source = incoming
    n = len(head)
    last = np.arange(n)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            last[source[k]] = i
    register, free = np.zeros(n, np.int64), np.zeros(n, np.int64)
    spare, used, w = 0, 0, 0
    for i in range(n):
        reads = indptr[i + 1] - indptr[i]
        words[w], words[w + 1] = head[i] | reads << 16, time[i]
        for k in range(reads):
            s = source[indptr[i] + k]
            words[w + 2 + ((k + 1) >> 1)] |= np.uint32(register[s] << (16 * ((k + 1) & 1)))
        for k in range(indptr[i], indptr[i + 1]):
            if last[source[k]] == i:
                free[spare] = register[source[k]]
                spare += 1
                last[source[k]] = -1  # a source that is listed twice is given back once
        if spare:
            spare -= 1
            register[i] = free[spare]
        else:
            register[i] = used
            used += 1
        words[w + 2] |= np.uint32(register[i])
        if last[i] == i:
            free[spare] = register[i]
            spare += 1
        w += 2 + ((reads + 2) >> 1)
    return used


@dataclass(frozen=True)
class Meetings:
    """Who meets whom: groups of collectives and mailboxes of messages, numbered over families.

    Parameters
    ----------
    group : (families, ranks) number of the group, over all families
    member_at, member : members of each group, ascending
    row : (groups,) row of the first collective of each group
    peer : (families', ranks) whom a rank sends to
    box_at : (families' x ranks + 1,) where each rank's mailbox of each family begins
    """

    group: NDArray[np.int64]
    member_at: NDArray[np.int64]
    member: NDArray[np.int32]
    row: NDArray[np.int64]
    peer: NDArray[np.int32]
    box_at: NDArray[np.int64]


def meetings(template: Template) -> Meetings:
    """Number the groups and lay out the mailboxes of a template."""
    ranks = template.ranks
    group = np.zeros((len(template.groups), ranks), np.int64)
    counts, members, rows = [np.zeros(1, np.int64)], [], []
    base, shared = 0, int(template.bases[ranks])
    for f, of in enumerate(template.groups):
        number = int(of.max(initial=-1)) + 1
        group[f] = of + base
        counts.append(np.bincount(of, minlength=number))
        members.append(np.argsort(of, kind="stable"))
        first = template.first_calls(f)
        rows.append(shared + first[:-1])
        base, shared = base + number, shared + int(first[-1])
    boxes = [np.zeros(1, np.int64)]
    for f in range(len(template.peers)):
        sends = np.array(
            [int(((p.ops.kind == Kind.SEND) & (p.family == f)).sum()) for p in template.programs]
        )
        sender = template.senders[f]
        boxes.append(np.where(sender >= 0, sends[template.program[sender]], 0))
    return Meetings(
        group,
        np.cumsum(np.concatenate(counts)),
        np.concatenate([np.empty(0, np.int64), *members]).astype(np.int32),
        np.concatenate([np.empty(0, np.int64), *rows]),
        np.ascontiguousarray(template.peers),
        np.cumsum(np.concatenate(boxes)),
    )


@dataclass(frozen=True)
class Chances:
    """Random factors of one replica; empty tables draw nothing.

    Parameters
    ----------
    prefix : (2,) uint64 hash of what all draws of ranks, and of ops, have in common
    step, op : (spreads, q) int64 quantiles in 2^-20
    """

    prefix: NDArray[np.uint64]
    step: NDArray[np.int64]
    op: NDArray[np.int64]

    @classmethod
    def none(cls) -> Chances:
        """Typical durations."""
        return cls(np.zeros(2, np.uint64), np.empty((0, 0), np.int64), np.empty((0, 0), np.int64))


@dataclass(frozen=True)
class Ranks:
    """What is kept of a run that is not written out, in ticks.

    Parameters
    ----------
    end : (ranks, iterations) last end of each step on each rank; -1 where it has none
    busy : (ranks, 5) time of its own ops by activity
    waiting : (ranks,) time held at collectives whose other members were late
    ops : number of ops that ran, collectives once a member
    """

    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waiting: NDArray[np.int64]
    ops: int

    @property
    def makespan(self) -> int:
        """Last end, in ticks."""
        return int(self.end.max(initial=0))


def run(template: Template, compiled: Compiled, chances: Chances) -> Ranks:
    """Run every rank of a template.

    Raises
    ------
    SimulationError
        Ranks that wait for each other; run the expanded graph to see who.
    """
    ranks = template.ranks
    meet = meetings(template)
    iterations = 1 + int(compiled.step.max(initial=0))
    end = np.full((ranks, iterations), -1, np.int64)
    tally = np.zeros((ranks, len(ACTIVITIES) + 1), np.int64)
    mail = np.full(int(meet.box_at[-1]) + 1, -1, np.int64)
    with np.errstate(over="ignore"):
        ops = _run(
            (compiled.words, compiled.begin, compiled.length, compiled.times),
            (template.program.astype(np.int32), compiled.step, compiled.step_at, template.bases),
            (meet.group, meet.member_at, meet.member, meet.row),
            (meet.peer, meet.box_at, mail),
            (chances.prefix, chances.step, chances.op),
            (end, tally),
            compiled.registers,
        )
    if ops < 0:
        raise SimulationError(
            "deadlock",
            f"{-ops} ranks wait for each other; run the expanded graph to see which ops",
            (),
        )
    return Ranks(end, tally[:, :-1], tally[:, -1], int(ops))


_mix, _scaled = jit(mix), jit(scaled)  # the very functions that the other engines call


@jit
def _draw(prefix: Any, key: Any) -> Any:
    return _mix((prefix ^ np.uint64(key)) + np.uint64(GOLDEN))


@jit
def _factor(table: Array, spread: Any, random: Any) -> Any:
    """`draws.factor` of one number, from row ``spread`` of the table."""
    q = table.shape[1]
    if q == 1:
        return table[spread, 0]
    at = np.int64(random >> np.uint64(32)) * q - (1 << 31)
    at = min(max(at, 0), (q - 1) << 32)
    low = min(at >> 32, q - 2)
    part = (at - (low << 32)) >> 12
    below = table[spread, low]
    return below + (((table[spread, low + 1] - below) * part) >> 20)


@jit
def _ticks(
    base: Any, spread: Any, row: Any, rank: Any, step: Any, prefix: Array, steps: Array, ops: Array
) -> Any:
    """Ticks of one op in this replica."""
    if steps.shape[1]:
        random = _draw(_draw(prefix[0], rank), step)
        base = _scaled(base, _factor(steps, spread, random))
    if ops.shape[1]:
        base = _scaled(base, _factor(ops, spread, _draw(prefix[1], row)))
    return base


@jit
def _run(
    programs: Arrays,
    ranks_: Arrays,
    groups: Arrays,
    messages: Arrays,
    chances: Arrays,
    out: Arrays,
    registers: int,
) -> Any:
    """Run all ranks; the number of ops, or minus the number of ranks that are stuck."""
    words, begin, length, times = programs
    program, steps, step_at, bases = ranks_
    group_of, member_at, member, group_row = groups
    peer, box_at, mail = messages
    prefix, step_table, op_table = chances
    end, tally = out
    ranks = len(program)
    random = len(step_table) > 0
    register = np.zeros((ranks, registers), np.int64)
    cursor = np.zeros((ranks, 3), np.int64)  # op, word, own op
    parked = np.zeros(ranks, np.uint8)  # 1 at a collective, 2 + family at a mailbox
    count = np.zeros(len(group_row), np.int32)
    call = np.zeros(len(group_row), np.int32)
    latest = np.zeros(len(group_row), np.int64)
    takes = np.zeros(len(group_row), np.int64)
    arrived = np.zeros(ranks, np.int64)
    sent = np.zeros(peer.shape, np.int32)
    heard = np.zeros(peer.shape, np.int32)
    stack = np.empty(ranks, np.int32)
    top = ranks
    for r in range(ranks):
        stack[r] = ranks - 1 - r
        cursor[r, 1] = begin[program[r]]
    done = 0
    while top:
        top -= 1
        r = stack[top]
        p = program[r]
        i, w, own = cursor[r, 0], cursor[r, 1], cursor[r, 2]
        first = i
        while i < length[p]:
            word = np.int64(words[w])
            what, reads = word & 3, word >> 16
            target = np.int64(words[w + 2]) & 0xFFFF
            ready: Any = np.int64(0)
            for k in range(1, reads + 1):
                pair = np.int64(words[w + 2 + (k >> 1)])
                ready = max(ready, register[r, (pair >> 16) if k & 1 else (pair & 0xFFFF)])
            f = (word >> 2) & 63
            if what == 3:  # recv
                box = box_at[f * ranks + r] + heard[f, r]
                if mail[box] < 0:
                    parked[r] = 2 + f
                    break
                ready = max(ready, mail[box])
                heard[f, r] += 1
            spread = ((word >> 8) & 15) - 1
            step = np.int64(steps[step_at[p] + i]) if len(steps) else 0
            took = times[words[w + 1]]
            if what == 1:
                g = group_of[f, r]
                a, b = member_at[g], member_at[g + 1]
                if member[a] == r:  # the first member's op is the collective's
                    row = group_row[g] + call[g]
                    if random and spread >= 0:
                        took = _ticks(took, spread, row, r, step, prefix, step_table, op_table)
                    takes[g] = took
                arrived[r] = ready
                latest[g] = max(latest[g], ready)
                count[g] += 1
                if count[g] < b - a:
                    parked[r] = 1
                    break
                finish = latest[g] + takes[g]
                for m in range(a, b):
                    q = member[m]
                    tally[q, 5] += latest[g] - arrived[q]
                    tally[q, 3] += takes[g]
                    if q != r:
                        v = cursor[q, 1]
                        at = np.int64(words[v + 2]) & 0xFFFF
                        register[q, at] = finish
                        s: Any = 0
                        if len(steps):
                            s = np.int64(steps[step_at[program[q]] + cursor[q, 0]])
                        end[q, s] = max(end[q, s], finish)
                        cursor[q, 0] += 1
                        cursor[q, 1] = v + 2 + (((np.int64(words[v]) >> 16) + 2) >> 1)
                        parked[q] = 0
                        stack[top] = q
                        top += 1
                        done += 1
                count[g] = 0
                latest[g] = 0
                call[g] += 1
            else:
                if random and spread >= 0:
                    took = _ticks(
                        took, spread, bases[r] + own, r, step, prefix, step_table, op_table
                    )
                finish = ready + took
                tally[r, (word >> 12) & 15] += took
                own += 1
                if what == 2:  # send
                    q = peer[f, r]
                    mail[box_at[f * ranks + q] + sent[f, q]] = finish
                    sent[f, q] += 1
                    if parked[q] == 2 + f:
                        parked[q] = 0
                        stack[top] = q
                        top += 1
            register[r, target] = finish
            end[r, step] = max(end[r, step], finish)
            i += 1
            w += 2 + ((reads + 2) >> 1)
        done += i - first
        cursor[r, 0], cursor[r, 1], cursor[r, 2] = i, w, own
    stuck = 0
    for r in range(ranks):
        stuck += parked[r] > 0
    return -stuck if stuck else done
