"""From what was recorded to what must be done: a trace's dependency graph.

Program order on threads and streams, launches, synchronisation, hand-overs between threads, and
collectives matched across ranks.  Every op's readiness follows from these; where it began later
than that, a delay (what launching usually takes) or a gap (nothing explains it) stands in
between, so that recorded durations give back the recorded schedule, and how much of it only gaps
explain is known (``facts``).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...sim.csr import Csr
from ...sim.errors import TraceError
from ...sim.flat_graph import FlatGraph, Participants
from ...sim.graph import Graph
from ...sim.ops import Kind, Ops
from ..recorded_events import RecordedEvents
from .clock_offsets import Offsets, offsets
from .collective_match import Match, match
from .cycle import refuse_cycles
from .gap_share import gap_share
from .gaps import NEVER
from .missing_ranks import complete
from .op_texts import OpTexts, labels, signatures, works
from .rank_graph import RankGraph, rank_graph
from .rank_trace import RankTrace
from .steps import Steps, steps

POLICIES = ("refuse", "like_recorded", "recorded_waits")


def graph(
    trace: RecordedEvents,
    *,
    missing_ranks: str = "refuse",
    serialise: bool = False,
    iterations: Iterable[int] | None = None,
) -> Graph:
    """Infer the graph; see :meth:`Trace.graph`."""
    if missing_ranks not in POLICIES:
        raise ValueError(f"missing_ranks is {missing_ranks!r}; choose from {', '.join(POLICIES)}")
    wanted = None if iterations is None else sorted(iterations)
    parts = [_part(trace, rank, wanted, serialise) for rank in trace.ranks]
    _refuse_different_steps(parts)
    parts = complete(trace, parts, missing_ranks)
    matches = match(parts, alone=missing_ranks == "recorded_waits")
    return _Join(trace, parts, matches, offsets(parts, matches)).graph()


def _part(trace: RecordedEvents, rank: int, wanted: list[int] | None, serialise: bool) -> RankGraph:
    view = RankTrace(trace, rank)
    place = view.process.file or f"rank {rank}"
    chosen = steps(view).keep(wanted, place)
    if wanted and np.any(chosen.start[1:] != chosen.end[:-1]):
        raise TraceError(f"{place}: steps {wanted} are not consecutive; keep a run of steps")
    found = rank_graph(view, chosen, serialise=serialise)
    launched = found.facts["launched"]
    if launched and found.facts["unlinked"] == launched and not serialise:
        raise TraceError(
            f"{place}: none of {launched} GPU ops can be joined to the call that launched it, so "
            "nothing says what waits for what; record with CPU activities too, or allow the "
            "recorded order to be kept (serialise: true)"
        )
    return found


def _refuse_different_steps(parts: list[RankGraph]) -> None:
    first = parts[0]
    for p in parts[1:]:
        if p.steps.number != first.steps.number:
            common = sorted(set(p.steps.number) & set(first.steps.number))
            raise TraceError(
                f"{p.view.process.file}: has steps {_span(p.steps)}, but "
                f"{first.view.process.file} has {_span(first.steps)}; "
                + (f"keep those of both (iterations: {common})" if common else "record the same")
            )


def _span(steps: Steps) -> str:
    return f"{steps.number[0]} to {steps.number[-1]}"


class _Join:
    """All ranks as one graph: one op for each collective, one clock, one table of texts."""

    def __init__(
        self, trace: RecordedEvents, parts: list[RankGraph], matches: list[Match], clock: Offsets
    ):
        self.trace, self.parts, self.matches, self.clock = trace, parts, matches, clock
        counts = [len(p.kind) for p in parts]
        self.base = np.concatenate([[0], np.cumsum(counts)])
        self.rank = np.repeat(np.arange(len(parts)), counts)

    def _all(self, name: str) -> NDArray[np.int64]:
        return np.concatenate([getattr(p, name) for p in self.parts])

    def graph(self) -> Graph:
        start = self._aligned("start")
        end = self._aligned("end")
        lasts = end - start
        self._share_durations(start, end, lasts)
        kept, row_of, place_of, places = self._places()
        source = np.concatenate([p.source + b for p, b in zip(self.parts, self.base, strict=False)])
        target = np.concatenate([p.target + b for p, b in zip(self.parts, self.base, strict=False)])
        zero = min(
            int(p.steps.start[0]) + o for p, o in zip(self.parts, self.clock.ticks, strict=True)
        )
        ops, texts = self._ops(kept, lasts)
        if not self.clock.proven:
            op_of = np.concatenate([np.arange(len(kept)), places.op])
            refuse_cycles(self._name(), ops, row_of[source], op_of[place_of[target]])
        release = self._releases(zero)[kept] / self.trace.resolution
        block = FlatGraph(
            ops,
            _unique(row_of[source], place_of[target], len(kept)),
            places,
            release,
            np.full(len(kept), -1, np.int32),
        )
        return Graph(
            self._name(),
            (block,),
            texts.labels,
            self._streams(),
            self._facts(start, end, source, target),
        )

    def _aligned(self, name: str) -> NDArray[np.int64]:
        shift = np.repeat(self.clock.ticks, [len(p.kind) for p in self.parts])
        return self._all(name) + shift

    def _share_durations(
        self, start: NDArray[np.int64], end: NDArray[np.int64], lasts: NDArray[np.int64]
    ) -> None:
        """How long collectives take once all members are there.

        On a GPU the shortest of the members' durations: the others also waited in it.  On gloo's
        threads, which return late when they lose their core, until the first member returned;
        the returns of the others take what they lost.
        """
        back = self._returns()
        for m in self.matches:
            rows = m.rows(self.base)
            both = int(end[rows].min() - start[rows].max())
            late = [back.get(int(r), -1) for r in rows]
            if both <= 0 or len(rows) == 1 or min(late) < 0:
                lasts[rows] = lasts[rows].min()
                continue
            lasts[rows] = both
            lasts[late] += end[rows] - end[rows].min()

    def _returns(self) -> dict[int, int]:
        """The return of each collective of a library's own thread."""
        found: dict[int, int] = {}
        for p, base in zip(self.parts, self.base.tolist(), strict=False):
            network = [c.work for c in p.collectives if p.view.network[p.owner[c.work]]]
            at = np.flatnonzero(np.isin(p.source, network) & (p.kind[p.target] == Kind.DELAY))
            pairs = zip((p.source[at] + base).tolist(), (p.target[at] + base).tolist(), strict=True)
            found |= dict(pairs)
        return found

    def _places(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Participants]:
        """Integers that stay, the row and the place of every old row, and the further places."""
        total = int(self.base[-1])
        first = np.arange(total)
        further = [m.rows(self.base) for m in self.matches if len(m.members) > 1]
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
            self._all("line")[extra].astype(np.int32),
        )
        return kept, row_of, place_of, places

    def _ops(self, kept: NDArray[np.int64], lasts: NDArray[np.int64]) -> tuple[Ops, OpTexts]:
        texts = OpTexts()
        label = np.concatenate([labels(p, texts) for p in self.parts])
        signature = np.concatenate([signatures(p, texts) for p in self.parts])
        flop, moved = (np.concatenate(c) for c in zip(*map(works, self.parts), strict=True))
        ops = Ops.of(
            kind=self._all("kind")[kept],
            rank=self.rank[kept],
            stream=self._all("line")[kept],
            iteration=self._all("iteration")[kept],
            flop=flop[kept],
            bytes=moved[kept],
            duration=lasts[kept] / self.trace.resolution,
            signature=signature[kept],
            label=label[kept],
            signatures=texts.signatures,
        )
        return ops, texts

    def _releases(self, zero: int) -> NDArray[np.int64]:
        never = self._all("release") == NEVER
        return np.where(never, 0, np.maximum(self._aligned("release") - zero, 0))

    def _streams(self) -> dict[tuple[int, int], str]:
        return {
            (r, line): kind
            for r, p in enumerate(self.parts)
            for line, kind in enumerate(_stream_kinds(p))
        }

    def _name(self) -> str:
        return ",".join(p.file for p in self.trace.processes) or "trace"

    def _facts(
        self,
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        source: NDArray[np.int64],
        target: NDArray[np.int64],
    ) -> dict[str, object]:
        """What the graph rests on."""
        total = {k: sum(p.facts[k] for p in self.parts) for k in self.parts[0].facts}
        known = total["inferred"] + total["resolved"]
        return {
            "gap_share": gap_share(self._all("kind"), self.rank, start, end, source, target),
            "inferred_share": total["inferred"] / known if known else 0.0,
            "unresolved_waits": total["unresolved"],
            "unlinked_share": total["unlinked"] / max(total["launched"], 1),
            "clock": self.clock.note,
            "recorded_ranks": self.trace.ranks,
            "steps": self.parts[0].steps.number,
            "step_times": [(p.steps.recorded / self.trace.resolution).tolist() for p in self.parts],
        }


def _unique(source: NDArray[np.int64], target: NDArray[np.int64], n: int) -> Csr:
    """Dependencies, each once, grouped by the op that is waited for."""
    span = int(target.max(initial=0)) + 1
    pairs = np.unique(source * span + target)
    return Csr.from_pairs(pairs // span, pairs % span, n)


def _stream_kinds(p: RankGraph) -> list[str]:
    """What each line of a rank is."""
    together = p.kind == Kind.COLLECTIVE
    copies = p.kind == Kind.COPY
    work = (p.kind == Kind.COMPUTE) | together | copies
    found = []
    for line in range(len(p.view.line_tracks)):
        mine = p.line == line
        if line < p.view.hosts:
            found.append("host")
        elif together[mine].sum() * 2 > work[mine].sum():
            found.append("network")
        else:
            found.append("copy" if copies[mine].sum() == work[mine].sum() > 0 else "compute")
    return found
