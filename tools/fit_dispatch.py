"""What a host thread takes to dispatch an operator, and an exchange, of recorded traces.

    FORETRACE_DATA=../shared/data python tools/fit_dispatch.py [--once]

Launches of a trace are put in order of time, those of all its threads: autograd's has the turn while the
main thread waits for it.  An operator is the innermost one around launches (an exchange where it is
a collective's), and costs the time since the operator before it: what Python, the dispatcher and
operators that launch nothing take is in it, as in a described step, whose ops are those with a
kernel.  Left out are waiting for the GPU, for data, and what lies outside step marks where there are any.
Of each trace the constants are means, since a step is their sum; of a machine the median of its traces.

One trace of each kind of machine that has two was set aside by hash before the first fit; ``--once``
scores it: the time of its dispatching, predicted from the counts of its operators.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
from collections import defaultdict
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
Times = np.ndarray[Any, np.dtype[np.float64]]


class Dispatching(NamedTuple):
    """Costs of operators and of exchanges of one trace, s each."""

    operators: Times
    exchanges: Times

    @property
    def constants(self) -> tuple[float, float]:
        """Mean cost of an operator, and of an exchange; NaN where there is none."""
        return tuple(float(np.mean(c)) if len(c) else np.nan for c in self)  # type: ignore


def is_aside(name: str) -> bool:
    """Whether a trace is set aside: of a machine's the one with the lowest digest."""
    for names in MACHINES.values():
        if name in names:
            return name == min(names, key=_digest)
    return False


def _digest(name: str) -> str:
    return hashlib.sha256(f"{SEED}|{name}".encode()).hexdigest()


def dispatching(file: Path) -> Dispatching:
    """Costs of all that the host of a trace dispatches."""
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
    found: tuple[list[float], list[float]] = [], []
    for begin, end in windows:
        at = begin
        for launched, name in (each for each in launching if begin <= each[0] <= end):
            waited = sum(max(min(e, launched) - max(b, at), 0.0) for b, e in _union(waits, at))
            found[bool(EXCHANGE.search(name))].append((launched - at - waited) * 1e-6)
            at = launched
    return Dispatching(np.array(found[0]), np.array(found[1]))


def _launching(calls: list[tuple[float, float, str, bool]]) -> list[tuple[float, str]]:
    """End of the last launch of each innermost operator of a thread, and its name."""
    inside: list[tuple[float, str, int]] = []
    last: dict[int, tuple[float, str]] = {}
    for number, (begin, end, name, is_launch) in enumerate(sorted(calls, key=lambda c: (c[0], -c[1]))):
        while inside and begin >= inside[-1][0]:
            inside.pop()
        if not is_launch:
            inside.append((end, name, number))
        elif inside:
            last[inside[-1][2]] = end, inside[-1][1]
    return list(last.values())


def _union(spans: list[tuple[float, float]], since: float) -> list[tuple[float, float]]:
    """Spans that end after an instant, those that overlap as one."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(span for span in spans if span[1] > since):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def constants(machine: str) -> tuple[float, float]:
    """Constants of a machine: the medians of its traces that are not set aside."""
    each = [dispatching(TRACES / n).constants for n in MACHINES[machine] if not is_aside(n)]
    return tuple(float(v) for v in np.nanmedian(np.array(each), axis=0))  # type: ignore


def main() -> None:
    """Print constants of each trace and machine; with ``--once`` score those set aside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    once = parser.parse_args().once
    for machine, names in MACHINES.items():
        for name in names:
            if not is_aside(name):
                _print(name, dispatching(TRACES / name))
        operator, exchange = constants(machine)
        print(f"{machine}: operator {operator * 1e6:.1f} us, exchange {exchange * 1e6:.1f} us")
        for name in (n for n in names if once and is_aside(n)):
            here = dispatching(TRACES / name)
            _print(name, here)
            took = sum(float(c.sum()) for c in here)
            other = exchange if np.isfinite(exchange) else operator
            said = len(here.operators) * operator + len(here.exchanges) * other
            print(f"  set aside: {said * 1e3:.1f} ms said, {took * 1e3:.1f} ms: {said / took - 1:+.1%}")


def _print(name: str, of: Dispatching) -> None:
    told = (
        f"{len(c)} {what} of {m * 1e6:.1f} us (median {np.median(c) * 1e6:.1f})"
        for c, m, what in zip(of, of.constants, ("operators", "exchanges"), strict=True)
        if len(c)
    )
    print(f"  {name}: {', '.join(told)}")


if __name__ == "__main__":
    main()
