"""Compiled processes in the compiled loop leave exactly what they leave through SimPy."""

import tracemalloc
from dataclasses import fields
from typing import NamedTuple

import numpy as np
import pytest
from by_day import every, tonight
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.core.policies import policy_driver
from foretrace.sim.core.policies.policy_driver import PolicyLoop
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Holds, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.way import Way
from foretrace.sim.kernel import policy
from foretrace.sim.kernel.jit import LINKED
from foretrace.sim.record.step_grid import StepGrid
from foretrace.sim.run.policies.compiled_process import CompiledProcess, GraphOnWays
from foretrace.sim.run.session import Repeat, Session
from foretrace.sim.run.simulation import Simulation
from policy_scripts.random_programs import calm_program, first_difference, outcome

pytestmark = pytest.mark.skipif(not LINKED, reason="kernels are not linked: Python calls them")

BLOCKS, IN_CI = 4, 40
NIGHTLY = 20_000
KV, POOL, WIRE = "node0.kv", "node0.pool", "wire"
SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=2),
        Component("node0.gpu1", "gpu", slots=1),
        Component(KV, "memory", capacity=40, unit="block"),
        Component(POOL, "memory", capacity=7, unit="block"),
        Component(WIRE, "link", rate=1e9),
    ),
    ("node0.gpu0", "node0.gpu1"),
)
WAYS = [Way(["node0.gpu1", "node0.gpu0"]), Way(["node0.gpu0", "node0.gpu1"])]


class Ticks(Backend):
    """A tick per flop, then its bytes on the wire; a label says who holds a block of the pool."""

    source = "the test"

    def timing(self, ops, now=0.0):
        texts = [ops.signature_text(row) for row in range(len(ops))]
        return Timing.of(
            ops.flop * 1e-9,
            work=ops.bytes,
            usage=Usage.repeated([4], len(ops)),
            holds=Holds.of([[(3, 1, -1)] if t == "compute:holds" else [] for t in texts]),
        )


class Calls(NamedTuple):
    left: np.ndarray


@policy.policy_kernel
def steps(state, event, turn):
    """One of four graphs after the other, in two chains, with an amount held meanwhile."""
    if event[policy.KIND] == policy.ENDED:
        policy.release(turn, 0, 1 + event[policy.TAG] % 3)
        policy.emit(turn, 0, event[policy.NOW] * 0.5)
    if event[policy.KIND] == policy.TIMER:
        policy.count(turn, 0, 1)
        policy.emit(turn, 1, policy.free(turn, 0))
        if state.left[0] > 0:
            policy.after(turn, 37, 0)
        return policy.GO_ON
    state.left[0] -= 1
    left = state.left[0]
    if left <= 0:
        if left == -1:
            return policy.DONE
        return policy.GO_ON
    if event[policy.KIND] == policy.START:
        policy.after(turn, 10, 0)
        policy.take(turn, 0, 1 + (left + 1) % 3)
        policy.submit(turn, 3, left + 1)
    policy.take(turn, 0, 1 + left % 3)
    policy.submit(turn, left % 4, left)
    return policy.GO_ON


@policy.policy_kernel
def pairs(state, event, turn):
    """Two chains of the same op, which end in the same turns."""
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE if state.left[0] == -2 else policy.GO_ON
    policy.submit(turn, 0, 0)
    if event[policy.KIND] == policy.START:
        policy.submit(turn, 0, 1)
    policy.emit(turn, 0, event[policy.TAG])
    return policy.GO_ON


