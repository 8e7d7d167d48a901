"""Prepared graphs that choose: other GPUs or routes at each submission, without preparing anew."""

import random
import tracemalloc

import numpy as np
import pytest
from by_day import every
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.errors import BackendError, GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.way import Way
from foretrace.sim.record.step_grid import StepGrid
from foretrace.sim.run import held_graphs
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
JITTER = Spread(np.array([0.9, 1.0, 1.25]), np.array([0.8, 1.0, 1.3]))
NIC = Nic(bandwidth=1e9, latency=0.0, header=0.0)
SWITCH = Switch(bandwidth=1e9, latency=0.0, ports=4)
SPRAY = FatTree(routing="spray", spines=2)
SYSTEM = cluster(8, NodeSpec(gpus=1, nics=1, nic=NIC), FabricSpec(SWITCH, SPRAY))
FIRST, LAST = SYSTEM.gpus[0], SYSTEM.gpus[7]
IN_CI, NIGHTLY = 60, 2000


class PerFlop(Backend):
    """Backend with a microsecond per Mflop, which counts its calls."""

    source = "per flop"

    def __init__(self, spread=None):
        self.spread, self.calls = spread, 0

    def timing(self, ops, now=0.0):
        self.calls += 1
        return Timing.of(ops.flop * 1e-12, spread=self.spread)


class FabricCounter(Fabric):
    calls = 0

    def timing(self, ops, now=0.0):
        self.calls += 1
        return super().timing(ops, now)


def simulate(process, engine="core", *, keep="ops", replica=None, gpu=None, fabric=None):
    bound = {"*.gpu*": gpu or PerFlop(JITTER), "fabric": fabric or Fabric()}
    return Simulation(SYSTEM, bound, engine, seed=5).run(None, process, replica=replica, keep=keep)


def chunk(size=1e6):
    build = Builder("chunk")
    build.op(Kind.SEND, rank=0, peer=1, bytes=size)
    return build.graph()


def work():
    """Two kernels and an all-reduce of two ranks."""
    build = Builder("work")
    rows = [build.op(Kind.COMPUTE, rank=rank, flop=1e6) for rank in range(2)]
    members = [Member(rank, 1, (rows[rank],)) for rank in range(2)]
    build.collective(members, bytes=1e5, signature="collective:all-reduce fp32[]")
    return build.graph()


def routes():
    return SYSTEM.routes(SYSTEM.number(FIRST), SYSTEM.number(LAST))


def names(route):
    return [SYSTEM.components[c].name for c in route.components]


def used(result, run):
    """Names of the components that a submitted graph used."""
    usage = result.runs[run].answers.timing.usage
    return {SYSTEM.components[c].name for c in usage.component.tolist()}


@ENGINES
def test_a_way_with_a_route_sends_over_that_route_only(engine):
    by_index = [Way(routes={(FIRST, LAST): i}) for i in range(2)]
    by_name = [Way(routes={(FIRST, LAST): names(route)}) for route in routes()]

    def process(sim):
        prepared = sim.prepare(chunk(), [FIRST, LAST], ways=by_index + by_name)
        for way in (None, 0, 1, 2, 3):
            yield sim.submit(prepared, way=way, bytes={0: 1e6 + (way or 0)}).done

    result = simulate(process, engine)
    own = [set(names(route)) for route in routes()]
    found = [used(result, k) for k in range(5)]
    assert found == [own[0] | own[1], own[0], own[1], own[0], own[1]]


@ENGINES
def test_two_chunks_on_two_ways_share_only_the_nics(engine):
    """A NIC of 1 GB/s, and uplinks of 1 GB/s: on one way or two, 2 MB take 2 ms."""
    there = SYSTEM.gpus[6]
    ways = [Way([FIRST, LAST]), Way([SYSTEM.gpus[1], there])]

    def process(picks):
        def send(sim):
            prepared = sim.prepare(chunk(), ways=ways)
            handles = [sim.submit(prepared, way=way) for way in picks]
            for handle in handles:
                yield handle.done

        return send

    took = [simulate(process(picks), engine).makespan for picks in ((0, 0), (0, 1))]
    assert took == [pytest.approx(2e-3, abs=1e-9), pytest.approx(1e-3, abs=1e-9)]


@ENGINES
@pytest.mark.parametrize("replica", [None, 2])
def test_a_way_is_the_graph_prepared_there(engine, replica):
    """Other GPUs, numbers and draws of a way are those of a graph that was prepared on them."""
    places = [SYSTEM.gpus[:2], SYSTEM.gpus[3:5], (LAST, FIRST)]

    def process(chosen):
        def steps(sim):
            if chosen:
                one = sim.prepare(work(), ways=[Way(gpus) for gpus in places])
            else:
                each = [sim.prepare(work(), gpus) for gpus in places]
            for i in range(9):
                numbers = {"flop": {0: 1e6 + i % 4}, "bytes": {2: 1e5 + i}}
                handle = (
                    sim.submit(one, way=i % 3, **numbers)
                    if chosen
                    else sim.submit(each[i % 3], **numbers)
                )
                yield handle.done

        return steps

    runs = [simulate(process(chosen), engine, replica=replica) for chosen in (True, False)]
    assert runs[0].columns.end.tolist() == runs[1].columns.end.tolist()
    assert runs[0].busy == runs[1].busy
    assert len(runs[0].busy) > 6


