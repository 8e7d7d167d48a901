"""Ops that a process moves: the backend there is asked, and the fabric about the new route."""

import numpy as np
import pytest
from foretrace.models.fleet.hot_spare import HotSpare
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import Component, Location, Route, System
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
SLOW, SPARE, FAR = "node0.gpu0", "node1.gpu0", "node2.gpu0"
SYSTEM = System(
    (
        Component(SLOW, "gpu", slots=1, location=Location("node0")),
        Component(SPARE, "gpu", slots=1, location=Location("node1")),
        Component(FAR, "gpu", slots=1, location=Location("node2")),
        Component("near", "link", rate=2e9),
        Component("spine", "link", rate=1e9),
        Component("fabric", "fabric"),
    ),
    (SLOW, SPARE, FAR),
    router=lambda a, b: [Route((4 if 2 in (a, b) else 3,))],
    fabric="fabric",
)


class Takes(Backend):
    """So many seconds for every op."""

    source = "the test"

    def __init__(self, seconds, online=False, **answer):
        self.seconds, self.online, self.answer = seconds, online, answer
        self.asked = []

    def timing(self, ops, now=0.0):
        self.asked.append((now, len(ops)))
        return Timing.of([self.seconds] * len(ops), **self.answer)


class Fabric(Backend):
    """Bytes over the route of their two ends."""

    source = "the test"

    def timing(self, ops, now=0.0):
        routes = [ops.at.system.route(*ops.at.members[i]) for i in range(len(ops))]
        usage = Usage.of([dict.fromkeys(route, 1.0) for route in routes])
        return Timing.of(np.zeros(len(ops)), work=ops.bytes, usage=usage)


def in_a_row(count=3):
    build = Builder("in a row")
    last = ()
    for _ in range(count):
        last = (build.op(Kind.COMPUTE, after=last),)
    return build.graph()


def to_the_spare(at, ops, keep=False, slots=(SPARE,), **how):
    def process(sim):
        yield sim.wait(at)
        for op in ops:
            sim.stop(op)
        sim.resume(list(ops), keep=keep, slots=slots, **how)

    return process


def run(engine, graph, *processes, slow=None, spare=None, **how):
    bound = {SLOW: slow or Takes(10.0), "node[12].gpu0": spare or Takes(1.0), "fabric": Fabric()}
    return Simulation(SYSTEM, bound, engine).run(graph, *processes, **how)


@ENGINES
@pytest.mark.parametrize("of", ["neither", "slow", "spare", "both"])
def test_moved_ops_take_the_time_of_their_new_gpu(engine, of):
    slow = Takes(10.0, online=of in ("slow", "both"))
    spare = Takes(1.0, online=of in ("spare", "both"))
    result = run(engine, in_a_row(), to_the_spare(12, [1, 2]), slow=slow, spare=spare)
    assert result.makespan == 14.0
    assert result.end.tolist() == [10.0, 13.0, 14.0]


@ENGINES
@pytest.mark.parametrize("online", [False, True])
def test_the_remaining_fraction_of_an_op_is_kept_when_it_moves(engine, online):
    spare = Takes(1.0, online=online)
    result = run(engine, in_a_row(), to_the_spare(12, [1, 2], keep=True), spare=spare)
    assert result.end.tolist() == [10.0, 12.8, 13.8]  # a fifth of op 1 was done, nothing of op 2


@ENGINES
def test_earlier_progress_on_an_online_backend_counts(engine):
    slow = Takes(10.0, online=True)
    back = to_the_spare(12.5, [1], keep=True, slots=(SLOW,))
    result = run(engine, in_a_row(2), to_the_spare(12, [1], keep=True), back, slow=slow)
    assert result.makespan == 15.5  # 20 % done, then 50 %: of 10 s again 30 % are left


@ENGINES
@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_tables_show_where_a_moved_op_ran_last(engine, keep):
    result = run(engine, in_a_row(), to_the_spare(12, [1, 2]), keep=keep)
    assert result.busy == {SLOW: 10.0, SPARE: 2.0}
    if keep == "ops":
        assert result.frame()["component"].tolist() == [SLOW, SPARE, SPARE]
        assert [charge.who for charge in result.blame().path] == [SLOW, "process", SPARE, SPARE]


