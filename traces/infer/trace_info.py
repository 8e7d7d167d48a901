"""Description of a trace: what was recorded, and what the trace can be used for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ...sim.facts.graph import Graph
from ...sim.units import Bytes, Seconds
from ..event_columns import Event
from ..recorded_events import RecordedEvents
from .dependencies import has_no_launch_links, join_ranks, rank_graph_for_run
from .events.rank_trace import RankTrace
from .events.steps import find_steps
from .events.stream_clock import unexplained_times
from .missing_ranks import missing_members
from .ranks.gradients import gradients
from .ranks.rank_graph import RankGraph
from .trace_facts import TraceFacts, trace_facts

NOT_RUN = "the step was not run, so that it has no times; run it on a GPU of the catalog"
HAVE_A_FIELD = (
    "recorded_ranks", "steps", "step_times", "memory_peak", "host_time", "recording"
)  # fmt: skip
"""Facts of a graph that are fields of `TraceInfo`."""


class UseVerdict(NamedTuple):
    """Whether a trace can be used for one purpose (replay, memory, scaling), and if not, why."""

    name: str
    possible: bool
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} {'yes' if self.possible else 'no'}" + (
            f": {self.why}" * bool(self.why)
        )


@dataclass(frozen=True)
class TraceInfo:
    """Description of a trace; ``str()`` gives what ``foretrace trace info`` prints.

    Parameters
    ----------
    ranks : numbers of the recorded ranks
    world : number of ranks of the job; 0 if not recorded
    steps : step numbers that were recorded on all ranks
    events : number of recorded events, or of ops if the trace is a graph
    seconds : time from the start of the first event to the end of the last; None for a graph
    step_times : step times of the first recorded rank in s, shape (steps,)
    range_of_ranks : median step time of the fastest and of the slowest rank, in s; () if not
        recorded
    host_time : fractions of host thread time spent in work, wait, poll and unknown
    memory_peak : peak memory in use of each device (``gpu0``, ``host``), in B; empty if not
        recorded
    uses : possible and impossible uses of the trace
    facts : how dependencies were inferred; empty if this failed
    recording : what of the recording is lost, unread or guessed
    """

    ranks: tuple[int, ...]
    world: int
    backend: str
    device: str
    events: int
    seconds: Seconds | None
    steps: tuple[int, ...]
    step_times: tuple[Seconds, ...]
    collectives: int
    memory_peak: dict[str, Bytes]
    uses: tuple[UseVerdict, ...]
    facts: dict[str, object]
    notes: tuple[str, ...]
    range_of_ranks: tuple[Seconds, ...] = ()
    host_time: dict[str, float] = field(default_factory=dict)
    recording: TraceFacts = field(default_factory=TraceFacts)

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {text}" for name, text in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """Each printed line as (name, text)."""
        peak = ", ".join(f"{k} {v / 2**20:.4g} MiB" for k, v in sorted(self.memory_peak.items()))
        host = ", ".join(f"{k} {v:.3g}" for k, v in self.host_time.items())
        lines = [
            *(("caution", told) for told in self.recording.sentences()),
            ("ranks", ", ".join(map(str, self.ranks)) + self._ranks_of_world()),
            ("device", self.device or "none"),
            self._size_line(),
            ("steps", self._steps_text()),
            *[("host time", f"{host} (fractions of its threads' time)")] * bool(host),
            ("network", f"{self.collectives} collectives, backend {self.backend or 'unknown'}"),
            ("memory", f"peak {peak or 'unknown'}"),
            ("usable for", "; ".join(map(str, self.uses))),
        ]
        lines += [("rests on", f"{k}: {_rounded_text(v)}") for k, v in self.facts.items()]
        return lines + [("note", n) for n in self.notes]

    def _ranks_of_world(self) -> str:
        return f" of {self.world}" if self.world else "; the number of ranks is not recorded"

    def _size_line(self) -> tuple[str, str]:
        if self.seconds is None:
            return "ops", f"{self.events}, without recorded times"
        return "events", f"{self.events} in {self.seconds:.4g} s"

    def _steps_text(self) -> str:
        if len(self.steps) == 1 and not self.steps[0]:
            return "not marked; the whole trace is one"
        if not self.step_times:
            return f"{self.steps[0]} to {self.steps[-1]}, times unknown"
        median = float(np.median(self.step_times))
        text = f"{self.steps[0]} to {self.steps[-1]}, median {median * 1e3:.4g} ms"
        if len(self.ranks) > 1 and self.range_of_ranks:
            least, most = (t * 1e3 for t in self.range_of_ranks)
            text += f" on rank {self.ranks[0]}, {least:.4g} to {most:.4g} ms over {len(self.ranks)}"
        return text

    def find_use(self, name: str) -> UseVerdict:
        """Look up a use of the trace by its name.

        Raises
        ------
        KeyError
            There is no such use.
        """
        return next(u for u in self.uses if u.name == name)


def _rounded_text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def info(trace: RecordedEvents) -> TraceInfo:
    """Describe a trace."""
    return info_and_graph(trace)[0]


def info_and_graph(trace: RecordedEvents) -> tuple[TraceInfo, Graph | None]:
    """Description of a trace, and its graph in recorded order; None if no graph can be inferred."""
    ranks = [RankTrace(trace, rank) for rank in trace.ranks]
    graphs = [rank_graph_for_run(events, find_steps(events)) for events in ranks]
    steps_of_first = graphs[0].steps
    common = [n for n in steps_of_first.number if all(n in g.steps.number for g in graphs)]
    at = [steps_of_first.number.index(n) for n in common]
    recording = trace_facts(trace)
    graph, refused = _joined_graph_or_reason(trace, graphs, recording)
    facts: Mapping[str, Any] = graph.facts if graph else {}
    ts = trace.events["ts"]
    first = trace.processes[0]
    told = TraceInfo(
        ranks=trace.ranks,
        world=max(p.world for p in trace.processes),
        backend=first.backend,
        device=first.device,
        events=len(trace),
        seconds=(
            float(trace.seconds((ts + trace.events["dur"]).max() - ts.min()))
            if trace.timed
            else None
        ),
        steps=tuple(common),
        step_times=tuple(trace.seconds(steps_of_first.recorded[at]).tolist() * trace.timed),
        range_of_ranks=_rank_step_time_range(trace, graphs, common) * trace.timed,
        host_time=dict(facts.get("host_time", {})),
        collectives=sum(len(g.collectives) for g in graphs),
        memory_peak=memory_peak(trace),
        uses=_possible_uses(
            trace, graphs, recording.refusal() or _why_no_replay(trace, graphs) or refused
        ),
        facts=inference_facts(facts),
        notes=(*trace.notes, *_missing_shapes_note(trace)),
        recording=recording,
    )
    return told, graph


def _rank_step_time_range(
    trace: RecordedEvents, graphs: list[RankGraph], common: list[int]
) -> tuple[Seconds, ...]:
    """Median step time of the fastest and of the slowest rank, in s."""
    if not common:
        return ()
    of_rank = [
        float(np.median(trace.seconds(g.steps.recorded[np.isin(g.steps.number, common)])))
        for g in graphs
    ]
    return min(of_rank), max(of_rank)


def _why_no_replay(trace: RecordedEvents, graphs: list[RankGraph]) -> str:
    """Reason why the trace cannot be replayed with its recorded times; "" if it can."""
    if not trace.timed:
        return NOT_RUN
    return next(filter(None, (unexplained_times(g.events) for g in graphs)), "") or (
        _unlinked_reason(graphs)
    )


def _unlinked_reason(graphs: list[RankGraph]) -> str:
    """Reason why the recorded order must be kept: GPU work of a rank has no launches.

    "" otherwise.
    """
    unlinked = any(map(has_no_launch_links, graphs))
    return "GPU work without launches; serialise: true keeps recorded order" * unlinked


def _joined_graph_or_reason(
    trace: RecordedEvents, graphs: list[RankGraph], recording: TraceFacts
) -> tuple[Graph | None, str]:
    """Graph of all ranks and "", or None and the reason why there is no graph."""
    try:
        return join_ranks(trace, graphs, "recorded_waits", recording), ""
    except TraceError as e:
        return None, str(e)


def inference_facts(facts: Mapping[str, object]) -> dict[str, object]:
    """Those facts of a graph that describe how its dependencies were inferred."""
    return {k: v for k, v in facts.items() if k not in HAVE_A_FIELD}


def _possible_uses(
    trace: RecordedEvents, graphs: list[RankGraph], refused: str
) -> tuple[UseVerdict, ...]:
    missing = missing_members(trace, graphs)
    why = refused
    if missing and not why:
        several = len(missing) > 1
        named = f"{'ranks' if several else 'rank'} {', '.join(map(str, missing))}"
        why = f"{named} {'were' if several else 'was'} not recorded; set missing_ranks"
    return (
        UseVerdict("replay", not refused, why),
        _scaling_use(trace, graphs),
        UseVerdict("memory", *_memory_recorded_or_reason(trace)),
    )


def _scaling_use(trace: RecordedEvents, graphs: list[RankGraph]) -> UseVerdict:
    """The trace use ``scale_to``: whether a recorded step can be resized, and if not, the reason.

    Collectives are resized if their groups and sizes are known. One process without collectives can
    get those of DDP.
    """
    collectives = [c for g in graphs for c in g.collectives]
    if len(graphs) == 1 and not collectives and _gradients_known(trace):
        return UseVerdict("scale_to", True)
    if not all(c.group for c in collectives):
        return UseVerdict("scale_to", False, "no group sizes")
    sized = all(c.size or c.name == "barrier" for c in collectives)
    return group_scaling_use(bool(collectives), sized)


def _gradients_known(trace: RecordedEvents) -> bool:
    """True if the gradients that data-parallel copies of one process would exchange are known."""
    try:
        gradients(trace)
    except TraceError:
        return False
    return True


def group_scaling_use(any_collective: bool, all_sized: bool) -> UseVerdict:
    """The trace use ``scale_to``: possible if there are collectives and all have sizes."""
    if not any_collective:
        return UseVerdict("scale_to", False, "no collectives, so it is unknown what ranks exchange")
    return UseVerdict("scale_to", all_sized, "" if all_sized else "no message sizes")


def _missing_shapes_note(trace: RecordedEvents) -> tuple[str, ...]:
    """Note on a trace in which no operator has shapes and element types; otherwise empty."""
    operators = trace.events["kind"] == Event.OP
    known = (trace.events["shapes"][operators] >= 0) & (trace.events["dtypes"][operators] >= 0)
    told = "no shapes, so models can time few ops; record with record_shapes=True"
    return () if known.any() else (told,)


def _memory_recorded_or_reason(trace: RecordedEvents) -> tuple[bool, str]:
    """True and "" if memory in use was recorded, else False and the reason."""
    if memory_peak(trace):
        return True, ""
    return False, "no memory events with totals; record with profile_memory=True"


def memory_peak(trace: RecordedEvents) -> dict[str, Bytes]:
    """Peak memory in use of each device over all ranks, in B; empty if not recorded.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from ..column_table import ColumnTable
    >>> trace = RecordedEvents.of(kind=[7, 7], device=0)
    >>> totals = ColumnTable.of("allocations", event=[0, 1], allocated=[512, 256], device_type=1)
    >>> memory_peak(replace(trace, allocations=totals))
    {'gpu0': 512}
    """
    table = trace.allocations
    device = trace.events["device"][table["event"]]
    peak: dict[str, Bytes] = {}
    for kind, number, total in zip(
        table["device_type"].tolist(), device.tolist(), table["allocated"].tolist(), strict=True
    ):
        if total > 0:
            name = f"gpu{number}" if kind else "host"
            peak[name] = max(peak.get(name, 0), total)
    return peak
