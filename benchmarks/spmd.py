"""One training step of 16,384 ranks x 17,000 ops from templates: every op jittered; and folded.

Usage: python benchmarks/spmd.py [data] [stages] [tensor] [layers a stage] [micro-batches]
"""

import sys

import numpy as np
from _measure import cpu, peak_memory, report
from _spmd import template as step
from foretrace.sim.core import templates
from foretrace.sim.fold import fold
from foretrace.sim.template import Template
from foretrace.sim.units import ticks

NOMINAL = 1 << 20  # the factor 1 in a table of quantiles


def compiled(template: Template, spread: int) -> templates.Compiled:
    """Programs with their durations in ticks; spread 0 draws a factor for every op, -1 none."""
    fixed = [ticks(p.ops.duration) for p in template.programs]
    varies = [np.full(len(p), spread, np.int8) for p in template.programs]
    return templates.compile_programs(template, fixed, varies)


def jitter() -> templates.Chances:
    """Factors of single ops between 0.95 and 1.05, no two ops alike."""
    table = np.linspace(0.95, 1.05, 64) * NOMINAL
    prefix = np.array([7, 11], np.uint64)
    return templates.Chances(prefix, np.empty((1, 0), np.int64), table.astype(np.int64)[None, :])


def main(data: int = 256, stages: int = 8, tensor: int = 8, layers: int = 12, batches: int = 64):
    small, none = step(2, 2, 2, 1, 2), templates.Chances.none()
    for chances, spread in ((none, -1), (jitter(), 0)):
        templates.run(small, compiled(small, spread), chances)  # compile
    whole = step(data, stages, tensor, layers, batches)
    before = peak_memory()
    found = {}

    def unfolded(name: str, chances: templates.Chances, spread: int) -> float:
        programs = compiled(whole, spread)
        return cpu(lambda: found.update({name: templates.run(whole, programs, chances)}))

    def folded() -> None:
        quotient = fold(whole)
        one_each = templates.run(quotient.template, few, none)
        found["folded"] = one_each.end[quotient.colour]

    few = compiled(fold(whole).template, -1)
    seconds = {
        "jittered": unfolded("jittered", jitter(), 0),
        "same": unfolded("same", none, -1),
        "folded": min(cpu(folded) for _ in range(5)),
        "encoding the programs": cpu(lambda: compiled(whole, -1)),
    }
    differ = int((found["same"].end != found["folded"]).sum())
    alike = int((found["same"].end == found["jittered"].end).sum())
    memory = peak_memory()
    words = compiled(whole, -1).words.nbytes / sum(len(p) for p in whole.programs)
    report(
        "spmd",
        {
            "CPU seconds, every op jittered": (seconds["jittered"], "<=", 10),
            "GiB of peak memory, interpreter included": (memory / 2**30, "<=", 0.5),
            "CPU seconds, folding and folded run": (seconds["folded"], "<=", 0.02),
            "ranks whose end differs when folded": (differ, "<=", 0),
            "bytes of a stored op of a template": (words, "<=", 12),
            "ranks whose end is the same with jitter": (alike, "<=", 0),
        },
        ranks=whole.ranks,
        ops=found["same"].ops,
        cpu_seconds=seconds,
        bytes_before_runs=before,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
