"""Relocation of ops: move them to another GPU, slot or route, and update timings and tables.

A rank is moved by naming the GPU that replaces its own; slots and routes follow as at placement.
An op is moved by naming its new slots; the GPU of a slot is then the one that has it as a part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import proxy

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import OVER, Answer, EngineGraph, TimingElsewhere
from ..errors import SimulationError
from ..facts.csr import Csr
from ..facts.kind import GPU, ROLES, Kind
from ..facts.roles import NETWORK, components_by_role, role_of_op
from ..facts.system import System
from ..record.prepared import RowTiming, replace_row_timings, row_timings, timing_structures
from ..record.schedule import SubmittedRun
from .duration_draws import DurationDraws
from .run_interface import RunInterface
from .timing.graph_timing import GraphTiming


class OpPlace(NamedTuple):
    """Location of an op: its slots, its GPUs, and the component whose backend times it.

    Parameters
    ----------
    slots : slot component on each member rank; -1 for none
    gpus : GPU of each member rank, and of the other end of a send or recv
    component : component whose backend times it; -1 for none
    """

    slots: tuple[int, ...]
    gpus: tuple[int, ...]
    component: int


class MovedOp(NamedTuple):
    """Op that was moved, with its new location and its timing there, before random draws."""

    place: OpPlace
    timing: RowTiming
    online: bool


def original_place(run: SubmittedRun, row: int) -> OpPlace:
    """Location at which an op was placed originally."""
    block, gpus = run.graph.explicit, run.graph.gpus
    assert gpus is not None  # noqa: S101  submitted graphs are placed
    places = place_numbers(run, row)
    ranks = block.rank[places].tolist()
    peer = [int(block.peer[row])] if block.peer[row] >= 0 else []
    return OpPlace(
        tuple(run.lowered.slot[places].tolist()),
        tuple(int(gpus[r]) for r in ranks + peer),
        int(run.answers.component[row]),
    )


def place_numbers(run: SubmittedRun, row: int) -> NDArray[np.int64]:
    """Place numbers of an op: one per member rank."""
    further = run.lowered.further
    a, b = np.searchsorted(further, [row, row + 1])
    return np.array([row, *range(len(run.lowered) + a, len(run.lowered) + b)], np.int64)


def place_on_other_gpus(
    run: SubmittedRun, row: int, now: OpPlace, instead: Mapping[int, int], system: System
) -> OpPlace:
    """Location of an op after some GPUs are replaced by others."""
    block, kind = run.graph.explicit, Kind(run.graph.ops.kind[row])
    slots, gpus = list(now.slots), tuple(instead.get(g, g) for g in now.gpus)
    for k, p in enumerate(place_numbers(run, row).tolist()):
        if slots[k] >= 0 and gpus[k] != now.gpus[k]:
            stream = int(block.rank[p]), int(block.stream[p])
            role = role_of_op(kind, run.graph.streams, stream)
            slots[k] = _component_in_role(system, gpus[k], role or GPU)
    asked = now.component
    if kind.role:
        ops = run.graph.ops
        stream = int(ops.rank[row]), int(ops.stream[row])
        asked = _component_in_role(
            system, gpus[0], role_of_op(kind, run.graph.streams, stream) or GPU
        )
    return OpPlace(tuple(slots), gpus, asked)


def place_in_slots(
    run: SubmittedRun, row: int, now: OpPlace, slots: Sequence[int], system: System
) -> OpPlace:
    """Location of an op after it is moved to other slots."""
    kind = Kind(run.graph.ops.kind[row])
    if len(slots) != len(now.slots):
        raise SimulationError(
            "action",
            f"op {run.first + row}: it cannot be resumed with {len(slots)} slots; it runs on "
            f"{len(now.slots)} ranks: give one slot for each",
            (run.first + row,),
        )
    gpus = list(now.gpus)
    for k, (was, slot) in enumerate(zip(now.slots, slots, strict=True)):
        if slot != was and slot >= 0:
            gpus[k] = _gpu_of_slot(system, slot, now.gpus[k])
    asked = now.component
    if kind.role and slots[0] >= 0 and slots[0] != now.slots[0]:
        asked = slots[0]
    return OpPlace(tuple(slots), tuple(gpus), asked)


def _component_in_role(system: System, gpu: int, role: str) -> int:
    """Number of the component with a role for a GPU; the GPU's own number if there is none."""
    return int(components_by_role(system, np.array([gpu], np.int32))[role][0])


