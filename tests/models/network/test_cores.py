"""Threads of a library on the cores of their ranks: what each gets of a core, by hand."""

import numpy as np
import pytest
from foretrace.models.compute.jitter import jitter_spread
from foretrace.models.compute.recorded import Recorded
from foretrace.models.compute.roofline import Roofline
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.library import CoreCosts, Protocol
from foretrace.models.network.part.link import Link
from foretrace.models.network.topology.topology import GpuSpec, NodeSpec, cluster
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.rerun.sensitivity import scale_components
from foretrace.sim.run.simulation import Simulation

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
            build.set_stream_kind(rank, 1 + k, "network")
    return build.graph()


def run(graph, *, core=True, engine="core", core_rate=CORE, compute=None, **kw):
    node = NodeSpec(
        gpus=2, gpu=GpuSpec(streams=1, core=core), gpu_link=Link(bandwidth=RATE, latency=0.0)
    )
    fabric = Fabric(algorithms="ring", simple=Protocol(step=STEP), cores=CoreCosts(rate=core_rate))
    bound = {"node0.gpu?": compute or Recorded(), "fabric": fabric}
    result = Simulation(cluster(1, node), bound, engine=engine).run(graph, **kw)
    frame = result.frame()
    return {k: frame[frame.kind == k].end_us.max() * 1e-6 for k in frame.kind.unique()}


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_on_a_busy_core_a_collective_slows_by_its_share_of_the_core(engine):
    ends = run(step(1.0), engine=engine)
    assert ends["collective"] == pytest.approx(ALONE + SPENT)
    assert ends["compute"] == pytest.approx(1.0 + SPENT)


def test_on_an_idle_core_a_collective_keeps_its_time():
    assert run(step(0.0))["collective"] == pytest.approx(ALONE)


def test_a_collective_regains_its_pace_when_the_core_is_idle():
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


def channels_beside_kernels(seconds, *, share, engine="core", bound_by=1.0, **kw):
    """Ends of an all-reduce and of kernels that take so long, on GPUs that its channels share.

    A kernel of 1 GB at 1 TB/s takes 1 ms.

    Parameters
    ----------
    share : of a GPU, that the all-reduce takes
    bound_by : what it takes of a GPU while nothing but the GPU holds it back, over ``share``
    """
    build = Builder("step")
    for rank in range(2):
        build.op(Kind.COMPUTE, rank=rank, flop=0.0, bytes=seconds * 1e12)
    build.collective([Member(r, 1) for r in range(2)], bytes=SIZE,
                     signature="collective:all-reduce")  # fmt: skip
    for rank in range(2):
        build.set_stream_kind(rank, 1, "network")
    node = NodeSpec(
        gpus=2, gpu=GpuSpec(streams=1, core=True), gpu_link=Link(bandwidth=RATE, latency=0.0)
    )
    rate = SIZE / (share * ALONE) if share else None
    most = share * bound_by if share else None
    fabric = Fabric(
        algorithms="ring", simple=Protocol(step=STEP), cores=CoreCosts(rate=rate, share=most), **kw
    )
    bound = {"node0.gpu?": Roofline(bandwidth=1e12), "fabric": fabric}
    frame = Simulation(cluster(1, node), bound, engine=engine).run(build.graph()).frame()
    return {k: frame[frame.kind == k].end_us.max() * 1e-6 for k in frame.kind.unique()}


BOTH = pytest.mark.parametrize("fidelity", ["flow", "alpha-beta"])


@pytest.mark.parametrize("engine", ["core", "reference"])
@BOTH
def test_kernels_and_channels_that_share_a_gpu_slow_each_other(fidelity, engine):
    """Both take 1 + share times as long while they run beside each other, and no longer after."""
    ends = channels_beside_kernels(1.0, share=0.25, fidelity=fidelity, engine=engine)
    assert ends["collective"] == pytest.approx(1.25 * ALONE)
    assert ends["compute"] == pytest.approx(1.0 + 0.25 * ALONE)