@policy.policy_kernel
def points(state, event, turn):
    """Two chains of points of a grid: within a cell, between two structures, and outside."""
    kind = event[policy.KIND]
    if kind == policy.SETTLED:
        policy.emit(turn, 1, policy.free(turn, 0))
        return policy.GO_ON
    if kind == policy.ENDED and event[policy.TAG] < 2:
        policy.release(turn, 0, 1)
        if event[policy.NOW] % 11 == 0:
            policy.settle(turn, 7)
        if event[policy.NOW] % 13 == 0:
            policy.after(turn, 0, 5)
            policy.cancel(turn, 5)
    state.left[0] -= 1
    left = state.left[0]
    if left < 0:
        return policy.DONE if left == -2 else policy.GO_ON
    for _ in range(2 if kind == policy.START else 1):
        if left % 3 == 0:
            policy.take(turn, 0, 1)
        policy.submit(turn, 4, 0 if left % 3 == 0 else 2)
        policy.at(turn, 1, left * 5 % 51)
        if left % 4 == 0:
            policy.with_key(turn, left)
        policy.at(turn, 0, left * 7 % 66 + (left % 97 == 0))
    policy.emit(turn, 0, left)
    return policy.GO_ON


def at_point(tokens, context):
    """Three ops, of which one holds a block where tokens are many."""
    build = Builder("at_point")
    first = build.op(Kind.COMPUTE, flop=1.0 + tokens // 7, bytes=0.37 * context)
    held = "compute:holds" if tokens > 60 else "compute:plain"
    after = build.op(Kind.COMPUTE, rank=1, flop=2.0, bytes=0.11 * tokens, signature=held)
    build.op(Kind.COMPUTE, flop=context % 13, bytes=0.0, after=[first, after])
    return build.graph()


@policy.policy_kernel
def on_ways(state, event, turn):
    """Four submissions at a time of four graphs, each on one of two ways or on none."""
    state.left[0] -= 1
    left = state.left[0]
    if left < 0:
        return policy.DONE if left == -4 else policy.GO_ON
    if event[policy.KIND] == policy.START:
        for k in range(3):
            policy.submit(turn, 1, k)
            policy.with_way(turn, k % 2)
    policy.submit(turn, left % 4, left)
    if left % 5 == 0:
        policy.with_key(turn, left)
    if left % 3:
        policy.with_way(turn, left % 3 - 1)
    if left % 7 == 0:
        policy.with_key(turn, -left)
    policy.emit(turn, 0, event[policy.B])
    return policy.GO_ON


def graphs():
    one, two, holding, wide = (Builder(name) for name in ("one", "two", "holding", "wide"))
    one.op(Kind.COMPUTE, flop=3.0, bytes=0.0)
    first = two.op(Kind.COMPUTE, flop=1.0, bytes=2.0)
    two.op(Kind.COMPUTE, rank=1, flop=0.0, bytes=3.0, after=[first])
    holding.op(Kind.COMPUTE, rank=1, flop=2.0, bytes=1.0, signature="compute:holds")
    last = []
    for _ in range(4):
        last = [wide.op(Kind.COMPUTE, flop=1.0, bytes=0.0, after=last)]
    return {g.name: g for g in (b.graph() for b in (one, two, holding, wide))}


def process(count, kernel=steps):
    grid = StepGrid(at_point, {"tokens": [0, 5, 58, 62, 65], "context": [0, 20, 49]})
    return CompiledProcess(
        kernel,
        Calls(np.array([count], np.int64)),
        graphs={
            **{name: GraphOnWays(graph, WAYS) for name, graph in graphs().items()},
            "at_point": grid,
        },
        parts=[KV],
        metrics=["end", "free"],
        counters=["ticks"],
        name=kernel.__name__,
    )


def left(result):
    """All that a run leaves, as texts and numbers."""
    found = {"emitted": list(result.emitted), "held": result.acquired.changes.tolist()}
    if result.summary is not None:
        for one in fields(result.summary):
            value = getattr(result.summary, one.name)
            found[one.name] = value.tolist() if isinstance(value, np.ndarray) else value
    if result.written is not None:
        found["columns"] = [
            getattr(result.columns, one.name).tolist() for one in fields(result.columns)
        ]
        found["runs"] = [
            (
                run.first,
                run.job,
                run.at,
                run.by,
                run.draw_key,
                run.graph.name,
                *run.graph.gpus,
                *row_numbers(run),
            )
            for run in result.runs
        ]
    return found


def row_numbers(run):
    """Numbers of each op of a submitted graph."""
    timing, flows = run.answers.timing, run.lowered.flows
    columns = run.graph.ops.flop, run.graph.ops.bytes, timing.fixed, timing.work, run.lowered.fixed
    columns += flows.work_hi, flows.work_lo, flows.limit, run.lowered.claims.amount
    return [one.tolist() for one in columns]


@pytest.fixture
def codes(monkeypatch):
    """Why each loop ended, and how many calls it made."""
    found = []
    back = PolicyLoop._return_to_simpy

    def note(loop, code, error):
        found.append((code, loop.now.item(policy_driver.dl.EVENTS)))
        back(loop, code, error)

    monkeypatch.setattr(PolicyLoop, "_return_to_simpy", note)
    monkeypatch.setattr(policy_driver, "DULL", -(10**9))  # however few calls a loop makes
    return found


def other(sim):
    """Another generator, which wakes now and then and submits too."""
    step = sim.prepare(graphs()["two"])
    for _ in range(20):
        yield sim.wait(611e-9)
        yield sim.submit(step).done
        sim.emit("other", sim.now)


@pytest.mark.parametrize("kernel", [steps, pairs, points, on_ways])
@pytest.mark.parametrize("beside", [(), (other,)])
@pytest.mark.parametrize("keep", ["none", "ranks", "ops", None])
def test_a_run_leaves_what_it_leaves_through_simpy(keep, beside, kernel, codes, monkeypatch):
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    fast = left(run(None, process(6_000, kernel), *beside, keep=keep))
    if kernel is points:
        assert sum(calls for _, calls in codes) > 5_000
    else:
        assert sum(calls for _, calls in codes) > 5_900
    codes.clear()
    monkeypatch.setattr(CoreEngine, "drive", lambda engine, policy: None)
    slow = left(run(None, process(6_000, kernel), *beside, keep=keep))
    assert not codes
    assert fast == slow


def differences(seeds):
    """Differences from plain generators on the reference engine, each with its seed."""
    found = []
    for seed in seeds:
        program, replica = calm_program(seed), None if seed % 3 else 0
        meant = outcome(program, "reference", "twin", replica)
        for how in ("compiled", "mixed"):
            what = first_difference(meant, outcome(program, "core", how, replica))
            if what:
                found.append(f"calm_program({seed}), {how}: {what}")
    return found


@pytest.mark.parametrize("block", every(BLOCKS, range(BLOCKS)))
def test_calm_programs_equal_generators(block, codes):
    seeds = range(block * IN_CI, (block + 1) * IN_CI)
    print(f"seeds {seeds}")
    assert differences(seeds) == []
    assert sum(calls for _, calls in codes) > 20 * IN_CI


@pytest.mark.nightly
def test_calm_programs_equal_generators_all_night(codes):
    seeds = tonight(range(1000, 1000 + NIGHTLY))
    print(f"seeds {seeds}")
    assert differences(seeds) == []


@policy.policy_kernel
def breaks(state, event, turn):
    policy.emit(turn, 0, 1.0)
    state.left[0] -= 1
    if state.left[0] == 0:
        raise ValueError("too many calls")
    policy.after(turn, 3, 0)
    return policy.GO_ON


def test_an_error_in_a_kernel_names_the_process(codes):
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    wrong = CompiledProcess(breaks, Calls(np.array([9], np.int64)), metrics=["x"])
    with pytest.raises(SimulationError, match="breaks: its kernel raised ValueError: too many"):
        run(None, wrong)
    assert codes == [(policy_driver.dl.SLOW, 8)]


@policy.policy_kernel
def ticks_for_ever(state, event, turn):
    policy.after(turn, state.left[0], 0)
    return policy.GO_ON


@pytest.mark.parametrize(("wait", "kind"), [(1, "endless process"), (0, "zero-time loop")])
def test_a_policy_without_an_end_is_refused(wait, kind, codes, monkeypatch):
    monkeypatch.setattr("foretrace.sim.engine_api.interface.MAX_IDLE", 2**17)
    monkeypatch.setattr("foretrace.sim.engine_api.interface.MAX_EVENTS", 10**5)
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    endless = CompiledProcess(ticks_for_ever, Calls(np.array([wait], np.int64)))
    with pytest.raises(SimulationError, match="ticks_for_ever") as found:
        run(None, endless)
    assert found.value.kind == kind


def test_until_ends_the_loop(codes):
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    endless = CompiledProcess(ticks_for_ever, Calls(np.array([1], np.int64)))
    run(None, endless, until=1e-5)
    assert sum(calls for _, calls in codes) == 9_999


def peak_of(count):
    """Peak of the traced memory of a run, in bytes."""
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    made = process(count)
    tracemalloc.start()
    try:
        run(None, made, keep="ranks")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_samples_and_changes_of_amounts():
    peak_of(2_000)
    few, many = 5_000, 40_000
    more = (peak_of(many) - peak_of(few)) / (many - few)
    assert more < 2.5 * (28 + 24)  # a growing array and its copy; a graph alone has 3,900 B


def test_no_graph_is_open_after_graphs_were_freed_while_others_waited_to_wake(codes):
    session = Session(Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9), None, "ranks")
    session.run_jobs([process(6_000, pairs)], None, "ranks", Repeat(lambda: None, lambda _: None))
    assert [one.count for one in session.jobs] == [6_001]
    assert not any(one._graphs for one in session.jobs)


