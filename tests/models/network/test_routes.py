"""Routes of fabrics whose links are each their own: one by one, many at once, hashed, sprayed."""

from dataclasses import replace
from itertools import product
from math import comb, factorial

import numpy as np
import pytest
from by_day import only
from foretrace.models.network.collective.algorithms import ALGORITHMS
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.load import compute_load
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree, Rail
from foretrace.models.network.topology.next_links import CostTables
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster, fabric_parts
from foretrace.sim.errors import GraphError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation

NIC = Nic(bandwidth=1e9, latency=0.0, header=0.0)


def fabric(topology, nodes, ports, gpus=1, nics=1):
    switch = Switch(bandwidth=1e9, latency=0.0, ports=ports)
    link = Link(bandwidth=1e10, latency=0.0)
    node = NodeSpec(gpus=gpus, gpu_link=link, nics=nics, nic=NIC)
    return cluster(nodes, node, FabricSpec(switch, topology))


def pairs_of(system):
    gpus = np.array(system.numbers)
    return np.repeat(gpus, len(gpus)), np.tile(gpus, len(gpus))


TOPOLOGIES = {
    "pool": (lambda: FatTree(), 8, 4, 2),
    "ecmp": (lambda: FatTree(routing="ecmp", seed=3), 8, 8, 2),
    "spray": (lambda: FatTree(routing="spray"), 8, 8, 2),
    "spray over some": (lambda: FatTree(routing="spray", paths=3, seed=5), 8, 8, 2),
    "three tiers": (lambda: FatTree(routing="ecmp", tiers=3), 8, 4, 1),
    "three tiers, sprayed": (lambda: FatTree(routing="spray", tiers=3), 10, 4, 1),
    "rails": (lambda: Rail(routing="ecmp", oversubscription=2), 12, 8, 2),
}


@pytest.fixture(params=TOPOLOGIES.values(), ids=TOPOLOGIES)
def system(request):
    make, nodes, ports, nics = request.param
    return fabric(make(), nodes, ports, gpus=2, nics=nics)


def test_many_flows_at_once_cross_what_each_would_alone(system):
    source, target = pairs_of(system)
    crossed = system.crossings(source, target)
    for flow, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        ours, found = crossed.flow == flow, {}
        rows = zip(crossed.component[ours].tolist(), crossed.share[ours].tolist(), strict=True)
        for component, share in rows:
            found[component] = found.get(component, 0.0) + share
        assert found == pytest.approx(dict(system.crossing_fractions(*pair)))


def test_loads_are_what_all_flows_together_cross(system):
    source, target = pairs_of(system)
    amount = np.arange(len(source)) % 7 + 1.0
    crossed = system.crossings(source, target)
    rows = crossed.share * amount[crossed.flow]
    wanted = np.bincount(crossed.component, rows, len(system.components))
    component, load = system.loads(source, target, amount)
    assert load == pytest.approx(wanted[component])
    assert load.sum() == pytest.approx(wanted.sum())


SPRAYED = {
    "pool": FatTree(),
    "two tiers": FatTree(routing="spray"),
    "three tiers": FatTree(routing="spray", tiers=3),
    "rails": Rail(routing="spray"),
}


@pytest.mark.parametrize("topology", SPRAYED.values(), ids=SPRAYED)
@pytest.mark.parametrize("down", [False, True], ids=["all up", "a link down"])
def test_an_exchange_loads_what_all_its_pairs_do(topology, down):
    """Of all members, of some that fill machines unevenly, and of none near each other."""
    system = fabric(topology, 10, 8, gpus=3, nics=2)
    if down and not topology.pooled:
        system = replace(system, router=system.router.avoiding([min(system.router.avoidable)]))
    for members in (system.numbers, system.numbers[1:-4], system.numbers[::3]):
        pairs = [(a, b) for a, b in product(members, members) if a != b]
        wanted = system.loads(*np.array(pairs).T, np.full(len(pairs), 1 / len(members)))
        component, load = system.exchange_loads(members, 1 / len(members))
        assert component.tolist() == sorted(wanted[0].tolist())
        assert load == pytest.approx(wanted[1][np.argsort(wanted[0])], rel=1e-12)


