"""Prepared graph: checked, placed and timed once, then submitted many times with other numbers.

Its structure, placement and dependencies are fixed. A submission may change the flop and bytes
of rows; backends time each new combination once, and the result is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..argument import as_column, as_float, as_integer, shown
from ..engine_api.interface import EngineGraph, Numbers, PreparedShape
from ..errors import GraphError
from ..facts.backend import Holds, Spread, Timing, Usage
from ..facts.graph import Graph
from ..facts.system import System
from ..facts.way import Pins
from .binding import OpTimings
from .schedule import SubmittedRun

Values = Mapping[int, float] | Sequence[float] | NDArray[np.float64]
T = TypeVar("T")
Pair = tuple[float, float]  # flop and bytes
Draw = Callable[[Numbers, tuple[int, ...]], Numbers]
KeptTiming = tuple[int, float, float, float, tuple[int, ...], int, int, int, int]
"""Timing of an op in a cache: number of its structure, then the other fields of RowTiming.

A plain tuple of numbers is skipped by Python's cycle collector, which would otherwise visit every
cached timing again and again.
"""

MOST_KNOWN = 65_536  # size of a prepared graph's cache of row timings; then it is cleared
MOST_STRUCTURES = 256  # size of its cache of variants


class TimingStructure(NamedTuple):
    """Structure of one op's timing, without the numbers: its usage, holds, source and spread.

    Parameters
    ----------
    usage : (component, weight) for each component that it uses
    limited : True if its rate has a limit
    source : text that names the origin of the op's time, such as a model or a recording
    holds : (component, row whose end releases it or -1) for each amount that it holds
    spread : quantiles of its duration factors as bytes; () if it does not vary
    """

    usage: tuple[tuple[int, float], ...]
    limited: bool
    source: str
    holds: tuple[tuple[int, int], ...] = ()
    spread: tuple[bytes, ...] = ()


class RowTiming(NamedTuple):
    """Timing of one op, in SI units and in engine integers."""

    fixed: float
    work: float
    limit: float
    amounts: tuple[int, ...]
    structure: TimingStructure
    ticks: int
    work_hi: int
    work_lo: int
    rate_limit: int

    def kept(self, structure: int) -> KeptTiming:
        """The timing with the number of its structure."""
        return (structure, *self[:4], *self[5:])

    def has_same_timing(self, other: RowTiming) -> bool:
        """True if the other op has the same times, work, limit, held amounts and usage."""
        mine, others = self.structure, other.structure
        return self[:4] == other[:4] and mine.usage == others.usage


class PreparationCallbacks(NamedTuple):
    """Functions of a run that a prepared graph calls.

    Parameters
    ----------
    rows : function that times some rows with other flop and bytes
    lower : function that converts the graph and its op timings to an engine graph
    variant : function that creates the variant of the graph with given op timings
    routes : function that returns the system with the current routes
    """

    rows: Callable[[Sequence[int], Sequence[float], Sequence[float]], list[RowTiming]]
    lower: Callable[[Graph, OpTimings], EngineGraph]
    variant: Callable[[Graph, OpTimings, EngineGraph], PreparedVariant]
    routes: Callable[[], System]


@dataclass(frozen=True, eq=False)
class PreparedVariant:
    """Prepared graph for one combination of timing structures of its ops.

    Parameters
    ----------
    graph : placed graph
    answers : timings of its ops
    lowered : engine graph with the first timings
    ranks : numbers of its ranks within the job, see :class:`~.schedule.SubmittedRun`
    shape : structure as prepared by the engine
    draw : function that draws a submission's durations from its key; None if nothing is drawn
    pins : routes that it chose
    """

    graph: Graph
    answers: OpTimings
    lowered: EngineGraph
    ranks: NDArray[np.int32] | None
    shape: PreparedShape
    draw: Draw | None
    pins: Pins | None = None

    @cached_property
    def numbers(self) -> Numbers:
        """Durations, work and amounts from the first timings."""
        return Numbers.of(self.lowered).copy()

    @cached_property
    def flow_of_row(self) -> list[int]:
        """Flow number of each row, shape (n,); -1 for none."""
        found = np.full(len(self.lowered), -1, np.int64)
        found[self.lowered.flows.op] = np.arange(len(self.lowered.flows))
        return found.tolist()

    @cached_property
    def claim_of_row(self) -> list[int]:
        """Index of the first capacity claim of each row, shape (n,).

        For a row without claims, it is the index of the next row's first claim.
        """
        rows = np.arange(len(self.lowered))
        first: list[int] = np.searchsorted(self.lowered.claims.op, rows).tolist()
        return first

    @cached_property
    def run(self) -> SubmittedRun:
        """The graph with its first timings, as a submitted graph whose first op has id 0."""
        return SubmittedRun(self.graph, self.answers, self.lowered, 0, self.ranks)


class Prepared:
    """Graph that was prepared for repeated submission; see :meth:`~.process.Running.prepare`.

    Parameters
    ----------
    run : run or job that it belongs to
    variant : PreparedVariant
        Variant with the flop and bytes of the graph itself.
    callbacks : PreparationCallbacks
        Functions of the run that time rows and build variants.
    routed : System
        System with the routes at the time of preparation.
    ways : Sequence[Callable[[], Prepared]]
        Functions that prepare the graph for each of its ways; called at the first submission.
    """

    def __init__(
        self,
        run: object,
        variant: PreparedVariant,
        callbacks: PreparationCallbacks,
        routed: System,
        ways: Sequence[Callable[[], Prepared]] = (),
    ):
        self.run, self.variant, self._callbacks, self.routed = run, variant, callbacks, routed
        self._ways, self._chosen = ways, dict[int, Prepared]()
        self._known_on = routed  # routes for which the timings in the caches are valid
        self._known: dict[tuple[int, float | None, float | None], KeptTiming] = {}
        self._variants: dict[tuple[tuple[int, int], ...], PreparedVariant] = {}
        self._whole: dict[tuple[tuple[int, str], ...], dict[int, KeptTiming]] = {}
        holds = variant.answers.timing.holds
        self._tied = holds is not None and bool(np.any(holds.until >= 0))

    def __len__(self) -> int:
        return len(self.variant.lowered)

    def __repr__(self) -> str:
        return f"<Prepared {self.graph.name!r} {len(self)} ops>"

    @property
    def graph(self) -> Graph:
        """The placed graph."""
        return self.variant.graph

    def on_way(self, way: int | None) -> Prepared:
        """The graph prepared for one of its ways; itself for None.

        Raises
        ------
        GraphError
            It was not prepared for this way.
        """
        if way is None:
            return self
        found = self._chosen.get(way) if type(way) is int else None
        if found is None:
            count = len(self._ways)
            known = f"ways are 0 to {count - 1}" if count else "it has no ways"

            def refuse(_: str) -> GraphError:
                what = f"way {shown(way)} does not exist; {known}: list it in prepare(ways=)"
                return GraphError("way", f"{self!r}: {what}")

            number = as_integer("way", way, refuse, 0, count - 1)
            found = self._chosen[number] = self._ways[number]()
        return found

    @property
    def ways_so_far(self) -> list[Prepared | None]:
        """The graph prepared for each way; None for one that no submission took yet."""
        return [self._chosen.get(way) for way in range(len(self._ways))]

    @cached_property
    def unchanged(self) -> Submission:
        """Submission with the flop and bytes of the graph itself."""
        return Submission(self.variant, self.variant.numbers)

    def submission(
        self,
        flop: Values | None,
        bytes: Values | None,
        at: Mapping[str, int] | Sequence[int] | None = None,
    ) -> SomeSubmission:
        """One submission of the graph, with other flop or bytes for some rows.

        Raises
        ------
        GraphError
            A row does not exist, a value is negative, infinite or NaN, or ``at`` is given.
        BackendError
            A backend cannot time a row.
        """
        if at is not None:
            raise GraphError("grid", f"{self!r}: at= is given; prepare a StepGrid for it")
        changed = self._changed_numbers(flop, bytes)
        if not changed:
            return self.unchanged
        asked_later = self._online_rows.intersection(changed)
        timed = self._time_changed_rows(
            {row: pair for row, pair in changed.items() if row not in asked_later}
            if asked_later
            else changed
        )
        variant = self._variant_of(timed)
        numbers = variant.numbers.copy()
        for row, (_, _, _, _, amounts, ticks, work_hi, work_lo, limit) in timed.items():
            numbers.fixed[row] = ticks
            for j, amount in enumerate(amounts, variant.claim_of_row[row]):
                numbers.amount[j] = amount
            k = variant.flow_of_row[row]
            if k >= 0:
                numbers.work_hi[k], numbers.work_lo[k] = work_hi, work_lo
                numbers.limit[k] = limit
        flops, sizes = zip(*changed.values(), strict=True)
        made = Submission(
            variant,
            numbers,
            tuple(changed),
            flops,
            sizes,
            tuple(timed),
            tuple([one[1] for one in timed.values()]),
            tuple([one[2] for one in timed.values()]),
        )
        if asked_later:
            online = self._callbacks.lower(made.graph, variant.answers)
            return made._replace(numbers=numbers._replace(backends=online.backends))
        return made

    @cached_property
    def _online_rows(self) -> frozenset[int]:
        """Rows that online backends time when they start."""
        return frozenset(np.flatnonzero(self.variant.answers.online >= 0).tolist())

    @cached_property
    def _flop_byte_pairs(self) -> list[Pair]:
        ops = self.graph.ops
        return list(zip(ops.flop.tolist(), ops.bytes.tolist(), strict=True))

    @cached_property
    def _row_classes(self) -> list[int]:
        """Class number of each row; rows of one class differ at most in flop and bytes."""
        graph, found = self.graph, {}  # type: Graph, dict[tuple[object, ...], int]
        ops, block = graph.ops, graph.explicit
        columns = (ops.kind, ops.rank, ops.stream, ops.period, ops.signature, ops.label)
        rows = zip(*(c.tolist() for c in columns), map(str, ops.duration.tolist()), strict=True)
        component, members = self.variant.answers.component.tolist(), block.members
        keys = [(*r, component[i], members[i].tobytes()) for i, r in enumerate(rows)]
        return [found.setdefault(key, len(found)) for key in keys]

    @cached_property
    def _prepared_structures(self) -> list[TimingStructure]:
        """Timing structure of each row, as prepared."""
        return timing_structures(self.variant.answers)

    @cached_property
    def _structures(self) -> dict[TimingStructure, int]:
        """Number of each timing structure so far; those of the prepared rows come first."""
        return {one: k for k, one in enumerate(dict.fromkeys(self._prepared_structures))}

    @cached_property
    def _prepared_numbers(self) -> list[int]:
        """Number of each row's timing structure, as prepared."""
        return [self._structures[one] for one in self._prepared_structures]

    def _kept(self, one: RowTiming) -> KeptTiming:
        known = self._structures
        return one.kept(known.setdefault(one.structure, len(known)))

    def _changed_numbers(self, flop: Values | None, bytes: Values | None) -> dict[int, Pair]:
        """New flop and bytes of the rows that differ from the prepared ones."""
        changed: dict[int, Pair] = {}
        for column, values in enumerate((flop, bytes)):
            if values is None:
                continue
            for row, value in self._checked_items(values):
                pair = changed.get(row, self._flop_byte_pairs[row])
                if pair[column] != value:
                    changed[row] = (value, pair[1]) if column == 0 else (pair[0], value)
        return dict(sorted(changed.items())) if len(changed) > 1 else changed

    def _checked_items(self, values: Values) -> list[tuple[int, float]]:
        """Rows and their new values, after validation."""
        n = len(self)
        if isinstance(values, Mapping):
            items = [self._checked_item(row, value) for row, value in values.items()]
        else:
            given = np.atleast_1d(as_column("values", values, np.float64, self._refuse))
            if given.shape != (n,):
                raise self._refuse(f"{len(given)} values for {n} ops; give one per op")
            items = [(i, v) for i, v in enumerate(given.tolist()) if v == v]
        for row, value in items:
            if not 0 <= row < n:
                raise self._refuse(f"op {row} does not exist; ops are 0 to {n - 1}")
            if not 0 <= value < np.inf:
                raise self._refuse(f"op {row}: value is {value}; give a number >= 0")
        return items

    def _checked_item(self, row: int, value: float) -> tuple[int, float]:
        """Row and its new value, as numbers."""
        if type(row) is int and type(value) is float:
            return row, value
        number = as_integer("row", row, self._refuse)
        found = as_float(value)
        if found is None:
            raise self._refuse(f"op {number}: value is {shown(value)}; give a number >= 0")
        return number, found

    def _refuse(self, why: str) -> GraphError:
        return GraphError("numbers", f"{self!r}: {why}")

    def _time_changed_rows(self, changed: Mapping[int, Pair]) -> dict[int, KeptTiming]:
        """Timings of rows; backends are called only for new combinations of flop and bytes."""
        routes = self._callbacks.routes()
        if routes is not self._known_on:
            self._known_on = routes
            self._forget_timings()
        if self._tied:
            return self._time_all_rows(changed)
        known, classes, seen = self._known, self._row_classes, {}
        for row, (flop, moved) in changed.items():
            seen[row] = (
                classes[row], flop if flop == flop else None, moved if moved == moved else None
            )  # fmt: skip
        new = _first_rows({row: key for row, key in seen.items() if key not in known})
        if new:
            if len(known) + len(new) > MOST_KNOWN:
                self._forget_timings()
                new = _first_rows(seen)
            rows = list(new.values())
            flops, sizes = zip(*(changed[row] for row in rows), strict=True)
            answers = self._callbacks.rows(rows, flops, sizes)
            if any(end >= 0 for one in answers for _, end in one.structure.holds):
                self._tied = True
                return self._time_all_rows(changed)
            known.update(zip(new, map(self._kept, answers), strict=True))
        return {row: known[key] for row, key in seen.items()}

    def _forget_timings(self) -> None:
        """Clear the caches of timings, whose size is bounded, and their structures if too many."""
        self._known.clear()
        self._whole.clear()
        if len(self._structures) > MOST_STRUCTURES + len(self):
            del self._structures
            self._variants.clear()

    def _time_all_rows(self, changed: Mapping[int, Pair]) -> dict[int, KeptTiming]:
        """Timings of all rows from one call, since some amounts are held until other rows end."""
        key = tuple((row, str(pair)) for row, pair in changed.items())
        if key not in self._whole:
            if len(self._whole) * len(self) >= MOST_KNOWN:
                self._forget_timings()
            pairs = [changed.get(row, pair) for row, pair in enumerate(self._flop_byte_pairs)]
            answers = self._callbacks.rows(range(len(self)), *zip(*pairs, strict=True))
            self._whole[key] = {
                row: self._kept(one)
                for row, (one, was) in enumerate(zip(answers, self._prepared_timings, strict=True))
                if one != was and row not in self._online_rows
            }
        return self._whole[key]

    @cached_property
    def _prepared_timings(self) -> list[RowTiming]:
        """Timing of each row, as prepared."""
        return row_timings(self.variant.answers, self.variant.lowered)

    def _variant_of(self, timed: Mapping[int, KeptTiming]) -> PreparedVariant:
        """Variant of the graph in which rows have the structures of these timings."""
        prepared = self._prepared_numbers
        other = [row for row, one in timed.items() if one[0] != prepared[row]]
        if not other:
            return self.variant
        key = tuple([(row, timed[row][0]) for row in other])
        if key not in self._variants:
            if len(self._variants) >= MOST_STRUCTURES:
                self._variants.clear()
            self._variants[key] = self._make_variant({row: timed[row] for row in other})
        return self._variants[key]

    def _make_variant(self, timed: Mapping[int, KeptTiming]) -> PreparedVariant:
        """Variant in which some rows have other timing structures."""
        graph, structures = self.variant.graph, list(self._structures)
        by_row = {
            row: RowTiming(*one[1:5], structures[one[0]], *one[5:]) for row, one in timed.items()
        }
        answers = replace_row_timings(self.variant.answers, self._prepared_structures, by_row)
        lowered = self._callbacks.lower(graph, answers)
        return self._callbacks.variant(graph, answers, lowered)


