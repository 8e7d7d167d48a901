"""Flows of an SPMD graph: one for each thread of a rank and each timing query that shares rates."""

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
    """Threads of all ranks of an SPMD graph, with the flows of their ops.

    A thread runs one op at a time. So one flow serves all its ops with the same timing query, and
    is in flight once for each of them.

    Parameters
    ----------
    threads : threads of each program
    of : flow of each pair of a thread and a query, rank after rank; -1 for none
    flows : usage and work of each flow
    count : (flows,) number of ops that use each flow
    kind : (flows,) kind of the ops that use each flow
    rank : (flows,) rank of each flow; for a collective, its lead rank
    pair : (flows,) index of the thread and query pair within its rank
    thread : (flows,) index of the thread among the threads of all ranks
    total : number of threads of all ranks
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
        """Collect the flows of all ranks.

        Parameters
        ----------
        flow : for each rank, (q,) index in ``flows`` of each query of its program; -1 for none
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
        """Collect the flows of all pairs of a thread and a timing query.

        Parameters
        ----------
        flow : (pairs,) index in ``flows`` of each pair, rank after rank; -1 for none
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
        """Flows of a folded graph, with one rank for each class of ranks.

        Parameters
        ----------
        colour : (ranks,) rank of the folded graph that represents each rank
        first : (classes,) one flow of each class of flows
        flows : flow of each class
        """
        asking = [len(self.threads[p].pairs.thread) for p in quotient.program.tolist()]
        begins = np.concatenate([[0], np.cumsum(asking)])
        flow = np.full(int(begins[-1]), -1, np.int64)
        flow[begins[colour[self.rank[first]]] + self.pair[first]] = np.arange(len(first))
        return TemplateFlows.of_pairs(quotient, self.threads, flow, flows)

    def own_flow_offsets(self) -> Numbers:
        """(threads + 1,) offset of each thread's flow ends, without collectives."""
        own = self.kind != Kind.COLLECTIVE
        counts = np.zeros(self.total, np.int64)
        np.add.at(counts, self.thread[own], self.count[own])
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def seconds_at_full_rate(self, parts: ComponentTable, per_second: int) -> NDArray[np.float64]:
        """Work of all flows as seconds at the full rate of each component, (components, kinds).

        Typical work is used, without random factors.
        """
        flows, found = self.flows, np.zeros((len(parts), len(Kind)))
        row = np.repeat(np.arange(len(flows)), np.diff(flows.indptr))
        work = flows.work_hi * 2.0**64 + flows.work_lo
        full = np.where(parts.rate > 0, parts.rate, np.inf)[flows.component]
        took = (work * self.count / per_second)[row] * (flows.weight / ONE) / full
        np.add.at(found, (flows.component, self.kind[row]), took)
        return found


_ROWS, _NUMBERS = np.empty(0, np.int32), np.empty(0, np.int64)