def test_an_exchange_over_hashed_ways_goes_through_its_pairs():
    system = fabric(FatTree(routing="ecmp"), 8, 8)
    assert system.exchange_loads(system.numbers, 1.0) is None


@pytest.mark.parametrize(
    ("collective", "name", "sent"),
    [("all-to-all", "grouped", 1 / 2048), ("all-reduce", "two-shot", 2 / 2048),
     ("all-reduce", "one-shot", 1)],
)  # fmt: skip
def test_an_exchange_of_thousands_is_laid_without_its_pairs(collective, name, sent):
    """Two thousand GPUs have four million pairs; every NIC carries what leaves its machine."""
    system = fabric(FatTree(routing="spray"), 256, 64, gpus=8, nics=8)
    everyone = ALGORITHMS[collective][name]
    refusing = replace(everyone, make=lambda n: pytest.fail("its pairs were listed"))
    load = compute_load(refusing, system.numbers, system)
    nic = system.number("node0.nic0.tx")
    assert load.uses[nic] == pytest.approx((2048 - 8) * sent)
    assert load.pair_share == sent
    assert load.latency == compute_load(everyone, system.numbers[:1024], system).latency


def test_a_message_takes_as_long_as_its_longest_way(system):
    """Every component has a latency of its own."""
    parts = [replace(c, latency=1e-6 * (i % 13)) for i, c in enumerate(system.components)]
    system = replace(system, components=tuple(parts))
    source, target = pairs_of(system)
    wanted = [
        max(sum(parts[c].latency for c in r.components) for r in system.routes(*pair))
        for pair in zip(source.tolist(), target.tolist(), strict=True)
    ]
    assert system.zero_byte_latencies(source, target) == pytest.approx(wanted)
    assert system.latency(int(source[1]), int(target[1])) == pytest.approx(wanted[1])


def test_ends_that_nothing_joins_have_no_delay():
    system = cluster(1, NodeSpec(gpus=40))
    source, target = pairs_of(system)
    assert np.isnan(system.zero_byte_latencies(source, target)).sum() == 40 * 39
    assert np.isnan(system.zero_byte_latencies(source[:2], target[:2])).tolist() == [False, True]


def test_shares_of_the_ways_add_up_to_all_of_the_data(system):
    source, target = pairs_of(system)
    for pair in zip(source.tolist(), target.tolist(), strict=True):
        assert sum(r.weight for r in system.routes(*pair)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("tree", "nodes", "ports"),
    [
        (FatTree(routing="spray"), 16, 8),
        (FatTree(routing="spray", oversubscription=3), 20, 8),
        (FatTree(routing="spray", tiers=3), 16, 4),
        (FatTree(routing="spray", tiers=3, oversubscription=2), 33, 6),
    ],
)
def test_links_found_by_level_are_those_of_least_cost(tree, nodes, ports):
    """Every switch towards every leaf, by arithmetic and by Bellman-Ford."""
    fabric(tree, nodes, ports)
    graph, leaves = tree.network, tree.network.count("leaf")
    source, target, _, cost, turn, weight = graph.columns
    every = np.arange(len(graph.names))
    tables = CostTables(source, target, cost, turn, weight, cost > 0, every >= 0, np.arange(leaves))
    at, to = np.repeat(every, leaves), np.tile(np.arange(leaves), len(every))
    at, to = at[at != to], to[at != to]
    ways = []
    for links in (graph.levels, tables):
        first, length = links.candidates(at, to)
        ways.append(
            [set(links.links[i : i + n].tolist()) for i, n in zip(first, length, strict=True)]
        )
    assert ways[0] == ways[1]


def test_a_fat_tree_of_8_port_switches_has_the_published_size():
    """Al-Fares, Loukissas, Vahdat 2008, doi:10.1145/1402958.1402967: k^3/4 hosts, 5k^2/4."""
    spec = FabricSpec(Switch(bandwidth=1, latency=0, ports=8), FatTree(routing="ecmp"))
    parts = fabric_parts([1] * 128, spec)
    assert parts.switches == {"leaf": 32, "spine": 32, "core": 16}
    assert [c.number for c in parts.cables] == [128, 128, 128]


# Balls into bins.


