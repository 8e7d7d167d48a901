"""Torus and dragonfly: who is joined to whom, and the ways between them."""

import math
from itertools import product

import numpy as np
import pytest
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.direct_networks import Dragonfly, Torus
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.errors import GraphError


def fabric(topology, nodes, ports=64, nics=1):
    node = NodeSpec(gpus=nics, nics=nics, nic=Nic(bandwidth=1e9, latency=0.0))
    return cluster(
        nodes, node, FabricSpec(Switch(bandwidth=1e9, latency=1e-6, ports=ports), topology)
    )


@pytest.mark.parametrize("shape", [(4,), (2, 3), (4, 4), (3, 4, 5), (2, 2, 2, 2)])
def test_a_torus_leads_the_shortest_way_one_dimension_after_the_other(shape):
    system = fabric(Torus(shape=shape), math.prod(shape))
    places = list(product(*map(range, shape)))
    for (i, here), (j, there) in product(enumerate(places), repeat=2):
        apart = [min((a - b) % n, (b - a) % n) for a, b, n in zip(here, there, shape, strict=True)]
        for route in system.routes(system.numbers[i], system.numbers[j]):
            names = [system.components[c].name for c in route.components]
            hops = [n for n in names if n.startswith("router")]
            assert len(hops) == sum(apart)
            at = [places[int(hop.split(".")[1].removeprefix("router"))] for hop in hops]
            moved = [
                next(d for d in range(len(shape)) if x[d] != y[d])
                for x, y in zip([here, *at], at, strict=False)
            ]
            assert moved == sorted(moved)


def test_a_torus_has_a_cable_for_each_neighbour():
    torus = Torus(shape=[4, 2, 3])
    fabric(torus, 24)
    assert [c.number for c in torus.parts().cables] == [24 + 12 + 24]
    assert torus.switches() == 0


@pytest.mark.parametrize(
    ("groups", "a", "p", "h"), [(9, 4, 2, 2), (5, 4, 2, 2), (3, 2, 1, 1), (1, 4, 2, 2)]
)
def test_a_dragonfly_crosses_one_global_link_at_most(groups, a, p, h):
    """Kim et al. 2008: local, global, local, each at most once."""
    fly = Dragonfly(routers=a, nics=p, global_links=h)
    system = fabric(fly, groups * a * p)
    numbers, made = system.numbers, fly.network
    cost = dict(zip(made.columns[2].tolist(), made.columns[3].tolist(), strict=True))
    first = system.number(made.components[0].name)
    for i, j in product(range(len(numbers)), repeat=2):
        if i == j:
            continue
        for route in system.routes(numbers[i], numbers[j]):
            links = [cost[c - first] for c in route.components if c - first in cost]
            assert links.count(3) == (i // (a * p) != j // (a * p))
            assert links.count(1) <= 2 if 3 in links else links.count(1) <= 1


def test_groups_of_a_dragonfly_are_joined_evenly():
    fly = Dragonfly(routers=4, nics=2, global_links=2)
    fabric(fly, 40)
    source, target, _, cost, *_ = fly.network.columns
    far = cost == 3
    pairs, many = np.unique(source[far] // 4 * 5 + target[far] // 4, return_counts=True)
    assert len(pairs) == 5 * 4
    assert set(many.tolist()) == {2}
    assert np.bincount(source[far], minlength=20).max() <= 2


@pytest.mark.parametrize(
    ("topology", "nodes", "ports", "said"),
    [
        (Torus(shape=[4, 4]), 8, 64, "4 x 4 is a torus of 16 machines, and 8 have NICs; give"),
        (Torus(shape=[2, 4]), 8, 2, "needs 3 ports, and the switch has 2"),
        (Dragonfly(routers=2, nics=1, global_links=1), 8, 64,
         "8 NICs need 4 groups, but the 2 global links of a group"),
        (Dragonfly(routers=8, nics=4, global_links=4), 64, 8, "a router has 15 links"),
        (Dragonfly(routers=2, nics=1, global_links=1, paths=2), 6, 8, "paths is 2, but at most 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_so_is_refused(topology, nodes, ports, said):
    with pytest.raises(GraphError, match=said):
        fabric(topology, nodes, ports)


def test_a_direct_network_without_links_is_refused():
    node = NodeSpec(nics=1, nic=Nic(bandwidth=1e9, latency=0.0))
    with pytest.raises(
        GraphError, match=r"ports of the torus's routers .* write cluster.fabric.switch"
    ):
        cluster(2, node, FabricSpec(None, Torus(shape=[2])))


@pytest.mark.parametrize("shape", [[], [0, 4], [-1]])
def test_a_shape_of_nothing_is_refused(shape):
    with pytest.raises(ValueError, match="give the number of machines along each dimension"):
        Torus(shape=shape)
