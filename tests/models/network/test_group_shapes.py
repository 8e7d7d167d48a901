"""Groups of one shape are answered alike for: equal to what each says when asked alone."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.group_shapes import GroupShapes
from foretrace.models.network.collective.library import Protocol
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import System
from hypothesis import given, settings
from hypothesis import strategies as st

NIC = Nic(bandwidth=50e9, latency=6e-7)
NVLINK = Link(bandwidth=450e9, latency=1e-6)
NODE = NodeSpec(gpus=4, gpu_link=NVLINK, nics=2, nic=NIC)
SWITCH = Switch(bandwidth=50e9, latency=5e-7, ports=8)
ROUTINGS = "pool", "ecmp", "spray"
NAMES = "all-reduce", "all-gather", "all-to-all"


class EachAlone(Fabric):
    """The fabric, asked about every group."""


def machines(routing: str, slow: int | None = None) -> System:
    """Twelve machines below several leaves, one NIC of which may be slow."""
    system = cluster(12, NODE, FabricSpec(SWITCH, FatTree(routing=routing)))
    if slow is None:
        return system
    parts = list(system.components)
    at = system.number(f"node{slow}.nic0.tx")
    parts[at] = replace(parts[at], rate=NIC.rate / 3)
    return replace(system, components=tuple(parts))


def question(groups: list[list[int]], seed: int) -> tuple[Ops, Csr]:
    """A send or a collective of some size among each group of ranks."""
    random = np.random.default_rng(seed)
    signatures = (*(f"collective:{n} fp32[64]" for n in NAMES), "send:write fp32[64]")
    pairs = np.array([len(g) == 2 for g in groups])
    sends = pairs & random.integers(0, 2, len(groups)).astype(bool)
    ops = Ops.of(
        kind=np.where(sends, Kind.SEND, Kind.COLLECTIVE),
        bytes=random.choice([1e3, 1e6, 3e8], len(groups)),
        signature=np.where(sends, 3, random.integers(0, 3, len(groups))),
        signatures=signatures,
    )
    return ops, Csr.of(groups)


GROUPS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 47), min_size=2, max_size=6, unique=True),
        st.tuples(st.integers(0, 11), st.integers(1, 3)).map(
            lambda x: [(x[0] * 4 + 4 * x[1] * k) % 48 for k in range(4)]
        ),
        st.integers(0, 11).map(lambda node: [4 * node + k for k in range(4)]),
    ),
    min_size=2,
    max_size=24,
)


@settings(max_examples=40, deadline=None)
@given(GROUPS, st.integers(0, 9), st.sampled_from(ROUTINGS), st.sampled_from([None, 5]))
@pytest.mark.parametrize("fidelity", ["alpha-beta", "flow"])
def test_groups_of_one_shape_are_answered_as_each_alone(fidelity, groups, seed, routing, slow):
    system = machines(routing, slow)
    ops, members = question([[system.numbers[r] for r in g] for g in groups], seed)
    said = []
    for kind in (Fabric, EachAlone):
        fabric = kind(
            fidelity=fidelity, simple=Protocol(launch=1e-6), ll=Protocol(3e-7, efficiency=0.4)
        )
        fabric.open(system)
        asked = ops.with_placement(system, system.number(system.fabric), members)
        said.append(fabric.timing(asked))
    one, other = said
    assert one.fixed.tolist() == other.fixed.tolist()
    assert one.source.values == other.source.values
    if fidelity == "flow":
        assert one.work.tolist() == other.work.tolist()
        for row in range(len(ops)):
            uses = [
                dict(zip(u.component[s].tolist(), u.weight[s].tolist(), strict=True))
                for u in (one.usage, other.usage)
                for s in [slice(u.indptr[row], u.indptr[row + 1])]
            ]
            assert uses[0] == uses[1]


def shapes(system: System, groups: list[list[int]]) -> list[int]:
    members = Csr.of([[system.numbers[r] for r in g] for g in groups])
    return GroupShapes.of(members, system).shape.tolist()


def test_machines_below_pooled_uplinks_are_alike_whichever_they_are():
    groups = [[0, 4], [8, 12], [0, 44], [16, 4], [1, 0], [45, 44], [0, 5]]
    assert shapes(machines("pool"), groups) == [0, 0, 1, 1, 2, 2, 0]


def test_hashed_ways_across_leaves_are_each_their_own():
    assert shapes(machines("ecmp"), [[0, 4], [8, 12], [0, 44], [16, 4]]) == [0, 0, 1, 2]


def test_a_slow_nic_gives_groups_that_use_it_a_shape_of_their_own():
    groups = [[0, 4], [20, 16], [24, 28], [16, 20]]
    assert shapes(machines("pool"), groups) == [0, 0, 0, 0]
    assert shapes(machines("pool", slow=5), groups) == [0, 1, 0, 2]


def test_a_subclass_is_asked_about_each_group_unless_it_says_that_shapes_decide():
    class Own(Fabric):
        same_timing_per_shape = True

    class Further(Own):
        pass

    found = [c.same_timing_per_shape for c in (Fabric, EachAlone, Own, Further)]
    assert found == [True, False, True, False]
