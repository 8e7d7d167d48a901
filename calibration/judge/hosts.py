"""Differences of equal host ops between machines that recorded traces.

    python -m foretrace.calibration.judge.hosts

For every two recorded traces of different machines: the ratio of the host times of their common
operators and launches. Each op counts with its median self time, as often as in the trace where it
is rarer. Calls that wait, copy or allocate are left out. Most pairs also differ in library and
profiler versions, as they do for a user who predicts another machine. Prints how many pairs are
within the factor that a run assumes for host ops of another machine.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from foretrace.models.value_doubts import UNMEASURED_TIME

from ..rows.kernel_rows import DATA

TRACES = DATA / "kineto-traces"
KINDS = {"cpu_op", "operator", "cuda_runtime", "runtime", "cuda_driver"}
NO_WORK = re.compile("sync|memcpy|wait|query|malloc|free|nccl|c10d|dataloader|elapsed", re.I)
FEWEST_CALLS, FEWEST_OPERATORS = 5, 8
Costs = dict[str, tuple[float, int]]  # own seconds in the median, calls; by operator


def own_costs(file: Path) -> Costs:
    """Host self time of each operator and launch of a trace."""
    with gzip.open(file) as opened:
        read = json.load(opened)
    threads: dict[Any, list[tuple[float, float, str]]] = defaultdict(list)
    for event in read["traceEvents"] if isinstance(read, dict) else read:
        if event.get("ph") == "X" and str(event.get("cat", "")).lower() in KINDS:
            name = event["name"].replace("hip", "cuda", 1)
            threads[event["pid"], event["tid"]].append((event["ts"], event["dur"], name))
    own: dict[str, list[float]] = defaultdict(list)
    for calls in threads.values():
        for name, seconds in own_times(calls):
            own[name].append(seconds * 1e-6)
    return {
        name: (float(np.median(times)), len(times))
        for name, times in own.items()
        if len(times) >= FEWEST_CALLS and not NO_WORK.search(name)
    }


def own_times(calls: list[tuple[float, float, str]]) -> Iterator[tuple[str, float]]:
    """Self time of each call of a thread: its duration minus the calls inside it."""
    inside: list[list[Any]] = []  # end, name, own time
    for ts, duration, name in sorted(calls, key=lambda call: (call[0], -call[1])):
        while inside and ts >= inside[-1][0]:
            yield tuple(inside.pop()[1:])
        if inside:
            inside[-1][2] -= duration
        inside.append([ts + duration, name, duration])
    yield from (tuple(one[1:]) for one in inside)


def machine(file: Path) -> str:
    """Machine that recorded a trace: its folder name, and for a pair also its GPU."""
    folder = file.relative_to(TRACES).parts[0]
    return f"{folder} {file.name.split('.')[-3]}" if folder.endswith("-pairs") else folder


def log_ratio(a: Costs, b: Costs) -> float | None:
    """ln of the time ratio of common operators, ``b`` over ``a``; None if few are common."""
    common = sorted(a.keys() & b.keys())
    if len(common) < FEWEST_OPERATORS:
        return None
    often = np.array([min(a[name][1], b[name][1]) for name in common], np.float64)
    sums = [often @ np.array([costs[name][0] for name in common]) for costs in (a, b)]
    return float(np.log(sums[1] / sums[0]))


def main() -> None:
    files = [f for f in sorted(TRACES.rglob("*.json.gz")) if "_et." not in f.name]
    traces = [(machine(f), own_costs(f)) for f in files if f.parent.name != "et"]
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (one, a), (other, b) in combinations(traces, 2):
        if one != other and (ratio := log_ratio(a, b)) is not None:
            one_way = one < other
            ratios[min(one, other), max(one, other)].append(ratio if one_way else -ratio)
    pairs = {machines: float(np.mean(found)) for machines, found in ratios.items()}
    apart = np.abs(list(pairs.values()))
    for (one, other), ratio in sorted(pairs.items()):
        print(f"{np.exp(ratio):6.2f}  {one} to {other}")
    held = int(np.sum(apart <= UNMEASURED_TIME.slow))
    print(f"{held} of {len(apart)} pairs within a factor of {np.exp(UNMEASURED_TIME.slow):.2f}")
    median, most = np.exp(np.quantile(apart, [0.5, 0.9]))
    print(f"factor apart: median {median:.2f}, 90 % {most:.2f}")


if __name__ == "__main__":
    main()
