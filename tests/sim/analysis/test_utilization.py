"""Utilization (busy time) and occupancy (slots in use), as in ``docs/definitions.md``."""

import pytest
from foretrace.reports.figures import schedule
from foretrace.sim.analysis.metrics import measure, utilization_windows
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import UNCOUNTED, Component, System
from foretrace.sim.run.simulation import Simulation

GPU, HOST = "node0.gpu0", "node0.host"
SYSTEM = System(
    (Component(GPU, "gpu", slots=128), Component(HOST, "host", slots=4)),
    (GPU,),
    parts={GPU: {"host": HOST}},
)


class Recorded(Backend):
    """Backend whose ops take their recorded duration."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def run(system=SYSTEM, **how):
    """Run of kernels on two streams, from 1 to 5 and 3 to 7 of 10 s, and of two host threads."""
    build = Builder("streams")
    first = build.op(Kind.HOST, stream=100, duration=1.0)
    build.op(Kind.HOST, stream=101, duration=3.0)
    build.op(Kind.COMPUTE, stream=7, duration=4.0, after=[first])
    later = build.op(Kind.HOST, stream=100, duration=2.0, after=[first])
    build.op(Kind.COMPUTE, stream=8, duration=4.0, after=[later])
    build.op(Kind.HOST, stream=100, duration=7.0, after=[later])
    return Simulation(system, {"*": Recorded()}).run(build.graph(), **how)


@pytest.mark.parametrize("keep", ["ops", "ranks"])
def test_a_gpu_works_while_an_op_runs_on_any_of_its_streams(keep):
    found = run(keep=keep)
    assert found.utilization()[GPU] == pytest.approx(0.6)  # 1 to 7, not 8 s of 128 streams
    said = measure(found)
    assert said[f"{GPU}.utilization"].mean() == pytest.approx(0.6)
    assert said["gpu.utilization"].max() == pytest.approx(1.0)
    assert said["gpu.occupancy"].mean() == pytest.approx(8 / 10 / 128)


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_host_utilization_is_busy_cores_over_all_cores(keep):
    assert run(keep=keep).utilization()[HOST] == pytest.approx(13 / 10 / 4)


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_host_utilization_is_unknown_without_a_core_count(keep):
    """It was once 0 % of 2**31 cores, for a host that limited the run."""
    system = System(
        (Component(GPU, "gpu", slots=128), Component(HOST, "host", slots=UNCOUNTED)),
        (GPU,),
        parts={GPU: {"host": HOST}},
    )
    found = run(system, keep=keep)
    assert HOST in found.busy
    assert HOST not in found.utilization()
    assert [name for name in measure(found) if "host" in name] == []


def test_gpus_without_kept_data_are_left_out():
    assert GPU not in run(keep="none").utilization()


def test_the_heat_map_shows_a_gpu_of_many_streams():
    result = run()
    shares = {GPU: utilization_windows(result)[GPU].tolist()}
    heat = schedule.utilization_heat_map(shares, result.makespan)
    assert heat.rows == [f"{GPU}  60 %"]
    assert max(heat.values[0]) > 0


@pytest.mark.parametrize("keep", ["ops", "ranks"])
def test_a_gpu_works_while_a_communication_kernel_runs_or_waits_on_it(keep):
    """A kernel of 2 s, then an all-reduce that rank 1 joins at 4 s and that takes 1 s."""
    names = "node0.gpu0", "node0.gpu1"
    system = System(
        (*(Component(name, "gpu", slots=128) for name in names), Component("fabric", "fabric")),
        names,
        fabric="fabric",
    )
    build = Builder("all-reduce")
    first = [build.op(Kind.COMPUTE, rank=r, stream=7, duration=2.0 + 2 * r) for r in range(2)]
    members = [Member(rank=r, stream=20, after=[first[r]]) for r in range(2)]
    build.collective(members, name="all-reduce", bytes=8.0, duration=1.0)
    for rank in range(2):
        build.set_stream_kind(rank, 7, "compute")
        build.set_stream_kind(rank, 20, "network")
        build.op(Kind.COMPUTE, rank=rank, stream=7, duration=1.0, release=9.0)
    found = Simulation(system, {"*": Recorded()}).run(build.graph(), keep=keep)
    assert found.makespan == 10.0
    assert found.utilization() == pytest.approx({names[0]: 0.6, names[1]: 0.6})
