"""Memories and copies against arithmetic."""

import pytest
from foretrace.models.memory.copy import PATHS, Copy
from foretrace.models.memory.memory import Memory
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.pcie import PcieSwitch
from foretrace.models.network.topology.topology import GpuSpec, NodeSpec, cluster
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.run.simulation import Simulation


def node(dram=1e11, bus=1e10, hbm=1e12, cxl=None, engines=4, latency=0.0, others=()):
    def memory(rate):
        return None if rate is None else Memory(bandwidth=rate, latency=latency)

    return cluster(
        1,
        NodeSpec(
            gpus=1,
            gpu=GpuSpec(copy_engines=engines, hbm=memory(hbm)),
            dram=memory(dram),
            cxl=memory(cxl),
            host_link=Link(bandwidth=bus, latency=latency),
            others=others,
        ),
    )


def makespan(system, *ways, size=1e9, launch=0.0):
    build = Builder("copies")
    for i, way in enumerate(ways):
        build.op(Kind.COPY, stream=i, bytes=size, signature=f"copy:{way}")
    backends = {"node0.gpu0.dma": Copy(launch=launch)}
    return Simulation(system, backends, engine="reference").run(build.graph()).makespan


def test_one_requester_gets_no_more_than_littles_law_allows():
    """Little 1961: 16 lines of 64 B in flight at 400 ns are 2.56 GB/s, whatever the bandwidth."""
    timing = Memory(bandwidth=1e12, latency=4e-7, in_flight=1024).timing(Ops.of(bytes=[1.0]))
    assert timing.limit.tolist() == pytest.approx([2.56e9])
    assert Memory(bandwidth=1e12, latency=4e-7).timing(Ops.of(bytes=[1.0])).limit is None


@pytest.mark.parametrize(
    ("way", "seconds"), [("h2d", 0.1), ("d2h", 0.1), ("d2d", 2e-3), ("h2h", 0.02)]
)
def test_a_copy_takes_as_long_as_its_narrowest_part(way, seconds):
    """1 GB over a bus of 10 GB/s; inside a memory it is read and written."""
    assert makespan(node(), way) == pytest.approx(seconds)


def test_the_two_directions_of_the_bus_do_not_meet_but_equal_ones_do():
    assert makespan(node(), "h2d", "d2h") == pytest.approx(0.1)
    assert makespan(node(), "h2d", "h2d") == pytest.approx(0.2)


def test_copies_meet_in_the_memory_of_the_host():
    """Both directions read or write the same DRAM: 12 GB/s for two copies of 1 GB."""
    assert makespan(node(dram=1.2e10), "h2d", "d2h") == pytest.approx(2e9 / 1.2e10)


def test_one_engine_does_one_copy_after_the_other():
    assert makespan(node(engines=1), "h2d", "d2h") == pytest.approx(0.2)


def test_launch_and_latencies_come_first():
    found = makespan(node(latency=1e-6), "h2d", size=0.0, launch=5e-6)
    assert found == pytest.approx(5e-6 + 3e-6)


def test_cxl_memory_is_reached_over_the_bus():
    assert makespan(node(cxl=5e9), "c2d") == pytest.approx(0.2)


@pytest.mark.parametrize("way", ["h2c", "c2h"])
def test_pages_between_tiers_pass_both_and_no_bus(way):
    assert makespan(node(cxl=5e9, bus=1e6), way) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("system", "way", "message"),
    [
        (node(), "sideways", r"copy 'sideways' is not a direction; write one of \['h2d'"),
        (node(), "h2c", "copy 'h2c' needs a part 'cxl'"),
        (node(hbm=None), "d2d", "copy 'd2d' needs a part 'hbm'"),
        (
            cluster(1, NodeSpec(gpus=1)),
            "h2d",
            "copy 'h2d' needs a part 'h2d'; give the node a link",
        ),
    ],
)
def test_what_it_cannot_know_it_refuses(system, way, message):
    with pytest.raises(BackendError, match=message):
        makespan(system, way)


def test_every_direction_names_parts_that_a_cluster_has():
    system = node(cxl=5e9, others=(("pcie_switch", 1, PcieSwitch(bandwidth=1e9, latency=0.0)),))
    roles = {role for way in PATHS.values() for role, _ in way}
    assert all(system.part(system.number("node0.gpu0"), role) >= 0 for role in roles)