def _gpu_of_slot(system: System, slot: int, before: int) -> int:
    """Number of the GPU that a slot's component belongs to.

    This is the component itself if it is a GPU or belongs to none. Otherwise it is the previous GPU
    if the component is one of its parts, else the first GPU that has it as a part.
    """
    if slot in system.numbers:
        return slot
    roles = ROLES.keys() - {GPU}
    having = (g for g in (before, *system.numbers) if slot in {system.part(g, r) for r in roles})
    return next(having, slot)


class Relocations:
    """Relocations of a run: they time moved ops at their new location and update the tables."""

    def __init__(self, run: RunInterface, timing: GraphTiming, draws: DurationDraws):
        # A weak reference: a reference cycle would keep both in memory until Python collects it.
        self.run: RunInterface = proxy(run)
        self.timing, self.draws = timing, draws
        self.moved: dict[int, MovedOp] = {}  # by op, of graphs in memory
        self.unsettled: set[int] = set()  # moved ops whose new location is not in the tables yet
        self.ops: set[int] = set()  # all ops that were moved so far
        self.down: frozenset[int] = frozenset()  # components that routes lead around
        self._systems = {self.down: run.system}

    def set_avoided(self, down: frozenset[int]) -> None:
        """Route data around exactly these components from now on.

        Raises
        ------
        GraphError
            No other route exists around a component.
        """
        if down not in self._systems:
            self._systems[down] = self.run.system.avoiding(down)
        self.down = self.timing.down = down
        self.timing.routed = self._systems[down]
        for run in self.run.runs:
            self.reroute(run)

    def reroute(self, run: SubmittedRun) -> None:
        """Move the open sends and collectives of a graph to the current routes."""
        machine = self.run.machine
        kinds = run.graph.ops.kind
        rows = np.flatnonzero(np.isin(kinds, NETWORK) & (run.answers.component >= 0)).tolist()
        rows = [r for r in rows if machine.state(run.first + r) not in OVER]
        if not rows:
            return
        before = row_timings(run.answers, run.lowered)
        places = []
        for row in rows:
            moved = self.moved.get(run.first + row)
            places.append(original_place(run, row) if moved is None else moved.place)
            before[row] = before[row] if moved is None else moved.timing
        for op, (slots, there) in self._time_moves(run, rows, places, before).items():
            machine.stop(op)
            machine.resume(op, True, slots, None, there)

    def move(
        self,
        ops: Sequence[int],
        slots: Sequence[int] | None,
        instead: Mapping[int, int] | None,
    ) -> dict[int, tuple[Sequence[int], TimingElsewhere | None]]:
        """Move ops to other slots or GPUs; returns each op's slots and timing (None if unchanged).

        Raises
        ------
        SimulationError
            An op would hold other amounts of capacities than before.
        """
        found: dict[int, tuple[Sequence[int], TimingElsewhere | None]] = {}
        runs, system = self.run.runs, self.run.system
        by_run: dict[int, list[int]] = {}
        for op in ops:
            by_run.setdefault(bisect_right(runs, op, key=lambda run: run.first) - 1, []).append(op)
        for k, own in by_run.items():
            run, rows, places = runs[k], [], []
            for op in own:
                row = op - run.first
                now = self._place_now(run, row)
                if instead is not None:
                    then = place_on_other_gpus(run, row, now, instead, system)
                else:
                    then = place_in_slots(run, row, now, slots or (), system)
                found[op] = then.slots, None
                if then != now:
                    rows.append(row)
                    places.append(then)
            if rows:
                found |= self._time_moves(run, rows, places)
        return found

    def time_elsewhere(self, op: int, component: int) -> TimingElsewhere:
        """Timing of an op at the component to which a full queue sent it, by the backend there."""
        runs = self.run.runs
        run = runs[bisect_right(runs, op, key=lambda run: run.first) - 1]
        row = op - run.first
        now = self._place_now(run, row)
        then = place_in_slots(run, row, now, (component,), self.run.system)
        _, there = self._time_moves(run, [row], [then])[op]
        assert there is not None  # noqa: S101
        return there

    def _time_moves(
        self,
        run: SubmittedRun,
        rows: Sequence[int],
        places: Sequence[OpPlace],
        before: Sequence[RowTiming] = (),
    ) -> dict[int, tuple[Sequence[int], TimingElsewhere | None]]:
        """Time rows of a graph at new locations.

        Parameters
        ----------
        before : previous timing of each row of the graph; an op with the same timing does not move
        """
        timing, kinds = self.timing, run.graph.ops.kind
        chosen = set(rows)
        rows, places = self._with_rows_held_for(run, rows, places)
        at = np.array(rows, np.int64)
        component = np.array([p.component for p in places], np.int32)
        members = Csr.of(
            [p.gpus if kinds[r] in NETWORK else () for r, p in zip(rows, places, strict=True)]
        )
        timings, loose = timing.time_rows(run.graph, at, component, members, pins=run.pins)
        moved = [
            MovedOp(place, _with_graph_rows(one, rows), bool(online))
            for place, one, online in zip(
                places, row_timings(timings, loose), timings.online >= 0, strict=True
            )
        ]
        spreads = tuple((at[local], spread) for local, spread in timings.spreads)
        among = loose.scattered(len(run), at)
        there = SubmittedRun(
            run.graph, replace(timings, spreads=spreads), among, run.first, run.ranks, run.job
        )
        drawn = self.draws.draw(there, run.draw_key)
        found: dict[int, tuple[Sequence[int], TimingElsewhere | None]] = {}
        for k, (row, one) in enumerate(zip(rows, moved, strict=True)):
            if row not in chosen:
                continue
            if before and self._is_unaffected(run.first + row, one, before[row]):
                continue
            if not one.online:
                _check_holds(run, row, one.timing, timing.parts.names)
            backend = timings.drivers[timings.online[k]] if one.online else None
            asks = None if backend is None else timing.online_timing(
                run.graph, backend, {row: int(component[k])}, {row: members[k]}, run.pins
            )  # fmt: skip
            self.moved[run.first + row] = one
            self.ops.add(run.first + row)
            self.unsettled.add(run.first + row)
            found[run.first + row] = one.place.slots, asks or _engine_timing(drawn, row)
        return found

    def _with_rows_held_for(
        self, run: SubmittedRun, rows: Sequence[int], places: Sequence[OpPlace]
    ) -> tuple[Sequence[int], Sequence[OpPlace]]:
        """Rows to time together with moved ones, and their locations.

        These are all rows of the graph if a moved op holds an amount until another op ends, since a
        backend can name only a row of its table.
        """
        claims = run.lowered.claims
        if not np.any(claims.until[np.isin(claims.op, rows)] >= 0):
            return rows, places
        there = dict(zip(rows, places, strict=True))
        every = range(len(run))
        return every, [there[row] if row in there else self._place_now(run, row) for row in every]

    def _place_now(self, run: SubmittedRun, row: int) -> OpPlace:
        """Location of an op: where it was moved last, or its original one."""
        moved = self.moved.get(run.first + row)
        return original_place(run, row) if moved is None else moved.place

    def _is_unaffected(self, op: int, moved: MovedOp, before: RowTiming) -> bool:
        """True if a change of routes does not affect an op."""
        if moved.online:  # timed at its start; a started op may use a failed component
            return self.down.isdisjoint(self.run.machine.usage(op))
        return moved.timing.has_same_timing(before)

    def with_final_places(self, runs: Sequence[SubmittedRun]) -> list[SubmittedRun]:
        """Submitted graphs, with moved ops at the location where they ran last."""
        by_run: dict[int, dict[int, MovedOp]] = {}
        for op in sorted(self.unsettled):
            k = bisect_right(runs, op, key=lambda run: run.first) - 1
            by_run.setdefault(k, {})[op - runs[k].first] = self.moved[op]
        self.unsettled.clear()
        return [
            self._with_final_places(run, by_run[k]) if k in by_run else run
            for k, run in enumerate(runs)
        ]

    def forget_freed(self, runs: Sequence[SubmittedRun]) -> None:
        """Forget moved ops of all graphs that are no longer in memory."""
        held = {run.first: run.first + len(run) for run in runs}
        firsts = list(held)
        for op in list(self.moved):
            at = bisect_right(firsts, op) - 1
            if at < 0 or op >= held[firsts[at]]:
                del self.moved[op]

    def _with_final_places(self, run: SubmittedRun, moved: Mapping[int, MovedOp]) -> SubmittedRun:
        rows = np.array(sorted(moved), np.int64)
        timings = replace_row_timings(
            run.answers, timing_structures(run.answers), {r: m.timing for r, m in moved.items()}
        )
        component, online = timings.component.copy(), timings.online.copy()
        component[rows] = [moved[r].place.component for r in rows.tolist()]
        online[rows] = -1  # they are not timed again
        timings = replace(timings, component=component, online=online)
        again = SubmittedRun(
            run.graph, timings, self.timing.lower(run.graph, timings, run.pins), run.first,
            run.ranks, run.job, run.at, run.by, run.draw_key, run.pins,
        )  # fmt: skip
        lowered, slot = self.draws.draw(again, run.draw_key), run.lowered.slot.copy()
        for row, one in moved.items():
            slot[place_numbers(run, row)] = one.place.slots
        return replace(again, lowered=replace(lowered, slot=slot))


