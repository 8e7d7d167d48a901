"""Links, adapters and switches against arithmetic that anyone can redo."""

import numpy as np
import pytest
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import ROCE, Nic
from foretrace.models.network.part.switch import Switch, star
from foretrace.models.network.topology.topology import FabricSpec as Wires
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.run.simulation import Simulation


def sends(*pairs, size=1e6):
    build = Builder("sends")
    for a, b in pairs:
        build.op(Kind.SEND, rank=a, peer=b, bytes=size)
    return build.graph()


def makespan(system, graph):
    return Simulation(system, {"fabric": Fabric()}, engine="reference").run(graph).makespan


def test_a_link_is_latency_then_bytes_over_rate():
    """Hockney 1994."""
    timing = Link(bandwidth=2e9, latency=3e-6, overhead=1e-6).timing(Ops.of(bytes=[0.0, 4e6]))
    assert timing.fixed.tolist() == [4e-6, 4e-6]
    assert timing.work.tolist() == [0.0, 4e6]


def test_headers_take_their_share_of_the_line_rate():
    """4,096 B of payload in 4,178 B on the wire at 400 Gbit/s."""
    nic = Nic(bandwidth=50e9, latency=0.0, mtu=4096, header=ROCE)
    assert nic.rate == pytest.approx(50e9 * 4096 / 4178)


def test_a_message_pays_the_nic_once_where_it_leaves():
    nic = Nic(bandwidth=1e9, latency=2e-6, overhead=5e-6, header=0.0)
    system = cluster(2, NodeSpec(gpus=1, nics=1, nic=nic))
    assert makespan(system, sends((0, 1))) == pytest.approx(5e-6 + 2 * 2e-6 + 1e-3)


def test_small_messages_are_bound_by_the_cost_of_each():
    """A thousand messages of one byte in a row: the rate is 1 / (overhead + crossings)."""
    nic = Nic(bandwidth=1e9, latency=0.0, overhead=5e-6, header=0.0)
    system = cluster(2, NodeSpec(gpus=1, nics=1, nic=nic))
    build = Builder("row")
    last = []
    for _ in range(1000):
        last = [build.op(Kind.SEND, rank=0, peer=1, bytes=1.0, after=last)]
    assert makespan(system, build.graph()) == pytest.approx(1000 * (5e-6 + 1e-9))


def test_a_switch_adds_its_forwarding_latency():
    link = Link(bandwidth=1e9, latency=1e-6)
    quick = star(2, link, Switch(bandwidth=1e9, latency=0.0, ports=2))
    slow = star(2, link, Switch(bandwidth=1e9, latency=4e-6, ports=2))
    assert makespan(slow, sends((0, 1))) - makespan(quick, sends((0, 1))) == pytest.approx(4e-6)


@pytest.mark.parametrize("senders", [1, 2, 7])
def test_senders_to_one_port_share_it(senders):
    link = Link(bandwidth=1e9, latency=0.0)
    system = star(8, link, Switch(bandwidth=1e9, latency=0.0, ports=8))
    pairs = [(i, 0) for i in range(1, senders + 1)]
    assert makespan(system, sends(*pairs)) == pytest.approx(senders * 1e-3)


def test_a_shift_meets_nowhere_in_a_switch_without_blocking():
    link = Link(bandwidth=1e9, latency=0.0)
    system = star(8, link, Switch(bandwidth=1e9, latency=0.0, ports=8))
    shift = [(i, (i + 3) % 8) for i in range(8)]
    assert makespan(system, sends(*shift)) == pytest.approx(1e-3)


def test_a_port_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="leaf0: has no port 4, only 4 ports"):
        Switch(bandwidth=1e9, latency=0.0, ports=4).port("leaf0", 4)


def test_oversubscribed_uplinks_bound_what_leaves_a_leaf():
    """Four nodes on two leaves at 2:1: two senders on one leaf get half the rate across."""
    nic = Nic(bandwidth=1e9, latency=0.0, header=0.0)
    switch = Switch(bandwidth=1e9, latency=0.0, ports=3)
    system = cluster(4, NodeSpec(gpus=1, nics=1, nic=nic), Wires(switch, oversubscription=2.0))
    within, across = sends((0, 1)), sends((0, 2), (1, 3))
    assert makespan(system, within) == pytest.approx(1e-3)
    assert makespan(system, across) == pytest.approx(2e-3)


def test_unknown_sizes_are_refused():
    from foretrace.sim.errors import BackendError

    with pytest.raises(BackendError, match="bytes are unknown"):
        Link(bandwidth=1e9, latency=0.0).timing(Ops.of(bytes=[np.nan]))
