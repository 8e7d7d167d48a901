"""The step of two processes predicted from a recording of one: blind, with the noise of the truth.

    python benchmarks/two_from_one.py

Nothing of a two-process step goes in: durations of the one-process trace, DDP's bucket rule, and
the all-reduce that was measured by itself.  The truth is `traces/data/steps.csv`.
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
  nodes: 2
  node:
    gpu: {{model: epyc-zen4-core, count: 1}}
    host: epyc-zen4-vm
    nic: {{model: loopback-tcp, count: 1}}
  fabric: {{library: gloo}}
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


def main() -> None:
    """Print both models."""
    for model, bucket in BUCKETS.items():
        made = point(loads(SCENARIO.format(model=model, bucket=bucket)))
        predicted = made.run().iteration_time
        truth = measured(f"ddp-{model}", "untraced")
        alone = measured(model, "untraced")
        found = {
            "model": model,
            "predicted_ms": 1e3 * predicted,
            "measured_ms": 1e3 * float(np.median(truth)),
            "measured_range_ms": [1e3 * min(truth), 1e3 * max(truth)],
            "error": predicted / float(np.median(truth)) - 1,
            "noise": (max(truth) - min(truth)) / 2 / float(np.median(truth)),
            "one_process_ms": 1e3 * float(np.median(alone)),
            "error_of_one_process": float(np.median(alone)) / float(np.median(truth)) - 1,
        }
        print(json.dumps(found))


if __name__ == "__main__":
    main()
