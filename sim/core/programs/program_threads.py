"""Threads of a rank program: chains of dependent ops, each executed by one cursor.

A program with a single stream is one thread. If an op depends on an op of another thread, that
other op writes its end tick to a *cell*, which the waiting thread reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...facts.csr import Csr
from ...facts.ops import Kind
from ...facts.spmd.program_encoding import LOCAL, kind_codes
from ...kernel.jit import jit

if TYPE_CHECKING:
    from ...facts.spmd.spmd_graph import RankProgram

Numbers = NDArray[np.int64]

GOES_ON = -2  # no cell; the next op of the thread is local, of equal kind, waits only for this
# among the collectives, sends or recvs of its family; iteration; cell to which its end is written
# (-1 for none, or `GOES_ON`); index of its first wait (the next op's first wait ends the range);
# number of its pair of thread and query.
WHAT, KIN, QUESTION, OWN, CALL, STEP, CELL, WAITS, PAIR, COLUMNS = range(10)
GOES_ON = -2  # no cell; the next op of the thread is local, of equal kind, and waits for it alone


class ThreadQuestions(NamedTuple):
    """Pairs of a thread and a timing query: number and kind of the ops that use it."""

    thread: Numbers
    question: Numbers
    op_count: Numbers
    kind: NDArray[np.uint8]


@dataclass(frozen=True)
class ProgramThreads:
    """Program of one rank, divided into threads.

    Parameters
    ----------
    op : (n + 1, 9) int32 table of ops, thread after thread; the last row is an end mark
    begin : (threads + 1,) index of the first op of each thread
    wait : (w,) int32 cells that ops wait for, op after op
    cells : number of cells
    pairs : timing queries of each thread

    Examples
    --------
    >>> from ...facts.ops import Ops
    >>> from ...facts.spmd.spmd_graph import RankProgram
    >>> after = Csr.of([[1, 2], [], []])
    >>> fork = RankProgram(Ops.of(rank=[0] * 3), after, np.full(3, -1, np.int16))
    >>> threads = ProgramThreads.of(fork, np.zeros(3, np.int64))
    >>> threads.begin.tolist(), threads.cells, threads.wait.tolist()
    ([0, 2, 3], 1, [0])
    >>> threads.pairs.op_count.tolist()
    [2, 1]
    """

    op: NDArray[np.int32]
    begin: Numbers
    wait: NDArray[np.int32]
    cells: int
    pairs: ThreadQuestions

    @classmethod
    def of(cls, program: RankProgram, question: Numbers) -> ProgramThreads:
        """Divide a program into threads; ``question`` is the index of each op's timing query."""
        n, after = len(program), program.successors
        if program.is_chain:
            thread = np.zeros(n, np.int64)
        else:
            thread = _cover_by_threads(after.indptr, after.values, program.ops.stream)
        row = np.argsort(thread, kind="stable")
        crosses = thread[after.owner] != thread[after.values]
        source, waiting = after.owner[crosses], after.values[crosses]
        told, cell = np.unique(source, return_inverse=True)
        waits = Csr.from_pairs(waiting, cell.ravel(), n).take(row)
        asked = int(question.max(initial=0)) + 1
        pair, first, which, count = np.unique(
            thread * asked + question, return_index=True, return_inverse=True, return_counts=True
        )
        op = np.zeros((n + 1, COLUMNS), np.int32)
        op[:n, WHAT] = kind_codes(program.ops.kind)[row]
        op[:n, KIN] = np.maximum(program.family, 0)[row]
        op[:n, QUESTION] = question[row]
        op[:n, OWN] = (np.cumsum(program.non_collective) - 1)[row]
        op[:n, CALL] = _numbers_in_family(program)[row]
        op[:n, STEP] = program.ops.period[row]
        cell_of = np.full(n, -1)
        cell_of[told] = np.arange(len(told))
        op[:n, CELL] = cell_of[row]
        op[:, WAITS] = waits.indptr
        kind, step, lane = program.ops.kind[row], op[:n, STEP], thread[row]
        on = (op[: n - 1, WHAT] == LOCAL) & (op[: n - 1, CELL] < 0) & (waits.counts[1:] == 0)
        for column in (kind, step, lane):
            on &= column[1:] == column[:-1]
        op[np.flatnonzero(on), CELL] = GOES_ON
        op[:n, PAIR] = which.ravel()[row]
        threads = int(thread.max(initial=-1)) + 1
        begin = np.searchsorted(thread[row], np.arange(threads + 1))
        pairs = ThreadQuestions(pair // asked, pair % asked, count, program.ops.kind[first])
        return cls(op, begin, waits.values.astype(np.int32), len(told), pairs)


def _numbers_in_family(program: RankProgram) -> Numbers:
    """(n,) index of each collective, send or recv among those of its family; 0 for other ops."""
    found = np.zeros(len(program), np.int64)
    for kind in (Kind.COLLECTIVE, Kind.SEND, Kind.RECV):
        for family in range(int(program.family.max(initial=-1)) + 1):
            rows = np.flatnonzero((program.ops.kind == kind) & (program.family == family))
            found[rows] = np.arange(len(rows))
    return found


@jit
def _cover_by_threads(indptr: Any, after: Any, stream: Any) -> Any:
    """Thread of each op; a thread continues with an op of the same stream if possible."""
    n = len(stream)
    thread, followed = np.full(n, -1, np.int64), np.zeros(n, np.bool_)
    used = 0
    for i in range(n):
        if thread[i] < 0:
            thread[i] = used
            used += 1
        best: Any = -1
        same = False
        for e in range(indptr[i], indptr[i + 1]):
            v = np.int64(after[e])
            like = stream[v] == stream[i]
            if followed[v] or (same and not like):
                continue
            if best < 0 or (like and not same) or v < best:
                best, same = v, like
        if best >= 0:
            followed[best] = True
            thread[best] = thread[i]
    return thread
