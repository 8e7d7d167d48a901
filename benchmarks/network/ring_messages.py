"""Ring all-reduce message by message, expanded and folded, compared with ASTRA-sim (analytical).

Usage: python -m foretrace.benchmarks.network.ring_messages [members ...]

Members, 1 MiB, 50 GiB/s and 500 ns per hop are the case measured with ASTRA-sim 518bd51, on two
cores like those of the other benchmarks here. Its messages per second are taken from that
measurement, because it must be built from source (``astra_sim.py`` runs it if available). Both
tools charge one hop and the bytes of a message for each of the 2(n-1) steps, and agree to the
nanosecond.
"""

import sys

import numpy as np
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.place import place
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.run.result import Result
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.spmd.spmd_run import SpmdRun

from .._measure import cpu, report

SIZE, RATE, HOP = 2**20, 50 * 2**30, 500e-9
PEER = {64: 0.9e6, 256: 1.3e6, 1024: 0.82e6}
"""Messages a second of ASTRA-sim's congestion-unaware backend, its faster one."""


def ring(n: int) -> Graph:
    """Graph of a ring all-reduce: 2(n-1) times, each rank sends and waits for the previous."""
    steps = 2 * (n - 1)
    ops = Ops.of(kind=[Kind.SEND, Kind.RECV] * steps, bytes=[SIZE / n, 0.0] * steps)
    program = RankProgram.chain(ops, [0] * len(ops))
    peers = ((np.arange(n) + 1) % n)[None].astype(np.int32)
    template = SpmdGraph(
        (program,), np.zeros(n, np.int32), groups=np.empty((0, n), np.int32), peers=peers
    )
    return Graph(f"ring of {n}", (template,))


def simulation(n: int) -> Simulation:
    nic = Nic(bandwidth=RATE, latency=HOP / 2, header=0)
    system = cluster(n, NodeSpec(gpus=1, nics=1, nic=nic))
    return Simulation(system, {"*": Fabric(fidelity="alpha-beta")})


class Runs:
    """Ring of one size whose ops are timed once; only running it is measured."""

    def __init__(self, n: int):
        self.n, self.steps, self.machine = n, 2 * (n - 1), simulation(n)
        graph = place(ring(n), self.machine.system)
        self.folded = SpmdRun.of(self.machine, graph, graph.template, None)
        self.whole = SpmdRun(self.machine, graph, self.folded.classes, None, None)

    def seconds(self, of: SpmdRun) -> float:
        return min(cpu(lambda: of.aggregates("ranks")) for _ in range(5))

    def makespan(self, of: SpmdRun) -> float:
        m = self.machine
        return Result(m.system, m.parts, m.tick, "core", 0, summary=of.aggregates("ranks")).makespan


def main(*members: int) -> None:
    goals: dict[str, tuple[float, str, float]] = {}
    facts: dict[str, object] = {}
    for n in members or (16, 64, 256, 1024):
        runs = Runs(n)
        step = HOP + SIZE / n / RATE
        for name, of in (("unfolded", runs.whole), ("folded", runs.folded)):
            off = abs(runs.makespan(of) / runs.steps - step) * 1e9
            goals[f"{n} members, {name}: ns off a step"] = (off, "<=", 1.0)
            seconds = runs.seconds(of)
            facts[f"{n} {name}"] = {"seconds": seconds, "messages": n * runs.steps}
            if n in PEER:
                theirs, least = n * runs.steps / PEER[n], 10 if name == "unfolded" else 1000
                goals[f"{n} members, {name}: times as fast"] = (theirs / seconds, ">=", least)
    report("ring_messages", goals, **facts)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
