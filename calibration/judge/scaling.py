"""Predict steps of D6 at the larger scale of each pair, from the measured smaller one.

Pairs are in ``mlperf_pairs.csv``: systems of one submitter in MLPerf Training (unverified, derived
from MLPerf logs), with a note if something is not described. ``mlperf_systems.csv`` has the
training settings of each system. A pair is predicted with ``measured``: one factor from the smaller
system, as ``foretrace run`` computes it. Submitters that were set aside are scored only with
``--aside``. With ``--operator``, hosts of systems without CUDA graphs take that time per op.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study

Row = Mapping[str, str]
ROWS = Path(__file__).parents[1] / "rows"
SCENARIO = """
foretrace: 1
name: d6
workload:
  type: training
  model: {model}
  batch: {batch}
  sequence: 8192
  micro_batch: {micro_batch}
  parallel: {parallel}
  precision: {precision}
  zero: 1
  bucket: 768000000
  must_fit: false
  hosts: {hosts}
  {trained}
  measured: {{iteration_time: {seconds} s, on: {on}}}
cluster:
  nodes: {nodes}
  node:
    gpu: {{model: {gpu}, count: {node}}}
    nic: {{model: connectx-7, count: {node}}}
    host: {{model: xeon-8480c-dual, operator: {operator}, exchange: {operator}}}
    links:
      - {{from: gpu, to: gpu, via: {link}}}
      - {{from: gpu, to: nic, via: pcie5-x16}}
  fabric: {{library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: roofline}}}}
run: {{keep: ranks}}
"""
"""Assumed: a distributed optimizer, gradients reduced in fp32 behind the backward pass
(config_common.sh of the submitters), a ConnectX-7 for each GPU, constants of NCCL on NVLink 4."""
TRAINED = {
    "llama2_70b_lora": """\
adapters: {rank: 16, of: [query-key-value, attention-output]}
  types: {frozen: fp8}""",
    "llama31_8b": "",
    "llama31_405b": "schedule: {chunks: 8, ends: 1}",
}
"""What is trained.  Adapters: ``lora_target_modules "qkv_proj,o_proj"``, rank 16, in sequences of
8,192 (github.com/mlcommons/training, llama2_70b_lora/README.md); weights in fp8 alone assumed."""
MODELS = {"llama2_70b_lora": "llama2-70b", "llama31_8b": "llama3-8b",
          "llama31_405b": "llama3-405b"}  # fmt: skip
ASIDE = 1 / 3  # of the pairs of language models, at least
NO_LANGUAGE = ("stable_diffusion", "flux1", "gpt3")  # gpt3: the pair is of TPUs


def main() -> None:
    """Print each described pair, and the number of pairs that are not described."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aside", action="store_true", help="those set aside, in their place")
    parser.add_argument("--operator", default="", help="of a host, 113 us say; else it is ahead")
    parser.add_argument("--set", action="append", default=[], help="laid over every scenario")
    asked = parser.parse_args()
    known, pairs = systems(), table("mlperf_pairs.csv")
    held = set_aside(pairs)
    ours, linear, inside = [], [], []
    judged = [p for p in pairs if (p["submitter"] in held) == asked.aside]
    for pair in (p for p in judged if not p["not_described"]):
        small, large = (known[pair["benchmark"], pair["submitter"], pair[k]]
                        for k in ("small", "large"))  # fmt: skip
        said, (low, high), factor = predicted(small, large, asked.set, asked.operator)
        took = seconds(large)
        each = [int(s["global_batch_size"]) / int(s["accelerators"]) for s in (small, large)]
        ours.append(said / took - 1)
        linear.append(seconds(small) * each[1] / each[0] / took - 1)
        inside.append(low <= took <= high)
        print(f"{pair['benchmark']:15} {pair['submitter']:21} {small['accelerators']:>3} to "
              f"{large['accelerators']:>3} {took:.4f} {said:.4f} {ours[-1]:+.1%}, linear "
              f"{linear[-1]:+.1%}; {low:.4f} to {high:.4f} {'in' if inside[-1] else 'OUT'}; "
              f"factor {factor:.2f}", flush=True)  # fmt: skip
    mine, theirs = np.abs(ours), np.abs(linear)
    met = int(np.sum(mine <= np.maximum(0.05, theirs / 2)))
    print(f"{len(mine)} of {len(judged)} pairs: mean {mine.mean():.1%}, linear "
          f"{theirs.mean():.1%}; {met} within max(5 %, half of linear); {sum(inside)} "
          "inside")  # fmt: skip
    for why in sorted({p["not_described"] for p in judged} - {""}):
        print(f"not described: {why}, {sum(p['not_described'] == why for p in judged)}")