def _with_graph_rows(timings: RowTiming, rows: Sequence[int]) -> RowTiming:
    """Timing whose holds refer to rows of the graph, instead of rows of a table of selected ops.

    Parameters
    ----------
    timings : timing of one op, computed in a table of selected ops
    rows : graph row of each op in that table
    """
    holds = tuple((c, until if until < 0 else rows[until]) for c, until in timings.structure.holds)
    return timings._replace(structure=timings.structure._replace(holds=holds))


def _engine_timing(lowered: EngineGraph, row: int) -> Answer:
    """Timing of one row, in engine integers."""
    flows, fixed = lowered.flows, int(lowered.fixed[row])
    at = int(np.searchsorted(flows.op, row))
    if at < len(flows) and flows.op[at] == row:
        return Answer(fixed, flows.work(at), flows.usage(at), int(flows.limit[at]))
    return Answer(fixed, 0, {})


def _check_holds(run: SubmittedRun, row: int, timings: RowTiming, names: Sequence[str]) -> None:
    """Raise an error if an op would hold other amounts at its new location."""
    claims = run.lowered.claims
    at = np.flatnonzero(claims.op == row).tolist()
    held = [(int(claims.component[k]), int(claims.amount[k]), int(claims.until[k])) for k in at]
    pairs = zip(timings.structure.holds, timings.amounts, strict=True)
    wants = [(component, amount, until) for (component, until), amount in pairs]
    if wants != held:
        what = ", ".join(sorted({names[c] for c, _, _ in (*wants, *held)}))
        raise SimulationError(
            "action",
            f"op {run.first + row}: it cannot be resumed there, where it would hold another "
            f"amount of {what}; cancel it, and submit its work again",
            (run.first + row,),
        )
