"""NCCL's own estimate of its algorithms and protocols, which decides its choice between them.

The constants are those of NCCL 2.23 to 2.27 (NVIDIA/nccl, src/graph/tuning.cc: ``baseLat``,
``hwLat``, ``llMaxBws``, ``perChMaxRingLL128Bws``, ``perChMaxTreeLL128Bws``, ``perChMaxTreeBws``,
``treeCorrectionFactor``, ``nvlsEfficiency``, ``getNetOverhead``; search.cc: ``speedArrayInter``,
``sm90SpeedArrayInter``). They predict the choice, not the duration. On networks that NCCL's tables
do not cover, its choice can be poor; the model then makes the same poor choice. Link rates and the
GPU generation come from the system: a link of 400 GB/s or more counts as Hopper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log2
from typing import NamedTuple

import numpy as np

from .collective_plan import CollectivePlan
from .protocols import Floats

US, GB = 1e-6, 1e9
NVLINK = 0.8
"""Fraction of a link's rate that NCCL assumes: 20 of 25 GB/s (``SM80_NVLINK_BW``)."""
HOPPER = 400e9
LINK_MOST = 1e6
"""GB/s of members without links inside a machine."""
IN_SWITCH = 0.85
RINGS, TREES = ("ring", "chain", "grouped"), ("tree", "chain-tree")
PROTOCOLS = ("ll", "ll128", "simple")
BASE = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
WITHIN = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
ACROSS = {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)}
SWITCH_LATENCY = 25.0
LL_MOST = {False: (87.7, 39.0, 20.4), True: (141.0, 39.0, 20.4)}
"""GB/s of ll on one node, two and more, of Ampere and of Hopper.  Between nodes the CPU vendor
matters; the values for AMD (22.5 and 19) are not distinguished."""
LEAST_WITHIN = {"ll": 1.0, "ll128": 1.0, "simple": 3.0}
"""Minimum time in us of a step within a node, for rings between nodes."""
SPEEDS = {
    False: (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    True: (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
}
"""Channel speeds in GB/s that NCCL tries, for Ampere and Hopper; it uses the largest that fits."""
ONE_GPU = 0.85
"""Efficiency of a tree that enters and leaves a node at one GPU, as on Hopper, where each GPU is
near one NIC only."""
CHANNEL = {  # GB/s of a channel: ring of ll128, tree of ll128, tree of simple
    False: ((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (24.0, 23.6, 17.8)),
    True: ((36.7, 36.7, 36.7), (36.7, 36.7, 29.0), (38.7, 41.4, 36.0)),
}
TREE_SHARE = tuple(
    tuple(float(x) for x in text.split())
    for text in (
        "1 1 1 1 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1 1 1 1 1",
        "1 1 1 1 1 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .8 .9 .9 .9 .9 1 1 1",
        ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9 .9",
    )
)
"""Tree correction factor of each protocol at 64 B, 128 B and so on up to 512 MiB."""
PLATEAU = 64.0
"""Bytes per channel and member above which a simple ring between nodes has a higher latency."""


class Group(NamedTuple):
    """Facts about a group that NCCL's tuning uses: members, nodes, GB/s within and between nodes.

    Network latencies are not included, because NCCL does not know them.
    """

    members: int
    nodes: int
    within: float
    between: float
    channels: int
    hopper: bool

    @property
    def column(self) -> int:
        """Column of a tuning table for this number of nodes: one, two, or more."""
        return min(self.nodes, 3) - 1

    @property
    def slower(self) -> float:
        """GB/s of a ring through all members: the slower of links within and between nodes."""
        return min(self.within, self.between)


def estimates(plans: Sequence[CollectivePlan], size: Floats) -> Floats:
    """Time in s that NCCL expects of each plan, shape (plans, n); infinite for plans NCCL lacks."""
    return np.stack([_estimate(plan, size, _group(plan)) for plan in plans])


def _group(plan: CollectivePlan) -> Group:
    """NCCL's view of a plan's group: the slowest link and the slowest NIC that the plan uses."""
    parts, load = plan.load.parts, plan.load
    wire = float(np.min(parts.rate[parts.wire], initial=np.inf))
    link = min(float(np.min(parts.rate[~parts.wire], initial=np.inf)), LINK_MOST * GB)
    hopper = link >= HOPPER
    wires = _nic_rate_assumed_by_nccl(wire / GB, hopper) * load.members / load.nodes
    channels = 16 if load.nodes == 1 or hopper else 8
    within = NVLINK * link / GB
    return Group(load.members, load.nodes, within, wires, channels, hopper)


def _nic_rate_assumed_by_nccl(rate: float, hopper: bool) -> float:
    """NIC rate in GB/s that NCCL assumes: a multiple of the largest channel speed that fits.

    >>> _nic_rate_assumed_by_nccl(25.0, hopper=True), _nic_rate_assumed_by_nccl(100.0, hopper=True)
    (24.0, 96.0)
    """
    if rate == np.inf:
        return rate
    speed = next((s for s in SPEEDS[hopper] if s <= rate), rate)
    return float(rate // speed * speed)


def _estimate(plan: CollectivePlan, size: Floats, group: Group) -> Floats:
    """Time in s that NCCL expects of one plan, shape (n,)."""
    name, collective = plan.load.algorithm.name, plan.load.algorithm.collective
    if name == "in-switch":
        rate = group.within * IN_SWITCH / NVLINK * (group.members - 1) / group.members
        return np.asarray(SWITCH_LATENCY * US + size / (rate * GB))
    if name in RINGS:
        latency, rate = _ring(collective, plan.protocol, group)
        started = np.full(len(size), latency)
        if (collective, plan.protocol) == ("all-reduce", "simple") and group.nodes > 1:
            started[size / (group.channels * group.members) >= PLATEAU] *= 1.4
        return np.asarray(started * US + size / (rate * GB))
    if name in TREES and collective == "all-reduce":
        latency, rate = _tree(plan.protocol, group)
        at = np.clip(np.log2(np.maximum(size, 64) / 64).astype(int), 0, len(TREE_SHARE[0]) - 1)
        share = np.array(TREE_SHARE[PROTOCOLS.index(plan.protocol)])[at]
        return np.asarray(latency * US + size / (rate * share * GB))
    return np.full(len(size), np.inf)


@cache
def _ring(collective: str, protocol: str, group: Group) -> tuple[float, float]:
    """Latency in us, and rate of the collective in GB/s, that NCCL expects of a ring."""
    p, n, nodes = PROTOCOLS.index(protocol), group.members, group.nodes
    laps = 2 if collective == "all-reduce" else 1
    steps, across = laps * (n - 1), laps * (nodes - 1)
    rate = group.slower
    if protocol == "ll":
        rate = min(LL_MOST[group.hopper][group.column], rate / 2)
    if protocol == "ll128":
        per_node = n / nodes
        most = group.channels * CHANNEL[group.hopper][0][group.column]
        rate = min(rate * (0.7 if per_node < 2 else 0.92), most)
    within = max(WITHIN["ring"][p], LEAST_WITHIN[protocol] if nodes > 1 else 0.0)
    latency = BASE["ring"][p] + (steps - across) * within + across * ACROSS["ring"][p]
    return latency, rate * n / steps


@cache
def _tree(protocol: str, group: Group) -> tuple[float, float]:
    """NCCL's estimate for a double binary tree with chains within nodes.

    It consists of a latency in us and the rate of the collective in GB/s.
    """
    p, n, nodes = PROTOCOLS.index(protocol), group.members, group.nodes
    _, flags, plain = CHANNEL[group.hopper]
    rate = group.within if nodes <= 2 else group.slower  # on two nodes NCCL assumes link rate
    rate = min(rate * 0.92, group.channels * plain[group.column])
    if protocol == "ll":
        rate = min(rate / 3.8, LL_MOST[group.hopper][group.column])
    if protocol == "ll128":
        rate = min(
            rate * (7 / 9 if nodes == 1 else 120 / 128), group.channels * flags[group.column]
        )
    if nodes > 1 and group.hopper:
        rate *= ONE_GPU
    hops = (n / nodes - 1) * WITHIN["tree"][p] + int(log2(nodes)) * ACROSS["tree"][p]
    return BASE["tree"][p] + 2 * hops, rate / 2
