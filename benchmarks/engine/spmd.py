"""One training step of 16,384 ranks x 17,000 ops as an SPMD graph: with jitter, and folded.

Everything goes through ``Simulation.run``, which keeps results per rank.

Usage: python -m foretrace.benchmarks.engine.spmd [data] [stages] [tensor] [layers per stage]
    [micro-batches]
"""

import sys

import numpy as np
from foretrace.sim.facts.backend import Spread
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.place import place
from foretrace.sim.facts.spmd.program_encoding import encode_program
from foretrace.sim.run.result import Result
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.spmd.rank_quotient import fold_identical_ranks
from foretrace.sim.spmd.spmd_run import SpmdRun

from .._measure import cpu, peak_memory, report
from ._engine import Durations, machine_of
from ._spmd import graph as step

JITTER = Spread(np.empty(0), np.linspace(0.95, 1.05, 64))
"""Factors of single ops, no two ops alike."""


def simulation(ranks: int) -> Simulation:
    """Simulation with one GPU per rank and jitter on every op."""
    return Simulation(machine_of(ranks, 1), {"*": Durations(JITTER)})


def run_every_rank(of: Simulation, graph: Graph, replica: int | None) -> Result:
    """Run every rank individually, without folding."""
    whole = SpmdRun.of(of, place(graph, of.system), graph.template, replica)
    kept = SpmdRun(of, whole.graph, whole.classes, None, replica).aggregates("ranks")
    return Result(of.system, of.parts, of.tick, "core", 0, summary=kept)


def program_bytes_per_op(graph: Graph) -> float:
    """Bytes that the engine stores per op of a program, independent of the number of ranks."""
    programs = graph.template.programs
    return sum(p.encoded.words.nbytes for p in programs) / sum(map(len, programs))


def main(data: int = 256, stages: int = 8, tensor: int = 8, layers: int = 12, batches: int = 64):
    small, whole = step(2, 2, 2, 1, 2), step(data, stages, tensor, layers, batches)
    tiny = simulation(small.ranks)
    for replica in (None, 0):  # compile
        run_every_rank(tiny, small, replica)
        tiny.run(small, keep="ranks", replica=replica)
    large, found = simulation(whole.ranks), {}

    def run(name: str, replica: int | None) -> float:
        return cpu(lambda: found.update({name: large.run(whole, keep="ranks", replica=replica)}))

    first, again = run("folded", None), min(run("folded", None) for _ in range(5))
    spmd = SpmdRun.of(large, place(whole, large.system), whole.template, None)

    def fold_and_run() -> None:
        for program in whole.template.programs:
            encode_program(program)
        folded = fold_identical_ranks(spmd.classes.template)
        SpmdRun(large, spmd.graph, spmd.classes, folded, None).aggregates("ranks")

    seconds = {
        "encoding, folding, running": min(cpu(fold_and_run) for _ in range(5)),
        "first run, asking and binding included": first,
        "another run, asking included": again,
        "jittered": run("jittered", 0),
        "same": cpu(lambda: found.update(same=run_every_rank(large, whole, None))),
    }
    memory = peak_memory()
    differ = [
        int((getattr(found["same"].kept, name) != getattr(found["folded"].kept, name)).sum())
        for name in ("start", "end", "busy", "exposed", "boxes")
    ]
    alike = int((found["same"].kept.end == found["jittered"].kept.end).sum())
    report(
        "spmd",
        {
            "CPU seconds, every op jittered": (seconds["jittered"], "<=", 10),
            "ns of a draw": (
                (seconds["jittered"] - seconds["same"]) / len(whole) * 1e9, "<=", 10),
            "GiB of peak memory, interpreter included": (memory / 2**30, "<=", 0.5),
            "CPU seconds, encoding, folding, folded run": (
                seconds["encoding, folding, running"], "<=", 0.02),
            "numbers that differ when folded": (sum(differ), "<=", 0),
            "bytes of a stored op of a template": (program_bytes_per_op(whole), "<=", 12),
            "ranks whose end is the same with jitter": (alike, "<=", 0),
        },
        ranks=whole.ranks,
        ops=len(whole),
        ops_with_a_collective_once_a_member=sum(
            len(p) * int((whole.template.program == i).sum())
            for i, p in enumerate(whole.template.programs)),
        cpu_seconds=seconds,
    )  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
