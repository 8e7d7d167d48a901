"""Critical path of a run, with every tick of it charged to a component or a reason.

The walk goes backwards from the last end.  While an op runs, the component that bounds it is
charged: its own component while ``fixed`` passes, the fullest component it shares while it
works (split where its rate changed).  Before it ran it waited for an op that ended exactly when
it became ready, or that gave back its slot exactly when it started; the walk goes on there.
Where an op waited for a capacity, or the process did that submitted it, the wait is charged to the
capacity, and the walk goes on where it began.  What nothing explains is charged to ``release``,
``process`` or ``gap``.

The walk of one of several jobs keeps to its own ops.  Where one waited for a slot that an op of
another job held, or shared what it used with one, the component is charged all the same, and
``slowed_by`` says whose op took it, ``slowed_at`` also of which component.
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
    """One stretch of the critical path, in ticks.

    ``op`` is the id of the op that ran, -1 while none did; ``who`` a component's name, or
    ``release``, ``process`` or ``gap``.
    """

    start: int
    end: int
    op: int
    who: str


@dataclass(frozen=True, repr=False)
class Blame:
    """The critical path, first to last, and its ticks by who is charged.

    ``slowed_at`` are those of its ticks that ops of other jobs took, by job and component: all of a
    wait for a slot, and of a stretch in which a rate was shared the share that they had of it.
    """

    path: tuple[Charge, ...]
    tick: Seconds
    slowed_at: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Largest charges in short; the path itself may be as long as the run."""
        largest = ", ".join(f"{who} {t:.6g} s" for who, t in list(self.seconds.items())[:5])
        return f"Blame({largest}{', ...' * (len(self.ticks) > 5)})"

    @cached_property
    def ticks(self) -> dict[str, int]:
        """Ticks by who is charged, largest first; they sum to the makespan exactly."""
        found: dict[str, int] = {}
        for c in self.path:
            found[c.who] = found.get(c.who, 0) + c.end - c.start
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def slowed_by(self) -> dict[str, int]:
        """Ticks that ops of other jobs took, by job."""
        found: dict[str, int] = {}
        for (job, _), t in self.slowed_at.items():
            found[job] = found.get(job, 0) + t
        return found

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by who is charged, largest first."""
        return {who: float(seconds(t, self.tick)) for who, t in self.ticks.items()}


def blame(result: RunRecord) -> Blame:
    """Critical path of a run with every tick charged; see :meth:`Result.blame`."""
    walk = _CriticalPathWalk(result)
    return Blame(tuple(walk.path()), result.tick, walk.others.ticks)


class _OpsByEnd:
    """Ops in the order of their ends."""

    def __init__(self, end: NDArray[np.int64], ops: NDArray[np.int64]):
        self._ops = ops[np.argsort(end[ops], kind="stable")]
        self._ends = end[self._ops]

    def at(self, tick: int) -> list[int]:
        """Ops that ended at a tick, last id first."""
        a, b = np.searchsorted(self._ends, [tick, tick + 1])
        found: list[int] = self._ops[a:b][::-1].tolist()
        return found

    def last_before(self, tick: int, first: int) -> int:
        """Last tick before one at which an op ended; ``first`` without any."""
        i = int(np.searchsorted(self._ends, tick))
        return int(self._ends[i - 1]) if i else first


class _InterferenceTally:
    """Tally of a job's critical-path ticks that are due to ops of other jobs (interference)."""

    def __init__(self, result: RunRecord):
        self.whole = result.whole or result
        self.job = -1 if result.whole is None else self.whole.jobs.index(result.jobs[0])
        self.ticks: dict[tuple[str, str], int] = {}

    def is_from_other_job(self, op: int) -> bool:
        """Whether an op is of another job and took time."""
        if self.job < 0 or self.whole.job.item(op) == self.job:
            return False
        columns = self.whole.columns
        return bool(columns.start[op] < columns.end[op])

    def add_ticks(self, op: int, ticks: int, component: str) -> None:
        """Add ticks at a component to the tally of the job that an op belongs to."""
        if ticks:
            key = self.whole.jobs[self.whole.job.item(op)], component
            self.ticks[key] = self.ticks.get(key, 0) + ticks

    def add_shared_rate(self, bound: RateBound) -> None:
        """Add to the tally the share of a saturated component's rate that other jobs used."""
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

    Ops have the numbers that they have in the whole run.
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
        """The charges, first to last, with ops numbered as in the result of the job."""
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
        """Walk along ops with one charge each, each begun by a dependency's end: the common case.

        Nearly every op of a trace is so; what is looked at here was found for all of them at once.
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
        """Charge a time without ops to a process, or the capacity it waited for; tick it began."""
        earlier = max(self.own.last_before(now, self.first), self.first)
        wait = self.history.last_wait_of_process(self.by, now)
        if wait is None or wait.granted < earlier:
            found.append(Charge(earlier, now, -1, PROCESS))
            return earlier
        found.append(Charge(wait.granted, now, -1, PROCESS))
        return self._charge_wait(wait, found)

    def _charge_wait(self, wait: CapacityWait, found: list[Charge]) -> int:
        """Charge a wait to its capacity; the tick at which it began."""
        asked = max(wait.asked, self.first)
        found.append(Charge(asked, wait.granted, -1, self.result.parts.names[wait.component]))
        return asked

    def _reason_for_start(self, op: int, start: int, found: list[Charge]) -> tuple[int, int | None]:
        """The tick at which the reason for the start of ``op`` ended, and that reason."""
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
        """Dependencies of an op that ended at the tick, last id first."""
        end, first = self.columns.end, run.first
        found = [first + r for r in self.history.predecessors(run, row) if end[first + r] == tick]
        return sorted(found, reverse=True)

    def _ended_with_slot(self, run: SubmittedRun, row: int, tick: int) -> list[int]:
        """Ops that freed, at the tick, a slot that this op took."""
        wanted = self.history.slots(run, row)
        found = self.all.at(tick)
        return [i for i in found if wanted & self.history.slots(*self.history.graph_and_row(i))]


class _CriticalLinks(NamedTuple):
    """Start, critical predecessor and charged component of each op of a graph, where there is one.

    ``reason`` is the last row that it waited for and that ended when it became ready and started;
    -1 where there is none, and where more than one component may be charged for the op.
    """

    start: NDArray[np.int64]
    reason: NDArray[np.int64]
    who: NDArray[np.object_]


class _RunLookup:
    """Lookups of single ops in a run: graph, dependencies, slots, waits and charges."""

    def __init__(self, result: RunRecord, others: _InterferenceTally):
        self.result, self.others = result, others
        self.firsts = [r.first for r in result.runs]
        self.flights = FlowHistory(result)
        self._incoming: dict[int, Csr] = {}
        self._links: dict[int, _CriticalLinks] = {}
        self._slots: dict[int, NDArray[np.int32]] = {}

    def graph_and_row(self, op: int) -> tuple[SubmittedRun, int]:
        """Graph of an op, and its row there."""
        run = self.result.runs[bisect_right(self.firsts, op) - 1]
        return run, op - run.first

    @cached_property
    def _capacity_claims(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Op and component of each claim on a capacity, ascending by op."""
        component = [run.lowered.claims.component for run in self.result.runs]
        return op_id_of_each_claim(self.result), np.concatenate([np.empty(0, np.int32), *component])

    def wait(self, op: int) -> CapacityWait | None:
        """Last wait of an op for a capacity, None without one."""
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
        """Waits of each process for capacities, by their end."""
        found: dict[str, list[CapacityWait]] = {}
        names, waits = self.result.acquired.names, self.result.acquired.waits
        for component, asked, granted, who in waits.tolist():
            found.setdefault(names[who], []).append(CapacityWait(component, asked, granted))
        return found

    def last_wait_of_process(self, process: str, now: int) -> CapacityWait | None:
        """Last wait of a process that had ended by then, None without one."""
        waits = self._waits_of_processes.get(process, [])
        at = bisect_right(waits, now, key=lambda wait: wait.granted)
        return waits[at - 1] if at else None

    def release(self, run: SubmittedRun, row: int) -> int:
        release = run.lowered.release
        return int(release[row]) if len(release) else 0

    def links(self, run: SubmittedRun) -> _CriticalLinks:
        """Start, predecessor and charge of each op of a graph, computed once."""
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
        """Rows that any place of a row waits for."""
        if run.first not in self._incoming:
            block = run.graph.explicit
            target = block.op_of_place[block.successors.values]
            self._incoming[run.first] = Csr.from_pairs(target, block.successors.owner, len(block))
        found: list[int] = self._incoming[run.first][row].tolist()
        return found

    def slots(self, run: SubmittedRun, row: int) -> set[int]:
        """Components of the last slots of all places of a row."""
        if run.first not in self._slots:
            self._slots[run.first] = self.result.slots(run)
        slot, lowered = self._slots[run.first], run.lowered
        a, b = np.searchsorted(lowered.further, [row, row + 1])
        places = [row, *range(len(lowered) + a, len(lowered) + b)]
        return {s for s in slot[places].tolist() if s >= 0}

    def common_slot(self, op: int, other: int) -> str:
        """Component of which both ops had a slot."""
        both = self.slots(*self.graph_and_row(op)) & self.slots(*self.graph_and_row(other))
        return self.result.parts.names[min(both)]

    def charges(self, op: int, start: int, end: int) -> list[Charge]:
        """Charges of an op from its start to its end, first to last."""
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
        """Component that was asked about an op; ``gap`` for delays and gaps."""
        return str(self.links(run).who[row])

    def _split_work_charges(self, op: int, start: int, end: int) -> list[Charge]:
        """Charges of the work phase of an op, split where the bounding component changed."""
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
