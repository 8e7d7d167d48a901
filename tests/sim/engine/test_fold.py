"""Folded and unfolded runs are equal to the tick, and a straggler is not folded away."""

import logging
import re
from dataclasses import replace

import numpy as np
import pytest
import simpy
from foretrace.sim.analysis.activity import activity
from foretrace.sim.analysis.metrics import measure, utilization_windows
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.core.quotient import Quotient, fold_identical_ops
from foretrace.sim.engine_api.interface import (
    ONE,
    ComponentTable,
    EngineColumns,
    EngineGraph,
    Flows,
)
from foretrace.sim.errors import NotKeptError, SimulationError
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.graph import Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.reference.engine import ReferenceEngine
from foretrace.sim.run import single_graph
from foretrace.sim.run.simulation import Simulation
from hypothesis import assume, given
from hypothesis import strategies as st

PER_SECOND = 10**12


class Ranks:
    """Random program of every rank, as explicit ops; times in ticks, rates in units per tick."""

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

    def parts(self) -> ComponentTable:
        rate = np.array(self.rate, np.int64)
        return ComponentTable(self.names, np.array(self.slots, np.int32), rate, rate)

    def lowered(self) -> EngineGraph:
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
        return EngineGraph(
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


def run(kind: type, parts: ComponentTable, graph: EngineGraph) -> EngineColumns:
    machine = kind(parts, simpy.Environment(initial_time=0), PER_SECOND)
    machine.submit(graph)
    machine.run(None)
    return machine.columns()


def same(a: EngineColumns, b: EngineColumns) -> None:
    for name in ("ready", "start", "end", "state", "attempts", "arrived"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def folded(ranks: Ranks) -> Quotient:
    found = fold_identical_ops(ranks.parts(), ranks.lowered())
    assert found is not None
    return found


@st.composite
def programs(draw: st.DrawFn) -> Ranks:
    """Random steps of every rank: compute, send to the next, meet all ranks or a neighbour."""
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


@given(programs())
def test_folded_runs_equal_unfolded_ones(ranks: Ranks) -> None:
    parts, graph = ranks.parts(), ranks.lowered()
    found = fold_identical_ops(parts, graph)
    assume(found is not None)  # else a straggler leaves no two alike
    try:
        want = run(ReferenceEngine, parts, graph)
    except SimulationError as error:  # so many share a component that each gets nothing
        for kind in (ReferenceEngine, CoreEngine):
            with pytest.raises(SimulationError, match=error.kind):
                run(kind, found.parts, found.graph)
        return
    for kind in (ReferenceEngine, CoreEngine):
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


@pytest.mark.parametrize("engine", [ReferenceEngine, CoreEngine])
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


def test_weights_of_folded_members_add_up_on_shared_components() -> None:
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


def test_ops_timed_by_drivers_are_not_folded() -> None:
    graph = data_parallel(2, layers=1).lowered()
    asked = replace(graph, online=np.array([0, -1, -1], np.int16))
    assert fold_identical_ops(data_parallel(2).parts(), asked) is None


def test_a_cycle_is_left_to_the_engine() -> None:
    ranks = Ranks(2)
    first, second = ranks.op(0, [], fixed=1), ranks.op(1, [], fixed=1)
    ranks.edges += [(first, second), (second, first)]
    assert fold_identical_ops(ranks.parts(), ranks.lowered()) is None


class Wires(Backend):
    """Backend with recorded compute times; a message crosses both adapters and a shared link."""

    source = "given"

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        system, usage = ops.at.system, []
        for i in range(len(ops)):
            names = [system.components[g].name for g in ops.at.members[i]]
            ends = {system.number(n.replace("gpu", "nic")): 1.0 for n in names}
            usage.append(ends | {system.number("core"): 1.0} if names else {})
        work = np.where(ops.kind == Kind.SEND, np.nan_to_num(ops.bytes), 0.0)
        return Timing.of(np.nan_to_num(ops.duration), work, Usage.of(usage))


def network(ranks: int, core: float) -> Simulation:
    gpus = [Component(f"gpu{r}", "gpu", slots=1) for r in range(ranks)]
    nics = [Component(f"nic{r}", "nic", rate=7.0) for r in range(ranks)]
    shared = [Component("core", "switch", rate=core, max_rate=100.0), Component("net", "fabric")]
    system = System((*gpus, *nics, *shared), tuple(g.name for g in gpus), fabric="net")
    return Simulation(system, {"*": Wires()}, tick=1e-9)


def ring(ranks: int, steps: int, slow: int | None = None) -> Graph:
    """Graph in which all ranks compute, then send to the next; rank ``slow`` computes longer."""
    build = Builder("ring")
    last = [[] for _ in range(ranks)]
    for step in range(steps):
        work = [
            build.op(Kind.COMPUTE, rank=r, after=last[r], duration=1.0 + (r == slow), period=step)
            for r in range(ranks)
        ]
        sent = [
            build.op(Kind.SEND, rank=r, peer=(r + 1) % ranks, after=[work[r]], bytes=20.0,
                     period=step)
            for r in range(ranks)
        ]  # fmt: skip
        last = [[work[r], sent[r - 1]] for r in range(ranks)]
    return build.graph()


@pytest.mark.parametrize("slow", [None, 3])
def test_folding_through_a_simulation_changes_no_bit(slow, monkeypatch, caplog) -> None:
    simulation, graph = network(8, 30.0), ring(8, 3, slow)
    with caplog.at_level(logging.INFO, "foretrace.sim.run.single_graph"):
        found = simulation.run(graph)
    ran = re.search(r"ring: (\d+) of 48 ops run", caplog.text)
    assert (ran is not None) == (slow is None)  # with a straggler every place in the ring differs
    monkeypatch.setattr(single_graph, "fold_graph", lambda *_: None)
    same(simulation.run(graph).columns, found.columns)
    reference = replace(simulation, engine="reference").run(graph)
    same(reference.columns, found.columns)
    assert reference.compare(found) == {}
    assert reference.blame().ticks == found.blame().ticks


def test_an_error_of_a_folded_run_names_the_ops_of_the_whole(monkeypatch) -> None:
    simulation, graph = network(4, 0.0), ring(4, 1)
    with pytest.raises(SimulationError, match="starvation") as folded:
        simulation.run(graph)
    monkeypatch.setattr(single_graph, "fold_graph", lambda *_: None)
    with pytest.raises(SimulationError) as whole:
        simulation.run(graph)
    assert folded.value.args == whole.value.args
    assert len(folded.value.ops) == 4


@pytest.mark.parametrize("keep", ["ranks", "none"])
@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_graph_that_is_not_kept_op_by_op_keeps_the_same_numbers(keep, engine, caplog) -> None:
    simulation, graph = network(8, 30.0), ring(8, 3, slow=2)
    written = simulation.run(graph)
    found = replace(simulation, engine=engine).run(graph, keep=keep)
    assert (found.keep, found.count, found.makespan) == (keep, 48, written.makespan)
    assert found.periods.tolist() == written.periods.tolist()
    assert found.busy_by_kind == written.busy_by_kind
    assert found.sources == written.sources
    assert found.rank_frame().equals(written.rank_frame())
    assert found.compare(written) == {}
    assert "48" in found._repr_html_()  # without running again
    with pytest.raises(NotKeptError, match="rows of its 48 ops were not kept"):
        _ = found.ready
    with caplog.at_level(logging.INFO, "foretrace.sim.run.result"):
        assert found.blame() == written.blame()
        assert found.frame().equals(written.frame())
    assert caplog.text.count("running again") == 1
    if keep == "ranks":
        want, got = measure(written), measure(found)
        assert {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in want.items()}
        assert utilization_windows(found).keys() == utilization_windows(written).keys()
        with pytest.raises(NotKeptError, match="a window of complete steps"):
            activity(found, (0, 5))
    else:
        assert "exposed_communication" in measure(found)
        assert utilization_windows(found) == {}


def test_a_run_that_was_steered_is_not_repeated() -> None:
    def slower(sim):
        yield sim.wait(1.0)
        sim.set_rate("core", 10.0)

    result = network(4, 30.0).run(ring(4, 1), slower, keep="none")
    with pytest.raises(NotKeptError, match="processes steered it; run it with keep='ops'"):
        result.blame()


def test_an_analysis_names_the_data_that_was_not_kept() -> None:
    with pytest.raises(ValueError, match="keep is 'all'; give one of"):
        network(2, 30.0).run(ring(2, 1), keep="all")


def test_a_moved_op_is_charged_where_it_ran() -> None:
    build = Builder("moved")
    op = build.op(Kind.COMPUTE, rank=0, duration=10.0)
    gpus = [Component(f"gpu{r}", "gpu", slots=1) for r in range(2)]
    simulation = Simulation(System(tuple(gpus), ("gpu0", "gpu1")), {"*": Wires()}, tick=1e-9)

    def swap(sim):
        graph = sim.submit(build.graph())
        yield sim.wait(4.0)
        sim.fail("gpu0")
        yield sim.lost(graph)
        sim.resume(graph.first + op, keep=False, slots=["gpu1"])

    for engine in ("core", "reference"):
        result = replace(simulation, engine=engine).run(None, swap)
        assert result.busy == {"gpu1": 10.0}
        assert result.utilization() == {"gpu1": 10.0 / 14.0}
        assert utilization_windows(result).keys() == {"gpu", "gpu1"}
        assert result.blame().seconds == {"gpu1": 10.0, "process": 4.0}