@policy.policy_kernel
def releases(state, event, turn):
    state.left[0] -= 1
    if state.left[0] == 0:
        policy.release(turn, 0, 1)
    policy.after(turn, 3, 0)
    return policy.GO_ON


def test_a_release_of_what_nobody_holds_is_refused(codes):
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    wrong = CompiledProcess(releases, Calls(np.array([9], np.int64)), parts=[KV])
    with pytest.raises(SimulationError, match="1 released, but its owner holds 0"):
        run(None, wrong)


@policy.policy_kernel
def leaves_its_ways(state, event, turn):
    """Submit a graph on the way behind its last one, where the ways of the next graph begin."""
    if event[policy.KIND] == policy.START:
        for graph in range(2):
            for way in range(2):
                policy.submit(turn, graph, 0)
                policy.with_way(turn, way)
        policy.after(turn, 900, 0)
    elif event[policy.KIND] == policy.TIMER:
        policy.submit(turn, 0, 0)
        policy.with_way(turn, state.left[0])
    return policy.GO_ON


def test_a_way_that_the_graph_lacks_is_refused(codes):
    run = Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run
    with pytest.raises(GraphError, match=f"way {len(WAYS)} does not exist; ways are 0 to 1"):
        run(None, process(len(WAYS), leaves_its_ways))
    assert codes[-1][0] == policy_driver.dl.SLOW


class HoldsAlone(Backend):
    """A tick per flop, for which an op holds a block of the pool; nothing moves on the wire."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.flop * 1e-9, holds=Holds.of([[(3, 1, -1)]] * len(ops)))


def test_ops_that_hold_and_move_nothing_have_rows_of_their_own(codes):
    def left_by(engine):
        made = CompiledProcess(
            pairs,
            Calls(np.array([300])),
            graphs={"one": GraphOnWays(graphs()["one"], WAYS)},
            metrics=["end"],
        )
        result = Simulation(SYSTEM, {"*": HoldsAlone()}, engine, 1e-9).run(None, made)
        return result.start.tolist(), result.utilization()[POOL], list(result.emitted)

    assert left_by("core") == left_by("reference")
    assert sum(calls for _, calls in codes) > 290
