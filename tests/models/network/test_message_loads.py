"""Loads of many messages at once, against each by itself."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.network.collective.load import (
    compute_message_loads,
    hop_latency,
    sender_rate_limit,
)
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from hypothesis import given, settings
from hypothesis import strategies as st

NODE = NodeSpec(
    gpus=4, gpu_link=Link(bandwidth=450e9, latency=1e-6), nics=2, nic=Nic(bandwidth=5e10, latency=0)
)
SWITCH = Switch(bandwidth=50e9, latency=5e-7, ports=8)
PAIRS = st.lists(st.tuples(st.integers(0, 47), st.integers(0, 47)), min_size=1, max_size=60)


def machines(routing):
    """Twelve machines below several leaves; one sender into a NIC is bounded."""
    name, _, paths = routing.partition(" ")
    tree = FatTree(routing=name, paths=int(paths or 0))
    system = cluster(12, NODE, FabricSpec(SWITCH, tree))
    parts = list(system.components)
    at = system.number("node1.nic0.rx")
    parts[at] = replace(parts[at], limit=1e9)
    return replace(system, components=tuple(parts))


MACHINES = {routing: machines(routing) for routing in ("pool", "ecmp", "spray", "spray 3")}


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.sampled_from(sorted(MACHINES)))
def test_messages_together_load_what_each_does_alone(pairs, routing):
    system = MACHINES[routing]
    ends = np.array(system.numbers)[np.array(pairs)].T
    found = compute_message_loads(*ends, system)
    for i, (a, b) in enumerate(ends.T.tolist()):
        mine = found.message == i
        uses = dict(
            zip(found.parts.component[mine].tolist(), found.parts.share[mine].tolist(), strict=True)
        )
        assert len(uses) == np.count_nonzero(mine)
        assert uses == pytest.approx(dict(system.crossing_fractions(a, b)), rel=1e-14)
        assert found.latency[i] == pytest.approx(hop_latency(a, b, system), rel=1e-14)
        assert found.across[i] == (system.node_of(a) != system.node_of(b))
        bounded = {c: s for c, s in uses.items() if system.components[c].limit < np.inf}
        assert found.limit[i] == sender_rate_limit(bounded, system)
        rates = [system.components[c].rate for c in uses]
        assert found.parts.rate[mine].tolist() == rates