class Submission(NamedTuple):
    """One submission of a prepared graph.

    Parameters
    ----------
    variant : PreparedVariant
    numbers : durations, work and amounts: typical ones, or drawn ones
    rows : rows whose flop or bytes differ from the prepared graph
    flop, bytes : new values of these rows
    timed : rows that have other timings, except those of online backends
    fixed, work : timings of these rows
    """

    variant: PreparedVariant
    numbers: Numbers
    rows: tuple[int, ...] = ()
    flop: tuple[float, ...] = ()
    bytes: tuple[float, ...] = ()
    timed: tuple[int, ...] = ()
    fixed: tuple[float, ...] = ()
    work: tuple[float, ...] = ()

    @property
    def graph(self) -> Graph:
        """Graph with the flop and bytes of this submission."""
        if not self.rows:
            return self.variant.graph
        ops, at = self.variant.graph.ops, list(self.rows)
        flop, moved = ops.flop.copy(), ops.bytes.copy()
        flop[at], moved[at] = self.flop, self.bytes
        return self.variant.graph.with_ops(ops.replace(flop=flop, bytes=moved))

    @property
    def answers(self) -> OpTimings:
        """Op timings with the times of this submission."""
        answers = self.variant.answers
        if not self.timed:
            return answers
        timing, at = answers.timing, list(self.timed)
        fixed, work = timing.fixed.copy(), None if timing.work is None else timing.work.copy()
        fixed[at] = self.fixed
        if work is not None:
            work[at] = self.work
        holds = timing.holds
        if holds is not None:
            holds = replace(holds, amount=self.numbers.amount)
        return replace(answers, timing=replace(timing, fixed=fixed, work=work, holds=holds))


