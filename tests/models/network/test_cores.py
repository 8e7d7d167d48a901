"""Threads of a library on the cores of their ranks: what each gets of a core, by hand."""

import numpy as np
import pytest
from foretrace.models.compute.jitter import jitter_spread
from foretrace.models.compute.recorded import Recorded
from foretrace.models.compute.roofline import Roofline
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


def channels_beside_kernels(seconds, *, share, engine="core", **kw):
    """Ends of an all-reduce and of kernels that take so long, on GPUs that share multiprocessors.

    A kernel of 1 GB at 1 TB/s takes 1 ms.
    """
    build = Builder("step")
    for rank in range(2):
        build.op(Kind.COMPUTE, rank=rank, flop=0.0, bytes=seconds * 1e12)
    build.collective([Member(r, 1) for r in range(2)], bytes=SIZE,
                     signature="collective:all-reduce")  # fmt: skip
    for rank in range(2):
        build.describe(rank, 1, "network")
    node = NodeSpec(gpus=2, streams=1, gpu_link=Link(bandwidth=RATE, latency=0.0), core=True)
    fabric = Fabric(algorithms="ring", step=STEP, core_share=share, **kw)
    bound = {"node0.gpu?": Roofline(bandwidth=1e12), "fabric": fabric}
    frame = Simulation(cluster(1, node), bound, engine=engine).run(build.graph()).frame()
    return {k: frame[frame.kind == k].end_us.max() * 1e-6 for k in frame.kind.unique()}


@pytest.mark.parametrize("engine", ["core", "reference"])
@pytest.mark.parametrize("fidelity", ["flow", "alpha-beta"])
def test_kernels_and_channels_that_keep_multiprocessors_slow_each_other(fidelity, engine):
    """Both take 1 + share times as long while they run beside each other, and no longer after."""
    ends = channels_beside_kernels(1.0, share=0.25, fidelity=fidelity, engine=engine)
    assert ends["collective"] == pytest.approx(1.25 * ALONE)
    assert ends["compute"] == pytest.approx(1.0 + 0.25 * ALONE)


@pytest.mark.parametrize("fidelity", ["flow", "alpha-beta"])
def test_channels_without_kernels_beside_them_take_what_they_took_alone(fidelity):
    assert channels_beside_kernels(0.0, share=0.25, fidelity=fidelity)["collective"] == (
        pytest.approx(ALONE)
    )


def test_channels_that_keep_nothing_slow_nothing():
    ends = channels_beside_kernels(1.0, share=0.0, fidelity="alpha-beta")
    assert (ends["collective"], ends["compute"]) == pytest.approx((ALONE, 1.0))
