"""Workload W-DAG(ranks, ops per rank), and a lean SimPy program of the same graph.

Every rank computes in periods of nine ops and takes part in one collective per period, on a
separate stream: with its eight neighbours in even periods (tensor parallelism), with every eighth
rank in odd ones (data parallelism). The last op of a period waits for the collective of the period
before, so communication overlaps. Durations are whole ticks, so both programs can be compared to
the tick.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import simpy
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.flat_graph import FlatGraph, Participants
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops

COMPUTE, NEIGHBOURS = 9, 8  # ops of a rank and period; members of a tensor-parallel group
COLLECTIVE = 5_000_000  # ticks


@dataclass(frozen=True)
class Wdag:
    """Definition of the W-DAG workload: the ops and their numbering."""

    ranks: int
    periods: int

    @cached_property
    def groups(self) -> np.ndarray:
        """(periods,) number of collectives in each period."""
        even = np.arange(self.periods) % 2 == 0
        return np.where(even, self.ranks // NEIGHBOURS, NEIGHBOURS)

    @property
    def computes(self) -> int:
        return self.ranks * self.periods * COMPUTE

    @cached_property
    def first_of_period(self) -> np.ndarray:
        """(periods + 1,) row of the first collective of each period."""
        return self.computes + np.concatenate([[0], np.cumsum(self.groups)])

    def __len__(self) -> int:
        return int(self.first_of_period[-1])

    def compute(self, rank, period, j):
        """Row of compute op ``j`` of a rank and period."""
        return (rank * self.periods + period) * COMPUTE + j

    def group(self, rank, period):
        """Number of a rank's group in a period, and the rank's index in it."""
        even = period % 2 == 0
        return (
            np.where(even, rank // NEIGHBOURS, rank % NEIGHBOURS),
            np.where(even, rank % NEIGHBOURS, rank // NEIGHBOURS),
        )

    @cached_property
    def ticks(self) -> np.ndarray:
        """(n,) duration of every op: exponential with 5 % jitter, so that no two are equal."""
        rng = np.random.default_rng(7)
        base = np.tile(rng.exponential(1e6, self.periods * COMPUTE), self.ranks)
        made = base * (1 + 0.05 * rng.standard_normal(self.computes))
        compute = np.maximum(made, 1000).astype(np.int64)
        return np.concatenate([compute, np.full(len(self) - self.computes, COLLECTIVE)])

    def graph(self) -> Graph:
        """The workload as a foretrace graph, with all dependencies explicit, program order too."""
        rank, period = (
            a.ravel()
            for a in np.meshgrid(np.arange(self.ranks), np.arange(self.periods), indexing="ij")
        )
        group, position = self.group(rank, period)
        collective = self.first_of_period[period] + group
        n = len(self)
        further_of = np.repeat(
            np.where(np.arange(self.periods) % 2 == 0, 7, self.ranks // 8 - 1), self.groups
        )
        before = np.concatenate([[0], np.cumsum(further_of)])[collective - self.computes]
        place = np.where(position == 0, collective, n + before + position - 1)
        op, waits = [], []

        def edge(a, b):
            op.append(a)
            waits.append(b)

        for j in range(COMPUTE - 1):
            edge(self.compute(rank, period, j), self.compute(rank, period, j + 1))
        edge(self.compute(rank, period, COMPUTE - 2), place)
        later = period > 0
        r, p = rank[later], period[later]
        edge(self.compute(r, p - 1, COMPUTE - 1), self.compute(r, p, 0))
        previous = self.first_of_period[p - 1] + self.group(r, p - 1)[0]
        edge(previous, self.compute(r, p, COMPUTE - 1))
        edge(previous, place[later])
        first, other = position == 0, position > 0
        order = np.argsort(place[other])
        lead = np.empty(n - self.computes, np.int32)
        lead[collective[first] - self.computes] = rank[first]
        ops = Ops.of(
            kind=np.repeat([Kind.COMPUTE, Kind.COLLECTIVE], [self.computes, n - self.computes]),
            rank=np.concatenate([np.repeat(np.arange(self.ranks), self.periods * COMPUTE), lead]),
            stream=np.repeat([0, 1], [self.computes, n - self.computes]),
            duration=self.ticks * 1e-12,
        )
        further = Participants(
            collective[other][order].astype(np.int32),
            rank[other][order].astype(np.int32),
            np.ones(int(other.sum()), np.int32),
        )
        successors = Csr.from_pairs(np.concatenate(op), np.concatenate(waits), n)
        block = FlatGraph(ops, successors, further, np.zeros(n), np.full(n, -1, np.int32))
        streams = {
            (r, s): k for r in range(self.ranks) for s, k in ((0, "compute"), (1, "network"))
        }
        return Graph(f"W-DAG({self.ranks}, {self.periods * 10})", (block,), streams=streams)


class Peer:
    """The same workload in plain SimPy, written for speed.

    One process per stream, one timeout per op, events only where streams meet, and no resources:
    the order of a stream is its program order.
    """

    def __init__(self, dag: Wdag):
        self.dag, self.ticks = dag, dag.ticks.tolist()
        self.env = simpy.Environment()
        size = [NEIGHBOURS if p % 2 == 0 else dag.ranks // NEIGHBOURS for p in range(dag.periods)]
        self.missing = [[s] * g for s, g in zip(size, dag.groups.tolist(), strict=True)]
        self.done = [[self.env.event() for _ in range(g)] for g in dag.groups.tolist()]
        self.arrived = [[self.env.event() for _ in range(dag.periods)] for _ in range(dag.ranks)]

    def run(self) -> int:
        """Run the workload; returns the tick of the last end."""
        for rank in range(self.dag.ranks):
            self.env.process(self.compute(rank))
            self.env.process(self.communicate(rank))
        self.env.run()
        return self.env.now

    def group_of(self, rank: int, period: int) -> int:
        return rank % NEIGHBOURS if period % 2 else rank // NEIGHBOURS

    def compute(self, rank: int) -> Generator:
        timeout, row = self.env.timeout, rank * self.dag.periods * COMPUTE
        for period in range(self.dag.periods):
            for t in self.ticks[row : row + COMPUTE - 1]:
                yield timeout(t)
            self.arrived[rank][period].succeed()
            if period:
                collective = self.done[period - 1][self.group_of(rank, period - 1)]
                if not collective.processed:
                    yield collective
            yield timeout(self.ticks[row + COMPUTE - 1])
            row += COMPUTE

    def communicate(self, rank: int) -> Generator:
        for period, arrived in enumerate(self.arrived[rank]):
            if not arrived.processed:
                yield arrived
            group = self.group_of(rank, period)
            self.missing[period][group] -= 1
            if not self.missing[period][group]:
                self.env.process(self.collective(period, group))
            yield self.done[period][group]

    def collective(self, period: int, group: int) -> Generator:
        yield self.env.timeout(self.ticks[self.dag.first_of_period[period] + group])
        self.done[period][group].succeed()
