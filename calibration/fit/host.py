"""Fit the machine of the bundled traces: one core as accelerator, and gloo over loopback.

    python -m foretrace.calibration.fit.host

Reads the bundled ``traces/data/compute.csv`` (one busy core) and ``all_reduce.csv``.

Rule, fixed before the first fit: complete process starts are held out by ``held_out_mask``. A row
is the median of one start's repeats at one size. For gloo it is the mean over repeats and both
ranks: a small message takes 0.3 or 3.7 ms, so a median would only reflect which is more frequent,
and a step waits for the sum. A first fit used every repeat as a row, so that small messages, which
are repeated most, dominated; a second fit also used medians for gloo; their errors were known. One
core has four constants (peak, memory, cache, launch), gloo two (step latency, link rate).
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
    """Typical time in s of each op over all starts, and the mask of held-out starts."""
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
    """Time of an op on one core in s; q is (peak, memory, cache, launch)."""
    rate = np.where(moved <= CACHE, q[2], q[1])
    return q[3] + np.maximum(flop / q[0], moved / rate)


def gloo(q, size):
    """Time of an all-reduce of two ranks in s; q is (step, rate)."""
    return STEPS * q[0] + VOLUME * size / q[1]


def report(aside, predicted, seconds, names):
    """Print the held-out error, in total and by kind of op."""
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
