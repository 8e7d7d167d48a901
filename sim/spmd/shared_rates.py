"""Flows of an SPMD graph: one for each thread of a rank and each question about shared rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.programs.program_threads import ProgramThreads
from ..engine_api.interface import ONE, ComponentTable, Flows
from ..facts.ops import Kind
from ..facts.spmd.spmd_graph import SpmdGraph

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
    rank : (flows,) whose program asks; of a collective the lead
    pair : (flows,) of thread and question, which of those of its rank
    thread : (flows,) number of its thread among those of all ranks
    total : number of threads
    """

    threads: tuple[ProgramThreads, ...]
    of: NDArray[np.int32]
    flows: Flows
    count: Numbers
    kind: NDArray[np.uint8]
    rank: Numbers
    pair: Numbers
    thread: Numbers
    total: int

    @classmethod
    def of_ranks(
        cls, template: SpmdGraph, flow: Sequence[NDArray[np.int32]], flows: Flows
    ) -> TemplateFlows:
        """Flows of all ranks.

        Parameters
        ----------
        flow : of each rank, (q,) number in ``flows`` of what its program asks; -1 for none
        """
        once = {id(p): p for p in template.programs}
        made = {key: ProgramThreads.of(p, p.encoded.question) for key, p in once.items()}
        threads = tuple(made[id(p)] for p in template.programs)
        mine = [threads[p] for p in template.program.tolist()]
        asked = [row[t.pairs.question] for row, t in zip(flow, mine, strict=True)]
        return cls.of_pairs(template, threads, np.concatenate([_ROWS, *asked]), flows)

    @classmethod
    def of_pairs(
        cls,
        template: SpmdGraph,
        threads: tuple[ProgramThreads, ...],
        flow: NDArray[np.integer],
        flows: Flows,
    ) -> TemplateFlows:
        """Flows of pairs of a thread and a question.

        Parameters
        ----------
        flow : (pairs,) number in ``flows`` of each, one rank after the other; -1 for none
        """
        mine = [threads[p] for p in template.program.tolist()]
        there = flow >= 0
        asking, counts = [len(t.pairs.thread) for t in mine], [len(t.begin) - 1 for t in mine]
        rank = np.repeat(np.arange(template.ranks), asking)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        first = np.concatenate([[0], np.cumsum(asking)]).astype(np.int64)
        thread = np.concatenate([_NUMBERS, *(t.pairs.thread for t in mine)])
        count = np.concatenate([_NUMBERS, *(t.pairs.op_count for t in mine)])
        kind = np.concatenate([_NUMBERS.astype(np.uint8), *(t.pairs.kind for t in mine)])
        return cls(
            threads,
            np.where(there, np.cumsum(there) - 1, -1).astype(np.int32),
            flows.take(flow[there]),
            count[there],
            kind[there],
            rank[there],
            (np.arange(len(rank)) - first[rank])[there],
            (thread + starts[rank])[there],
            int(starts[-1]),
        )

    def of_representatives(
        self, quotient: SpmdGraph, colour: NDArray[np.integer], first: Numbers, flows: Flows
    ) -> TemplateFlows:
        """Flows of a quotient of the ranks.

        Parameters
        ----------
        colour : (ranks,) rank of the quotient that stands for each
        first : (classes,) a flow of each class of flows
        flows : of the classes
        """
        asking = [len(self.threads[p].pairs.thread) for p in quotient.program.tolist()]
        begins = np.concatenate([[0], np.cumsum(asking)])
        flow = np.full(int(begins[-1]), -1, np.int64)
        flow[begins[colour[self.rank[first]]] + self.pair[first]] = np.arange(len(first))
        return TemplateFlows.of_pairs(quotient, self.threads, flow, flows)

    def own_flow_offsets(self) -> Numbers:
        """(threads + 1,) where the ends of each thread's flows lie, collectives left out."""
        own = self.kind != Kind.COLLECTIVE
        counts = np.zeros(self.total, np.int64)
        np.add.at(counts, self.thread[own], self.count[own])
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def seconds_at_full_rate(self, parts: ComponentTable, per_second: int) -> NDArray[np.float64]:
        """(components, kinds) s of work at the full rate, as typical and not as drawn."""
        flows, found = self.flows, np.zeros((len(parts), len(Kind)))
        row = np.repeat(np.arange(len(flows)), np.diff(flows.indptr))
        work = flows.work_hi * 2.0**64 + flows.work_lo
        full = np.where(parts.rate > 0, parts.rate, np.inf)[flows.component]
        took = (work * self.count / per_second)[row] * (flows.weight / ONE) / full
        np.add.at(found, (flows.component, self.kind[row]), took)
        return found


_ROWS, _NUMBERS = np.empty(0, np.int32), np.empty(0, np.int64)
