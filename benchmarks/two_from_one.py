"""The step of two processes predicted from a recording of one: blind, with the noise of the truth.

    python benchmarks/two_from_one.py

Nothing of a two-process step goes in: durations of the one-process trace and its untraced steps,
DDP's bucket rule, the all-reduce that was measured by itself, and what two cores moved together of
their common memory.  The truth is the untraced steps in `traces/data/ddp-*/steps.csv`.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from foretrace.scenarios.loader import loads
from foretrace.scenarios.points import point

DATA = Path(__file__).parent.parent / "traces" / "data"
SCENARIO = """
foretrace: 1
name: two-from-one
workload:
  trace: foretrace:{model}
  starts: foretrace:{model}
  recorded_on: {{device: epyc-zen4-core, nodes: 1, parallel: {{data: 1}}}}
  scale_to: {{parallel: {{data: 2}}, bucket: {bucket}}}
cluster:
  nodes: 1
  node:
    gpu: {{model: epyc-zen4-core, count: 2}}
    host: epyc-zen4-vm
    memory: epyc-zen4-vm
    links: [{{from: gpu, to: gpu, via: loopback-tcp}}]
  fabric: {{library: gloo}}
backends: {{"node*.gpu*": {{use: recorded, shared: {shared}, cache: 16 MiB}}}}
"""
BUCKETS = {"resnet50": "25 MiB", "gpt": "4 MiB"}  # as traces/zoo sets them


def measured(configuration: str, phase: str) -> list[float]:
    """Median step of every process start, s (mean of its ranks)."""
    steps: dict[int, list[float]] = {}
    with (DATA / configuration / "steps.csv").open() as file:
        for row in csv.DictReader(file):
            if row["phase"] == phase:
                steps.setdefault(int(row["start"]), []).append(int(row["duration_ns"]) * 1e-9)
    return [float(np.median(s)) for s in steps.values()]


def predicted(model: str, shared: bool) -> float:
    """The step of two processes, s; with or without what they do to each other's memory."""
    told = SCENARIO.format(model=model, bucket=BUCKETS[model], shared=str(shared).lower())
    return point(loads(told)).run().iteration_time


def main() -> None:
    """Print both models."""
    for model in BUCKETS:
        truth = measured(f"ddp-{model}", "untraced")
        typical = float(np.median(truth))
        found = {
            "model": model,
            "measured_ms": 1e3 * typical,
            "measured_range_ms": [1e3 * min(truth), 1e3 * max(truth)],
            "noise": (max(truth) - min(truth)) / 2 / typical,
            "error_of_one_process": float(np.median(measured(model, "untraced"))) / typical - 1,
        }
        for name, shared in (("memory_apart", False), ("memory_shared", True)):
            step = predicted(model, shared)
            found |= {f"{name}_ms": 1e3 * step, f"{name}_error": step / typical - 1}
        print(json.dumps(found))


if __name__ == "__main__":
    main()