@ENGINES
def test_a_fixed_time_may_become_work_when_an_op_moves(engine):
    spare = Takes(0.5, work=[3e9], usage=Usage.repeated([3], 1))
    result = run(engine, in_a_row(1), to_the_spare(5, [0], keep=True), spare=spare)
    assert result.makespan == 5 + 0.25 + 0.75
    assert result.utilization()["near"] == pytest.approx(3e9 / 2e9 / 6.0)


@ENGINES
@pytest.mark.parametrize(("keep", "end"), [(True, 3.0), (False, 5.0)])
def test_a_moved_send_uses_the_route_of_the_replacement_gpu(engine, keep, end):
    build = Builder("send")
    build.op(Kind.SEND, rank=0, peer=1, bytes=4e9)

    def move(sim):
        yield sim.wait(1.0)
        sim.stop(0)
        sim.resume(0, keep=keep, instead={SPARE: FAR})

    result = run(engine, build.graph(), move)
    assert result.makespan == end  # 2 GB were sent at 2 GB/s; the spine carries 1 GB/s
    assert result.utilization()["spine"] > 0


@ENGINES
def test_a_moved_op_keeps_its_random_factor(engine):
    spread = Spread(np.array([0.5, 1.5]), np.array([0.5, 1.0, 2.0]))
    backends = {"slow": Takes(10.0, spread=spread), "spare": Takes(1.0, spread=spread)}
    graph = in_a_row()
    here = run(engine, graph, replica=3, **backends)
    factor = (here.end - here.start) / 10.0
    there = run(engine, graph, to_the_spare(0, [0, 1, 2]), replica=3, **backends)
    assert (there.end - there.start) == pytest.approx(factor)


@ENGINES
def test_a_move_that_changes_the_held_amounts_is_refused(engine):
    store = Component("node1.kv", "memory", capacity=4, unit="block")
    system = System((*SYSTEM.components, store), SYSTEM.gpus, fabric="fabric")
    spare = Takes(1.0, holds=Holds.of([[(6, 2)]]))
    bound = {SLOW: Takes(10.0), "node[12].gpu0": spare, "fabric": Fabric()}
    with pytest.raises(SimulationError, match=r"op 0: .* another amount .*node1\.kv.*; cancel it"):
        Simulation(system, bound, engine).run(in_a_row(1), to_the_spare(1, [0]))


@ENGINES
def test_resuming_with_slots_and_gpus_at_once_is_refused(engine):
    with pytest.raises(TypeError, match="slots or instead"):
        run(engine, in_a_row(1), to_the_spare(1, [0], instead={SLOW: SPARE}))


def pair(steps=2):
    """A second on both GPUs, then 2 GB from one to the other."""
    build = Builder("pair")
    last = ()
    for _ in range(steps):
        own = [build.op(Kind.COMPUTE, rank=r, after=last) for r in range(2)]
        last = (build.op(Kind.SEND, rank=0, peer=1, bytes=2e9, after=own),)
    return place(build.graph(), SYSTEM)


def spared(engine, spare, takes):
    """End of a run whose first GPU dies at once, with a spare that takes its time."""
    bound = {SLOW: Takes(1.0), SPARE: Takes(1.0), FAR: Takes(takes), "fabric": Fabric()}

    def fault(sim):
        yield sim.wait(0.5)
        sim.fail(SLOW)

    policy = HotSpare(pair(), [spare], period=1.0, swap=1.0)
    return Simulation(SYSTEM, bound, engine).run(None, fault, policy)


@ENGINES
def test_a_farther_or_slower_spare_costs_its_own_time(engine):
    quick, slow = spared(engine, FAR, 1.0), spared(engine, FAR, 3.0)
    assert quick.makespan == 2.0 + 2 * (1.0 + 2.0)  # over the spine 2 s, where 1 s was before
    assert slow.makespan == 2.0 + 2 * (3.0 + 2.0)
    assert slow.frame()["component"].tolist().count(FAR) == 2
