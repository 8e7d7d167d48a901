"""Step times of D6 at the larger scale of each pair, from the measured step at the smaller one.

Pairs are in ``mlperf_pairs.csv``: systems of one submitter in MLPerf Training (unverified, derived
from MLPerf logs), with what is not described where that is so.  A pair is answered by ``measured``:
one factor from the smaller system, as ``foretrace run`` finds it.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run import study

SCENARIO = """
foretrace: 1
name: d6
workload:
  type: training
  model: llama3-8b
  batch: {batch}
  sequence: 8192
  micro_batch: {micro_batch}
  parallel: {{context: {context}}}
  precision: fp8
  zero: 1
  bucket: 768000000
  must_fit: false
  measured:
    iteration_time: {seconds} s
    on: {{nodes: {from_nodes}, batch: {from_batch}, micro_batch: 2, parallel: {{context: 1}}}}
cluster:
  nodes: {nodes}
  node:
    gpu: {{model: b200-sxm-180g, count: 8}}
    nic: {{model: connectx-7, count: 8}}
    links:
      - {{from: gpu, to: gpu, via: nvlink5}}
      - {{from: gpu, to: nic, via: pcie5-x16}}
  fabric: {{library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: roofline}}}}
run: {{keep: ranks}}
"""
"""Assumed: FP8 products, a distributed optimizer, gradients reduced in fp32 behind the backward
pass (config_common.sh of the submitters), a ConnectX-7 for each GPU, constants of NCCL on NVLink
4."""
MICRO = {"nebius_b200_n2": 1, "hpg.dgxb200x8.n8": 1}
"""Sequences of a micro-batch, of the run settings; else 2."""
CONTEXT = {"hpg.dgxb200x8.n8": 2}  # ranks that share a sequence, likewise; else one has it alone
HERE = Path(__file__).parent


def main() -> None:
    """Print each pair that is described, and how many are not."""
    data = Path(os.environ["FORETRACE_DATA"]) / "mlperf-training"
    with (data / "llm_medians_dev.csv").open() as lines:
        systems = {(r["benchmark"], r["submitter"], r["system"]): r for r in csv.DictReader(lines)}
    with (HERE / "mlperf_pairs.csv").open() as lines:
        pairs = list(csv.DictReader(lines))
    ours, linear, inside = [], [], []
    for pair in (p for p in pairs if not p["not_described"]):
        small, large = (systems[pair["benchmark"], pair["submitter"], pair[k]]
                        for k in ("small", "large"))  # fmt: skip
        said, (low, high), factor = predicted(small, large)
        took, was = float(large["step_s_median"]), float(small["step_s_median"])
        each = [int(s["global_batch_size"]) / int(s["accelerators"]) for s in (small, large)]
        ours.append(said / took - 1)
        linear.append(was * each[1] / each[0] / took - 1)
        inside.append(low <= took <= high)
        print(f"{pair['submitter']:22} {pair['small']:26} {pair['large']:26} {took:.4f} "
              f"{said:.4f} {ours[-1]:+.1%}, linear {linear[-1]:+.1%}; {low:.4f} to {high:.4f} "
              f"{'in' if inside[-1] else 'OUT'}; factor {factor:.2f}")  # fmt: skip
    mine, theirs = np.abs(ours), np.abs(linear)
    met = int(np.sum(mine <= np.maximum(0.05, theirs / 2)))
    print(f"{len(mine)} of {len(pairs)} pairs: mean {mine.mean():.1%}, linear {theirs.mean():.1%}; "
          f"{met} within max(5 %, half of linear); {sum(inside)} inside")  # fmt: skip
    for why in sorted({p["not_described"] for p in pairs} - {""}):
        print(f"not described: {why}, {sum(p['not_described'] == why for p in pairs)}")


def predicted(small: dict[str, str], large: dict[str, str]) -> tuple[float, list[float], float]:
    """Seconds of the larger system's step, their interval, and the factor of the smaller one."""
    text = SCENARIO.format(
        batch=large["global_batch_size"], micro_batch=MICRO.get(large["system"], 2),
        context=CONTEXT.get(large["system"], 1),
        seconds=small["step_s_median"], from_nodes=int(small["accelerators"]) // 8,
        from_batch=small["global_batch_size"], nodes=int(large["accelerators"]) // 8,
    )  # fmt: skip
    summary = study(loads(text)).summary
    value = summary.value("base", "iteration_time.p50")
    factor = summary.points["base"]["calibration"]["factor"]
    return value.value, list(value.interval or (np.nan, np.nan)), factor


if __name__ == "__main__":
    main()