def mean_of_most(balls, bins):
    """Mean of the fullest of ``bins`` that equally likely balls fall into, exactly."""
    below = []  # number of ways in which no bin has more than m
    for most in range(balls + 1):
        ways = np.array([1.0] + [0.0] * balls)
        for _ in range(bins):
            new = np.zeros(balls + 1)
            for have, put in product(range(balls + 1), range(most + 1)):
                if have + put <= balls:
                    new[have + put] += ways[have] / factorial(put)
            ways = new
        below.append(ways[balls] * factorial(balls) / bins**balls)
    return sum(1 - p for p in below)


def test_the_mean_of_the_fullest_bin_is_right_where_it_is_known():
    assert mean_of_most(2, 2) == pytest.approx(1.5)
    assert mean_of_most(3, 2) == pytest.approx((2 * 3 + comb(3, 1) * 2 * 2) / 8)


def slowest(topology, n):
    """Time of the slowest of n flows from one leaf to another, as a multiple of alone."""
    system = fabric(topology, 2 * n, 4 * n)
    build = Builder("shift")
    for i in range(n):
        build.op(Kind.SEND, rank=i, peer=n + i, bytes=1e6)
    return Simulation(system, {"fabric": Fabric()}).run(build.graph()).makespan / 1e-3


class TwoLeaves(FatTree):
    """Half of the NICs on each of two leaves, whatever the ports."""

    def downlink_ports(self, adapters, ports):
        return len(adapters) // 2


@pytest.mark.parametrize("paths", only([4], [1, 4, 8, 16]))
def test_the_slowest_hashed_flow_follows_balls_into_bins(paths):
    """As many flows as uplinks: the mean of 200 seeds is within its 99 % interval."""
    seen = [slowest(TwoLeaves(routing="ecmp", seed=s, spines=paths), paths) for s in range(200)]
    error = 2.58 * np.std(seen) / np.sqrt(len(seen))
    assert np.mean(seen) == pytest.approx(mean_of_most(paths, paths), abs=error + 1e-9)


@pytest.mark.parametrize("settings", [{}, {"routing": "spray"}, {"routing": "spray", "paths": 8}])
def test_with_one_pool_or_spraying_no_flow_is_slowed(settings):
    assert slowest(TwoLeaves(**settings, spines=8 if settings else None), 8) == pytest.approx(1.0)


def test_flows_of_one_pair_take_ways_of_their_own():
    system = fabric(TwoLeaves(routing="ecmp", spines=8), 16, 32)
    a, b = system.numbers[0], system.numbers[8]
    label = np.arange(64)
    crossed = system.crossings(np.full(64, a), np.full(64, b), label)
    used = {system.components[c].name for c in crossed.component.tolist()}
    assert {f"leaf0.spine{i}" for i in range(8)} <= used


def test_sprayed_ways_of_a_flow_are_distinct():
    system = fabric(TwoLeaves(routing="spray", paths=4, spines=8), 16, 32)
    for there in system.numbers[8:]:
        assert len(system.routes(system.numbers[0], there)) == 4


# What is refused.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"routing": "hash"}, "routing is 'hash'; take one of: pool, ecmp, spray"),
        ({"paths": 4}, "paths is 4, but pooled uplinks"),
        ({"routing": "ecmp", "paths": 4}, "uses one path per flow"),
        ({"routing": "spray", "paths": -1}, "paths is -1; give 1 or more"),
        ({"routing": "ecmp", "tiers": 4}, "tiers is 4; give 2 or 3"),
        ({"routing": "ecmp", "spines": 0}, "spines is 0; give 1 or more"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        FatTree(**settings)


@pytest.mark.parametrize(
    ("settings", "nodes", "ports", "said"),
    [
        (
            {"routing": "spray", "paths": 9},
            8,
            8,
            "paths is 9, but at most 8 paths join two NICs; give 8",
        ),
        ({"routing": "ecmp", "tiers": 2}, 40, 8, "write tiers: 3, or use a larger switch"),
        ({"routing": "ecmp"}, 200, 8, "more than the 32 that three tiers"),
        ({"routing": "ecmp", "spines": 7}, 10, 8, "give 2 to 4"),
    ],
)
def test_what_switches_cannot_join_is_refused(settings, nodes, ports, said):
    nodes = max(nodes, ports + 1)
    with pytest.raises(GraphError, match=said):
        fabric(FatTree(**settings), nodes, ports)