def test_a_way_is_prepared_at_its_first_submission():
    gpu, fabric, calls = PerFlop(), FabricCounter(), []

    def process(sim):
        ways = [Way(SYSTEM.gpus[k : k + 2]) for k in range(7)]
        prepared = sim.prepare(work(), ways=ways)
        for way in (None, 4, 4, 4, 2, 4):
            yield sim.submit(prepared, way=way).done
            calls.append((gpu.calls, fabric.calls))

    simulate(process, gpu=gpu, fabric=fabric)
    assert calls == [(1, 1), (2, 2), (2, 2), (2, 2), (3, 3), (3, 3)]


@pytest.mark.parametrize(
    ("ways", "way", "said"),
    [
        ([Way(SYSTEM.gpus[:2])], 1, r"'work' 3 ops>: way 1 does not exist; ways are 0 to 0: list"),
        ([Way(SYSTEM.gpus[:2])], -1, r"way -1 does not exist; ways are 0 to 0"),
        ([], 0, r"way 0 does not exist; it has no ways: list it in prepare\(ways=\)"),
        ([Way([FIRST])], 0, r"the graph 'work' has 2 ranks; name the GPU of each"),
        ([Way(["gpuX", FIRST])], 0, "no component is named 'gpuX'"),
        ([Way(routes={(FIRST, LAST): 2})], 0, "route 2 from .* does not exist; choose 0 to 1"),
        ([Way(routes={(FIRST, LAST): ["wire"]})], 0, "no component is named 'wire'"),
    ],
)
def test_a_way_that_does_not_exist_is_named(ways, way, said):
    def process(sim):
        yield sim.submit(sim.prepare(work(), ways=ways), way=way).done

    with pytest.raises(GraphError, match=said):
        simulate(process)


def test_only_a_prepared_graph_has_ways():
    def process(sim):
        yield sim.submit(work(), way=0).done

    with pytest.raises(TypeError, match="way= and at= need a prepared graph"):
        simulate(process)


@ENGINES
def test_a_chosen_route_is_left_only_while_it_is_avoided(engine):
    first, second = (set(names(route)) for route in routes())
    (gone,) = [name for name in first - second if name.startswith("leaf0")]
    (kept,) = [name for name in second - first if name.startswith("leaf0")]

    def process(sim):
        prepared = sim.prepare(chunk(), [FIRST, LAST], ways=[Way(routes={(FIRST, LAST): 0})])
        yield sim.submit(prepared, way=0).done
        sim.route_around([kept])  # not its own
        flying = sim.submit(prepared, way=0)
        yield sim.wait(5e-4)
        sim.route_over_again([kept])
        yield flying.done
        flying = sim.submit(prepared, way=0)
        yield sim.wait(5e-4)
        sim.route_around([gone])
        yield flying.done
        yield sim.submit(prepared, way=0).done
        sim.route_over_again([gone])
        yield sim.submit(prepared, way=0).done

    result = simulate(process, engine)
    assert [used(result, k) for k in range(5)] == [first, first, second, second, first]
    assert result.makespan == pytest.approx(5e-3, abs=1e-9)


@ENGINES
def test_new_numbers_use_the_routes_of_their_submission(engine):
    """Also those that were timed before routes changed back."""
    both = set().union(*map(names, routes()))
    gone = next(name for name in names(routes()[0]) if name.startswith("leaf0"))

    def process(sim):
        prepared = sim.prepare(chunk(), [FIRST, LAST])
        sim.route_around([gone])
        yield sim.submit(prepared, bytes={0: 2e6}).done
        sim.route_over_again([gone])
        yield sim.submit(prepared, bytes={0: 2e6}).done

    result = simulate(process, engine)
    assert [gone in used(result, k) for k in range(2)] == [False, True]
    assert used(result, 1) == both


@ENGINES
def test_a_grid_is_asked_again_when_routes_change(engine):
    gone = next(name for name in names(routes()[0]) if name.startswith("leaf0"))
    fabric, calls = FabricCounter(), []

    def process(sim):
        prepared = sim.prepare(StepGrid(chunk, {"size": [10**6, 10**7]}), [FIRST, LAST])
        for turn in (lambda _: None, sim.route_around, sim.route_over_again):
            turn([gone])
            calls.append(fabric.calls)
            for size in (2 * 10**6, 10**6):
                yield sim.submit(prepared, at=[size]).done
            calls.append(fabric.calls)

    result = simulate(process, engine, fabric=fabric)
    asked = np.diff(calls)
    assert asked[0] == 0  # all of it was asked before
    assert asked[2] >= 2  # all points, the random ones, and submissions while routes avoid a part
    assert asked[4] == 2
    assert [gone in used(result, k) for k in (1, 3, 5)] == [True, False, True]
    assert [gone in used(result, k) for k in (0, 2, 4)] == [True, False, True]
    took = np.diff([0.0, *result.end.tolist()])
    assert took == pytest.approx([2e-3, 1e-3] * 3, rel=1e-3)