class SomeSubmission(Protocol):
    """What the record of a run reads of a submission; see :class:`Submission`."""

    @property
    def variant(self) -> PreparedVariant:
        """Variant of the graph."""

    @property
    def numbers(self) -> Numbers:
        """Durations, work and amounts."""

    @property
    def timed(self) -> Sequence[int]:
        """Rows that have other timings."""

    @property
    def work(self) -> Sequence[float]:
        """Work of these rows."""

    @property
    def graph(self) -> Graph:
        """Graph with the flop and bytes of this submission."""

    @property
    def answers(self) -> OpTimings:
        """Op timings with the times of this submission."""

    def _replace(self, *, numbers: Numbers) -> Any:
        """Copy with other numbers."""


class PreparedRun(SubmittedRun):
    """Submitted prepared graph in the record of a run; its tables are computed on access."""

    def __init__(
        self,
        submission: SomeSubmission,
        first: int,
        job: int = 0,
        at: int = 0,
        by: str = "",
        draw_key: tuple[int, ...] = (),
    ):
        own = {"job": job, "at": at, "by": by, "draw_key": draw_key}
        variant = submission.variant
        self.__dict__.update(
            submission=submission, first=first, ranks=variant.ranks, pins=variant.pins, **own
        )

    submission: SomeSubmission

    def as_only_job(self, first: int) -> PreparedRun:
        """Copy of the submission for the result of its own job; its first op has id ``first``."""
        return PreparedRun(self.submission, first, 0, self.at, self.by, self.draw_key)

    @cached_property
    def graph(self) -> Graph:
        """Graph as placed, with the flop and bytes of this submission."""
        return self.submission.graph

    @cached_property
    def answers(self) -> OpTimings:
        """Op timings of this submission, with its flop and bytes."""
        return self.submission.answers

    @property
    def structure(self) -> EngineGraph:
        """Engine graph of its variant."""
        return self.submission.variant.lowered

    @cached_property
    def lowered(self) -> EngineGraph:
        """Engine graph with the drawn durations."""
        return self.submission.numbers.put_into(self.submission.variant.lowered)


