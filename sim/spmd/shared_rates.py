"""Flows of an SPMD graph: one for each thread of a rank and each question about shared rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.program_threads import ProgramThreads
from ..engine_api import ONE, ComponentTable, Flows
from ..ops import Kind
from .rank_classes import RankClasses

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class TemplateFlows:
    """Threads of all ranks with the flows of their ops.

    A thread has one op under way, so a flow serves all of its ops that ask the same: it is as often
    in flight as they are.

    Parameters
    ----------
    threads : of each program
    of : flow of each pair of a thread and a question, one rank after the other; -1 for none
    flows : Flows
    count : (flows,) how often each is in flight
    kind : (flows,) of its ops
    thread : (flows,) number of its thread among those of all ranks
    total : number of threads
    """

    threads: tuple[ProgramThreads, ...]
    of: NDArray[np.int32]
    flows: Flows
    count: Numbers
    kind: NDArray[np.uint8]
    thread: Numbers
    total: int

    @classmethod
    def of_classes(cls, classes: RankClasses) -> TemplateFlows:
        """Flows of classes of ranks."""
        template = classes.template
        once = {id(p): p for p in template.programs}
        made = {key: ProgramThreads.of(p, p.encoded.question) for key, p in once.items()}
        threads = tuple(made[id(p)] for p in template.programs)
        mine = [threads[p] for p in template.program.tolist()]
        asked = [row[t.pairs.question] for row, t in zip(classes.flow, mine, strict=True)]
        every = np.concatenate([np.empty(0, np.int32), *asked])
        there = every >= 0
        counts = [len(t.begin) - 1 for t in mine]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        none: list[Numbers] = [np.empty(0, np.int64)]
        thread = np.concatenate(
            none + [t.pairs.thread + at for t, at in zip(mine, starts.tolist(), strict=False)]
        )
        count = np.concatenate(none + [t.pairs.asks for t in mine])
        kind = np.concatenate([np.empty(0, np.uint8), *(t.pairs.kind for t in mine)])
        return cls(
            threads,
            np.where(there, np.cumsum(there) - 1, -1).astype(np.int32),
            classes.flows.take(every[there]),
            count[there],
            kind[there],
            thread[there],
            int(starts[-1]),
        )

    def own_ends(self) -> Numbers:
        """(threads + 1,) where the ends of each thread's flows lie, collectives left out."""
        own = self.kind != Kind.COLLECTIVE
        counts = np.zeros(self.total, np.int64)
        np.add.at(counts, self.thread[own], self.count[own])
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def moved(self, parts: ComponentTable, per_second: int) -> NDArray[np.float64]:
        """(components, kinds) s of work at the full rate, as typical and not as drawn."""
        flows, found = self.flows, np.zeros((len(parts), len(Kind)))
        row = np.repeat(np.arange(len(flows)), np.diff(flows.indptr))
        work = flows.work_hi * 2.0**64 + flows.work_lo
        full = np.where(parts.rate > 0, parts.rate, np.inf)[flows.component]
        took = (work * self.count / per_second)[row] * (flows.weight / ONE) / full
        np.add.at(found, (flows.component, self.kind[row]), took)
        return found
