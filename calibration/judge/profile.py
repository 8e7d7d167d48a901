"""Judge iteration time and peak memory of D7: OPT-350M plans on GH200, from a layer profile.

``profile.py`` predicts plans that are not set aside: blind, and each with one constant fitted to
the others (a factor on GPU times; memory in addition to tensors). ``--once`` scores the plans that
``rows/sailor_rows.py`` set aside, with the constants of all others. ``--ends`` counts how many are
inside the intervals of ``foretrace run``. Assumptions are below ``SCENARIO``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.variants import build_variants

from ..rows.sailor_rows import Plan, data_set, plans

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
run: {{keep: ranks, quick: {quick}}}
"""
"""Assumed: four Slingshot NICs a node of four GPUs (Alps); gradients reduced after the backward
pass; attention with scores in memory and without dropout, as Sailor's own sizes of activations have
it (one number a score: network/Planner__llm_info.json); a vocabulary padded to 50,304."""
OVER, UNDER = 0.10, 0.05  # bars of memory: over, and under


def scenario(plan: Plan, folder: Path, quick: bool = True) -> str:
    """Scenario of a plan."""
    model = folder / "config.json"
    model.write_text(json.dumps(CONFIG))
    layers = list(plan.layers)  # of 26: the embedding and the output are on the ends
    layers[0] -= 1
    layers[-1] -= 1
    return SCENARIO.format(
        model=model, batch=plan.batch, micro_batch=plan.micro_batch, tensor=plan.tensor,
        pipeline=len(layers), data=plan.data, layers=layers, nodes=plan.nodes,
        profile=data_set() / "profiles/OPT-350/GH-96/profile.json", quick=str(quick).lower(),
    )  # fmt: skip


def run(plan: Plan, folder: Path, factor: float = 1.0) -> tuple[float, float]:
    """Iteration time in s with GPU times scaled by a factor, and peak memory in B."""
    slower = f'cluster.override={{"node*.gpu*": {{slowdown: {factor}}}}}'
    (point,) = build_variants(loads(scenario(plan, folder), set=[slower]))
    samples = point.workloads["main"].measure(point.run())
    return float(samples["iteration_time"][0]), float(samples["peak_memory"][0])


def own_factor(plan: Plan, folder: Path) -> float:
    """Factor on GPU times that reproduces the plan's own measured step."""
    step = f"workload.measured={{iteration_time: {plan.seconds} s}}"
    (point,) = build_variants(loads(scenario(plan, folder), set=[step]))
    calibration = point.calibration
    return calibration.factor if calibration else np.nan


def geometric_median(factors: list[float]) -> float:
    """Median in logarithms."""
    return float(np.exp(np.median(np.log(factors))))


def more_memory(short: np.ndarray, took: np.ndarray) -> float:
    """Memory in B to add that minimizes the largest error, weighting over- and underestimates."""
    tried = np.linspace(short.min(), short.max(), 401)
    error = (tried[:, None] - short) / took
    return float(tried[np.argmin(np.maximum(error / OVER, -error / UNDER).max(axis=1))])


def all_but_one(values: list[float], i: int) -> list[float]:
    """All values but one."""
    return values[:i] + values[i + 1 :]


def score(name: str, said: list[float], took: list[float]) -> None:
    """Print a summary of errors."""
    error = np.array(said) / np.array(took) - 1
    size = np.abs(error)
    pairs = [(i, j) for i in range(len(took)) for j in range(i)]
    agree = [np.sign(said[i] - said[j]) * np.sign(took[i] - took[j]) for i, j in pairs]
    regret = took[int(np.argmin(said))] / min(took) - 1
    print(
        f"{name}: {len(took)} plans: mean {size.mean():.1%}, median {np.median(size):.1%}, "
        f"{error.min():+.1%} to {error.max():+.1%}, "
        f"top-1 regret {regret:.1%}, tau {np.mean(agree):.2f}"
    )


def judge(fitted: list[Plan], judged: list[Plan], folder: Path) -> None:
    """Print each judged plan: blind, and with constants of the other fitted plans."""
    blind = {p.name: run(p, folder) for p in {*fitted, *judged}}
    factors = {p.name: own_factor(p, folder) for p in fitted}
    short = {p.name: p.memory - blind[p.name][1] for p in fitted}
    rows = []
    for plan in judged:
        others = [p for p in fitted if p != plan]
        factor = geometric_median([factors[p.name] for p in others])
        added = more_memory(
            np.array([short[p.name] for p in others]), np.array([p.memory for p in others])
        )
        time, memory = blind[plan.name]
        rows.append((time, run(plan, folder, factor)[0], memory, memory + added))
        told = (plan.seconds, *rows[-1][:2], plan.memory / 1e9, memory / 1e9, rows[-1][3] / 1e9)
        own = f"{factors.get(plan.name, float('nan')):6.3f}"
        print(f"{plan.name:16}" + "".join(f"{v:9.4f}" for v in told) + f"  {own} {factor:6.3f}"
              f" {added / 1e9:5.2f}")  # fmt: skip
    seconds, memory = [p.seconds for p in judged], [p.memory for p in judged]
    for name, column, took in (
        ("time, blind", 0, seconds), ("time, one constant", 1, seconds),
        ("memory, blind", 2, memory), ("memory, one constant", 3, memory),
    ):  # fmt: skip
        score(name, [r[column] for r in rows], took)


def ends(judged: list[Plan], folder: Path) -> None:
    """Print the interval of each plan, its main cause, and how many contain the measurement."""
    inside = []
    for plan in judged:
        found = study(loads(scenario(plan, folder, quick=False))).summary
        value = found.value("base", "iteration_time.p50")
        low, high = value.interval or (np.nan, np.nan)
        inside.append(low <= plan.seconds <= high)
        wide = [(e["source"], e["low"], e["high"]) for e in found.points["base"].get("errors", [])]
        print(f"{plan.name:16}{plan.seconds:9.4f}{value.value:9.4f}  {low:.4f} to {high:.4f} "
              f"{'in' if inside[-1] else 'OUT'}  {wide[:3]}")  # fmt: skip
    print(f"{sum(inside)} of {len(inside)} inside")


def main() -> None:
    """Print a line for each plan, and the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--ends", action="store_true")
    args = parser.parse_args()
    every = list(plans())
    fitted = [p for p in every if not p.aside]
    judged = [p for p in every if p.aside] if args.once else fitted
    with tempfile.TemporaryDirectory() as name:
        if args.ends:
            ends(judged, Path(name))
        else:
            judge(fitted, judged, Path(name))


if __name__ == "__main__":
    main()
