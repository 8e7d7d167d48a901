"""Dependency graph of a trace: the ops that each recorded op waits for.

Dependencies follow from program order on threads and streams, launches, synchronisation, waits
between threads, and collectives matched across ranks. If an op began later than its dependencies
allow, a delay (usual launch time) or a gap (no explanation) is inserted before it. So the recorded
durations reproduce the recorded schedule. ``facts`` of the graph report the fraction of gaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import translate
from typing import NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ...sim.facts.csr import Csr
from ...sim.facts.flat_graph import FlatGraph, Participants
from ...sim.facts.graph import Graph, OpTexts
from ...sim.facts.ops import Kind, Ops
from ..column_table import Ints
from ..event_columns import ON_GPU, Event
from ..recorded_events import RecordedEvents
from .clock_offsets import ClockOffsets, clock_offsets
from .collective_match import MatchedCollective, match_collectives
from .cycle import refuse_cycles
from .events.rank_trace import RankTrace
from .events.steps import Steps, alternation_length, find_steps
from .events.stream_clock import refuse_unexplained_times
from .exchange_splits import UnevenAllToAll, uneven_all_to_all
from .gap_share import gap_share
from .missing_ranks import fill_missing_ranks
from .op_texts import flop_and_bytes, label_numbers, signature_numbers
from .ranks.rank_assembly import rank_graph
from .ranks.rank_graph import NEVER, RankGraph
from .trace_facts import TraceFacts, trace_facts
from .untimed import without_times

HOST_TIME = ("work", "wait", "poll", "unknown")
RECORDING = "recording"
"""Fact of a graph: what of its recording is lost, unread or guessed."""
POLICIES = ("refuse", "like_recorded", "recorded_waits")


def infer_graph(
    trace: RecordedEvents,
    *,
    missing_ranks: str = "refuse",
    serialise: bool = False,
    periods: Iterable[int] | None = None,
    communication: Iterable[str] = (),
    allow_lost: bool = False,
) -> Graph:
    """Infer the dependency graph of a trace; see :meth:`Trace.graph`."""
    facts = _accepted_facts(trace, allow_lost)
    graphs = _infer_rank_graphs(trace, missing_ranks, serialise, periods, communication)
    return join_ranks(trace, graphs, missing_ranks, facts)


def _accepted_facts(trace: RecordedEvents, allow_lost: bool) -> TraceFacts:
    """Facts on a recording; an error if it cannot be replayed because of them."""
    facts = trace_facts(trace)
    if told := facts.refusal(allow_lost):
        raise TraceError(told)
    return facts


class GraphWithOperators(NamedTuple):
    """Dependency graph, and the operator that each of its ops comes from.

    Parameters
    ----------
    operator : row of each op's operator in the trace, shape (n,). For a kernel it is the operator
        that launched it, otherwise the op's own event; -1 if there is none
    """

    graph: Graph
    operator: Ints


def graph_with_texts_of(
    trace: RecordedEvents,
    texts_from: RecordedEvents,
    *,
    missing_ranks: str = "refuse",
    serialise: bool = False,
    communication: Iterable[str] = (),
    allow_lost: bool = False,
) -> GraphWithOperators:
    """Graph of a trace, with op descriptions taken from another trace of the same events.

    Ops, dependencies and times are those of ``infer_graph(trace)``. Labels, signatures, flop and
    bytes follow from the names and operands that the events have in ``texts_from``.
    """
    facts = _accepted_facts(trace, allow_lost)
    graphs = [
        replace(g, events=g.events.with_texts_of(texts_from))
        for g in _infer_rank_graphs(trace, missing_ranks, serialise, None, communication)
    ]
    join = _rank_join(trace, graphs, missing_ranks, facts)
    return GraphWithOperators(join.graph(), join.operators())


def _infer_rank_graphs(
    trace: RecordedEvents,
    missing_ranks: str,
    serialise: bool,
    periods: Iterable[int] | None,
    communication: Iterable[str],
) -> list[RankGraph]:
    if missing_ranks not in POLICIES:
        raise ValueError(f"missing_ranks is {missing_ranks!r}; choose from {', '.join(POLICIES)}")
    wanted = None if periods is None else sorted(periods)
    traces = [RankTrace(trace, rank, tuple(communication)) for rank in trace.ranks]
    _refuse_unused_communication(traces, communication)
    return [_infer_rank_graph(one, wanted, serialise) for one in traces]


def join_ranks(
    trace: RecordedEvents, graphs: list[RankGraph], missing_ranks: str, facts: TraceFacts
) -> Graph:
    """Join the graphs of all recorded ranks into one graph.

    Raises
    ------
    TraceError
        Ranks have different steps, collectives that do not match, clocks that do not agree, or wait
        for each other in a cycle.
    """
    graph = _rank_join(trace, graphs, missing_ranks, facts).graph()
    if not len(graph):
        raise TraceError(
            f"{trace.processes[0].file or 'the trace'}: holds no operator and no GPU work of a "
            "category that is read; record a step with the activities CPU and CUDA"
        )
    return graph if trace.timed else without_times(graph)


def _rank_join(
    trace: RecordedEvents, graphs: list[RankGraph], missing_ranks: str, facts: TraceFacts
) -> _RankJoin:
    _refuse_different_steps(graphs)
    graphs = fill_missing_ranks(trace, graphs, missing_ranks)
    matches = match_collectives(graphs)
    return _RankJoin(trace, graphs, matches, clock_offsets(graphs, matches), facts.sentences())


def _refuse_unused_communication(traces: list[RankTrace], communication: Iterable[str]) -> None:
    for pattern in communication:
        fits = re.compile(translate(pattern)).match
        kernels = (t.name[t.kind == Event.KERNEL] for t in traces)
        if not any(fits(traces[0].trace.strings[n]) for k in kernels for n in np.unique(k)):
            raise TraceError(
                f"communication: no kernel of the trace fits '{pattern}'; correct the pattern, "
                "or leave it out"
            )


def _infer_rank_graph(events: RankTrace, wanted: list[int] | None, serialise: bool) -> RankGraph:
    place = events.process.file or f"rank {events.rank}"
    chosen = find_steps(events).select(wanted, place)
    if wanted and np.any(chosen.start[1:] != chosen.end[:-1]):
        raise TraceError(
            f"{place}: steps {wanted} are not consecutive; keep consecutive steps, such as 3, 4, 5"
        )
    refuse_unexplained_times(events, overlapping=serialise)
    inferred = rank_graph_for_run(events, chosen)
    if has_no_launch_links(inferred) and not serialise:
        raise TraceError(
            f"{place}: none of {inferred.facts['launched']} GPU ops can be joined to the call that "
            "launched it, so dependencies are unknown; record with CPU activities too, or "
            "allow the recorded order to be kept (serialise: true)"
        )
    return inferred


def rank_graph_for_run(events: RankTrace, steps: Steps) -> RankGraph:
    """Graph of one rank; in recorded order if no launch of its GPU work is known."""
    inferred = rank_graph(events, steps, serialise=False)
    return rank_graph(events, steps, serialise=True) if has_no_launch_links(inferred) else inferred


def has_no_launch_links(graph: RankGraph) -> bool:
    """True if a rank has GPU work but none of it can be joined to the call that launched it."""
    return 0 < graph.facts["launched"] == graph.facts["unlinked"]


def _refuse_different_steps(graphs: list[RankGraph]) -> None:
    first = graphs[0]
    for graph in graphs[1:]:
        if graph.steps.number != first.steps.number:
            common = sorted(set(graph.steps.number) & set(first.steps.number))
            raise TraceError(
                f"{graph.events.process.file}: has steps {_step_range_text(graph.steps)}, but "
                f"{first.events.process.file} has {_step_range_text(first.steps)}; "
                + (
                    f"keep those of both (iterations: {common})"
                    if common
                    else "record the same steps on each rank"
                )
            )


def _step_range_text(steps: Steps) -> str:
    return f"{steps.number[0]} to {steps.number[-1]}"


class _RankJoin:
    """Builder of one graph from the graphs of all ranks.

    Each collective becomes one op. All ranks share one clock and one table of texts.
    """

    def __init__(
        self,
        trace: RecordedEvents,
        graphs: list[RankGraph],
        matches: list[MatchedCollective],
        clock: ClockOffsets,
        recording: Sequence[str],
    ):
        self.recording = " ".join(recording)
        self.trace, self.graphs, self.matches, self.clock = trace, graphs, matches, clock
        counts = [len(g.kind) for g in graphs]
        self.base = np.concatenate([[0], np.cumsum(counts)])
        self.rank = np.repeat(np.arange(len(graphs)), counts)
        self.turn = alternation_length(graphs[0].events, graphs[0].steps)

    def _joined_column(self, name: str) -> Ints:
        """A column of all ranks, concatenated."""
        return np.concatenate([getattr(g, name) for g in self.graphs])

    def graph(self) -> Graph:
        start = self._aligned_column("start")
        end = self._aligned_column("end")
        duration = end - start
        self._set_collective_durations(start, end, duration)
        kept, row_of, place_of, places = self._merge_collectives()
        source = np.concatenate(
            [g.source + b for g, b in zip(self.graphs, self.base, strict=False)]
        )
        target = np.concatenate(
            [g.target + b for g, b in zip(self.graphs, self.base, strict=False)]
        )
        zero = min(
            int(g.steps.start[0]) + o for g, o in zip(self.graphs, self.clock.ticks, strict=True)
        )
        ops, texts = self._build_ops(kept, duration)
        if not self.clock.proven:
            op_of = np.concatenate([np.arange(len(kept)), places.op])
            refuse_cycles(self._graph_name(), ops, row_of[source], op_of[place_of[target]])
        release = self._release_times(zero)[kept] / self.trace.resolution
        block = FlatGraph(
            ops,
            _unique_dependencies(row_of[source], place_of[target], len(kept)),
            places,
            release,
            np.full(len(kept), -1, np.int32),
        )
        return Graph(
            self._graph_name(),
            (block,),
            texts.labels,
            self._stream_kinds(),
            self._inference_facts(start, end, source, target),
        )

    def operators(self) -> Ints:
        """Row of each op's operator in the trace, shape (n,); -1 if there is none."""
        kept, *_ = self._merge_collectives()
        return np.concatenate([_operator_rows(g) for g in self.graphs])[kept]

    def _aligned_column(self, name: str) -> Ints:
        """A column of ticks of all ranks, concatenated and shifted to a common clock."""
        shift = np.repeat(self.clock.ticks, [len(g.kind) for g in self.graphs])
        return self._joined_column(name) + shift

    def _set_collective_durations(self, start: Ints, end: Ints, duration: Ints) -> None:
        """Set the duration of each collective to the time from the arrival of its last member.

        On a GPU this is the shortest of the members' durations, because the other members also
        waited inside it. Threads of gloo may return late if they lose their core. There the
        collective lasts until its first member has returned, and the returns of the others take the
        rest.
        """
        returns = self._collective_return_rows()
        for m in self.matches:
            rows = m.member_rows(self.base)
            both = int(end[rows].min() - start[rows].max())
            late = [returns.get(int(r), -1) for r in rows]
            if both <= 0 or len(rows) == 1 or min(late) < 0:
                duration[rows] = duration[rows].min()
                continue
            duration[rows] = both
            duration[late] += end[rows] - end[rows].min()

    def _collective_return_rows(self) -> dict[int, int]:
        """Row of the return op of each collective on a library's thread, by collective's row."""
        returns: dict[int, int] = {}
        for g, base in zip(self.graphs, self.base.tolist(), strict=False):
            network = [
                c.work for c in g.collectives if g.events.is_gloo_collective[g.event[c.work]]
            ]
            at = np.flatnonzero(np.isin(g.source, network) & (g.kind[g.target] == Kind.DELAY))
            pairs = zip((g.source[at] + base).tolist(), (g.target[at] + base).tolist(), strict=True)
            returns |= dict(pairs)
        return returns

    def _merge_collectives(self) -> tuple[Ints, Ints, Ints, Participants]:
        """Merge the members of each matched collective into one op.

        Returns
        -------
        kept : rows that remain
        row_of, place_of : new row, and new participant index, of every old row
        places : participants of the merged collectives, without the first member of each
        """
        total = int(self.base[-1])
        first = np.arange(total)
        further = [m.member_rows(self.base) for m in self.matches if len(m.members) > 1]
        for rows in further:
            first[rows] = rows[0]
        kept = np.flatnonzero(first == np.arange(total))
        number = np.full(total, -1, np.int64)
        number[kept] = np.arange(len(kept))
        row_of = number[first]
        extra = np.concatenate(
            [np.empty(0, np.int64), *(r[1:] for r in sorted(further, key=lambda r: int(r[0])))]
        )
        place_of = row_of.copy()
        place_of[extra] = len(kept) + np.arange(len(extra))
        places = Participants(
            row_of[extra].astype(np.int32),
            self.rank[extra].astype(np.int32),
            self._joined_column("lane")[extra].astype(np.int32),
        )
        return kept, row_of, place_of, places

    def _build_ops(self, kept: Ints, duration: Ints) -> tuple[Ops, OpTexts]:
        texts = OpTexts()
        label = np.concatenate([label_numbers(g, texts) for g in self.graphs])
        signature = np.concatenate([signature_numbers(g, texts) for g in self.graphs])
        flop, moved = (
            np.concatenate(c) for c in zip(*map(flop_and_bytes, self.graphs), strict=True)
        )
        for row, exchange in self._uneven_exchanges():
            signature[row], moved[row] = texts.signature(exchange.signature), exchange.bytes
        ops = Ops.of(
            kind=self._joined_column("kind")[kept],
            rank=self.rank[kept],
            stream=self._joined_column("lane")[kept],
            period=self._period_numbers()[kept],
            flop=flop[kept],
            bytes=moved[kept],
            duration=duration[kept] / self.trace.resolution,
            signature=signature[kept],
            label=label[kept],
            signatures=texts.signatures,
        )
        return ops, texts

    def _uneven_exchanges(self) -> Iterator[tuple[int, UnevenAllToAll]]:
        """Yield the row of each all-to-all whose parts are unequal, and its joint description."""
        for m in self.matches:
            events = [self.graphs[p].events for p, _ in m.members]
            places = [f"{e.process.file}: rank {e.rank}" for e in events]
            exchange = uneven_all_to_all([c for _, c in m.members], places)
            if exchange is not None:
                yield int(m.member_rows(self.base)[0]), exchange

    def _period_numbers(self) -> Ints:
        """Iteration of each op, shape (n,); -1 outside of all iterations.

        An iteration is one step, or a cycle of several steps if these alternate.
        """
        step = self._joined_column("period")
        whole = len(self.graphs[0].steps.number) // self.turn * self.turn
        return np.where((step >= 0) & (step < whole), step // self.turn, -1)

    def _release_times(self, zero: int) -> Ints:
        never = self._joined_column("release") == NEVER
        return np.where(never, 0, np.maximum(self._aligned_column("release") - zero, 0))

    def _stream_kinds(self) -> dict[tuple[int, int], str]:
        return {
            (r, lane): kind
            for r, g in enumerate(self.graphs)
            for lane, kind in enumerate(_lane_kinds(g))
        }

    def _graph_name(self) -> str:
        return ",".join(p.file for p in self.trace.processes) or "trace"

    def _inference_facts(
        self, start: Ints, end: Ints, source: Ints, target: Ints
    ) -> dict[str, object]:
        """Facts of the graph: recorded steps, and how much was recorded, inferred or open."""
        total = {k: sum(g.facts[k] for g in self.graphs) for k in self.graphs[0].facts}
        known = total["inferred"] + total["resolved"]
        host = sum(total[k] for k in HOST_TIME)
        return {
            "gap_share": gap_share(
                self._joined_column("kind"), self.rank, start, end, source, target
            ),
            "inferred_share": total["inferred"] / known if known else 0.0,
            "unresolved_waits": total["unresolved"],
            "unlinked_share": total["unlinked"] / max(total["launched"], 1),
            "in_flight": total["in_flight"],
            "left_out": total["left_out"],
            "unawaited_threads": total["unawaited"],
            "host_time": {k: total[k] / max(host, 1) for k in HOST_TIME},
            "clock": self.clock.note,
            "recorded_ranks": self.trace.ranks,
            "steps": self.graphs[0].steps.number,
            "steps_per_iteration": self.turn,
            "step_times": [
                (g.steps.recorded / self.trace.resolution).tolist() for g in self.graphs
            ],
            **({RECORDING: self.recording} if self.recording else {}),
        }


def _operator_rows(g: RankGraph) -> Ints:
    """Row of each op's operator in the trace, shape (n,); -1 if there is none."""
    launched = np.isin(g.events.kind[g.event], ON_GPU)
    own = np.where(launched, g.provenance.operator[g.event], g.event)
    return np.where((g.event >= 0) & (own >= 0), g.events.rows[own], -1)


def _unique_dependencies(source: Ints, target: Ints, n: int) -> Csr:
    """Dependencies without duplicates, grouped by the op that is waited for."""
    span = int(target.max(initial=0)) + 1
    pairs = np.unique(source * span + target)
    return Csr.from_pairs(pairs // span, pairs % span, n)


def _lane_kinds(g: RankGraph) -> list[str]:
    """Kind of each lane (thread or stream) of a rank: host, network, copy or compute."""
    collectives = g.kind == Kind.COLLECTIVE
    copies = g.kind == Kind.COPY
    work = (g.kind == Kind.COMPUTE) | collectives | copies
    kinds = []
    for lane in range(len(g.events.track_of_lane)):
        mine = g.lane == lane
        if lane < g.events.host_lane_count:
            kinds.append("host")
        elif collectives[mine].sum() * 2 > work[mine].sum():
            kinds.append("network")
        else:
            kinds.append("copy" if copies[mine].sum() == work[mine].sum() > 0 else "compute")
    return kinds
