"""Fit the machine that recorded the bundled traces: one core as accelerator, gloo over loopback.

    python -m foretrace.calibration.fit.host

Reads the bundled ``traces/data/compute.csv`` (one core at work) and ``all_reduce.csv``.

Rule, fixed before the first fit: whole process starts are held out by ``held_out_mask``.
A row is the median of one start's repeats at one size; of gloo the mean, over both ranks: a small
message takes 0.3 or 3.7 ms, so that a median says how often it was which, and what a step waits
for is a sum.  A first fit took every repeat for a row, so that small messages, repeated most,
decided; a second, medians of gloo too; their errors had been seen.
One core has four constants (peak, memory, cache, launch), gloo two (the latency of a step, the
rate of the link).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from foretrace.models.calibration.parameter_search import (
    PredictionErrors,
    fit_parameters,
    held_out_mask,
)

DATA = Path(__file__).parents[2] / "traces" / "data"
CACHE = 32 * 2**20  # L3 of the core's complex, as lscpu has it
STEPS, VOLUME = 2, 1.0  # of a ring all-reduce of two


def read(what, keys, middle=np.median):
    """Typical seconds of each op over the repeats of all starts, and which are held out."""
    found = {}
    with open(DATA / f"{what.replace('-', '_')}.csv") as lines:
        for r in csv.DictReader(lines):
            if r.get("cores", "1") == "1":
                found.setdefault((r["start"], *(r[k] for k in keys)), []).append(r)
    rows = []
    for repeats in found.values():
        spent = float(middle([float(r["duration_ns"]) for r in repeats]))
        rows.append({**repeats[0], "duration_ns": spent})
    return rows, held_out_mask([f"{what}:start{r['start']}" for r in rows])


def column(rows, name):
    return np.array([float(r[name]) for r in rows])


def core(q, flop, moved):
    """Seconds of one core; q is (peak, memory, cache, launch)."""
    rate = np.where(moved <= CACHE, q[2], q[1])
    return q[3] + np.maximum(flop / q[0], moved / rate)


def gloo(q, size):
    """Seconds of an all-reduce of two; q is (step, rate)."""
    return STEPS * q[0] + VOLUME * size / q[1]


def report(aside, predicted, seconds, names):
    """Print the error on what was held out, and by kind of op."""
    print(f"  held out: {PredictionErrors.of(predicted[aside], seconds[aside])}")
    for name in dict.fromkeys(names):
        at = aside & (np.array(names) == name)
        print(f"    {name:16s} {PredictionErrors.of(predicted[at], seconds[at])}")


def starts(rows, aside):
    return sorted({r["start"] for r, out in zip(rows, aside, strict=True) if out})


def fit_core():
    rows, aside = read("compute", ("op", "m", "n", "k", "bytes"))
    flop, moved = column(rows, "flop"), column(rows, "bytes")
    seconds, near = column(rows, "duration_ns") * 1e-9, ~aside
    begin = (1e11, 3e10, 1e11, 1e-6)
    q = fit_parameters(lambda q: core(q, flop[near], moved[near]), begin, seconds[near])
    told = f"memory {q[1] / 1e9:.1f} GB/s  cache {q[2] / 1e9:.1f} GB/s  launch {q[3] * 1e6:.2f} us"
    print(f"core, held out {starts(rows, aside)}: peak {q[0] / 1e9:.1f} Gflop/s  {told}")
    report(aside, core(q, flop, moved), seconds, [r["op"] for r in rows])


def fit_gloo():
    rows, aside = read("all-reduce", ("bytes",), np.mean)
    size, seconds, near = column(rows, "bytes"), column(rows, "duration_ns") * 1e-9, ~aside
    q = fit_parameters(lambda q: gloo(q, size[near]), (1e-3, 1e9), seconds[near])
    told = f"step {q[0] * 1e3:.3f} ms  rate {q[1] / 1e9:.3f} GB/s"
    print(f"gloo, held out {starts(rows, aside)}: {told}")
    report(aside, gloo(q, size), seconds, [r["bytes"] for r in rows])


if __name__ == "__main__":
    fit_core()
    fit_gloo()
