"""Folded and unfolded runs are equal to the tick, and a straggler is not folded away."""

import os
from dataclasses import replace

import numpy as np
import pytest
import simpy
from foretrace.sim.core.fold import Folded, fold
from foretrace.sim.core.machine import CoreMachine
from foretrace.sim.machine import ONE, Columns, Flows, Lowered, Parts
from foretrace.sim.reference import ReferenceMachine
from hypothesis import given, settings
from hypothesis import strategies as st

EXAMPLES = 40 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 150
PER_SECOND = 10**12


class Ranks:
    """One program on every rank, written out; times in ticks, rates in units a tick."""

    def __init__(self, ranks: int, slots: int = 1):
        self.ranks = ranks
        names = [f"{kind}{r}" for kind in ("gpu", "nic") for r in range(ranks)] + ["fabric"]
        self.slots = [slots] * ranks + [-1] * (ranks + 1)
        self.rate = [-1] * ranks + [12] * ranks + [5 * ranks]
        self.names = tuple(names)
        self.ops: list[dict] = []
        self.further: list[tuple[int, int]] = []  # op, slot
        self.edges: list[tuple[int, int]] = []  # op, place; a further place counts from -1 down
        self.last: list[list[int]] = [[] for _ in range(ranks)]

    def op(self, rank: int, after: list[int], slot: bool = True, **facts: object) -> int:
        row = len(self.ops)
        self.ops.append({"slot": rank if slot else -1, "fixed": 0, "release": 0} | facts)
        self.edges += [(a, row) for a in after]
        return row

    def collective(self, group: list[int], after: list[list[int]], **facts: object) -> int:
        row = self.op(group[0], after[0], **facts)
        for rank, waits in zip(group[1:], after[1:], strict=True):
            self.further.append((row, rank))
            self.edges += [(a, -len(self.further)) for a in waits]
        return row

    def parts(self) -> Parts:
        rate = np.array(self.rate, np.int64)
        return Parts(self.names, np.array(self.slots, np.int32), rate, rate)

    def lowered(self) -> Lowered:
        n = len(self.ops)
        pairs = sorted({(a, b if b >= 0 else n - b - 1) for a, b in self.edges})
        counts = np.bincount([a for a, _ in pairs], minlength=n) if pairs else np.zeros(n, int)
        shared = [(i, o) for i, o in enumerate(self.ops) if "usage" in o]
        uses = [(c, w) for _, o in shared for c, w in o["usage"].items()]
        sizes = [len(o["usage"]) for _, o in shared]
        flows = Flows(
            np.array([i for i, _ in shared], np.int32),
            np.zeros(len(shared), np.int64),
            np.array([o["work"] for _, o in shared], np.uint64),
            np.array([o.get("limit", -1) for _, o in shared], np.int64),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.array([c for c, _ in uses], np.int32),
            np.array([w for _, w in uses], np.int64),
        )
        return Lowered(
            "ranks",
            np.array([op for op, _ in self.further], np.int32),
            np.array([o["slot"] for o in self.ops] + [s for _, s in self.further], np.int32),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.array([b for _, b in pairs], np.int32),
            np.array([o["release"] for o in self.ops], np.int64),
            np.array([o["fixed"] for o in self.ops], np.int64),
            flows,
            np.empty(0, np.int16),
        )


def run(kind: type, parts: Parts, graph: Lowered) -> Columns:
    machine = kind(parts, simpy.Environment(initial_time=0), PER_SECOND)
    machine.submit(graph)
    machine.run(None)
    return machine.columns()


