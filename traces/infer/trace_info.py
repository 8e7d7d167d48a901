"""What a trace holds, and what it can be used for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ...sim.units import Bytes, Seconds
from ..event_columns import Event
from ..recorded_events import RecordedEvents
from .dependencies import graph
from .missing_ranks import missing_members
from .rank_graph import RankGraph, rank_graph
from .rank_trace import RankTrace
from .steps import steps

TOLD = ("recorded_ranks", "steps", "step_times", "memory_peak")  # facts with a line of their own


class Use(NamedTuple):
    """Whether a trace is good for something, and why not."""

    name: str
    possible: bool
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} {'yes' if self.possible else 'no'}" + (
            f": {self.why}" * bool(self.why)
        )


@dataclass(frozen=True)
class Info:
    """What a trace holds; ``str()`` is what ``foretrace trace info`` prints.

    Parameters
    ----------
    ranks : recorded ranks
    world : ranks of the job; 0 where not recorded
    steps : numbers of the steps that every rank has
    events : recorded events; the ops of a trace that is a graph
    seconds : from the first to the last of them; None of a graph, which has no clock
    step_times : (steps,) s, of the first recorded rank, as the profiler says
    memory_peak : most bytes in use of each device (``gpu0``, ``host``); empty where not recorded
    uses : what it can be used for
    facts : what the dependencies rest on; empty where there can be none
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
    uses: tuple[Use, ...]
    facts: dict[str, object]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {text}" for name, text in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """(name, text) of every line."""
        peak = ", ".join(f"{k} {v / 2**20:.4g} MiB" for k, v in sorted(self.memory_peak.items()))
        lines = [
            ("ranks", f"{', '.join(map(str, self.ranks))} of {self.world or 'an unknown number'}"),
            ("device", self.device or "none"),
            self._size(),
            ("steps", self._steps()),
            ("network", f"{self.collectives} collectives, backend {self.backend or 'unknown'}"),
            ("memory", f"peak {peak or 'unknown'}"),
            ("usable for", "; ".join(map(str, self.uses))),
        ]
        lines += [("rests on", f"{k}: {_plain(v)}") for k, v in self.facts.items()]
        return lines + [("note", n) for n in self.notes]

    def _size(self) -> tuple[str, str]:
        if self.seconds is None:
            return "ops", f"{self.events}, a graph without recorded events"
        return "events", f"{self.events} in {self.seconds:.4g} s"

    def _steps(self) -> str:
        if len(self.steps) == 1 and not self.steps[0]:
            return "not marked; the whole trace is one"
        if not self.step_times:
            return f"{self.steps[0]} to {self.steps[-1]}, times unknown"
        median = float(np.median(self.step_times))
        return f"{self.steps[0]} to {self.steps[-1]}, median {median * 1e3:.4g} ms"

    def usable(self, name: str) -> Use:
        """Whether the trace can be put to one use, by its name.

        Raises
        ------
        KeyError
            No such use.
        """
        return next(u for u in self.uses if u.name == name)


def _plain(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def info(trace: RecordedEvents) -> Info:
    """Look a trace over; see :class:`Info`."""
    views = [RankTrace(trace, r) for r in trace.ranks]
    found = [steps(v) for v in views]
    common = [n for n in found[0].number if all(n in s.number for s in found)]
    at = [found[0].number.index(n) for n in common]
    parts, refused = _parts(trace)
    facts, contradiction = _facts(trace)
    ts = trace.events["ts"]
    first = trace.processes[0]
    return Info(
        ranks=trace.ranks,
        world=max(p.world for p in trace.processes),
        backend=first.backend,
        device=first.device,
        events=len(trace),
        seconds=float(trace.seconds((ts + trace.events["dur"]).max() - ts.min())),
        steps=tuple(common),
        step_times=tuple(trace.seconds(found[0].recorded[at]).tolist()),
        collectives=sum(len(p.collectives) for p in parts),
        memory_peak=memory_peak(trace),
        uses=_uses(trace, parts, refused or contradiction),
        facts=facts,
        notes=trace.notes,
    )


def _parts(trace: RecordedEvents) -> tuple[list[RankGraph], str]:
    views = [RankTrace(trace, r) for r in trace.ranks]
    parts = [rank_graph(v, steps(v), serialise=True) for v in views]
    loose = any(0 < p.facts["launched"] == p.facts["unlinked"] for p in parts)
    return parts, "GPU work without launches; serialise: true keeps recorded order" * loose


def _facts(trace: RecordedEvents) -> tuple[dict[str, object], str]:
    """What dependencies rest on, or why there are none."""
    try:
        found = graph(trace, missing_ranks="recorded_waits", serialise=True).facts
    except TraceError as e:
        return {}, str(e)
    return rests_on(found), ""


def rests_on(facts: Mapping[str, object]) -> dict[str, object]:
    """Facts of a graph that say what its dependencies rest on."""
    return {k: v for k, v in facts.items() if k not in TOLD}


def _uses(trace: RecordedEvents, parts: list[RankGraph], refused: str) -> tuple[Use, ...]:
    missing = missing_members(trace, parts)
    why = refused
    if missing and not why:
        why = f"ranks {', '.join(map(str, missing))} were not recorded; set missing_ranks"
    return (
        Use("replay", not refused, why),
        _scaling(parts),
        Use("rooflines", *_shapes(trace)),
        Use("memory", *_memory(trace)),
    )


def _scaling(parts: list[RankGraph]) -> Use:
    """Whether collectives can be made those of a larger group."""
    all_of_them = [c for p in parts for c in p.collectives]
    if not all_of_them:
        return Use("scale_to", False, "no collectives, so nothing says what ranks exchange")
    if not all(c.group for c in all_of_them):
        return Use("scale_to", False, "no group sizes")
    if not all(c.size or c.name == "barrier" for c in all_of_them):
        return Use("scale_to", False, "no message sizes")
    return Use("scale_to", True)


def _shapes(trace: RecordedEvents) -> tuple[bool, str]:
    operators = trace.events["kind"] == Event.OP
    known = (trace.events["shapes"][operators] >= 0) & (trace.events["dtypes"][operators] >= 0)
    return bool(known.any()), "" if known.any() else "no shapes; record with record_shapes=True"


def _memory(trace: RecordedEvents) -> tuple[bool, str]:
    if memory_peak(trace):
        return True, ""
    return False, "no memory events with totals; record with profile_memory=True"


def memory_peak(trace: RecordedEvents) -> dict[str, Bytes]:
    """Most bytes in use of each device over all ranks; empty where not recorded.

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
    found: dict[str, Bytes] = {}
    for kind, number, total in zip(
        table["device_type"].tolist(), device.tolist(), table["allocated"].tolist(), strict=True
    ):
        if total > 0:
            name = f"gpu{number}" if kind else "host"
            found[name] = max(found.get(name, 0), total)
    return found
