"""Critical path of a run, with every tick charged to a component or to another reason.

The walk goes backwards from the last end. While an op runs, its limiting component is charged:
its own component during ``fixed``, then the saturated component during its work, split where its
rate changed. Before that, the op waited for another op: one that ended exactly when this op became
ready, or that released its slot exactly when this op started. The walk continues there. A wait of
an op, or of the process that submitted it, for a capacity is charged to the capacity; the walk
continues at the start of the wait. Time without any explanation is charged to ``release``,
``process`` or ``gap``.

With several jobs, the walk stays within one job. If an op of another job held the slot, or shared
the component, the component is charged as usual; ``slowed_by`` then gives the other job, and
``slowed_at`` the job and the component.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER
from ..facts.csr import Csr
from ..facts.ops import Kind
from ..facts.part_names import names_by_number
from ..facts.roles import NETWORK
from ..record.run_record import RunRecord
from ..record.schedule import SubmittedRun
from ..units import Seconds, seconds
from .flow_history import FlowHistory, RateBound
from .holdings import CapacityWait, op_id_of_each_claim

RELEASE, PROCESS, GAP = "release", "process", "gap"


class Charge(NamedTuple):
    """One segment of the critical path, in ticks.

    ``op`` is the id of the op that ran, -1 if none did. ``who`` is the charged component, or
    ``release``, ``process`` or ``gap``.
    """

    start: int
    end: int
    op: int
    who: str


@dataclass(frozen=True, repr=False)
class Blame:
    """Critical path from first to last segment, and its ticks by charged component.

    ``slowed_at`` contains the ticks lost to ops of other jobs, by job and component: the complete
    wait for a slot, and for a shared rate the fraction that the other jobs used.
    """

    path: tuple[Charge, ...]
    tick: Seconds
    slowed_at: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Short text with the largest charges; the path itself may be very long."""
        largest = ", ".join(f"{who} {t:.6g} s" for who, t in list(self.seconds.items())[:5])
        return f"Blame({largest}{', ...' * (len(self.ticks) > 5)})"

    @cached_property
    def ticks(self) -> dict[str, int]:
        """Ticks by charged component, largest first; with ops, they sum exactly to the makespan."""
        found: dict[str, int] = {}
        for c in self.path:
            found[c.who] = found.get(c.who, 0) + c.end - c.start
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def slowed_by(self) -> dict[str, int]:
        """Ticks lost to ops of other jobs, by job."""
        found: dict[str, int] = {}
        for (job, _), t in self.slowed_at.items():
            found[job] = found.get(job, 0) + t
        return found

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by charged component, largest first."""
        return {who: float(seconds(t, self.tick)) for who, t in self.ticks.items()}


def blame(result: RunRecord) -> Blame:
    """Critical path of a run, with every tick charged; see :meth:`Result.blame`."""
    walk = _CriticalPathWalk(result)
    return Blame(tuple(walk.path()), result.tick, walk.others.ticks)


class _OpsByEnd:
    """Index of ops by their end tick."""

    def __init__(self, end: NDArray[np.int64], ops: NDArray[np.int64]):
        self._ops = ops[np.argsort(end[ops], kind="stable")]
        self._ends = end[self._ops]

    def at(self, tick: int) -> list[int]:
        """Ops that ended at a tick, highest id first."""
        a, b = np.searchsorted(self._ends, [tick, tick + 1])
        found: list[int] = self._ops[a:b][::-1].tolist()
        return found

    def last_before(self, tick: int, first: int) -> int:
        """Latest tick before ``tick`` at which an op ended; ``first`` if there is none."""
        i = int(np.searchsorted(self._ends, tick))
        return int(self._ends[i - 1]) if i else first


class _InterferenceTally:
    """Critical-path ticks of a job that are caused by ops of other jobs (interference)."""

    def __init__(self, result: RunRecord):
        self.whole = result.whole or result
        self.job = -1 if result.whole is None else self.whole.jobs.index(result.jobs[0])
        self.ticks: dict[tuple[str, str], int] = {}

    def is_from_other_job(self, op: int) -> bool:
        """True if an op belongs to another job and took time."""
        if self.job < 0 or self.whole.job.item(op) == self.job:
            return False
        columns = self.whole.columns
        return bool(columns.start[op] < columns.end[op])

    def add_ticks(self, op: int, ticks: int, component: str) -> None:
        """Add ticks at a component to the tally of the job that owns an op."""
        if ticks:
            key = self.whole.jobs[self.whole.job.item(op)], component
            self.ticks[key] = self.ticks.get(key, 0) + ticks

    def add_shared_rate(self, bound: RateBound) -> None:
        """Add the fraction of a saturated component's rate that each other job used."""
        if self.job < 0 or bound.component is None:
            return
        full = self.whole.parts.names[bound.component]
        whole = sum(bound.taken.values())
        by_job: dict[int, tuple[int, int]] = {}  # one of its ops, and what all of them took
        for op, taken in bound.taken.items():
            if self.whole.job.item(op) != self.job:
                k = self.whole.job.item(op)
                by_job[k] = op, taken + by_job.get(k, (op, 0))[1]
        for op, taken in by_job.values():
            self.add_ticks(op, (bound.end - bound.start) * taken // max(whole, 1), full)


class _CriticalPathWalk:
    """Backward walk over a job's critical path, from the last end to the first release.

    Ops are numbered as in the complete run.
    """

    def __init__(self, result: RunRecord):
        whole = result.whole or result
        self.result, self.columns = result, whole.columns
        self.first = result.first_release
        self.others = _InterferenceTally(result)
        self.history = _RunLookup(whole, self.others)
        ended = np.flatnonzero(self.columns.end != NEVER)
        self.all = self.own = _OpsByEnd(self.columns.end, ended)
        self.rows: NDArray[np.int64] | None = None  # of the job, where it is one of several
        if result.whole is not None:
            self.rows = whole.rows(self.others.job)
            self.own = _OpsByEnd(
                self.columns.end, np.intersect1d(ended, self.rows, assume_unique=True)
            )
        self.opening = next((r.first for r in whole.runs if self.others.job in (-1, r.job)), -1)
        self.seen: set[int] = set()
        self.by = ""  # the process that submitted the op last looked at

    def path(self) -> list[Charge]:
        """Charges of the critical path, first to last, with ops numbered as in the job's result.

        A run without ops has none.
        """
        if not len(self.columns.end):
            return []
        found = self._walk_critical_path()
        if self.rows is None:
            return found
        op = np.searchsorted(self.rows, [c.op for c in found]).tolist()
        return [c._replace(op=i) if c.op >= 0 else c for c, i in zip(found, op, strict=True)]

    def _walk_critical_path(self) -> list[Charge]:
        found: list[Charge] = []
        now = self.first + self.result.makespan_ticks
        op = self._ended_at(now)
        while now > self.first:
            if op is None:
                now = self._charge_idle_time(now, found)
                op = self._ended_at(now)
                continue
            now, op = self._walk_dependencies(op, now, found)
            if now <= self.first:
                break
            self.seen.add(op)
            start = max(int(self.columns.start[op]), self.first)
            found += reversed(self.history.charges(op, start, now))
            now, op = self._reason_for_start(op, start, found)
        return [c for c in reversed(found) if c.end > c.start]

    def _walk_dependencies(self, op: int, now: int, found: list[Charge]) -> tuple[int, int]:
        """Walk along ops that have a single charge and started at the end of a dependency.

        Returns the tick and the op at which such a chain begins. This is the common case; its data
        is precomputed for all ops at once.
        """
        run, row = self.history.graph_and_row(op)
        links, first = self.history.links(run), run.first
        start_of, reason_of, who_of = links.start.item, links.reason.item, links.who.item
        while now > self.first:
            reason = reason_of(row)
            if reason < 0 or first + reason in self.seen:
                break
            self.seen.add(first + row)
            start = start_of(row)
            found.append(Charge(start, now, first + row, who_of(row)))
            now, row = start, reason
        return now, first + row

    def _charge_idle_time(self, now: int, found: list[Charge]) -> int:
        """Charge time without ops to a process, or to the capacity that the process waited for.

        Returns the tick at which that time began.
        """
        earlier = max(self.own.last_before(now, self.first), self.first)
        wait = self.history.last_wait_of_process(self.by, now)
        if wait is None or wait.granted < earlier:
            found.append(Charge(earlier, now, -1, PROCESS))
            return earlier
        found.append(Charge(wait.granted, now, -1, PROCESS))
        return self._charge_wait(wait, found)

    def _charge_wait(self, wait: CapacityWait, found: list[Charge]) -> int:
        """Charge a wait to its capacity; returns the tick at which the wait began."""
        asked = max(wait.asked, self.first)
        found.append(Charge(asked, wait.granted, -1, self.result.parts.names[wait.component]))
        return asked

    def _reason_for_start(self, op: int, start: int, found: list[Charge]) -> tuple[int, int | None]:
        """Find why ``op`` started when it did: the tick, and the op that caused it (or None)."""
        run, row = self.history.graph_and_row(op)
        self.by = run.by
        wait = self.history.wait(op)
        ready = max(int(self.columns.ready[op]), self.first)
        queued = ready if wait is None else max(wait.granted, ready)
        if self.columns.attempts[op] > 1 and run.graph.ops.kind[row] in NETWORK:
            found.append(Charge(queued, start, op, self.history.timing_component(run, row)))
            start = queued  # it was under way before, by another route
        while queued < start:  # it waited for a slot
            ops = self._ended_with_slot(run, row, start)
            other = next((i for i in ops if self.others.is_from_other_job(i)), None)
            mine = self._first_unvisited(i for i in ops if not self.others.is_from_other_job(i))
            if mine is not None or other is None:
                return start, mine
            since = max(int(self.columns.start[other]), queued)
            slot = self.history.common_slot(op, other)
            self.others.add_ticks(other, start - since, slot)
            found.append(Charge(since, start, -1, slot))
            start = since
        if wait is not None and wait.granted == start:
            start = self._charge_wait(wait, found)
        reason = self._first_unvisited(self._dependencies_ended_at(run, row, start))
        if reason is not None:
            return start, reason
        release = run.at + self.history.release(run, row)
        if run.first == self.opening and run.at == self.first < start == release:
            found.append(Charge(self.first, start, -1, RELEASE))
            return self.first, None
        process = self.history.last_wait_of_process(self.by, start)
        if process is not None and process.granted == start:
            return start, None
        return start, self._ended_at(start)

    def _first_unvisited(self, ops: Iterable[int]) -> int | None:
        return next((i for i in ops if i not in self.seen), None)

    def _ended_at(self, tick: int) -> int | None:
        return self._first_unvisited(self.own.at(tick))

    def _dependencies_ended_at(self, run: SubmittedRun, row: int, tick: int) -> list[int]:
        """Dependencies of an op that ended at a tick, highest id first."""
        end, first = self.columns.end, run.first
        found = [first + r for r in self.history.predecessors(run, row) if end[first + r] == tick]
        return sorted(found, reverse=True)

    def _ended_with_slot(self, run: SubmittedRun, row: int, tick: int) -> list[int]:
        """Ops that released, at a tick, a slot that this op then took."""
        wanted = self.history.slots(run, row)
        found = self.all.at(tick)
        return [i for i in found if wanted & self.history.slots(*self.history.graph_and_row(i))]


class _CriticalLinks(NamedTuple):
    """Start, critical predecessor and charged component of each op of a graph.

    ``reason`` is the row of the last dependency, if it ended exactly when the op became ready and
    started. It is -1 otherwise, and if several components may be charged for the op.
    """

    start: NDArray[np.int64]
    reason: NDArray[np.int64]
    who: NDArray[np.object_]


class _RunLookup:
    """Lookups for single ops of a run: graph, dependencies, slots, waits and charges."""

    def __init__(self, result: RunRecord, others: _InterferenceTally):
        self.result, self.others = result, others
        self.firsts = [r.first for r in result.runs]
        self.flights = FlowHistory(result)
        self._incoming: dict[int, Csr] = {}
        self._links: dict[int, _CriticalLinks] = {}
        self._slots: dict[int, NDArray[np.int32]] = {}

    def graph_and_row(self, op: int) -> tuple[SubmittedRun, int]:
        """Graph that contains an op, and the op's row in it."""
        run = self.result.runs[bisect_right(self.firsts, op) - 1]
        return run, op - run.first

    @cached_property
    def _capacity_claims(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Op and component of each claim on a capacity, ascending by op."""
        component = [run.lowered.claims.component for run in self.result.runs]
        return op_id_of_each_claim(self.result), np.concatenate([np.empty(0, np.int32), *component])

    def wait(self, op: int) -> CapacityWait | None:
        """Last wait of an op for a capacity, or None."""
        ops, component = self._capacity_claims
        a, b = np.searchsorted(ops, [op, op + 1])
        if a == b:
            return None
        last = a + int(np.argmax(self.result.columns.granted[a:b]))
        asked, granted = self.result.columns.asked[last], self.result.columns.granted[last]
        return (
            CapacityWait(int(component[last]), int(asked), int(granted))
            if asked < granted
            else None
        )

    @cached_property
    def _waits_of_processes(self) -> dict[str, list[CapacityWait]]:
        """Waits of each process for capacities, sorted by their end."""
        found: dict[str, list[CapacityWait]] = {}
        names, waits = self.result.acquired.names, self.result.acquired.waits
        for component, asked, granted, who in waits.tolist():
            found.setdefault(names[who], []).append(CapacityWait(component, asked, granted))
        return found

    def last_wait_of_process(self, process: str, now: int) -> CapacityWait | None:
        """Last wait of a process for a capacity that had ended by tick ``now``, or None."""
        waits = self._waits_of_processes.get(process, [])
        at = bisect_right(waits, now, key=lambda wait: wait.granted)
        return waits[at - 1] if at else None

    def release(self, run: SubmittedRun, row: int) -> int:
        release = run.lowered.release
        return int(release[row]) if len(release) else 0

    def links(self, run: SubmittedRun) -> _CriticalLinks:
        """Start, critical predecessor and charge of each op of a graph, computed once."""
        if run.first not in self._links:
            self._links[run.first] = self._links_of_run(run)
        return self._links[run.first]

    def _links_of_run(self, run: SubmittedRun) -> _CriticalLinks:
        columns, block, flows = self.result.columns, run.graph.explicit, run.lowered.flows
        rows = slice(run.first, run.first + len(block))
        start, end = columns.start[rows], columns.end[rows]
        idle = np.isin(run.graph.ops.kind, (Kind.GAP, Kind.DELAY))
        source, target = block.successors.owner, block.op_of_place[block.successors.values]
        at_once = np.flatnonzero(end[source] == start[target])
        reason = np.full(len(block), -1)
        reason[target[at_once]] = source[at_once]  # ascending: the last one stays
        plain = (columns.ready[rows] == start) & (start >= self.result.first_release)
        plain[flows.op[(flows.work_hi != 0) | (flows.work_lo != 0)]] = False
        plain[[op - run.first for op in self.result.moved if rows.start <= op < rows.stop]] = False
        asked = np.where(idle, -1, run.answers.component)
        who = names_by_number(self.result.parts.names, asked, GAP)
        return _CriticalLinks(start, np.where(plain, reason, -1), who)

    def predecessors(self, run: SubmittedRun, row: int) -> list[int]:
        """Rows of all dependencies of a row."""
        if run.first not in self._incoming:
            block = run.graph.explicit
            target = block.op_of_place[block.successors.values]
            self._incoming[run.first] = Csr.from_pairs(target, block.successors.owner, len(block))
        found: list[int] = self._incoming[run.first][row].tolist()
        return found

    def slots(self, run: SubmittedRun, row: int) -> set[int]:
        """Components whose slots the op of a row used last."""
        if run.first not in self._slots:
            self._slots[run.first] = self.result.slots(run)
        slot, lowered = self._slots[run.first], run.lowered
        a, b = np.searchsorted(lowered.further, [row, row + 1])
        places = [row, *range(len(lowered) + a, len(lowered) + b)]
        return {s for s in slot[places].tolist() if s >= 0}

    def common_slot(self, op: int, other: int) -> str:
        """Name of a component of which both ops used a slot."""
        both = self.slots(*self.graph_and_row(op)) & self.slots(*self.graph_and_row(other))
        return self.result.parts.names[min(both)]

    def charges(self, op: int, start: int, end: int) -> list[Charge]:
        """Charges of an op between two ticks, first to last."""
        run, row = self.graph_and_row(op)
        who = self.timing_component(run, row)
        flow = int(np.searchsorted(run.lowered.flows.op, row))
        flows = run.lowered.flows
        shares = flow < len(flows) and flows.op[flow] == row and flows.work(flow) > 0
        once = self.result.columns.attempts[op] == 1
        if not shares or not once:
            return [Charge(start, end, op, who)]
        middle = min(start + int(run.lowered.fixed[row]), end)
        return [Charge(start, middle, op, who), *self._split_work_charges(op, middle, end)]

    def timing_component(self, run: SubmittedRun, row: int) -> str:
        """Name of the component whose backend timed an op; ``gap`` for delays and gaps."""
        return str(self.links(run).who[row])

    def _split_work_charges(self, op: int, start: int, end: int) -> list[Charge]:
        """Charges of an op's work phase, split where its limiting component changed."""
        run, row = self.graph_and_row(op)
        found: list[Charge] = []
        for bound in self.flights.bounds(op, start, end):
            self.others.add_shared_rate(bound)
            names = self.result.parts.names
            who = (
                self.timing_component(run, row)
                if bound.component is None
                else names[bound.component]
            )
            if found and found[-1].who == who:
                found[-1] = found[-1]._replace(end=bound.end)
            else:
                found.append(Charge(bound.start, bound.end, op, who))
        return found
