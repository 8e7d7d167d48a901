"""Cost of a described training step from description to answer: GPT-3 175B on 1,024 or more GPUs.

Tensor parallel 8, pipeline 8, the rest data parallel; 17,900 ops per rank, full recomputation. The
cases are folded at alpha-beta, and with jitter on every op at alpha-beta and at flow fidelity. The
time includes building the plan, the programs and the machine.

Usage: python -m foretrace.benchmarks.commands.training [copies] [which]

which : folded, jittered, flow (any of them, joined by commas; by default all)
"""

import sys
from dataclasses import replace
from functools import cache

import numpy as np
from foretrace.models.compute.gpu_groups import Peaks
from foretrace.models.compute.roofline import Roofline
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.models.training.description.model_zoo import model
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.coded import Coded
from foretrace.sim.facts.ops import Ops
from foretrace.sim.run.result import Result
from foretrace.sim.run.simulation import Simulation

from .._measure import cpu, peak_memory, report

JITTER = Spread(np.empty(0), np.linspace(0.95, 1.05, 64))
"""Factors of single ops, no two ops alike."""
NODE = NodeSpec(
    gpus=8, gpu_link=Link(bandwidth=450e9, latency=1e-6), nics=8,
    nic=Nic(bandwidth=50e9, latency=6e-7),
)  # fmt: skip
SWITCH = Switch(bandwidth=50e9, latency=5e-7, ports=64)
MICRO_BATCHES = 32
TENSOR = PIPELINE = 8
GOALS = {
    16: {"folded": 0.5, "jittered": 2, "flow": 6},
    256: {"jittered": 20},
    2048: {"folded": 1, "jittered": 45},
}


@cache
def with_jitter(base: type[Backend]) -> type[Backend]:
    """Subclass of a backend that adds jitter to every op."""

    class Jittered(base):
        same_timing_per_shape = True

        def timing(self, ops: Ops, now: float = 0.0) -> Timing:
            return replace(super().timing(ops, now), spread=Coded.constant(JITTER, len(ops)))

    return Jittered


def simulate(copies: int, which: str, batches: int = MICRO_BATCHES) -> Result:
    """Simulate a training step, with its plan and machine built from scratch."""
    step_graph.cache_clear()
    gpt = model("gpt3-175b")
    plan = ParallelPlan(
        batch=copies * batches, sequence=2048, tensor=TENSOR, pipeline=PIPELINE, data=copies,
        recompute="full",
    )  # fmt: skip
    system = cluster(copies * PIPELINE, NODE, FabricSpec(SWITCH))
    varies = which != "folded"
    gpu, fabric = (with_jitter(b) if varies else b for b in (Roofline, Fabric))
    level = "flow" if which == "flow" else "alpha-beta"
    backends = {
        "*": gpu(peaks=Peaks(bf16=989e12), bandwidth=3.35e12),
        system.fabric: fabric(fidelity=level),
    }
    made = Simulation(system, backends)
    return made.run(step_graph(gpt, plan), keep="ranks", replica=0 if varies else None)


def main(copies: int = 16, chosen: str = "folded,jittered,flow") -> None:
    goals = GOALS.get(copies, {})
    figures, makespans = {}, {}
    for which in chosen.split(","):
        simulate(2, which, batches=8)  # compile
        found: dict[str, Result] = {}
        spent = cpu(lambda w=which, f=found: f.update(one=simulate(copies, w)))
        figures[f"CPU seconds, {which}, building included"] = (
            spent, "<=", goals.get(which, float("inf")),
        )  # fmt: skip
        makespans[which] = found["one"].makespan
    figures["GiB of peak memory"] = (peak_memory() / 2**30, "<=", 2)
    report("training", figures, ranks=copies * TENSOR * PIPELINE, makespans=makespans)


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))
