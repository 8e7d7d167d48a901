"""Iteration times and peak memory of D7: plans of OPT-350M on GH200 nodes, from a layer profile.

``judge_profile.py`` predicts plans that are not set aside, blind.  What is assumed stands below
``SCENARIO``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from _sailor_rows import Plan, data_set, plans
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants import build_variants

CONFIG = {
    "model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 50304,
    "n_positions": 2048, "resid_pdrop": 0.0,
}  # fmt: skip
SCENARIO = """
foretrace: 1
name: d7
workload:
  type: training
  model: {model}
  batch: {batch}
  sequence: 2048
  micro_batch: {micro_batch}
  parallel: {{tensor: {tensor}, pipeline: {pipeline}, data: {data}, layers: {layers}}}
  precision: fp32
  attention: written
  overlap: false
  detail: layers
  must_fit: false
cluster:
  nodes: {nodes}
  node:
    gpu: {{model: gh200-96g, count: 4}}
    nic: {{model: slingshot-200g, count: 4}}
    links:
      - {{from: gpu, to: gpu, via: nvlink4}}
      - {{from: gpu, to: nic, via: pcie5-x16}}
  fabric: {{library: nccl-nvlink4-ofi, switch: slingshot-rosetta, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: layer-profile, file: {profile}, hidden: 1024, sequence: 2048}}}}
run: {{keep: ranks}}
"""


def scenario(plan: Plan, folder: Path, more: str = "") -> str:
    """Scenario of a plan."""
    model = folder / "config.json"
    model.write_text(json.dumps(CONFIG))
    layers = list(plan.layers)  # of 26: the embedding and the output are on the ends
    layers[0] -= 1
    layers[-1] -= 1
    return SCENARIO.format(
        model=model, batch=plan.batch, micro_batch=plan.micro_batch, tensor=plan.tensor,
        pipeline=len(layers), data=plan.data, layers=layers, nodes=plan.nodes,
        profile=data_set() / "profiles/OPT-350/GH-96/profile.json",
    ) + more  # fmt: skip


def predicted(plan: Plan, folder: Path) -> tuple[float, float]:
    """Seconds of an iteration, and B at the peak."""
    (variant,) = build_variants(loads(scenario(plan, folder)))
    samples = variant.workloads["main"].measure(variant.run())
    return float(samples["iteration_time"][0]), float(samples["peak_memory"][0])


def main() -> None:
    """Print a line for each plan, and the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    chosen = [p for p in plans() if p.aside == args.once]
    with tempfile.TemporaryDirectory() as folder:
        for plan in chosen:
            time, memory = predicted(plan, Path(folder))
            print(
                f"{plan.name:16} {plan.seconds:8.4f} {time:8.4f} {time / plan.seconds - 1:+7.1%}"
                f"  {plan.memory / 1e9:6.2f} {memory / 1e9:6.2f} {memory / plan.memory - 1:+7.1%}"
            )


if __name__ == "__main__":
    main()
