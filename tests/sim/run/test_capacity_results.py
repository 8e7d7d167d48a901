"""Capacities in results: ops that hold, processes by name, and blame."""

import logging

import numpy as np
import pytest
from foretrace.sim.analysis.activity import activity
from foretrace.sim.analysis.metrics import measure, utilization_windows
from foretrace.sim.errors import BackendError, GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.facts.system import Component, System
from foretrace.sim.rerun.sensitivity import speedup_effects
from foretrace.sim.run.simulation import Simulation

KV = 2
SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=4),
        Component("node0.gpu1", "gpu", slots=1),
        Component("node0.kv", "memory", capacity=8, unit="block"),
    ),
    ("node0.gpu0", "node0.gpu1"),
)


class Holding(Backend):
    """Backend with recorded durations; every op holds its bytes of the capacity, in blocks."""

    source = "the test"
    uniform = True

    def __init__(self, until=(), spread=None, online=False):
        self.until, self.spread, self.online = dict(until), spread, online

    def timing(self, ops, now=0.0):
        rows = [
            [(KV, int(n), self.until.get(i, -1))] if n > 0 else []
            for i, n in enumerate(ops.bytes.tolist())
        ]
        return Timing.of(ops.duration, holds=Holds.of(rows), spread=self.spread)


@pytest.fixture(params=["reference", "core"])
def engine(request):
    return request.param


def simulation(engine, backend=None, **more):
    return Simulation(SYSTEM, {"node0.gpu*": backend or Holding()}, engine=engine, **more)


def graph(*ops, name="graph"):
    """Graph of ops (rank, seconds, blocks), each on its own stream."""
    build = Builder(name)
    for i, (rank, duration, blocks) in enumerate(ops):
        build.op(Kind.COMPUTE, rank=rank, stream=i, duration=duration, bytes=blocks)
    return build.graph()


def test_amounts_to_hold_come_from_the_backend(engine):
    result = simulation(engine).run(graph((0, 2.0, 6), (0, 1.0, 4), (0, 1.0, 2)))
    assert result.start.tolist() == [0.0, 2.0, 2.0]


def test_until_rows_count_within_the_table_of_one_backend(engine):
    # Of ranks 1, 0, 1 the second backend is asked about rows 0 and 2: row 1 of its table is row 2.
    held = Holding(until={0: 1})
    bound = {"node0.gpu0": Holding(), "node0.gpu1": held}
    run = Simulation(SYSTEM, bound, engine=engine).run
    result = run(graph((1, 1.0, 8), (0, 1.0, 8), (1, 3.0, 0)))
    assert result.start.tolist() == [0.0, 4.0, 1.0]


def test_an_op_wait_is_charged_to_the_capacity_not_its_holder(engine):
    result = simulation(engine).run(graph((0, 2.0, 6), (1, 1.0, 4)))
    assert result.blame().seconds == {"node0.kv": 2.0, "node0.gpu1": 1.0}
    assert [(c.op, c.who) for c in result.critical_path()] == [(-1, "node0.kv"), (1, "node0.gpu1")]


def test_waiting_for_a_slot_after_a_capacity_is_charged_to_the_slot_holder(engine):
    result = simulation(engine).run(graph((1, 2.0, 6), (1, 5.0, 0), (1, 1.0, 4)))
    assert result.start.tolist() == [0.0, 2.0, 7.0]
    assert result.blame().seconds == {"node0.gpu1": 8.0}


def test_a_process_wait_is_charged_to_the_capacity(engine):
    def client(sim):
        yield sim.wait(1.0)
        yield sim.acquire("node0.kv", 4)
        yield sim.wait(0.5)
        yield sim.submit(graph((1, 1.0, 0), name="more")).done

    result = simulation(engine).run(graph((0, 3.0, 6)), client)
    charged = result.blame().seconds
    assert charged == {"node0.kv": 2.0, "node0.gpu1": 1.0, "process": 1.5}
    assert sum(charged.values()) == result.makespan == 4.5