def timing_structures(answers: OpTimings) -> list[TimingStructure]:
    """Timing structure of each op: its usage, holds, source and spread."""
    timing, n = answers.timing, len(answers.source)
    usage = timing.usage or Usage.repeated([], n)
    pairs = list(zip(usage.component.tolist(), usage.weight.tolist(), strict=True))
    ends = usage.indptr.tolist()
    limited = [False] * n if timing.limit is None else np.isfinite(timing.limit).tolist()
    spread: list[tuple[bytes, ...]] = [()] * n
    for rows, one in answers.spreads:
        key = (one.step.tobytes(), one.op.tobytes(), one.start.tobytes())
        for row in rows.tolist():
            spread[row] = key
    held = holds_by_row(timing, n)
    return [
        TimingStructure(
            tuple(pairs[ends[i] : ends[i + 1]]),
            limited[i],
            answers.sources[s],
            tuple((component, until) for component, _, until in held[i]),
            spread[i],
        )
        for i, s in enumerate(answers.source.tolist())
    ]


def holds_by_row(timing: Timing, n: int) -> list[list[tuple[int, int, int]]]:
    """Amounts that each op holds: (component, amount, row whose end releases it or -1)."""
    holds = timing.holds
    if holds is None:
        return [[] for _ in range(n)]
    columns = holds.component.tolist(), holds.amount.tolist(), holds.until.tolist()
    flat, ends = list(zip(*columns, strict=True)), holds.indptr.tolist()
    return [flat[ends[i] : ends[i + 1]] for i in range(n)]


