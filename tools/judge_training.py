"""Iteration times of D4 and D4b: training configurations on A100s, predicted from descriptions.

``judge_training.py`` predicts rows that are not set aside, blind: nothing of the truth is used.
``--once`` scores what ``_megatron_rows.py`` set aside; ``--composed`` is D4b, of which
``--every N`` takes each N-th row.  What is assumed stands below ``SCENARIO``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from _megatron_rows import TREND, Row, rows
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants import build_variants

SCENARIO = """
foretrace: 1
name: d4
workload:
  type: training
  model: {model}
  batch: {batch}
  sequence: {sequence}
  micro_batch: {micro_batch}
  parallel: {{tensor: {tensor}, pipeline: {pipeline}, data: {data}}}
  precision: fp16
  recompute: {recompute}
  attention: written
  overlap: false
  must_fit: false
cluster:
  nodes: {nodes}
  node:
    gpu: {{model: a100-sxm4-80g, count: {count}}}
    nic: {{model: connectx-7, count: {nics}, bandwidth: 200 Gb/s}}
    links:
      - {{from: gpu, to: gpu, via: nvlink3}}
      - {{from: gpu, to: nic, via: pcie4-x16}}
  fabric: {{library: nccl-nvlink3, switch: tomahawk-5, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: roofline}}}}
run: {{keep: ranks}}
"""
"""Assumed: gradients in fp16, reduced after the backward pass; scores in memory; four HDR NICs a
machine (vTrain, Bang et al. 2024, arXiv:2312.12391, section IV); whole layers computed again where
activations would not fit otherwise, as of all rows of D4 but not of D4b."""


def predicted(row: Row, recompute: str, folder: Path) -> float:
    """Seconds of an iteration."""
    s = row.settings
    config = {
        "model_type": "gpt2", "n_embd": s["hidden"], "n_layer": s["layers"], "n_head": s["heads"],
        "vocab_size": 51200, "n_positions": s["sequence"],
    }  # fmt: skip
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    count = min(s["gpus"], 8)
    text = SCENARIO.format(
        **s, model=file, nodes=s["gpus"] // count, count=count, nics=4 if count % 4 == 0 else 1,
        recompute=recompute,
    )  # fmt: skip
    (variant,) = build_variants(loads(text))
    return float(variant.run().makespan)


def score(said: np.ndarray, took: np.ndarray) -> str:
    """Errors and ranking, in words."""
    error = said / took - 1
    size = np.abs(error)
    n = len(took)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    agree = [np.sign(said[i] - said[j]) * np.sign(took[i] - took[j]) for i, j in pairs]
    regret = took[np.argmin(said)] / took.min() - 1
    level = np.exp(np.median(np.log(took / said)))
    rest = np.abs(said * level / took - 1)
    return (
        f"{n} rows: median {np.median(size):.1%}, mean {size.mean():.1%}, worst {size.max():.1%}, "
        f"bias {np.median(error):+.1%}; top-1 regret {regret:.1%}, tau {np.mean(agree):.2f}; "
        f"but for a factor {level:.2f}: median {np.median(rest):.1%}, mean {rest.mean():.1%}"
    )


def main() -> None:
    """Print a line for each row, and the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--composed", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--recompute", default="")
    args = parser.parse_args()
    table = "measured_single_node" if args.composed else "measured_multi_node_3.6B"
    recompute = args.recompute or ("none" if args.composed else "full")
    chosen = [r for r in rows(table) if r.aside == args.once][:: args.every]
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen:
            said.append(predicted(row, recompute, Path(folder)))
            mark = " *" if row.number in TREND and not args.composed else ""
            error, what = said[-1] / row.seconds - 1, tuple(row.settings.values())
            print(f"{row.number:5} {row.seconds:9.4f} {said[-1]:9.4f} {error:+7.1%} {what}{mark}")
    told, took = np.array(said), np.array([r.seconds for r in chosen])
    print(score(told, took))
    if not args.composed:
        kept = np.array([r.number not in TREND for r in chosen])
        print("without rows 13, 15 and 20:", score(told[kept], took[kept]))


if __name__ == "__main__":
    main()
