"""Fit NCCL's start, step and bandwidth on 2 and 4 GPUs; judge on 8 GPUs of other machines.

    python benchmarks/fit_collectives.py

Rule, fixed before the first fit (check D8): fitted are the 2- and 4-GPU rows of all-reduce,
all-gather and reduce-scatter of ``llm-opdb-nvidia`` (half precision, newest NCCL there).
Judged, and never fitted on, are the 8-GPU all-reduce curves in ``collectives`` and the 2- to
8-GPU all-reduce tables of a third A100 machine in ``megatron-a100``.  Which
algorithm ran is given: rings on A100 and on up to four H200, the switch on eight H200.
Blind: link rates of the datasheets, nothing fitted.

The form is one line (start, step, share of the line rate) for each of NCCL's three protocols,
the quickest taken: nine constants a generation of NVLink.  A step of ll128 is at least one of ll,
and a step of simple at least one of ll128, so what is fitted of those two is the excess: few
members do not show a step of microseconds beside a start of tens, and a step of zero would be
wrong for many.

A first form with a common start and two free shares fitted its own rows to 7-11 % and the judged
ones above 16 MiB to 6-36 %.  It was dropped for what it did on its own rows (no bandwidth ramp),
but its judged errors had been seen, and so had those of a fit for each GPU (H200 19 %).
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
from foretrace.models.fit import Errors, fit
from foretrace.models.network.algorithms import ALGORITHMS, closed_form
from foretrace.models.network.collectives import PAYLOAD

DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[2] / "shared" / "data"))
NCCL = {"a100_sxm": "2.27.3", "h100_sxm": "2.29.2", "h200_sxm": "2.29.2"}
GPUS = {"nvlink3": ("a100_sxm",), "nvlink4": ("h100_sxm", "h200_sxm")}  # one fit a generation
LINK = {"nvlink3": 300e9, "nvlink4": 450e9}  # one direction, datasheets
NAMES = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter"}
START = (60e-6, 1e-6, 0.8, 20e-6, 1e-6, 0.6, 5e-6, 8e-7, 0.2)  # launch, step, share
PURE = (0, 0, 1.0, 0, 0, PAYLOAD["ll128"], 0, 0, PAYLOAD["ll"])  # α-β from datasheets alone
LARGE = 16 * 2**20


def lines(q):
    """(launch, step, share) of simple, ll128 and ll."""
    table = np.reshape(q, (-1, 3)).copy()
    table[:, 1] = np.cumsum(table[::-1, 1])[::-1]  # excesses to steps
    return table.tolist()


def predict(q, collective, n, size, rate, names=("ring",)):
    """Seconds: the quickest of the algorithms and protocols."""
    ways = [
        launch + closed_form(ALGORITHMS[collective][a], n, size, step, rate * share)
        for a in names
        for launch, step, share in lines(q)
    ]
    return np.min(ways, axis=0)


def small_rows(gpu):
    """(collective, n, bytes, seconds) of every 2- and 4-GPU measurement."""
    import duckdb

    path = DATA / "llm-opdb-nvidia" / "op" / gpu / "comm" / "nccl" / NCCL[gpu] / "nccl_perf.parquet"
    query = (
        "select op_name, num_gpus, message_size * 2.0, latency * 1e-3 from read_parquet(?) "
        "where nccl_dtype = 'half' and num_gpus in (2, 4) order by all"
    )
    found = duckdb.execute(query, [str(path)]).fetchall()
    return [(NAMES[c], n, float(b), s) for c, n, b, s in found if c in NAMES]


def on_rows(q, rows, rate):
    """Predictions for a list of rows."""
    seconds = np.zeros(len(rows))
    for key in {(c, n) for c, n, _, _ in rows}:
        at = [i for i, r in enumerate(rows) if r[:2] == key]
        seconds[at] = predict(q, *key, np.array([rows[i][2] for i in at]), rate)
    return seconds


def eight():
    """Curves of 8-GPU all-reduce: {machine: (link, bytes, seconds)}."""
    unit = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    curves = {}
    with open(DATA / "collectives" / "h200-8gpu" / "allreduce.csv") as f:
        size, busbw = [], []
        for row in csv.DictReader(f):
            value, u = re.fullmatch(r"(\d+)(\w+)", row["payload"]).groups()
            size.append(int(value) * unit[u])
            busbw.append(float(row["busbw"].removesuffix("GBps")) * 1e9)
    size = np.array(size, float)
    curves["h200-8gpu"] = ("nvlink4", size, size * 1.75 / np.array(busbw))
    with open(DATA / "collectives" / "a100-8gpu-mleng" / "allreduce.csv") as f:
        rows = [(float(r["size_B"]), float(r["time_us"]) * 1e-6) for r in csv.DictReader(f)]
    curves["a100-8gpu-mleng"] = ("nvlink3", *np.array(rows).T)
    log = (DATA / "collectives" / "a100-40g-8gpu-superbench" / "nccl_allreduce.log").read_text()
    found = re.findall(r"^\s*(\d+)\s+\d+\s+float\s+sum\s+([\d.]+)", log, re.MULTILINE)
    rows = [(float(b), float(us) * 1e-6) for b, us in found if int(b) >= 2**15]
    curves["a100-8gpu-superbench"] = ("nvlink3", *np.array(rows).T)
    return curves


def third():
    """All-reduce of 2 to 8 A100: (members, bytes, seconds) of each table."""
    for n in range(2, 9):
        file = DATA / "megatron-a100" / "allreduce_lut" / f"a100_AR_GPU{n}_1M_1024M_LUT.csv"
        with open(file) as lines:
            rows = [(float(r[0]), float(r[3]) * 1e-9) for r in list(csv.reader(lines))[1:]]
        yield n, *np.array(rows).T


def judge(name, q, names, link, size, seconds):
    """Print the error above and up to 16 MiB."""
    guess = predict(q, "all-reduce", 8, size, LINK[link], names)
    for what, rows in (("> 16 MiB", size > LARGE), ("<= 16 MiB", size <= LARGE)):
        print(f"  {name:34s} {what:10s} {Errors.of(guess[rows], seconds[rows])}")


def main():
    fitted = {}
    for link, rate in LINK.items():
        rows = [row for gpu in GPUS[link] for row in small_rows(gpu)]
        seconds = np.array([r[3] for r in rows])
        fitted[link] = fit(lambda q, rows=rows, rate=rate: on_rows(q, rows, rate), START, seconds)
        print(link)
        for protocol, (launch, step, share) in zip(PAYLOAD, lines(fitted[link]), strict=True):
            us = f"launch {launch * 1e6:7.2f} us  step {step * 1e6:6.3f} us"
            print(f"  {protocol:7s} {us}  share {share:.3f}")
        print(f"  on its own rows: {Errors.of(on_rows(fitted[link], rows, rate), seconds)}")
        print(f"  blind on them:   {Errors.of(on_rows(PURE, rows, rate), seconds)}")
    for machine, (link, size, seconds) in eight().items():
        names = ("in-switch", "ring") if link == "nvlink4" else ("ring",)
        print(machine)
        judge("blind (datasheet)", PURE, names, link, size, seconds)
        judge("fitted on 2 and 4 GPUs", fitted[link], names, link, size, seconds)
    print("third A100 machine, rings of n, 1 MiB to 1 GiB")
    for n, size, seconds in third():
        for name, q in (("blind", PURE), ("fitted", fitted["nvlink3"])):
            guess = predict(q, "all-reduce", n, size, LINK["nvlink3"])
            print(f"  n = {n}, {name:6s} {Errors.of(guess, seconds)}")


if __name__ == "__main__":
    main()