def _first_rows(keys: Mapping[int, T]) -> dict[T, int]:
    """First row with each key, ascending."""
    found: dict[T, int] = {}
    for row, key in keys.items():
        found.setdefault(key, row)
    return found


def row_timings(answers: OpTimings, lowered: EngineGraph) -> list[RowTiming]:
    """Timing of each op of a table, in SI units and in engine integers."""
    timing, flows, n = answers.timing, lowered.flows, len(answers.source)
    work = np.zeros(n) if timing.work is None else timing.work
    limit = np.full(n, np.inf) if timing.limit is None else timing.limit
    hi, lo, most = [0] * n, [0] * n, [-1] * n
    for k, row in enumerate(flows.op.tolist()):
        hi[row], lo[row] = int(flows.work_hi[k]), int(flows.work_lo[k])
        most[row] = int(flows.limit[k])
    amounts = [tuple(amount for _, amount, _ in held) for held in holds_by_row(timing, n)]
    columns = (
        timing.fixed.tolist(),
        work.tolist(),
        limit.tolist(),
        amounts,
        timing_structures(answers),
    )
    return [
        RowTiming(*row) for row in zip(*columns, lowered.fixed.tolist(), hi, lo, most, strict=True)
    ]


def replace_row_timings(
    answers: OpTimings, base: Sequence[TimingStructure], by_row: Mapping[int, RowTiming]
) -> OpTimings:
    """Copy of the op timings in which the given rows are replaced."""
    n, timing = len(base), answers.timing
    row_ways = [by_row[i].structure if i in by_row else way for i, way in enumerate(base)]
    fixed = timing.fixed.copy()
    work = np.zeros(n) if timing.work is None else timing.work.copy()
    limit = np.full(n, np.inf) if timing.limit is None else timing.limit.copy()
    for row, answer in by_row.items():
        fixed[row], work[row], limit[row] = answer.fixed, answer.work, answer.limit
    sources = list(dict.fromkeys(way.source for way in row_ways))
    spreads: dict[tuple[bytes, ...], list[int]] = {}
    for row, way in enumerate(row_ways):
        if way.spread:
            spreads.setdefault(way.spread, []).append(row)
    uses = [use for way in row_ways for use in way.usage]
    usage = Usage(
        np.cumsum([0, *(len(way.usage) for way in row_ways)]),
        np.array([c for c, _ in uses], np.int32),
        np.array([w for _, w in uses], np.float64),
    )
    held = holds_by_row(timing, n)
    for row, answer in by_row.items():
        of = zip(answer.structure.holds, answer.amounts, strict=True)
        held[row] = [(component, amount, until) for (component, until), amount in of]
    holds = Holds.of(held) if any(held) else None
    return replace(
        answers,
        timing=Timing(fixed, work, usage, limit, holds=holds),
        source=np.array([sources.index(way.source) for way in row_ways], np.int32),
        sources=tuple(sources),
        spreads=tuple(
            (np.array(rows, np.int64), Spread(*map(np.frombuffer, key)))
            for key, rows in spreads.items()
        ),
    )