def table(name: str) -> list[dict[str, str]]:
    """Rows of a table next to this file."""
    with (ROWS / name).open() as lines:
        return list(csv.DictReader(lines))


def systems() -> dict[tuple[str, str, str], dict[str, str]]:
    """Measurements and training settings of systems, by benchmark, submitter and name."""
    data = Path(os.environ["FORETRACE_DATA"]) / "mlperf-training"
    with (data / "llm_medians_dev.csv").open() as lines:
        found = {(r["benchmark"], r["submitter"], r["system"]): r for r in csv.DictReader(lines)}
    for row in table("mlperf_systems.csv"):
        found[row["benchmark"], row["submitter"], row["system"]] |= row
    return found


def set_aside(pairs: Sequence[Row]) -> set[str]:
    """Submitters in the order of their names' sha256 that together have a third of the pairs."""
    language = [p["submitter"] for p in pairs if p["benchmark"] not in NO_LANGUAGE]
    found: set[str] = set()
    for name in sorted(set(language), key=lambda s: sha256(s.encode()).hexdigest()):
        if sum(s in found for s in language) >= ASIDE * len(language):
            break
        found.add(name)
    return found


def seconds(system: Row) -> float:
    """Median step of a system in s: as logged, or its batch divided by samples per second."""
    logged = system["step_s_median"]
    rate = system["throughput_median_samples_per_s"]
    return float(logged) if logged else int(system["global_batch_size"]) / float(rate)


def shared(system: Row) -> str:
    """Parallelism of a system, in scenario notation."""
    tensor, context = system["tensor"], system["context"]
    return (
        f"{{tensor: {tensor}, context: {context}, pipeline: {system['pipeline']}, "
        f"sequence: {str(tensor != '1').lower()}}}"
    )


def predicted(
    small: Row, large: Row, settings: Sequence[str] = (), operator: str = ""
) -> tuple[float, list[float], float]:
    """Predicted step of the larger system in s, its interval, and the factor of the smaller one."""
    on = {
        "hosts": hosts(small, operator),
        "batch": small["global_batch_size"], "micro_batch": small["micro_batch"],
        "parallel": shared(small), "precision": small["precision"],
        "nodes": nodes(small), "cluster.node.gpu.count": count(small),
        "cluster.node.nic.count": count(small),
    }  # fmt: skip
    text = SCENARIO.format(
        model=MODELS[large["benchmark"]], trained=TRAINED[large["benchmark"]],
        batch=large["global_batch_size"], micro_batch=large["micro_batch"],
        parallel=shared(large), precision=large["precision"], nodes=nodes(large),
        hosts=hosts(large, operator), operator=operator or "51.4 us",
        gpu=large["gpu"], node=count(large), seconds=seconds(small),
        link="nvlink4" if large["gpu"].startswith("h") else "nvlink5",
        on="{" + ", ".join(f"{key}: {value}" for key, value in on.items()) + "}",
    )  # fmt: skip
    summary = study(loads(text, set=settings)).summary
    value = summary.value("base", "iteration_time.p50")
    factor = summary.points["base"]["calibration"]["factor"]
    return value.value, list(value.interval or (np.nan, np.nan)), factor


def hosts(system: Row, operator: str) -> str:
    """Host settings: ops dispatched one by one without CUDA graphs, otherwise replayed."""
    return "threads" if operator and system["graphs"] == "no" else "ahead"


def count(system: Row) -> int:
    """Number of GPUs on one NVLink domain."""
    return min(int(system["node"]), int(system["accelerators"]))


def nodes(system: Row) -> int:
    """Number of machines, or of racks for an NVL72."""
    return int(system["accelerators"]) // count(system)


if __name__ == "__main__":
    main()
