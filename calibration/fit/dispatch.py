"""Fit the host time to dispatch an operator and a collective, from recorded traces.

    FORETRACE_DATA=../shared/data python -m foretrace.calibration.fit.dispatch [--once]

The launches of all threads of a trace are sorted by time; autograd's thread is active while the
main thread waits for it. An operator is the innermost operator around its launches, and a
collective the innermost around NCCL's. Its cost is the time since the previous one, including
Python, the dispatcher and operators without launches, since the ops of a described step are those
that launch kernels. Left out are waits for the GPU and for data, and time outside step marks, if
there are any. Per trace the constants are means, because a step is a sum; over several steps, and
several traces of a machine, they are medians.

One trace per kind of machine was set aside by hash before the first fit; ``--once`` scores it: the
dispatch time, predicted from its operator counts. ``CATALOG`` lists the traces from which the
catalog's entries were taken afterwards.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SEED = "foretrace-dispatch-2026-11-23"
TRACES = Path(os.environ.get("FORETRACE_DATA", "../shared/data")) / "kineto-traces"
MACHINES = {
    "epyc-7742-dual": ("ddp-A100x2/rank0.json.gz", "dlrm-A100x8-rank3/control.json.gz"),
    "xeon-8480c-dual": tuple(
        f"h100-mi300-pairs/{model}.h100.json.gz"
        for model in ("bert-small", "nsfw-vit", "qwen1.5-0.5b-chat")
    ),
}
"""Traces of A100s and of H100s; none names its processor, which is taken for that of a DGX."""
OPERATOR = {"cpu_op", "operator"}
CALL = {"cuda_runtime", "runtime", "cuda_driver"}
LAUNCH = re.compile("LaunchKernel|LaunchCooperativeKernel|MemsetAsync|MemcpyAsync", re.I)
WAIT = re.compile("Synchronize|cudaMemcpy$|enumerate\\(DataLoader\\)", re.I)
EXCHANGE = re.compile("nccl|c10d", re.I)
CATALOG = {**MACHINES, "epyc-7742-dual": ("dlrm-A100x8-rank3/control.json.gz",)}
"""Of A100s the trace that the entry has ``dispatch`` from; the other host is four times slower."""
Span = tuple[float, float]
Launch = tuple[float, str]  # when, and the operator
Times = np.ndarray[Any, np.dtype[np.float64]]


class DispatchCosts(NamedTuple):
    """Dispatch times of one step in s: of operators, of all-reduces, and of other collectives."""

    operators: Times
    all_reduces: Times
    others: Times

    @property
    def seconds(self) -> float:
        """Total dispatch time in s."""
        return float(sum(costs.sum() for costs in self))


def is_set_aside(name: str) -> bool:
    """True if a trace is set aside: the one of its machine with the lowest digest."""
    for names in MACHINES.values():
        if name in names:
            return name == min(names, key=_digest)
    return False


def _digest(name: str) -> str:
    return hashlib.sha256(f"{SEED}|{name}".encode()).hexdigest()


def dispatch_costs(file: Path) -> list[DispatchCosts]:
    """Dispatch times of a trace, step by step."""
    with gzip.open(file) as opened:
        read = json.load(opened)
    threads: dict[Any, list[tuple[float, float, str, bool]]] = defaultdict(list)
    waits, steps = [], []
    for event in read["traceEvents"] if isinstance(read, dict) else read:
        if event.get("ph") != "X":
            continue
        begin, name, kind = float(event["ts"]), str(event["name"]), str(event.get("cat")).lower()
        end = begin + float(event["dur"])
        if name.startswith("ProfilerStep") and kind == "user_annotation":
            steps.append((begin, end))
        if EXCHANGE.match(name) and kind == "user_annotation":
            threads[event["pid"], event["tid"]].append((begin, end, name, False))
        elif WAIT.search(name):
            waits.append((begin, end))
        elif kind in OPERATOR | CALL:
            is_launch = kind in CALL and bool(LAUNCH.search(name))
            threads[event["pid"], event["tid"]].append((begin, end, name, is_launch))
    launching = sorted(each for calls in threads.values() for each in _launching(calls))
    windows = steps or [(launching[0][0], launching[-1][0])]
    return [_step(*window, launching, waits) for window in windows]


def _step(
    begin: float, end: float, launching: Sequence[Launch], waits: Sequence[Span]
) -> DispatchCosts:
    """Dispatch times between two instants."""
    found: tuple[list[float], ...] = [], [], []
    at = begin
    for launched, name in (each for each in launching if begin <= each[0] <= end):
        waited = sum(max(min(e, launched) - max(b, at), 0.0) for b, e in _union(waits, at))
        which = 0 if not EXCHANGE.search(name) else 1 if "all_reduce" in name else 2
        found[which].append((launched - at - waited) * 1e-6)
        at = launched
    return DispatchCosts(*map(np.array, found))


def _launching(calls: list[tuple[float, float, str, bool]]) -> list[Launch]:
    """Name of each innermost operator of a thread, and the end of its last launch."""
    inside: list[tuple[float, str, int]] = []
    last: dict[int, Launch] = {}
    for number, (begin, end, name, is_launch) in enumerate(
        sorted(calls, key=lambda c: (c[0], -c[1]))
    ):
        while inside and begin >= inside[-1][0]:
            inside.pop()
        if not is_launch:
            inside.append((end, name, number))
        elif inside:
            last[inside[-1][2]] = end, inside[-1][1]
    return list(last.values())


def _union(spans: Sequence[Span], since: float) -> list[Span]:
    """Union of spans that end after an instant, with overlapping spans merged."""
    joined: list[Span] = []
    for begin, end in sorted(span for span in spans if span[1] > since):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def constants(names: Iterable[str]) -> tuple[float, float]:
    """Dispatch time of an operator and of an all-reduce in s: median over traces; NaN if there is
    none.
    """
    each = [_medians(dispatch_costs(TRACES / name)) for name in names]
    operator, exchange, _ = np.nanmedian(np.array(each), axis=0)
    return float(operator), float(exchange)


def _medians(steps: Sequence[DispatchCosts]) -> list[float]:
    """Median of the step means for each kind of op; NaN if there is none."""
    means = [[float(np.mean(c)) if len(c) else np.nan for c in step] for step in steps]
    return [float(np.median(column)) for column in zip(*means, strict=True)]


def main() -> None:
    """Print constants of each trace and machine; with ``--once``, score traces set aside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    once = parser.parse_args().once
    for machine, names in MACHINES.items():
        for name in names:
            if once or not is_set_aside(name):
                _print(name, dispatch_costs(TRACES / name))
        operator, exchange = constants(n for n in names if not is_set_aside(n))
        print(f"{machine}: operator {operator * 1e6:.1f} us, exchange {exchange * 1e6:.1f} us")
        if once:
            _score(next(filter(is_set_aside, names)), operator, exchange)
            operator, exchange = constants(CATALOG[machine])
            print(f"  catalog: operator {operator * 1e6:.1f} us, exchange {exchange * 1e6:.1f} us")


def _score(name: str, operator: float, exchange: float) -> None:
    """Print the error of the constants on a trace that was set aside."""
    steps = dispatch_costs(TRACES / name)
    other = exchange if np.isfinite(exchange) else operator
    said = sum(
        len(s.operators) * operator + (len(s.all_reduces) + len(s.others)) * other for s in steps
    )
    took = sum(step.seconds for step in steps)
    print(
        f"  set aside, {name}: {said * 1e3:.1f} ms of {took * 1e3:.1f} ms, {said / took - 1:+.1%}"
    )


def _print(name: str, steps: Sequence[DispatchCosts]) -> None:
    counts = [len(c) for c in steps[0]]
    told = (
        f"{count} {what} of {cost * 1e6:.1f} us"
        for count, cost, what in zip(
            counts, _medians(steps), ("operators", "all-reduces", "other exchanges"), strict=True
        )
        if count
    )
    print(f"  {name}: {len(steps)} steps of {', '.join(told)}")


if __name__ == "__main__":
    main()