def test_a_rank_whose_op_waits_for_a_capacity_is_waiting(engine):
    result = simulation(engine).run(graph((0, 2.0, 6), (1, 1.0, 4)))
    assert activity(result)["waiting"].tolist() == [0.0, 2.0]
    kept = simulation(engine).run(graph((0, 2.0, 6), (1, 1.0, 4)), keep="ranks")
    assert activity(kept)["waiting"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize("keep", ["ops", "ranks"])
def test_busy_time_of_a_capacity_is_the_held_amount_over_time(engine, keep):
    def server(sim):
        yield sim.acquire("node0.kv", 2)
        yield sim.wait(1.0)
        assert sim.take("node0.kv", 2)
        yield sim.wait(1.0)
        sim.release("node0.kv", 3)

    result = simulation(engine).run(graph((0, 4.0, 4)), server, keep=keep)
    whole = (4 * 4.0 + 2 * 1.0 + 4 * 1.0 + 1 * 2.0) / 8
    assert result.busy["node0.kv"] == pytest.approx(whole)
    assert result.utilization()["node0.kv"] == pytest.approx(whole / 4.0)
    over_time = measure(result)["node0.kv.utilization"]
    assert over_time[[10, 30, 90]].tolist() == pytest.approx([6 / 8, 8 / 8, 5 / 8])
    assert over_time.mean() == pytest.approx(whole / 4.0)


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_an_amount_released_after_the_last_end_counts_until_that_end(engine, keep):
    """The op that another's amount waited for is cancelled at 5 s, when nothing ends any more."""

    def cancels(sim):
        yield sim.wait(5.0)
        sim.cancel(2)

    of = graph((0, 1.0, 4), (0, 2.0, 0), (0, 9.0, 2))
    result = simulation(engine, Holding(until={0: 2})).run(of, cancels, keep=keep)
    assert result.makespan == 2.0
    assert result.busy["node0.kv"] == 2.0 * 6 / 8
    assert result.utilization()["node0.kv"] == 6 / 8
    if keep != "none":
        assert set(utilization_windows(result)["node0.kv"].round(9)) == {6 / 8}


def test_a_process_sees_holders_and_waiters_by_name(engine):
    seen = []

    def monitor(sim):
        yield sim.wait(1.0)
        looks = sim.capacity, sim.held, sim.free, sim.waiting, sim.queue, sim.utilisation
        seen.extend(look("node0.kv") for look in looks)
        with pytest.raises(SimulationError, match=r"node0\.gpu0: has no capacity"):
            sim.free("node0.gpu0")

    monitor.touches = ()
    simulation(engine).run(graph((0, 2.0, 6), (0, 1.0, 4)), monitor)
    assert seen == [8, 6, 2, [4], [1], 6 / 8]


def test_a_process_may_acquire_only_what_its_touches_include(engine):
    def client(sim):
        yield sim.acquire("node0.kv", 1)

    client.touches = ("node0.gpu*",)
    with pytest.raises(SimulationError, match=r"client: alters node0\.kv"):
        simulation(engine).run(graph((0, 1.0, 0)), client)


def test_an_amount_must_be_a_whole_number(engine):
    def client(sim):
        yield sim.acquire("node0.kv", 1.5)

    with pytest.raises(SimulationError, match="give a whole number"):
        simulation(engine).run(None, client)


def test_a_deadlock_on_a_capacity_names_its_holders(engine):
    def hoarder(sim):
        yield sim.acquire("node0.kv", 6)
        sim.submit(graph((0, 1.0, 4)))

    with pytest.raises(SimulationError) as error:
        simulation(engine).run(None, hoarder)
    said = "node0.kv: 6 of 8 held (hoarder 6), waiting: op 0 for 4; release what is held"
    assert said in str(error.value)


def test_holding_more_than_the_capacity_names_the_component(engine):
    with pytest.raises(
        GraphError, match=r"graph 'graph' op 0: holds 9 of node0\.kv; its capacity is 8"
    ):
        simulation(engine).run(graph((0, 1.0, 9)))


def test_an_online_backend_cannot_return_amounts_to_hold(engine):
    with pytest.raises(BackendError, match="needed before the op starts"):
        simulation(engine, Holding(online=True)).run(graph((0, 1.0, 1)))


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (Holds.of([[(KV, 1)]]), "holds has 1 rows for 2 ops"),
        (Holds.of([[(KV, 1, 0)], []]), "op 0 holds until row 0 ends"),
        (Holds.of([[], [(KV, 1, 2)]]), "op 1 holds until row 2 ends"),
        (Holds.of([[(KV, 0)], []]), "op 0 holds an amount of 0"),
        (Holds.of([[(KV, 1.5)], []]), "float64; give whole numbers"),
    ],
)
def test_impossible_amounts_to_hold_are_refused(holds, said):
    class Wrong(Backend):
        def timing(self, ops, now=0.0):
            return Timing.of([1.0, 1.0], holds=holds)

    with pytest.raises(BackendError, match=said):
        simulation("core", Wrong()).run(graph((0, 1.0, 0), (0, 1.0, 0)))


