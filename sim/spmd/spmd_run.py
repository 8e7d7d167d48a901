"""Run of an SPMD graph without expanding it: ops are timed and run per class of ranks.

This is exact if no op waits for a slot, holds an amount of a capacity or is timed during the run,
and if no process observes the run. All other graphs are expanded, and the log says why. Ops that
share rates are flows of the max-min medium and begin in order of time
(``core/thread_executor.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.programs.program_executor import ProgramTimes, TimedPrograms, run_programs
from ..core.programs.program_threads import STEP
from ..core.programs.rendezvous import Rendezvous
from ..core.programs.replica_draws import ReplicaDraws
from ..core.programs.running_breakdown import RunningBreakdown
from ..core.programs.thread_breakdown import breakdown_of_threads
from ..core.programs.thread_executor import ThreadTimes, run_threads
from ..core.programs.thread_plan import PartnerTables, ThreadPlan
from ..core.programs.time_breakdown import breakdown_of_ranks
from ..engine_api.interface import NEVER, EngineGraph
from ..engine_api.lowering import lower
from ..facts.backend import Spread, Timing
from ..facts.flat_graph import FlatGraph
from ..facts.graph import Graph
from ..facts.ops import Kind
from ..facts.spmd.expansion import Expansion
from ..facts.spmd.spmd_graph import SpmdGraph
from ..record.aggregates import BOXES, EXPOSED, MOST_OPS, RunAggregates, add_ticks
from ..record.binding import OpTimings
from ..record.bound_system import BoundSystem
from ..units import seconds, ticks_per_second
from .bottlenecks import flows_over_bottlenecks
from .query import NotUniform
from .rank_classes import LED, SEVERAL, WHAT, RankClasses, classify
from .rank_quotient import RankQuotient, fold_identical_ranks, fold_ranks_that_share

Numbers = NDArray[np.int64]
KIND = np.array([*range(8), *[int(Kind.COLLECTIVE)] * 8, *[int(Kind.SEND)] * 8,
                 *[int(Kind.RECV)] * 8])  # fmt: skip
HOLDER = np.array([0, 1, 2, 3, 3, 3, 3, 3, *[0, 1, 2, 3, 3, 3, 3, 3] * 3])  # role, by column


@dataclass(frozen=True)
class SpmdRun:
    """SPMD graph with its op timings, ready to run.

    Parameters
    ----------
    graph : the graph, placed on a system
    classes : classes of all its ranks
    folded : graph with one rank per class of identical ranks; None if durations are random or all
        ranks differ
    """

    simulation: BoundSystem
    graph: Graph
    classes: RankClasses
    folded: RankQuotient | None
    replica: int | None

    @classmethod
    def of(
        cls, simulation: BoundSystem, graph: Graph, template: SpmdGraph, replica: int | None
    ) -> SpmdRun:
        """Ask backends to time a graph's ops, and fold identical ranks.

        Raises
        ------
        NotUniform
            The graph must be expanded to single ops.
        GraphError, BackendError
            The graph cannot be scheduled, or an op cannot be timed.
        """
        classes = classify(simulation, graph, template)
        if replica is not None and classes.spreads:
            folded = None
        elif len(classes.flows):
            folded = fold_ranks_that_share(classes.template, classes.rank_flows, simulation.parts)
        else:
            folded = fold_identical_ranks(classes.template)
        return cls(simulation, graph, classes, folded, replica)

    @property
    def template(self) -> SpmdGraph:
        """SPMD graph that is executed: all ranks, or one rank of each class."""
        return self.classes.template if self.folded is None else self.folded.template

    def aggregates(self, keep: str) -> RunAggregates:
        """Run the graph and return its aggregates, at the detail level ``keep``.

        Raises
        ------
        SimulationError
            Ranks wait for each other, or a time is beyond the range of ticks.
        """
        if self.shares_rates:
            return self._thread_aggregates(keep)
        template, draws = self.template, self._draws()
        answered = TimedPrograms.from_answers(template, self.classes.answers)
        meet = Rendezvous.of(template)
        self._refuse_overflow()
        if not len(answered.step):
            breakdown = RunningBreakdown.of(template.ranks)
            run_times = run_programs(template, answered, meet, draws, breakdown)
            kept = self._sum_aggregates(run_times)
            boxes = breakdown.boxes(kept.last)
            if boxes is not None:
                return kept.with_time_breakdown(self._spread_to_ranks(boxes), keep)
        run_times = run_programs(template, answered, meet, draws, keep_collective_times=True)
        kept = self._sum_aggregates(run_times)
        boxes = breakdown_of_ranks(
            template, answered, meet, draws, run_times, kept.breakdown_bounds
        )
        return kept.with_time_breakdown(self._spread_to_ranks(boxes), keep)

    @property
    def shares_rates(self) -> bool:
        """True if any op of the graph shares a rate."""
        return len(self.classes.flows) > 0

    def _draws(self) -> ReplicaDraws:
        """Random factors of the durations in this replica."""
        if self.folded is not None or self.replica is None:
            return ReplicaDraws.none()
        seed = self.simulation.seed
        return ReplicaDraws.of(self.classes.spreads, self.graph.name, seed, self.replica)

    def _thread_aggregates(self, keep: str) -> RunAggregates:
        """Aggregates of a run whose ops share rates."""
        template, classes, parts = self.template, self.classes, self.simulation.parts
        self._refuse_overflow()
        folded = None if self.folded is None else self.folded.flows
        made = folded or classes.rank_flows
        partners, draws = PartnerTables.of(template), self._draws()
        answers = [
            np.column_stack([a, s]) for a, s in zip(classes.answers, classes.source_of, strict=True)
        ]
        plan = ThreadPlan.of(template, made.threads, answers, made.of, partners.notes)
        if plan.op[:, STEP].min(initial=0) < 0:
            raise NotUniform("some of its ops belong to no period")
        simple = not plan.op[:, STEP].any() and all(p.is_chain for p in template.programs)
        own_at = np.zeros(made.total + 1, np.int64) if simple else made.own_flow_offsets()
        flows = flows_over_bottlenecks(made.flows, made.thread, parts)
        run_times = run_threads(
            template, plan, partners, parts, flows, draws, len(classes.sources), own_at
        )
        most = max((len(t.begin) for t in made.threads), default=1)
        if float(run_times.end.max(initial=0)) * most >= 2.0**62:
            raise NotUniform("the durations of its ops may add up to more than the range of ticks")
        kept = replace(
            self._sum_aggregates(run_times),
            work_seconds=classes.rank_flows.seconds_at_full_rate(
                parts, ticks_per_second(self.simulation.tick)
            ),
            sources=self._ticks_of_threads_by_source(run_times, partners),
        )
        if simple:
            boxes = _boxes_of_chains(run_times, kept.edges)
        else:
            boxes = breakdown_of_threads(
                template, plan, partners, draws, run_times, kept.breakdown_bounds
            )
        return kept.with_time_breakdown(self._spread_to_ranks(boxes), keep)

    def _ticks_of_threads_by_source(
        self, run_times: ThreadTimes, partners: PartnerTables
    ) -> dict[str, int]:
        """Total duration of ops by source of their timing, in ticks; a collective counts once."""
        whole = self.classes.template
        colour = self._spread_to_ranks(np.arange(self.template.ranks))
        group = [
            of[colour[who[who >= 0]]]
            for of, who in zip(partners.groups[0], whole.group_leaders, strict=True)
        ]
        found: NDArray[Any] = np.zeros(len(self.classes.sources), np.int64)
        for ticks in (run_times.sources[colour], *(run_times.collective_ticks[g] for g in group)):
            at = np.broadcast_to(np.arange(len(found)), ticks.shape).ravel()
            found = add_ticks(found, (at,), ticks.ravel())
        return dict(zip(self.classes.sources, found.tolist(), strict=True))

    def _refuse_overflow(self) -> None:
        """Raise NotUniform if summed or drawn durations or work could exceed their range."""
        most = 1.0
        if self.replica is not None:
            most = max((_highest_factor(s) for s in self.classes.spreads), default=1.0)
        if self.classes.flows.work_hi.max(initial=0) * most >= 2.0**62:
            raise NotUniform("the drawn work of an op may exceed the integer range")
        for program, table in zip(self.template.programs, self.classes.answers, strict=True):
            took = table[program.encoded.question, 0].astype(np.float64) * most
            longest = took.max(initial=0.0) if program.is_chain else took.sum()
            if longest >= 2.0**62:
                raise NotUniform(
                    "the durations of its ops may add up to more than the range of ticks"
                )

    def _spread_to_ranks(self, of_classes: Numbers) -> Numbers:
        """Expand a table with one column per class to a table with one column per rank."""
        return of_classes if self.folded is None else of_classes[..., self.folded.colour]

    def _sum_aggregates(self, run_times: ProgramTimes | ThreadTimes) -> RunAggregates:
        """Aggregates by component, kind and source, from the times of all ranks."""
        tally = self._spread_to_ranks(run_times.tally.T)
        parts = self.simulation.parts
        busy: NDArray[Any] = np.zeros((len(parts), len(Kind)), np.int64)
        cells = [np.empty((3, 0), np.int64)]
        for c in np.flatnonzero(run_times.tally.any(axis=0)).tolist():
            who = self.classes.component[HOLDER[c]]
            there = (who >= 0) & (parts.slots[who] >= 0)
            cells.append(np.stack([who, np.full(len(who), KIND[c]), tally[c]])[:, there])
        who, kind, ticks = np.concatenate(cells, axis=1)
        busy = add_ticks(busy, (who, kind), ticks)
        steps = np.flatnonzero((run_times.end != NEVER).any(axis=1))
        return RunAggregates(
            len(self.graph),
            0,
            steps,
            self._spread_to_ranks(run_times.start[steps]),
            self._spread_to_ranks(run_times.end[steps]),
            busy,
            np.zeros(busy.shape),
            self._ticks_by_source(run_times, tally) if isinstance(run_times, ProgramTimes) else {},
        )

    def _ticks_by_source(self, run_times: ProgramTimes, tally: Numbers) -> dict[str, int]:
        """Ticks of ops by source of their timing; a collective counts once, at its lead."""
        classes = self.classes
        found: NDArray[Any] = np.zeros(len(classes.sources), np.int64)
        led = tally[LED] if self.folded is None else self._collective_ticks_at_leads()
        for c in np.flatnonzero(run_times.tally.any(axis=0)).tolist():
            if c // 8 == WHAT[Kind.COLLECTIVE] and c != LED:
                continue
            source = classes.source[c][classes.template.program]
            there = source >= 0
            found = add_ticks(found, (source[there],), (led if c == LED else tally[c])[there])
            for k in np.flatnonzero(classes.source[c] == SEVERAL).tolist():
                found = self._add_shares(found, c, k, tally[c][classes.template.program == k])
        return dict(zip(classes.sources, found.tolist(), strict=True))

    def _add_shares(self, found: NDArray[Any], c: int, k: int, ticks: Numbers) -> NDArray[Any]:
        """Distribute the ticks of a class's tally column to the several sources of its timings.

        Each source gets its share of the typical ticks; without random durations this is exact.

        Parameters
        ----------
        c, k : index of the tally column and of the class
        ticks : ticks of each rank of the class in that column
        """
        table, program = self.classes.answers[k], self.classes.template.programs[k]
        mine = (table[:, 1] >> 8 == c) & (self.classes.source_of[k] >= 0)
        count = np.bincount(program.encoded.question, minlength=len(table))
        typical = np.zeros(len(self.classes.sources), np.int64)
        np.add.at(typical, self.classes.source_of[k][mine], (table[:, 0] * count)[mine])
        if not typical.any():
            return found
        drawn, left = ticks / int(typical.sum()), ticks.copy()
        *others, last = np.flatnonzero(typical).tolist()
        for source in others:
            share = np.rint(typical[source] * drawn).astype(np.int64)
            found = add_ticks(found, (np.full(len(share), source),), share)
            left -= share
        return add_ticks(found, (np.full(len(left), last),), left)

    def _collective_ticks_at_leads(self) -> Numbers:
        """(ranks,) ticks of collectives, each counted once, at the lead rank of its group."""
        template = self.classes.template
        ticks = np.zeros((len(template.programs), len(template.groups)), np.int64)
        for c, (program, table) in enumerate(
            zip(template.programs, self.classes.answers, strict=True)
        ):
            rows = np.flatnonzero(~program.non_collective)
            at = program.family[rows], table[program.encoded.question[rows], 0]
            np.add.at(ticks[c], *at)
        found = np.zeros(template.ranks, np.int64)
        for f, leads in enumerate(template.group_leaders):
            who = leads[leads >= 0]
            np.add.at(found, who, ticks[template.program[who], f])
        return found

    def reason_not_expanded(self) -> str:
        """Reason why one rank of each class cannot be expanded to op rows; "" if it can.

        If ops share rates, all ranks are expanded, because ops of different ranks slow each other.
        """
        if self.shares_rates:
            return f"it has {len(self.graph):,} ops" if len(self.graph) > MOST_OPS else ""
        if self.folded is None:
            return "every rank has its own random durations"
        if len(self.template) > MOST_OPS:
            return f"it still has {len(self.template):,} ops after folding"
        return ""

    def expand_representatives(self) -> tuple[Graph, OpTimings, EngineGraph]:
        """Expand one rank of each class to single ops, under its original rank number."""
        assert self.folded is not None  # noqa: S101  see reason_not_expanded
        made = Expansion(self.template)
        block = made.block()
        ticks, answers = self._answers_of(made, len(block))
        block = replace(block, slot=np.full(len(block) + len(block.places), -1, np.int32))
        simulation = self.simulation
        low = lower(
            self.graph.name, block, answers.timing, simulation.system, simulation.scale,
            simulation.tick,
        )  # fmt: skip
        block = _with_rank_numbers(block, self.folded.first)
        return replace(self.graph, blocks=(block,)), answers, replace(low, fixed=ticks)

    def ranks_represented(self) -> Numbers:
        """(ranks,) number of ranks that each expanded rank represents; 0 for the others."""
        assert self.folded is not None  # noqa: S101
        found = np.zeros(int(self.folded.first.max()) + 1, np.int64)
        found[self.folded.first] = np.bincount(self.folded.colour)
        return found

    def _answers_of(self, made: Expansion, n: int) -> tuple[Numbers, OpTimings]:
        """Ticks and timings of each op of the expanded graph."""
        classes, template = self.classes, self.template
        assert self.folded is not None  # noqa: S101
        ticks, component, source = np.zeros(n, np.int64), np.full(n, -1), np.full(n, -1)
        fabric = self.simulation.system.fabric
        network = self.simulation.system.number(fabric) if fabric else -1
        for r, rows in enumerate(made.rows):
            c = int(template.program[r])
            table = classes.answers[c][template.programs[c].encoded.question]
            column = table[:, 1] >> 8
            np.maximum.at(ticks, rows, table[:, 0])  # who does not lead a collective says 0
            own = classes.component[HOLDER[column], self.folded.first[r]]
            component[rows] = np.where(column >= WHAT[Kind.COLLECTIVE] * 8, network, own)
            joint = column // 8 == WHAT[Kind.COLLECTIVE]
            told = classes.source_of[c][template.programs[c].encoded.question]
            np.maximum.at(source, rows, np.where(joint, classes.source[LED, c], told))
        none = np.full(n, -1, np.int16)
        timing = Timing.of(seconds(ticks, self.simulation.tick))
        return ticks, OpTimings(
            timing, component.astype(np.int32), source.astype(np.int32), classes.sources, (),
            none, (),
        )  # fmt: skip


def _highest_factor(spread: Spread) -> float:
    """Highest random factor that a distribution can give."""
    each = (spread.step, spread.op, spread.start)
    return float(np.prod([max(factors.max(), 1.0) for factors in each if len(factors)]))


def _with_rank_numbers(block: FlatGraph, number: NDArray[np.int32]) -> FlatGraph:
    """Copy of a graph block with other rank numbers."""
    ops, places, peer = block.ops, block.places, block.peer
    return replace(
        block,
        ops=ops.replace(rank=number[ops.rank]),
        places=replace(places, rank=number[places.rank]),
        peer=np.where(peer >= 0, number[peer], -1).astype(np.int32),
    )


def _boxes_of_chains(run_times: ThreadTimes, edges: Numbers) -> Numbers:
    """Time breakdown, (7, 2, ranks), of ranks with one op at a time, in one iteration."""
    tally = run_times.tally.T
    boxes = np.zeros((len(BOXES), 2, tally.shape[1]), np.int64)
    boxes[0, 1], boxes[3, 1], boxes[5, 1] = tally[Kind.COMPUTE], tally[Kind.COPY], tally[Kind.HOST]
    boxes[EXPOSED, 1] = tally[8:].sum(axis=0) - tally[LED]
    boxes[4, 1] = run_times.waiting
    boxes[6, 1] = edges[-1] - edges[0] - boxes[:6, 1].sum(axis=0)
    return boxes
