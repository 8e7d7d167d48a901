"""PCIe trees: what GPUs and NICs share below a switch, and what crosses its link to the host."""

import numpy as np
import pytest
from foretrace.models.memory.copy import Copy
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.pcie import PcieSwitch
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.building.system import build_system
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.run.simulation import Simulation


@pytest.fixture
def system():
    """Two machines, each with four GPUs and two NICs below two switches."""
    bus = Link(bandwidth=2e9, latency=0.0)
    tree = PcieSwitch(bandwidth=1e9, latency=0.0)
    node = NodeSpec(gpus=4, nics=4, nic=Nic(bandwidth=1e12, latency=0.0, header=0.0),
                    host_link=bus, nic_link=bus, others=(("pcie_switch", 2, tree),))  # fmt: skip
    return cluster(2, node)


def way(system, a, b):
    (route,) = system.routes(system.number(a), system.number(b))
    return [system.components[c].name.split(".", 1)[1] for c in route.components]


def test_gpus_below_one_switch_meet_in_it(system):
    assert way(system, "node0.gpu0", "node0.gpu1") == ["gpu0.d2h", "gpu1.h2d"]


def test_gpus_below_two_switches_cross_both_links_to_the_host(system):
    links = ["gpu1.d2h", "pcie_switch0.up", "pcie_switch1.down", "gpu2.h2d"]
    assert way(system, "node0.gpu1", "node0.gpu2") == links


def test_data_of_the_host_cross_the_link_of_the_switch(system):
    assert way(system, "node0.gpu3", "node0.host") == ["gpu3.d2h", "pcie_switch1.up"]
    assert way(system, "node0.host", "node0.gpu3") == ["pcie_switch1.down", "gpu3.h2d"]


def test_a_gpu_reaches_a_nic_below_its_switch_without_the_host(system):
    assert way(system, "node0.gpu0", "node1.gpu0") == [
        "gpu0.to_nic", "nic0.tx", "nic0.rx", "gpu0.from_nic",
    ]  # fmt: skip


def test_a_nic_below_another_switch_is_reached_over_both():
    """One NIC, below the first of two switches, for two GPUs."""
    bus = Link(bandwidth=2e9, latency=0.0)
    tree = PcieSwitch(bandwidth=1e9, latency=0.0)
    nic = Nic(bandwidth=1e12, latency=0.0)
    node = NodeSpec(gpus=2, nics=1, nic=nic, nic_link=bus, others=(("pcie_switch", 2, tree),))
    system = cluster(2, node)
    assert way(system, "node0.gpu1", "node1.gpu1") == [
        "gpu1.to_nic", "pcie_switch1.up", "pcie_switch0.down", "nic0.tx",
        "nic0.rx", "pcie_switch0.up", "pcie_switch1.down", "gpu1.from_nic",
    ]  # fmt: skip
    assert_many_as_one(system)


def assert_many_as_one(system):
    ends = np.array([*system.numbers, *(system.number(n) for n in system.select(kind="host"))])
    source, target = np.repeat(ends, len(ends)), np.tile(ends, len(ends))
    crossed = system.crossings(source, target)
    for flow, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        found = crossed.component[crossed.flow == flow].tolist()
        assert found == list(system.route(*pair))


def test_many_flows_cross_what_each_would_alone(system):
    assert_many_as_one(system)


def test_two_copies_below_one_switch_share_its_link_and_below_two_they_do_not(system):
    """1 MB each, over a link of 1 GB/s: 2 ms where they share it, 1 ms alone."""
    for ranks, took in (((0, 1), 2e-3), ((0, 2), 1e-3)):
        build = Builder("copies")
        for rank in ranks:
            build.op(Kind.COPY, rank=rank, bytes=1e6, signature="copy:h2d")
        graph = place(build.graph(), system)
        backends = {"fabric": Fabric()} | {f"node0.gpu{r}.dma": Copy(launch=0.0) for r in ranks}
        assert Simulation(system, backends).run(graph).makespan == pytest.approx(took)


def test_a_scenario_says_pcie_switches_like_any_part():
    text = """\
foretrace: 1
name: tree
workload: {type: transfers, ops: [{op: "copy:h2d", bytes: 1 MB}]}
cluster:
  nodes: 1
  node:
    gpu: {count: 4, streams: 1, copy_engines: 1}
    pcie_switch: {count: 2, bandwidth: 32 GB/s, latency: 130 ns}
    links: [{from: gpu, to: host, bandwidth: 64 GB/s, latency: 1 us}]
    host: {cores: 8}
"""
    system = build_system(loads(text))
    assert way(system, "node0.gpu1", "node0.gpu2")[1:3] == ["pcie_switch0.up", "pcie_switch1.down"]
    assert system["node0.pcie_switch1.up"].rate == 32e9
