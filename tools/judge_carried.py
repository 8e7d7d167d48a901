"""How carried times hold between GPUs of the catalog, by family and regime.

    python tools/judge_carried.py [models/compute/carried.json]

An op's time on one GPU against its time on the other (``_ops.py`` has the tables: one version of
one engine): times what the catalog's rooflines say of both, times what the datasheets say,
unchanged.  The rooflines were fitted to products of another engine, so no row here is one that they
saw.  Median errors; ``carried`` takes the way with the least.  Below ``FEWEST`` rows nothing is
judged.
"""

from __future__ import annotations

import json
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from _ops import rows
from foretrace.models.compute.carried import REGIMES, START, WAYS, GpuModel
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.part_specs import entry_model
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.scenarios.config.settings import settings_of
from foretrace.sim.doubt import Doubt
from foretrace.sim.ops import Ops
from unseen_gpu import FAMILIES, GPUS, asked

CATALOG = {
    "a100_sxm": "a100-sxm4-80g", "h100_sxm": "h100-sxm5-80g", "h200_sxm": "h200-sxm-141g",
}  # fmt: skip
JUDGED_AS = {
    "gemm": "products", "gemm fp8": "products fp8", "context attention": "attention",
    "decode attention": "attention", "moe": "experts",
}  # fmt: skip
FEWEST = 100
Errors = dict[str, np.ndarray]


def gpu(name: str) -> GpuModel:
    """GPU of the catalog."""
    entry = installed().entry("gpu", CATALOG[name])
    told = entry_model("gpu").model_validate(to_dict(entry))
    taken = settings_of("roofline").model_fields
    return GpuModel.of(CATALOG[name], {k: v for k, v in told if k in taken and v is not None})


def compared(family: str, here: str, there: str) -> tuple[np.ndarray, np.ndarray, Errors]:
    """Times of the ops that both GPUs were measured on, their regimes, and what each way says."""
    a, b = rows(family, here), rows(family, there)
    known = {tuple(s): t for s, t in zip(a.shape.tolist(), a.seconds, strict=True)}
    both = np.array([tuple(s) in known for s in b.shape.tolist()])
    shape, truth = b.shape[both], b.seconds[both]
    near = np.array([known[tuple(s)] for s in shape.tolist()])
    of = asked(family, shape)
    ops = Ops.of(flop=of.flop, bytes=of.bytes, signature=np.arange(len(of.flop)),
                 signatures=tuple(of.signatures))  # fmt: skip
    from_, to = gpu(here), gpu(there)
    arithmetic, memory = to.roofs(ops)
    small = np.maximum(arithmetic, memory) < START
    regime = np.where(small, 0, np.where(arithmetic > memory, 1, 2))
    return truth, regime, {way: near * ratio(from_, to, ops) for way, ratio in WAYS.items()}


def judged(here: str, there: str) -> list[dict[str, Any]]:
    """Judgement of each family and regime from one GPU to another."""
    pooled: dict[tuple[str, str], list[tuple[np.ndarray, Errors]]] = {}
    for family in FAMILIES:
        if "fp8" in family and not all("fp8" in GPUS[name].peaks for name in (here, there)):
            continue
        truth, regimes, said = compared(family, here, there)
        for number, regime in enumerate(REGIMES):
            at = regimes == number
            own = {way: times[at] for way, times in said.items()}
            pooled.setdefault((JUDGED_AS[family], regime), []).append((truth[at], own))
    told = []
    for (family, regime), parts in pooled.items():
        truth = np.concatenate([t for t, _ in parts])
        if len(truth) < FEWEST:
            continue
        said = {way: np.concatenate([own[way] for _, own in parts]) for way in WAYS}
        errors = {w: round(float(np.median(np.abs(s / truth - 1))), 4) for w, s in said.items()}
        way = min(errors, key=lambda w: errors[w])
        quantiles = Doubt.of(family, regime, said[way], truth).quantiles
        told.append(
            {"here": CATALOG[here], "there": CATALOG[there], "family": family, "regime": regime,
             "rows": len(truth), "errors": errors, "way": way,
             "quantiles": [round(q, 4) for q in quantiles]}
        )  # fmt: skip
    return told


def main() -> None:
    every = [one for here, there in permutations(GPUS, 2) for one in judged(here, there)]
    print(f"{'':62s}{'rows':>7s}" + "".join(f"{way:>12s}" for way in WAYS))
    for one in every:
        errors = "".join(f"{one['errors'][way]:12.1%}" for way in WAYS)
        where = f"{one['here']} to {one['there']}, {one['family']}, {one['regime']}"
        print(f"{where:62s}{one['rows']:7d}{errors}  {one['way']}")
    if len(sys.argv) > 1:
        lines = ",\n".join(json.dumps(one) for one in every)
        head = '{"source": "llm-opdb-nvidia, vllm 0.14.0",\n"judged": ['
        Path(sys.argv[1]).write_text(f"{head}\n{lines}\n]}}\n")


if __name__ == "__main__":
    main()
