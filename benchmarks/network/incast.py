"""Incast: many senders with different sizes into one port, so that every end changes all rates.

Usage: python -m foretrace.benchmarks.network.incast [senders]
"""

import sys

import numpy as np
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.flat_graph import FlatGraph, Participants
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

from .._measure import cpu, growth_exponent, report
from ..engine._engine import prepared_run

RATE = 50e9  # B/s of every link


class Fabric(Backend):
    """Backend whose sends use the sender's link and the receiver's port."""

    source = "benchmark: two links a send"

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        port = len(ops.at.system.gpus)
        links = np.column_stack([ops.rank + port, np.full(len(ops), 2 * port)]).ravel()
        indptr = np.arange(len(ops) + 1) * 2
        usage = Usage(indptr, links.astype(np.int32), np.ones(len(links)))
        return Timing.of(np.zeros(len(ops)), ops.bytes, usage)


def incast(senders: int) -> tuple[Simulation, Graph]:
    """Simulation and graph in which all GPUs send to the last one."""
    gpus = [Component(f"node{i}.gpu0", "gpu") for i in range(senders + 1)]
    links = [Component(f"node{i}.nic0", "nic", rate=RATE) for i in range(senders + 1)]
    rest = [Component("port", "link", rate=RATE), Component("fabric", "fabric")]
    system = System((*gpus, *links, *rest), tuple(g.name for g in gpus), fabric="fabric")
    ops = Ops.of(
        kind=Kind.SEND,
        rank=np.arange(senders),
        bytes=np.random.default_rng(7).integers(1_000_000, 2_000_000, senders),
    )
    everyone = np.full(senders, senders, np.int32)
    block = FlatGraph(ops, Csr.empty(senders), Participants.none(), np.zeros(senders), everyone)
    return Simulation(system, {"fabric": Fabric()}), Graph("incast", (block,))


def main(senders: int = 8191) -> None:
    sizes = [senders // 8, senders // 4, senders // 2, senders]
    spent, last = [], 0
    for n in sizes:
        simulation, graph = incast(n)
        go = prepared_run(simulation, graph)
        spent.append(min(cpu(go) for _ in range(3)))
        last = int(go().end.max())
    # All bytes cross one port, which is never idle: the last end is their time on it, rounded up.
    ideal = float(graph.ops.bytes.sum()) / RATE * 1e12
    report(
        "incast",
        {
            f"CPU seconds, {senders} flows into one port": (spent[-1], "<=", 1.0),
            "exponent of growth in flows": (growth_exponent(sizes, spent), "<=", 1.5),
            "last end, ticks after the port's ideal": (abs(last - ideal), "<=", 1e-9 * ideal + 20),
        },
        senders=sizes,
        cpu_seconds=spent,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