@pytest.mark.parametrize("more", [{"slots": 1}, {"rate": 1.0}])
def test_a_component_has_slots_or_a_rate_or_a_capacity(more):
    with pytest.raises(ValueError, match="give slots, a rate or a capacity, not"):
        Component("kv", "memory", capacity=8, **more)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, 2**63])
def test_a_capacity_is_a_positive_integer(capacity):
    with pytest.raises(ValueError, match="give a whole number of 1 or more"):
        Component("kv", "memory", capacity=capacity)


def test_a_faster_capacity_is_a_larger_one_and_a_free_one_holds_all():
    def run(asked):
        return asked.run(graph((0, 2.0, 6), (1, 1.0, 4), (1, 1.0, 8)))

    (change,) = speedup_effects(simulation("core"), run, {"kv": [KV]}, factor=1.5)
    assert (change.base, change.faster, change.free) == (4.0, 3.0, 2.0)


def test_replicas_with_amounts_to_hold_are_separate_runs():
    draws = Holding(spread=Spread(np.empty(0), np.array([0.5, 1.0, 2.0])))
    case = graph((0, 2.0, 6), (0, 1.0, 4), (0, 1.0, 4))
    core = simulation("core", draws, seed=3).replicas(case, count=5)
    plain = simulation("reference", draws, seed=3).replicas(case, count=5)
    assert [r.makespan_ticks for r in core] == [r.makespan_ticks for r in plain]
    assert len({r.makespan_ticks for r in core}) > 1


def test_identical_ops_with_amounts_to_hold_are_not_folded():
    kv = Component("kv", "memory", capacity=2)
    wire = Component("wire", "link", rate=1.0)
    gpus = tuple(Component(f"gpu{i}", "gpu", slots=1) for i in range(4))

    class Copy(Backend):
        def timing(self, ops, now=0.0):
            n = len(ops)
            held = Holds.of([[(0, 1)]] * n)
            return Timing.of([0.0] * n, [1.0] * n, Usage.repeated([1], n), holds=held)

    system = System((kv, wire, *gpus), tuple(g.name for g in gpus))
    build = Builder("alike")
    for rank in range(4):
        build.op(Kind.COMPUTE, rank=rank)
    result = Simulation(system, {"gpu*": Copy()}).run(build.graph())
    assert result.end.tolist() == [2.0, 2.0, 4.0, 4.0]


def test_an_spmd_graph_whose_ops_hold_amounts_is_expanded(caplog):
    program = RankProgram.chain(Ops.of(kind=[Kind.COMPUTE], duration=[1.0], bytes=[6.0]))
    template = SpmdGraph((program,), np.zeros(2, np.int64))
    with caplog.at_level(logging.INFO, "foretrace.sim.run.single_graph"):
        result = simulation("core").run(Graph("steps", (template,)), keep="ranks")
    assert "expanded, since its ops hold amounts of a capacity" in caplog.text
    assert result.makespan == 2.0
