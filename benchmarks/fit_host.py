"""Fit the machine that recorded the bundled traces: one core as accelerator, gloo over loopback.

    python benchmarks/fit_host.py DIR          (as benchmarks/record.py left it)

Rule, fixed before the first fit: whole process starts are held out by ``models.fit.held_out``.
Every repeat is a row.  One core has four constants (peak, memory, cache, launch), gloo two (the
latency of a step, the rate of the link).
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from foretrace.models.fit import Errors, fit, held_out

CACHE = 32 * 2**20  # L3 of the core's complex, as lscpu has it
STEPS, VOLUME = 2, 1.0  # of a ring all-reduce of two


def read(folder, what):
    """Rows of all starts, and which are held out."""
    rows = []
    for file in sorted((Path(folder) / what).glob("*/*.csv")):
        with open(file) as lines:
            rows += list(csv.DictReader(lines))
    return rows, held_out([f"{what}:start{r['start']}" for r in rows])


def column(rows, name):
    return np.array([float(r[name]) for r in rows])


def core(q, flop, moved):
    """Seconds of one core; q is (peak, memory, cache, launch)."""
    rate = np.where(moved <= CACHE, q[2], q[1])
    return q[3] + np.maximum(flop / q[0], moved / rate)


def gloo(q, size):
    """Seconds of an all-reduce of two; q is (step, rate)."""
    return STEPS * q[0] + VOLUME * size / q[1]


def report(what, aside, predicted, seconds, names):
    """Print the error on what was held out, and by kind of op."""
    print(f"  held out: {Errors.of(predicted[aside], seconds[aside])}")
    for name in dict.fromkeys(names):
        at = aside & (np.array(names) == name)
        print(f"    {name:16s} {Errors.of(predicted[at], seconds[at])}")


def main(folder):
    rows, aside = read(folder, "compute")
    flop, moved, seconds = (
        column(rows, "flop"),
        column(rows, "bytes"),
        column(rows, "duration_ns") * 1e-9,
    )
    near = ~aside
    q = fit(lambda q: core(q, flop[near], moved[near]), (1e11, 3e10, 1e11, 1e-6), seconds[near])
    print(
        f"core: starts held out {sorted({r['start'] for r, a in zip(rows, aside, strict=True) if a})}"
    )
    print(
        f"  peak {q[0] / 1e9:.1f} Gflop/s  memory {q[1] / 1e9:.1f} GB/s  cache {q[2] / 1e9:.1f} GB/s  launch {q[3] * 1e6:.2f} us"
    )
    report("core", aside, core(q, flop, moved), seconds, [r["op"] for r in rows])
    rows, aside = read(folder, "all-reduce")
    size, seconds = column(rows, "bytes"), column(rows, "duration_ns") * 1e-9
    near = ~aside
    q = fit(lambda q: gloo(q, size[near]), (1e-3, 1e9), seconds[near])
    print(
        f"gloo: starts held out {sorted({r['start'] for r, a in zip(rows, aside, strict=True) if a})}"
    )
    print(f"  step {q[0] * 1e3:.3f} ms  rate {q[1] / 1e9:.3f} GB/s")
    report("gloo", aside, gloo(q, size), seconds, [r["bytes"] for r in rows])


if __name__ == "__main__":
    main(sys.argv[1])