def program(seed, keep_ways=True):
    """Random process that submits on ways, waits, changes routes, fails and moves things."""

    def process(sim):
        r = random.Random(seed)
        links = [c.name for c in SYSTEM.components if ".spine" in c.name or "spine" in c.name]
        graphs, ways = [chunk(), work()], []
        for _ in range(r.randint(1, 5)):
            gpus = r.sample(SYSTEM.gpus, 2)
            count = len(SYSTEM.routes(*map(SYSTEM.number, gpus)))
            pins = {tuple(gpus): r.randrange(count)} if r.random() < 0.7 else {}
            ways.append(Way(gpus if r.random() < 0.8 else None, pins))
        prepared = [sim.prepare(graph, r.sample(SYSTEM.gpus, 2), ways=ways) for graph in graphs]
        handles, away = [], []
        for i in range(r.randint(5, 20)):
            k = r.randrange(2)
            numbers = {"bytes": {2 * k: 1e4 * r.randint(0, 30)}} if r.random() < 0.6 else {}
            if k and r.random() < 0.5:
                numbers["flop"] = {0: r.choice([0.0, 3e5, 1e6 + i])}
            way = r.choice([None, *range(len(ways))])
            handles.append(sim.submit(prepared[k], way=way, **numbers))
            sim.emit("submitted", sim.now)
            handle, act = r.choice(handles), r.random()
            if act < 0.4:
                yield handle.done if r.random() < 0.5 else sim.wait(r.choice([0, 1e-5, 3e-4]))
            elif act < 0.55 and not away:
                away = [r.choice(links)]
                try:
                    sim.route_around(away)
                except GraphError:
                    away = []
            elif act < 0.7:
                sim.route_over_again(away)
                away = []
            elif act < 0.8:
                op = handle.first + r.randrange(handle.count)
                sim.stop(op)
                yield sim.wait(1e-5)
                if sim.state(op).name == "STOPPED":
                    gpu = sim.system.gpus[r.randrange(8)]
                    sim.resume(op, r.random() < 0.5, instead={FIRST: gpu} if i % 2 else None)
            elif act < 0.85:
                sim.cancel(handle)
        yield sim.settled()

    return process


def outcome(seed, engine, keep="ops"):
    try:
        return simulate(
            program(seed), engine, replica=random.Random(seed).choice([None, 1]), keep=keep
        )
    except SimulationError as error:
        return error.kind, error.ops, error.open_ops
    except BackendError as error:  # both ends of a send on one GPU
        return "BackendError", str(error)


@pytest.mark.parametrize("seed", every(NIGHTLY // IN_CI, range(NIGHTLY)))
def test_the_engines_agree_on_programs_with_ways(seed):
    a, b = (outcome(seed, engine) for engine in ("reference", "core"))
    if isinstance(a, tuple):
        assert a == b
        return
    for name in ("ready", "start", "end", "state", "attempts"):
        assert getattr(a.columns, name).tolist() == getattr(b.columns, name).tolist(), name
    assert (a.busy, a.metrics, a.sources) == (b.busy, b.metrics, b.sources)


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_freed_graphs_with_ways_are_those_of_all(seed, monkeypatch):
    want = outcome(seed, "core")
    monkeypatch.setattr(held_graphs, "AT_ONCE", 1)
    monkeypatch.setattr(held_graphs, "AT_ONCE_PER_WAY", 1)
    found = outcome(seed, "core", "none")
    if isinstance(want, tuple):
        assert found == want
        return
    assert found.kept.busy.tolist() == want.kept.busy.tolist()
    assert np.allclose(found.kept.work_seconds, want.kept.work_seconds, rtol=1e-12, atol=0)


def machine(count):
    names = tuple(f"node{i}.gpu0" for i in range(count))
    links = (Component(f"link{i}", "link", rate=1e9) for i in range(count))
    parts = (*(Component(name, "gpu", slots=1) for name in names), *links)
    fabric = Component("fabric", "fabric")
    return System((*parts, fabric), names, router=lambda a, b: (count + b,), fabric="fabric")


def peak_of_preparing(count):
    """Bytes allocated while a graph is prepared, beyond what remains."""
    peaks = []

    def process(sim):
        graph, ways = work(), [Way([f"node{k}.gpu0", f"node{count - 1}.gpu0"]) for k in range(3)]
        first = sim.prepare(graph, ways=ways)
        yield sim.submit(first).done
        yield sim.submit(first, way=0).done
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        prepared = sim.prepare(graph, ways=ways)
        sim.submit(prepared, way=1)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
        yield sim.submit(prepared, way=2, flop={0: 5.0}).done

    system = machine(count)
    bound = {"*.gpu*": PerFlop(JITTER), "fabric": Linear()}
    Simulation(system, bound).run(None, process, replica=0)
    return peaks[0]


class Linear(Backend):
    source = "linear"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.bytes * 1e-9)


def test_preparing_allocates_what_the_graph_needs_on_any_machine():
    small, large = peak_of_preparing(50), peak_of_preparing(20_000)
    assert large < 1.1 * small + 2_000