@pytest.mark.parametrize("engine", ["core", "reference"])
@BOTH
def test_a_collective_that_a_network_holds_back_keeps_its_pace(fidelity, engine):
    """It takes an eighth of the GPU, where one that waits for nothing takes half: kernels get 7/8.

    With twice as much of the GPU as it takes kernels would still leave it its pace.
    """
    ends = channels_beside_kernels(1.0, share=0.125, bound_by=4.0, fidelity=fidelity, engine=engine)
    assert ends["collective"] == pytest.approx(ALONE)
    assert ends["compute"] == pytest.approx(1.0 + 0.125 * ALONE)


@BOTH
def test_held_back_by_a_gpu_more_than_by_the_network_it_is_as_slow_as_the_gpu_makes_it(fidelity):
    """At nine tenths of the pace that its GPU alone would allow, it gets 1 / (1 + 0.5) of that."""
    ends = channels_beside_kernels(1.0, share=0.45, bound_by=0.5 / 0.45, fidelity=fidelity)
    assert ends["collective"] == pytest.approx(0.9 * 1.5 * ALONE)


@BOTH
def test_channels_without_kernels_beside_them_take_what_they_took_alone(fidelity):
    assert channels_beside_kernels(0.0, share=0.25, fidelity=fidelity)["collective"] == (
        pytest.approx(ALONE)
    )


def test_channels_that_take_nothing_slow_nothing():
    ends = channels_beside_kernels(1.0, share=0.0, fidelity="alpha-beta")
    assert (ends["collective"], ends["compute"]) == pytest.approx((ALONE, 1.0))


@pytest.mark.parametrize(("factor", "ends"), [(2.0, 0.5), (np.inf, 0.0)])
def test_kernels_of_quicker_gpus_are_quicker_where_they_share_them(factor, ends):
    """Their seconds are work on what they share, which a calibrated step and blame scale too."""
    build = Builder("step")
    build.op(Kind.COMPUTE, flop=0.0, bytes=1e12)
    node = NodeSpec(
        gpus=1, gpu=GpuSpec(streams=1, core=True), gpu_link=Link(bandwidth=RATE, latency=0.0)
    )
    system = cluster(1, node)
    bound = {"node0.gpu0": Roofline(bandwidth=1e12)}
    quicker = scale_components(Simulation(system, bound), [system.number("node0.gpu0")], factor)
    assert quicker.run(build.graph()).makespan == pytest.approx(ends)


@BOTH
def test_groups_that_look_alike_each_take_of_their_own_gpus(fidelity):
    """Two pairs of GPUs of one machine are worked out once; kernels of both pairs are slowed."""
    build = Builder("step")
    for rank in range(4):
        build.op(Kind.COMPUTE, rank=rank, flop=0.0, bytes=1e12)
    for pair in ((0, 1), (2, 3)):
        build.collective([Member(r, 1) for r in pair], bytes=SIZE,
                         signature="collective:all-reduce")  # fmt: skip
    for rank in range(4):
        build.set_stream_kind(rank, 1, "network")
    node = NodeSpec(
        gpus=4, gpu=GpuSpec(streams=1, core=True), gpu_link=Link(bandwidth=RATE, latency=0.0)
    )
    fabric = Fabric(
        algorithms="ring",
        simple=Protocol(step=STEP),
        cores=CoreCosts(rate=SIZE / (0.25 * ALONE)),
        fidelity=fidelity,
    )
    bound = {"node0.gpu?": Roofline(bandwidth=1e12), "fabric": fabric}
    frame = Simulation(cluster(1, node), bound).run(build.graph()).frame()
    kernels = frame[frame.kind == "compute"].end_us * 1e-6
    assert kernels.tolist() == pytest.approx([1.0 + 0.25 * ALONE] * 4)
