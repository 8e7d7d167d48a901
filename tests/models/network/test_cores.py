"""Threads of a library on the cores of their ranks: what each gets of a core, by hand."""

import numpy as np
import pytest
from foretrace.models.compute.jitter import jitter_spread
from foretrace.models.compute.recorded import Recorded
from foretrace.models.network.collectives import Fabric
from foretrace.models.network.link import Link
from foretrace.models.network.topology import NodeSpec, cluster
from foretrace.sim.graph import Builder, Member
from foretrace.sim.ops import Kind
from foretrace.sim.simulation import Simulation

RATE, STEP, CORE = 1e9, 0.5e-3, 4e9
SIZE = 8e6
ALONE = 2 * STEP + SIZE / RATE  # a ring of two: two steps, S bytes through each link
SPENT = SIZE / CORE


def step(computing, at_once=1, core=True):
    """Two ranks that compute for some seconds while all-reduces are under way."""
    build = Builder("step")
    for rank in range(2):
        if computing:
            build.op(Kind.COMPUTE, rank=rank, duration=computing, bytes=0, flop=0)
    for k in range(at_once):
        members = [Member(rank, 1 + k) for rank in range(2)]
        build.collective(members, bytes=SIZE, signature="collective:all-reduce")
    for rank in range(2):
        for k in range(at_once):
            build.describe(rank, 1 + k, "network")
    return build.graph()


def run(graph, *, core=True, engine="core", core_rate=CORE, compute=None, **kw):
    node = NodeSpec(gpus=2, streams=1, gpu_link=Link(bandwidth=RATE, latency=0.0), core=core)
    fabric = Fabric(algorithms="ring", step=STEP, core_rate=core_rate)
    bound = {"node0.gpu?": compute or Recorded(), "fabric": fabric}
    result = Simulation(cluster(1, node), bound, engine=engine).run(graph, **kw)
    frame = result.frame()
    return {k: frame[frame.kind == k].end_us.max() * 1e-6 for k in frame.kind.unique()}


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_beside_a_busy_core_it_takes_as_much_longer_as_it_takes_of_the_core(engine):
    ends = run(step(1.0), engine=engine)
    assert ends["collective"] == pytest.approx(ALONE + SPENT)
    assert ends["compute"] == pytest.approx(1.0 + SPENT)


def test_alone_it_takes_what_it_took_alone():
    assert run(step(0.0))["collective"] == pytest.approx(ALONE)


def test_once_the_core_is_idle_it_goes_on_at_its_own_pace():
    """The op computes for 2 ms and gets ALONE of each ALONE + SPENT until then."""
    share = ALONE / (ALONE + SPENT)
    ends = run(step(2e-3))
    assert ends["compute"] == pytest.approx(2e-3 / share)
    assert ends["collective"] == pytest.approx(2e-3 / share + ALONE - 2e-3)


def test_two_at_once_share_the_wire():
    assert run(step(0.0, at_once=2))["collective"] == pytest.approx(2 * ALONE)


def test_a_machine_without_shared_cores_knows_nothing_of_it():
    ends = run(step(1.0), core=False)
    assert (ends["collective"], ends["compute"]) == pytest.approx((ALONE, 1.0))


def test_ops_on_shared_cores_vary_in_replicas_as_on_others():
    """A flow's work is drawn as a fixed time is, whichever engine."""
    rng = np.random.default_rng(2)
    build = Builder("steps")
    for iteration in range(8):
        for _ in range(20):
            build.op(Kind.COMPUTE, duration=rng.uniform(1e-4, 2e-4), bytes=0, flop=0,
                     period=iteration)  # fmt: skip
    graph = build.graph()
    varying = Recorded()
    varying.spread = jitter_spread(graph.ops)
    ends = [
        [run(graph, core=core, engine=engine, compute=varying, replica=k)["compute"]
         for k in range(4)]
        for core, engine in ((False, "core"), (True, "core"), (True, "reference"))
    ]  # fmt: skip
    assert len(set(ends[0])) == 4
    assert ends[1] == pytest.approx(ends[0], rel=1e-6)
    assert ends[1] == ends[2]
