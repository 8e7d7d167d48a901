"""Cost of building a large fabric with individual links, and of routing an all-to-all over it."""

import numpy as np
from foretrace.models.memory.memory import Memory
from foretrace.models.network.collective.algorithms import ALGORITHMS
from foretrace.models.network.collective.load import compute_load
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, GpuSpec, NodeSpec, cluster
from foretrace.sim.facts.splits import Splits

from .._measure import cpu, growth_exponent, report

NODE = NodeSpec(
    gpus=8,
    gpu_link=Link(bandwidth=450e9, latency=1e-6),
    nics=8,
    nic=Nic(bandwidth=50e9, latency=6e-7),
    gpu=GpuSpec(hbm=Memory(bandwidth=3e12, latency=0.0)),
)


def machine(gpus, routing, ports=128):
    """Machines of 8 GPUs with one NIC each, below a fat-tree with as few tiers as possible."""
    switch = Switch(bandwidth=50e9, latency=5e-7, ports=ports)
    return cluster(gpus // 8, NODE, FabricSpec(switch, FatTree(routing=routing)))


def all_to_all_routing_seconds(routing, splits=None):
    """CPU seconds to route an all-to-all of 1,024 GPUs over all links."""
    system = machine(1_024, routing, 64)
    everyone, members = ALGORITHMS["all-to-all"]["grouped"].split(splits), system.numbers
    everyone.flows(1_024)  # steps of an algorithm are made once for each size of group
    return min(cpu(lambda: compute_load(everyone, members, system)) for _ in range(3))


def main() -> None:
    sizes = [8_192, 32_768, 131_072]
    built = [cpu(lambda n=n: machine(n, "ecmp")) for n in sizes]
    laid = {routing: all_to_all_routing_seconds(routing) for routing in ("pool", "spray", "ecmp")}
    receive = 1 + np.random.default_rng(1).integers(0, 1_000, 1_024)
    uneven = all_to_all_routing_seconds("ecmp", Splits(np.tile(receive, (1_024, 1))))
    system = machine(sizes[-1], "ecmp")
    gpus = np.array(system.numbers)
    ring = min(cpu(lambda: system.crossings(gpus, np.roll(gpus, 8))) for _ in range(3))
    report(
        "topologies",
        {
            "CPU seconds to build 131,072 GPUs": (built[-1], "<=", 5.0),
            "exponent of growth in GPUs": (growth_exponent(sizes, built), "<=", 1.2),
            "all-to-all of 1,024 GPUs, a pool": (laid["pool"], "<=", 0.1),
            "all-to-all of 1,024 GPUs, sprayed": (laid["spray"], "<=", 0.1),
            "all-to-all of 1,024 GPUs, hashed": (laid["ecmp"], "<=", 0.1),
            "the same in unequal parts": (uneven, "<=", 0.1),
            "routes of a ring of 131,072 GPUs": (ring, "<=", 0.5),
        },
        gpus=sizes,
        built=built,
    )


if __name__ == "__main__":
    main()
