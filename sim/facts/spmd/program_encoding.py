"""Encoding of a rank's program as 32-bit words, 8 to 12 bytes per op: kind, timing, dependencies.

End times that later ops depend on are kept in registers (at most 65,536 per rank). An op refers
to a *question*: a distinct op to be timed. Ranks that run one program may get different times
for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...kernel.factorize import number_by_first_appearance
from ...kernel.jit import Int, jit, jit_without_refcounts
from ..csr import Csr
from ..ops import DTYPES, Kind, Ops

if TYPE_CHECKING:
    from .spmd_graph import RankProgram

Array = NDArray[Any]

LOCAL, COLLECTIVE, SEND, RECV = range(4)
_WHAT = np.array(
    [{Kind.COLLECTIVE: COLLECTIVE, Kind.SEND: SEND, Kind.RECV: RECV}.get(k, LOCAL) for k in Kind],
    np.uint32,
)
# A word: 2 bits what, 6 family, 1 whether the next op goes on from here, 1 whether it is a gate, 6
# of no use yet, 16 number of registers read; then the question; then 16 bits for the register in
# which the end is kept, and 16 for each that is read.
FAMILY, GOES_ON, GATE, READS = 2, 8, 9, 16
MAX_FAMILY, MAX_REGISTERS = 1 << 6, 1 << 16
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class ProgramWords:
    """Encoded program of a rank, for the compiled engine.

    Parameters
    ----------
    words : (w,) uint32, the encoded ops
    registers : number of registers for end times
    question : (n,) index of the distinct op to be timed, for each op
    first : (q,) first row of each distinct op to be timed
    """

    words: NDArray[np.uint32]
    registers: int
    question: NDArray[np.int64]
    first: NDArray[np.int64]


def encode_program(program: RankProgram) -> ProgramWords:
    """Encode a rank's program as 32-bit words.

    Raises
    ------
    OverflowError
        There are more families, dependencies or live end times than the words can encode.
    """
    n = len(program)
    families = int(program.family.max(initial=0))
    if families >= MAX_FAMILY:
        raise OverflowError(
            f"it has {families + 1} families of groups or peers; at most {MAX_FAMILY} are possible"
        )
    incoming = Csr.from_pairs(program.successors.values, program.successors.owner, n)
    most = int(incoming.counts.max(initial=0))
    if most >= MAX_REGISTERS:
        raise OverflowError(
            f"one of its ops waits for {most} others; fewer than {MAX_REGISTERS} are possible"
        )
    question, first = distinct_ops_to_time(program.ops, program.family)
    head = kind_codes(program.ops.kind) | np.maximum(program.family, 0).astype(np.uint32) << FAMILY
    head |= _rows_chained_to_next(program, incoming).astype(np.uint32) << GOES_ON
    words = np.zeros(int((2 + (incoming.counts + 2) // 2).sum()), np.uint32)
    used = int(_allocate(head, question, incoming.indptr, incoming.values, words))
    if used > MAX_REGISTERS:
        raise OverflowError(
            f"one of its programs keeps {used} end times at once; at most {MAX_REGISTERS} are "
            "possible"
        )
    return ProgramWords(words, used, question, first)


def _rows_chained_to_next(program: RankProgram, incoming: Csr) -> NDArray[np.bool_]:
    """True for each row that is the next row's only dependency, and has no other dependent.

    Both are local ops of the same kind and period. A run of such ops is one loop without
    registers.
    """
    ops, after = program.ops, program.successors
    alike = (ops.kind[1:] == ops.kind[:-1]) & (ops.period[1:] == ops.period[:-1])
    alike &= (kind_codes(ops.kind[1:]) == LOCAL) & (after.counts[:-1] == 1)
    found = np.zeros(len(program), bool)
    found[:-1] = alike & (incoming.counts[1:] == 1)
    rows = np.flatnonzero(found)
    found[rows] = after.values[after.indptr[rows]] == rows + 1
    return found


def kind_codes(kind: Array) -> NDArray[np.uint32]:
    """Kind of each op for the executor: ``LOCAL``, ``COLLECTIVE``, ``SEND`` or ``RECV``."""
    return _WHAT[kind]


def distinct_ops_to_time(
    ops: Ops, family: NDArray[np.int16]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the distinct ops to be timed: their index per op, shape (n,), and first row, (q,).

    >>> ops = Ops.of(flop=[1, 2, 1], rank=[0, 1, 2])
    >>> question, first = distinct_ops_to_time(ops, np.full(3, -1, np.int16))
    >>> question.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    columns = [family, *(getattr(ops, name) for name in DTYPES if name != "rank")]
    varying = [c for c in columns if not _equal(c, c[:1])]
    key = np.zeros(len(ops), np.uint64)
    for column in varying:
        wide = column.view(np.uint64) if column.dtype == np.float64 else column.astype(np.uint64)
        key = (key ^ wide) * _MULTIPLIER
        key ^= key >> np.uint64(29)
    alike, first = number_by_first_appearance(key)
    if all(_equal(column, column[first[alike]]) for column in varying):
        return alike, first
    every = np.arange(len(ops))  # two rows with one hash: nothing is merged
    return every, every


def _equal(a: Array, b: Array) -> bool:
    same = a == b
    return bool(same.all() or (same | ((a != a) & (b != b))).all())


@jit_without_refcounts
def op_kind(words: Array, w: Int) -> Int:
    """Kind of the op at position ``w``: ``LOCAL``, ``COLLECTIVE``, ``SEND`` or ``RECV``."""
    return np.int64(words[w]) & 3


@jit_without_refcounts
def op_family(words: Array, w: Int) -> Int:
    """Family of groups or peers of the op at position ``w`` of the words; 0 for a local op."""
    return (np.int64(words[w]) >> FAMILY) & 63


@jit_without_refcounts
def chains_to_next(words: Array, w: Int) -> Int:
    """True if only the next op waits for the op at position ``w``, and for nothing else."""
    return np.int64(words[w]) >> GOES_ON & 1


@jit_without_refcounts
def is_gate(words: Array, w: Int) -> Int:
    """True if all later ops of the program start after the end of the op at position ``w``."""
    return np.int64(words[w]) >> GATE & 1


@jit_without_refcounts
def end_register(words: Array, w: Int) -> Int:
    """Register that stores the end time of the op at position ``w`` of the words."""
    return np.int64(words[w + 2]) & 0xFFFF


@jit_without_refcounts
def latest_dependency_end(words: Array, w: Int, register: Array, r: Int) -> Int:
    """Latest end among the dependencies of the op at position ``w``, from register row ``r``."""
    latest: Int = np.int64(0)
    for k in range(1, (np.int64(words[w]) >> READS) + 1):
        pair = np.int64(words[w + 2 + (k >> 1)])
        latest = max(latest, register[r, (pair >> 16) if k & 1 else (pair & 0xFFFF)])
    return latest


@jit_without_refcounts
def next_op_position(words: Array, w: Int) -> Int:
    """Position in the words of the op after the one at position ``w``."""
    return w + 2 + (((np.int64(words[w]) >> READS) + 2) >> 1)


@jit
def _allocate(head: Array, question: Array, indptr: Array, source: Array, words: Array) -> int:
    """Write the words of a program; a register is reused after the last read of its end time."""
    n = len(head)
    last, gate = np.arange(n), np.zeros(n, np.int64)
    nearest: Any = n  # of all later ops, each with the latest that it waits for: the earliest
    for i in range(n - 1, -1, -1):
        gate[i] = nearest >= i
        latest: Any = -1
        for k in range(indptr[i], indptr[i + 1]):
            latest = max(latest, source[k])
        nearest = min(nearest, latest)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            last[source[k]] = i
    register, free = np.zeros(n, np.int64), np.zeros(n, np.int64)
    spare, used, w = 0, 0, 0
    for i in range(n):
        reads = indptr[i + 1] - indptr[i]
        words[w] = np.int64(head[i]) | gate[i] << GATE | reads << READS
        words[w + 1] = question[i]
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
