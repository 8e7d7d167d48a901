"""Threads of all ranks of an SPMD graph, with answers and partners, in the form of kernels."""

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
    """Programs of an SPMD graph as threads with answers, in the form that kernels read.

    Parameters
    ----------
    op, wait : of all programs, see :class:`ProgramThreads`
    answer : (t, 3) ticks; number of the spread + 1, column of the tally << 8; source
    rank : (x,) of each thread
    first, end : (x,) its ops
    answer_at : (ranks,) where the answers of a rank's class begin
    pair_at : (ranks,) where a rank's flows begin in ``flow_of``
    flow_of : flow of each pair of a thread and a question, -1 for none
    cell_at : (ranks + 1,) note of a rank's first cell
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
        """Plan of a template.

        Parameters
        ----------
        threads : of each program; equal programs are one object
        answers : of each program, as ``answer``
        flow_of : of the pairs of one rank after the other
        notes : of collectives and messages, before the first cell
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
        """Ops and their answers, as kernels take them."""
        return self.op, self.wait, self.answer, self.flow_of

    @property
    def owners(self) -> Arrays:
        """Threads and ranks, as kernels take them."""
        return self.rank, self.first, self.end, self.answer_at, self.pair_at, self.cell_at


def _starts(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


@dataclass(frozen=True)
class Partners:
    """Groups and mailboxes of an SPMD graph, as kernels take them; notes are numbered here.

    Collectives have the first notes, messages those behind.
    """

    groups: Arrays
    messages: Arrays
    collectives: int
    notes: int

    @classmethod
    def of(cls, template: SpmdGraph) -> Partners:
        """Partners of an SPMD graph."""
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
