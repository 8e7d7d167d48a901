"""Threads, timings and communication partners of all SPMD ranks, as arrays for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...facts.spmd.spmd_graph import SpmdGraph
from .program_threads import COLUMNS, WAITS, ProgramThreads
from .rendezvous import Rendezvous

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ThreadPlan:
    """Programs of an SPMD graph as threads with timings, as arrays for kernels.

    Parameters
    ----------
    op, wait : table of the ops of all threads, and cells that ops wait for, as in
        :class:`ProgramThreads`
    answer : (t, 3) for each timing query: duration in ticks; one number with the index of its
        random distribution + 1 (0 for none) in the low 8 bits and the tally column in the bits
        above; and the number of the timing's source
    rank : (threads,) rank of each thread
    first, end : (threads,) index of each thread's first op, and of the op after its last
    answer_at : (ranks,) for each rank, index in ``answer`` of the first timing of its rank class
    pair_at : (ranks,) index in ``flow_of`` of a rank's first pair
    flow_of : flow of each pair of a thread and a timing query, -1 for none
    cell_at : (ranks + 1,) index among the stored end ticks of a rank's first cell
    """

    op: NDArray[np.int32]
    wait: NDArray[np.int32]
    answer: Numbers
    rank: NDArray[np.int32]
    first: Numbers
    end: Numbers
    answer_at: Numbers
    pair_at: Numbers
    flow_of: NDArray[np.int32]
    cell_at: Numbers

    @classmethod
    def of(
        cls,
        template: SpmdGraph,
        threads: Sequence[ProgramThreads],
        answers: Sequence[Numbers],
        flow_of: NDArray[np.int32],
        notes: int,
    ) -> ThreadPlan:
        """Combine the threads of all programs with their timings and flows.

        Parameters
        ----------
        threads : threads of each program; equal programs share one object
        answers : timings of the queries of each program, with the columns of ``answer``
        flow_of : flow of each pair of a thread and a query, rank after rank
        notes : number of end ticks of collectives and messages, which are stored before those of
            cells
        """
        once = {id(t): t for t in threads}
        at = dict(zip(once, _starts([len(t.op) for t in once.values()]), strict=True))
        ops, waited = [], 0
        for t in once.values():
            op = t.op.copy()
            op[:, WAITS] += waited
            waited += len(t.wait)
            ops.append(op)
        mine = [threads[p] for p in template.program.tolist()]
        counts = [len(t.begin) - 1 for t in mine]
        begins = [at[id(t)] + t.begin for t in mine]
        cells = np.cumsum([notes, *(t.cells for t in mine)])
        none: list[Numbers] = [np.empty(0, np.int64)]
        return cls(
            np.concatenate([np.empty((0, COLUMNS), np.int32), *ops]),
            np.concatenate([np.empty(0, np.int32), *(t.wait for t in once.values())]),
            np.ascontiguousarray(np.concatenate(answers)),
            np.repeat(np.arange(template.ranks), counts).astype(np.int32),
            np.concatenate(none + [b[:-1] for b in begins]),
            np.concatenate(none + [b[1:] for b in begins]),
            np.array(_starts([len(a) for a in answers]), np.int64)[template.program],
            np.array(_starts([len(t.pairs.thread) for t in mine]), np.int64),
            flow_of,
            cells,
        )

    @property
    def programs(self) -> Arrays:
        """Arrays of ops and their timings, in the order that kernels expect."""
        return self.op, self.wait, self.answer, self.flow_of

    @property
    def owners(self) -> Arrays:
        """Arrays of threads and ranks, in the order that kernels expect."""
        return self.rank, self.first, self.end, self.answer_at, self.pair_at, self.cell_at


def _starts(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


@dataclass(frozen=True)
class PartnerTables:
    """Communication partners of ranks as arrays for kernels: groups and mailboxes of an SPMD graph.

    End ticks (notes) are numbered here: collectives first, then messages.
    """

    groups: Arrays
    messages: Arrays
    collectives: int
    notes: int

    @classmethod
    def of(cls, template: SpmdGraph) -> PartnerTables:
        """Build the partner tables of an SPMD graph."""
        rendezvous = Rendezvous.of(template)
        shared = int(template.bases[template.ranks])
        joint = len(template) - shared
        return cls(
            (
                rendezvous.group,
                rendezvous.member_at,
                rendezvous.member,
                rendezvous.lead,
                rendezvous.row - shared,
            ),
            (rendezvous.peer, rendezvous.mailbox_at + joint),
            joint,
            joint + int(rendezvous.mailbox_at[-1]),
        )