def same(a: Columns, b: Columns) -> None:
    for name in ("ready", "start", "end", "state", "attempts", "arrived"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def folded(ranks: Ranks) -> Folded:
    found = fold(ranks.parts(), ranks.lowered())
    assert found is not None
    return found


@st.composite
def programs(draw: st.DrawFn) -> Ranks:
    """Random steps that every rank takes: compute, send to the next, meet all or a neighbour."""
    count = 2 * draw(st.integers(1, 3))
    ranks = Ranks(count, draw(st.integers(1, 2)))
    everyone = list(range(count))
    history: list[list[int]] = [[] for _ in everyone]
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["compute", "free", "send", "all", "pairs"]))
        back = draw(st.lists(st.integers(1, 3), max_size=2, unique=True))
        facts = {"fixed": draw(st.integers(0, 4)), "release": draw(st.sampled_from([0, 0, 0, 3]))}
        after = [sorted({history[r][-b] for b in back if b <= len(history[r])}) for r in everyone]
        if kind in ("all", "pairs"):
            groups = [everyone] if kind == "all" else [[r, r + 1] for r in everyone[::2]]
            for group in groups:
                row = ranks.collective(group, [after[r] for r in group], **facts)
                for r in group:
                    history[r].append(row)
            continue
        own, work = draw(st.sampled_from([1, 2])), draw(st.integers(0, 60))
        limit = draw(st.sampled_from([-1, -1, 2, 7]))
        for r in everyone:
            if kind == "send":
                to = count + (r + 1) % count
                usage = {count + r: own * ONE, to: ONE, 2 * count: ONE // 3}
                facts |= {"usage": usage, "work": work, "limit": limit}
            history[r].append(ranks.op(r, after[r], slot=kind == "compute", **facts))
    if draw(st.integers(0, 3)) == 0:  # a straggler
        slow = draw(st.integers(0, len(ranks.ops) - 1))
        ranks.ops[slow] = ranks.ops[slow] | {"fixed": ranks.ops[slow]["fixed"] + 1}
    return ranks


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_folded_runs_equal_unfolded_ones(ranks: Ranks) -> None:
    parts, graph = ranks.parts(), ranks.lowered()
    found = folded(ranks)
    want = run(ReferenceMachine, parts, graph)
    for kind in (ReferenceMachine, CoreMachine):
        same(found.expand(run(kind, found.parts, found.graph)), want)


def data_parallel(count: int, layers: int = 3) -> Ranks:
    ranks = Ranks(count)
    last: list[list[int]] = [[] for _ in range(count)]
    for layer in range(layers):
        step = [ranks.op(r, last[r], fixed=10 + layer) for r in range(count)]
        usage = {count + r: 2 * ONE * (count - 1) // count for r in range(count)}
        both = ranks.collective(
            list(range(count)), [[s] for s in step], usage=usage, work=600, fixed=1
        )
        last = [[both] for _ in range(count)]
    return ranks


def test_identical_ranks_become_one() -> None:
    found = folded(data_parallel(16))
    assert len(found.graph) == 2 * 3
    assert len(found.graph.further) == 0
    assert len(set(found.component[:16])) == 1
    assert found.graph.flows.usage(0) == {int(found.component[16]): 2 * ONE * 15 // 16}


@pytest.mark.parametrize("engine", [ReferenceMachine, CoreMachine])
def test_a_straggler_keeps_a_class_of_its_own(engine: type) -> None:
    ranks = data_parallel(16)
    ranks.ops[5] = ranks.ops[5] | {"fixed": 25}
    found = folded(ranks)
    assert len(found.graph) == 3 * 3
    assert np.count_nonzero(found.component == found.component[5]) == 1
    want = run(engine, ranks.parts(), ranks.lowered())
    same(found.expand(run(engine, found.parts, found.graph)), want)
    assert (
        want.end[16] > run(engine, *(lambda r: (r.parts(), r.lowered()))(data_parallel(16))).end[16]
    )


def test_weights_of_members_add_up_on_what_they_share() -> None:
    ranks = Ranks(6)
    for r in range(6):
        ranks.op(r, [], slot=False, usage={6 + r: ONE, 12: ONE}, work=100)
    found = folded(ranks)
    assert found.graph.flows.usage(0) == {
        int(found.component[6]): ONE,
        int(found.component[12]): 6 * ONE,
    }


def test_members_of_one_queue_are_not_folded() -> None:
    ranks = Ranks(2)
    for _ in range(3):
        ranks.op(0, [], fixed=7)
        ranks.op(1, [], fixed=7)
    found = folded(ranks)
    assert len(found.graph) == 3
    assert found.op.tolist() == [0, 0, 1, 1, 2, 2]


def test_what_drivers_answer_is_not_folded() -> None:
    graph = data_parallel(2, layers=1).lowered()
    asked = replace(graph, online=np.array([0, -1, -1], np.int16))
    assert fold(data_parallel(2).parts(), asked) is None


def test_a_cycle_is_left_to_the_engine() -> None:
    ranks = Ranks(2)
    first, second = ranks.op(0, [], fixed=1), ranks.op(1, [], fixed=1)
    ranks.edges += [(first, second), (second, first)]
    assert fold(ranks.parts(), ranks.lowered()) is None
