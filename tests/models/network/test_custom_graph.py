"""Networks from files of links: YAML and GraphML, unequal speeds, links that are down."""

import numpy as np
import pytest
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.custom_graph import CustomGraph, read_links
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.errors import GraphError

LINKS = """\
links:
  - {from: "node[01].nic0", to: leaf0, bandwidth: 1 GB/s, latency: 1 us}
  - {from: "node[23].nic0", to: leaf1, bandwidth: 1 GB/s, latency: 1 us}
  - {from: leaf0, to: fast, bandwidth: 4 GB/s, latency: 1 us}
  - {from: leaf1, to: fast, bandwidth: 4 GB/s, latency: 1 us}
  - {from: leaf0, to: slow, bandwidth: 1 GB/s, latency: 1 us}
  - {from: leaf1, to: slow, bandwidth: 1 GB/s, latency: 1 us}
"""
GRAPHML = """\
<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>
  <key id="l" for="edge" attr.name="latency" attr.type="string"/>
  <graph edgedefault="undirected">
    <node id="node0.nic0"/><node id="node1.nic0"/><node id="hub0"/>
    <edge source="node0.nic0" target="hub0">
      <data key="b">2 GB/s</data><data key="l">1 us</data></edge>
    <edge source="node1.nic0" target="hub0">
      <data key="b">1 GB/s</data><data key="l">3 us</data></edge>
  </graph>
</graphml>
"""


@pytest.fixture
def write(tmp_path):
    def written(text, name="net.yaml"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return written


def fabric(topology, nodes=4, switch=None):
    nic = Nic(bandwidth=1e12, latency=0.0)
    return cluster(nodes, NodeSpec(nics=1, nic=nic), FabricSpec(switch, topology))


def names(system, route):
    return [system.components[c].name for c in route.components][1:-1]


def test_links_of_a_file_join_the_machines(write):
    graph = CustomGraph(file=write(LINKS))
    system = fabric(graph)
    a, b, c, _ = system.numbers
    assert names(system, system.routes(a, b)[0]) == ["node0.nic0.leaf0", "leaf0.node1.nic0"]
    ways = sorted(names(system, r)[1] for r in system.routes(a, c))
    assert ways == ["leaf0.fast", "leaf0.slow"]
    assert system.latency(a, c) == pytest.approx(4e-6)
    assert graph.parts().switches == {"leaf": 2, "fast": 1, "slow": 1}


def test_the_same_links_may_be_said_in_graphml(write):
    system = fabric(CustomGraph(file=write(GRAPHML, "net.graphml")), 2)
    a, b = system.numbers
    assert system.bandwidth(a, b) == 1e9
    assert system.latency(a, b) == pytest.approx(4e-6)


def test_a_link_that_is_down_is_left_out_of_all_ways(write):
    text = LINKS.replace(
        "to: slow, bandwidth: 1 GB/s", "to: slow, down: true, bandwidth: 1 GB/s", 1
    )
    system = fabric(CustomGraph(file=write(text)))
    a, _, c, _ = system.numbers
    assert [names(system, r)[1] for r in system.routes(a, c)] == ["leaf0.fast"]


def test_weighted_flows_take_a_link_of_four_times_the_rate_four_times_as_often(write):
    system = fabric(CustomGraph(file=write(LINKS), routing="weighted", seed=1))
    a, _, c, _ = system.numbers
    flows = np.arange(4000)
    crossed = system.crossings(np.full(4000, a), np.full(4000, c), flows)
    fast = (crossed.component == system.number("leaf0.fast")).sum()
    assert abs(fast / 4000 - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 4000)


def test_a_nic_on_several_switches_passes_nothing_on(write):
    """Two planes: NIC 0 is on both, and is no way from one to the other."""
    text = """\
links:
  - {from: "node[012].nic0", to: plane0}
  - {from: "node[03].nic0", to: plane1}
"""
    switch = Switch(bandwidth=1e9, latency=0.0, ports=8)
    system = fabric(CustomGraph(file=write(text)), switch=switch)
    a, b, _, d = system.numbers
    assert names(system, system.routes(d, a)[0]) == ["node3.nic0.plane1", "plane1.node0.nic0"]
    with pytest.raises(
        GraphError, match=r"no route leads from node1.nic0 to node3.nic0; add a link"
    ):
        system.routes(b, d)
    with pytest.raises(GraphError, match=r"no route leads from node1.nic0 to node3.nic0"):
        system.crossings([b], [d])


def test_links_beside_each_other_are_each_their_own(write):
    text = LINKS.replace("to: fast, ", "to: fast, count: 3, ", 1)
    system = fabric(CustomGraph(file=write(text)))
    assert system.select(kind="switch").count("leaf0.fast.2") == 1
    a, _, c, _ = system.numbers
    assert len(system.routes(a, c)) == 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("to: slow, bandwidth: 1 GB/s", "to: slow, bandwidth: 0 GB/s",
         r"net.yaml: links.4.bandwidth: is 0 GB/s; give more than 0, or down: true"),
        ("to: slow, bandwidth: 1 GB/s", "to: slow, bandwidth: -1 GB/s",
         r"links.4.bandwidth: is -1 GB/s; give more than 0"),
        ("latency: 1 us", "latency: 5", r"links.0.latency: .*unit"),
        ("to: slow, bandwidth: 1 GB/s", "to: slow", r"links.4: its bandwidth is missing; write it"),
        ("to: slow,", "to: slow, speed: 3,", "links.4: 'speed' is not a setting of a link; write"),
        ("to: slow,", "to: leaf0,", r"links.4: joins 'leaf0' to itself"),
        ("to: slow,", "to: slow, count: 0,", r"links.4.count: is 0; give a whole number"),
        ("to: slow,", "to: slow, down: 1,", r"links.4.down: is 1; write true or false"),
        (
            "node[23].nic0",
            "node[45].nic0",
            r"links.1: no machine has 'node\[45\].nic0'; name NICs such as",
        ),
        ("to: leaf1, bandwidth", "to: leaf7, bandwidth", "no route leads from node0.nic0 to node2"),
        ("node[23].nic0", "node2.nic0", "no route leads from node0.nic0 to node3.nic0; add a link"),
        ("links:", "cables:", "is not a list of links"),
        ("links:", "links: [", "cannot be read"),
    ],
)  # fmt: skip
def test_a_file_that_says_nonsense_is_refused_with_its_place(write, old, new, said):
    with pytest.raises(GraphError, match=said):
        fabric(CustomGraph(file=write(LINKS.replace(old, new, 1))))


def test_more_ways_than_there_are_is_refused(write):
    with pytest.raises(GraphError, match="paths is 3, but at most 2 paths join two NICs"):
        fabric(CustomGraph(file=write(LINKS), paths=3))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    for name in ("none.yaml", "none.graphml"):
        with pytest.raises(GraphError, match=f"{name}: cannot be read"):
            list(read_links(tmp_path / name))
