"""Descriptions of a small GPT, ResNet and mixture of experts, beside what torch does of them here.

    python tools/judge_descriptions.py ops|memory|time [MODEL …] [--ranks 2]

``ops``: the description's ops against those that torch's profiler captures: kind, shape, flop,
bytes.  ``memory``: peak of the description, of the step that is not run (``--meta``), and of
torch's allocator from the process's beginning.  ``time``: an iteration from families that were
fitted to recordings without the model, of the description and of the step that is not run, beside
CPU times of several process starts here, and how far these lie apart (A/A).  Needs torch.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from _cpu_models import MODELS, Described, make_step, plan
from foretrace.models.compute.matrix_product import matrix_product
from foretrace.models.memory.rank_memory import rank_memory
from foretrace.models.training.step_graph import step_graph
from foretrace.sim.ops import Kind
from foretrace.sim.signature import Signature, parse_signature
from foretrace.traces.capture.dispatched import dispatched_ops
from foretrace.traces.capture.meta_hook import record_step
from foretrace.traces.formats import kineto
from foretrace.traces.infer.trace_info import memory_peak

SAME = {  # operators of different names that do the same work
    "fused::flash_attention": "attention",
    "_scaled_dot_product_flash_attention_for_cpu": "attention",
    "fused::attention_backward": "attention backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "attention backward",
    "mean": "_adaptive_avg_pool2d",
}
OF_WEIGHTS = {  # of whose lists the profiler tells no more than thirty shapes
    "linalg_vector_norm": "norm of gradients",
    "_foreach_norm": "norm of gradients",
    "_fused_adamw": "Adam",
}


class Op(NamedTuple):
    """An op as it is compared: kind and shape; flop, bytes."""

    key: tuple[str, tuple[int, ...]]
    flop: float
    bytes: float


def compared(signature: Signature, flop: float, moved: float) -> Op:
    """An op by its kind and shape: of a product m, n and k, of others the largest operand."""
    name = signature.op.removeprefix("aten::").removesuffix("_")
    product = matrix_product(signature)
    if product is not None:
        sides = sorted((int(product.m), int(product.n)))  # a product may be written transposed
        return Op(("product", (int(product.batch), *sides, int(product.k))), flop, moved)
    if name in OF_WEIGHTS:
        return Op((OF_WEIGHTS[name], ()), flop, moved)
    sizes = [math.prod(o.shape) for o in signature.operands]
    return Op((SAME.get(name, name), (max(sizes, default=0),)), flop, moved)


def described(of: Described) -> list[Op]:
    """Ops of a description, one rank."""
    ops = step_graph(of.model, plan(of)).ops
    rows = np.flatnonzero(ops.kind == Kind.COMPUTE).tolist()
    return [
        compared(parse_signature(ops.signature_text(i)), ops.flop[i], ops.bytes[i]) for i in rows
    ]


def captured(of: Described, path: Path) -> list[Op]:
    """Ops that torch's profiler captures of a step."""
    step = make_step(of)()
    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        step()
    profiler.export_chrome_trace(str(path))
    found = []
    for op in dispatched_ops(kineto.read(path)):
        told = Signature("compute", op.name, op.operands)
        if op.lists and told.op.removeprefix("aten::") in OF_WEIGHTS:
            found.append(Op((OF_WEIGHTS[told.op.removeprefix("aten::")], ()), 0.0, math.nan))
            continue
        work = op.work or (math.nan, math.nan)
        found.append(compared(told, *work))
    return found


def compare(said: list[Op], seen: list[Op]) -> None:
    """Print what both have, and what only one has."""
    here, there = (Counter(op.key for op in ops) for ops in (said, seen))
    both = here & there
    print(f"  {both.total()} ops of both; described {len(said)}, captured {len(seen)}")
    for title, rest in (("described only", here - there), ("captured only", there - here)):
        told = ", ".join(f"{n} {k[0]} {'x'.join(map(str, k[1]))}" for k, n in rest.most_common(12))
        print(f"  {title}: {rest.total()}: {told}")
    for name in ("flop", "bytes"):
        mine, theirs = (_sums(ops, both, name) for ops in (said, seen))
        for kind in sorted(mine):
            if mine[kind] != theirs[kind] and (mine[kind] or theirs[kind]):
                print(
                    f"  {name} of {kind}: described {mine[kind]:.4g}, captured {theirs[kind]:.4g}"
                )
    flop = [np.nansum([op.flop for op in ops]) for ops in (said, seen)]
    print(
        f"  flop in all: described {flop[0]:.6g}, captured {flop[1]:.6g}: {flop[0] / flop[1] - 1:+.2%}"
    )


def _sums(
    ops: Iterable[Op], both: Counter[tuple[str, tuple[int, ...]]], name: str
) -> dict[str, float]:
    """Sums of flop or bytes by kind, of as many ops as both have."""
    left, found = both.copy(), defaultdict[str, float](float)
    for op in ops:
        if left[op.key] > 0:
            left[op.key] -= 1
            found[op.key[0]] += getattr(op, name)
    return found


def judge_memory(name: str, folder: Path) -> None:
    """Print peaks of memory; torch's in a process of its own, from its beginning."""
    of = MODELS[name]
    path = folder / "rank0.json"
    command = [sys.executable, __file__, "peak", name, "--out", str(path)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seen = memory_peak(kineto.read(path))["host"]
    not_run = record_step(make_step(of)).facts["peak_bytes"]
    memory = rank_memory(of.model, plan(of), 0, reserve=0)
    told = (("described", memory.peak), ("not run", not_run), ("torch", seen))
    print(
        f"{name}: " + ", ".join(f"{k} {v / 2**20:.1f} MiB ({v / seen - 1:+.1%})" for k, v in told)
    )


def record_peak(name: str, out: Path) -> None:
    """Trace of two steps with every allocation since the module was made."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        step = make_step(MODELS[name])()
        step()
        step()
    profiler.export_chrome_trace(str(out))


def main() -> None:
    """Judge what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["ops", "memory", "time", "peak", "start"])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.what == "peak":
        record_peak(args.models[0], args.out)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in args.models:
            if args.what == "ops":
                print(model)
                compare(described(MODELS[model]), captured(MODELS[model], folder / "rank0.json"))
            if args.what == "memory":
                judge_memory(model, folder)


if __name__ == "__main__":
    main()
