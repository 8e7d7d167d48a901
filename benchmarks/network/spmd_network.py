"""One training step of 17,000 ops per rank on a fat-tree with shared links and jitter on every op.

The step is that of ``spmd.py``, with ring all-reduces. All-reduces and messages share NVLink, NICs
and hashed uplinks by max-min fairness, and nothing is expanded.

Usage: python -m foretrace.benchmarks.network.spmd_network [data] [stages] [tensor]
    [layers per stage] [micro-batches]

``--written`` also runs the expanded graph (small sizes only) and prints how many numbers differ.
``--folded`` runs without jitter, with one rank per class, and also with every rank. Uplinks are
then pooled, because no two hashed routes are alike, unless ``--spray`` or ``--ecmp`` is given.
``--slower`` reduces the rate of one NIC by a tenth. ``--alone`` leaves out the run of every rank.
"""

import sys
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.facts.backend import Spread, Timing
from foretrace.sim.facts.coded import Coded
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import System
from foretrace.sim.record.aggregates import RunAggregates
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.spmd.rank_quotient import fold_ranks_that_share
from foretrace.sim.spmd.spmd_run import SpmdRun

from .._measure import cpu, peak_memory, report
from ..engine._engine import Durations
from ..engine._spmd import graph as step

JITTER = Spread(np.empty(0), np.linspace(0.95, 1.05, 64))
"""Factors of single ops, no two ops alike."""
NODE = NodeSpec(
    gpus=8, gpu_link=Link(bandwidth=450e9, latency=1e-6), nics=8,
    nic=Nic(bandwidth=50e9, latency=6e-7),
)  # fmt: skip
SWITCH = Switch(bandwidth=50e9, latency=5e-7, ports=64)


class Jittered(Fabric):
    """Fabric backend with a random factor for every op."""

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        return replace(super().timing(ops, now), spread=Coded.constant(JITTER, len(ops)))


def simulation(ranks: int, fabric: type[Fabric] = Jittered, routing: str = "ecmp") -> Simulation:
    """Simulation of machines of 8 GPUs below a fat-tree with separate, hashed or pooled uplinks."""
    system = cluster(ranks // 8, NODE, FabricSpec(SWITCH, FatTree(routing=routing)))
    if "--slower" in sys.argv:
        system = with_slower(system, "node1.nic3.tx")
    assert system.fabric is not None
    rings = fabric(algorithms="ring")
    return Simulation(system, {"*": Durations(JITTER), system.fabric: rings})


def with_slower(system: System, name: str) -> System:
    """Copy of a system in which one component has 0.9 of its rate."""
    parts, at = list(system.components), system.number(name)
    parts[at] = replace(parts[at], rate=0.9 * (parts[at].rate or 0.0))
    return replace(system, components=tuple(parts))


def timed(found: dict[str, object], name: str, work: Callable[[], object]) -> float:
    """CPU seconds of a function, whose result is stored in ``found`` under a name."""
    return cpu(lambda: found.update({name: work()}))


def folded(whole: Graph, alone: bool) -> None:
    """Cost of one rank per class, from timing queries to stored results; also of every rank."""
    routing = next((r for r in ("spray", "ecmp") if f"--{r}" in sys.argv), "pool")
    machine, found = simulation(whole.ranks, Fabric, routing), {}
    seconds = {
        "first run, asking and folding included": timed(
            found, "first", lambda: machine.run(whole, keep="ranks")),
        "another run": timed(found, "again", lambda: machine.run(whole, keep="ranks")),
    }  # fmt: skip
    memory = peak_memory()
    graph = place(whole, machine.system)
    seconds["asking and folding"] = timed(
        found, "run", lambda: SpmdRun.of(machine, graph, graph.template, None)
    )
    run = found["run"]
    of = run.classes.template, run.classes.rank_flows, machine.parts
    seconds["folding"] = timed(found, "quotient", lambda: fold_ranks_that_share(*of))
    seconds["running"] = timed(found, "kept", lambda: run.aggregates("ranks"))
    goals = {
        "CPU seconds, folding and running": (seconds["folding"] + seconds["running"], "<=", 1),
        "CPU seconds, asking, folding and running": (seconds["another run"], "<=", 1),
    }
    if not alone:
        seconds["every rank"] = timed(
            found, "every", lambda: replace(run, folded=None).aggregates("ranks")
        )
        goals["numbers that differ when folded"] = (
            count_differences(found["kept"], found["every"]),
            "<=",
            0,
        )
    report(
        "spmd_network_folded",
        goals,
        ranks=whole.ranks,
        ops=len(whole),
        ranks_run=run.template.ranks,
        cpu_seconds=seconds,
        gib_folded=memory / 2**30,
        gib_of_every_rank=None if alone else peak_memory() / 2**30,
        makespan=found["first"].makespan,
    )


def count_differences(a: RunAggregates, b: RunAggregates) -> int:
    """Number of values that differ between the aggregates of two runs."""
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "sources"]
    wrong = sum(int(np.sum(np.asarray(x) != np.asarray(y))) for x, y in pairs)
    return wrong + sum(a.sources[name] != ticks for name, ticks in b.sources.items())


def main(data: int = 16, stages: int = 8, tensor: int = 8, layers: int = 12, batches: int = 64):
    if "--folded" in sys.argv:
        small = step(2, 2, 4, 1, 2)
        simulation(small.ranks, Fabric, "pool").run(small, keep="ranks")  # compile
        folded(step(data, stages, tensor, layers, batches), "--alone" in sys.argv)
        return
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
