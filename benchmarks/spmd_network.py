"""One training step of 17,000 ops a rank on a fat-tree whose links are shared, every op jittered.

The step is that of ``spmd.py``; what crosses the network shares NVLink, NICs and hashed uplinks by
max-min fairness, and nothing is written out.

Usage: python benchmarks/spmd_network.py [data] [stages] [tensor] [layers a stage] [micro-batches]

``--written`` runs it written out instead (small sizes only) and says whether every number is the
same.
"""

import sys
from dataclasses import replace

import numpy as np
from _engine import Durations
from _measure import cpu, peak_memory, report
from _spmd import graph as step
from foretrace.models.network.collectives import Fabric
from foretrace.models.network.leaf_spine import FatTree
from foretrace.models.network.link import Link
from foretrace.models.network.nic import Nic
from foretrace.models.network.switch import Switch
from foretrace.models.network.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.backend import Spread, Timing
from foretrace.sim.coded import Coded
from foretrace.sim.ops import Ops
from foretrace.sim.simulation import Simulation

JITTER = Spread(np.empty(0), np.linspace(0.95, 1.05, 64))
"""Factors of single ops, no two ops alike."""
NODE = NodeSpec(
    gpus=8, gpu_link=Link(bandwidth=450e9, latency=1e-6), nics=8,
    nic=Nic(bandwidth=50e9, latency=6e-7),
)  # fmt: skip
SWITCH = Switch(bandwidth=50e9, latency=5e-7, ports=64)


class Jittered(Fabric):
    """The fabric with a factor for every op."""

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        return replace(super().timing(ops, now), spread=Coded.same(JITTER, len(ops)))


def simulation(ranks: int) -> Simulation:
    """Machines of 8 GPUs below a fat-tree with a link of its own for every uplink, hashed."""
    system = cluster(ranks // 8, NODE, FabricSpec(SWITCH, FatTree(routing="ecmp")))
    assert system.fabric is not None
    return Simulation(system, {"*": Durations(JITTER), system.fabric: Jittered()})


def main(data: int = 16, stages: int = 8, tensor: int = 8, layers: int = 12, batches: int = 64):
    written = "--written" in sys.argv
    small = step(2, 2, 4, 1, 2)
    simulation(small.ranks).run(small, keep="ranks", replica=0)  # compile
    whole, found = step(data, stages, tensor, layers, batches), {}
    machine = simulation(whole.ranks)

    def run(name: str, keep: str) -> float:
        return cpu(lambda: found.update({name: machine.run(whole, keep=keep, replica=0)}))

    seconds = {"as a template": run("template", "ranks")}
    memory = peak_memory()
    facts = {}
    if written:
        seconds["written out"] = run("written", "ops")
        a, b = found["template"].kept, found["written"].kept
        facts["numbers that differ"] = sum(
            int((getattr(a, name) != getattr(b, name)).sum())
            for name in ("start", "end", "busy", "exposed")
            if getattr(a, name) is not None and getattr(b, name) is not None
        )
        facts["written out, GiB of peak memory"] = peak_memory() / 2**30
    large = whole.ranks > 1024
    report(
        "spmd_network",
        {
            "CPU seconds, asking and running": (
                seconds["as a template"], "<=", 60 if large else 5),
            "GiB of peak memory, interpreter included": (
                memory / 2**30, "<=", 2 if large else 0.5),
        },
        ranks=whole.ranks,
        ops=len(whole),
        cpu_seconds=seconds,
        makespan=found["template"].makespan,
        **facts,
    )  # fmt: skip


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:] if not a.startswith("-")))
