"""Descriptions of a small GPT, ResNet and mixture of experts, beside what torch does of them here.

    python tools/judge_descriptions.py ops|memory|exchanged|time [MODEL …] [--ranks 2]

``ops``: the description's ops against those that torch's profiler captures: kind, shape, flop,
bytes.  ``memory``: peak of the description, of the step that is not run (``--meta``), and of
torch's allocator from the process's beginning.  ``exchanged``: bytes of all-reduces.  ``time``: an
iteration from families that were fitted to recordings without the model, of the description and of
the step that is not run, beside CPU and wall times of several process starts here, and how far
these lie apart (A/A).  Needs torch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from _cpu_models import (
    BUCKET,
    DENSE,
    EXPERTS,
    IMAGE,
    MODELS,
    Described,
    make_step,
    plan,
)
from foretrace.models.compute.matrix_product import matrix_product
from foretrace.models.memory.rank_memory import rank_memory
from foretrace.models.training.model_zoo import ZOO
from foretrace.models.training.step_graph import step_graph
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.fitting.entry import families_file
from foretrace.scenarios.studies.fitting.families import fit_families
from foretrace.scenarios.studies.fitting.rows import measured_rows
from foretrace.scenarios.studies.variants import build_variants
from foretrace.sim.ops import Kind
from foretrace.sim.signature import Signature, parse_signature
from foretrace.traces.capture.meta_hook import record_step
from foretrace.traces.dispatched import dispatched_ops
from foretrace.traces.formats import kineto
from foretrace.traces.infer.trace_info import memory_peak

JUDGED = ("ops", "memory", "time", "exchanged")
WARM_UP = 3  # steps
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


Key = tuple[str, tuple[int, ...]]


class Op(NamedTuple):
    """An op as it is compared: kind and shape; flop, bytes."""

    key: Key
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


def compare(said: list[Op], seen: list[Op]) -> dict[str, Any]:
    """Ops that both have, what only one has, and where flop or bytes of the same ops differ."""
    here, there = (Counter(op.key for op in ops) for ops in (said, seen))
    both = here & there
    off = {}
    for column in ("flop", "bytes"):
        mine, theirs = (_sums(ops, both, column) for ops in (said, seen))
        differ = {k: mine[k] / theirs[k] - 1 for k in mine if mine[k] != theirs[k] and theirs[k]}
        off[column] = {k: round(v, 4) for k, v in sorted(differ.items())}
    flop = [float(np.nansum([op.flop for op in ops])) for ops in (said, seen)]
    return {
        "described": len(said), "captured": len(seen), "both": both.total(),
        "described_only": _told(here - there), "captured_only": _told(there - here),
        "flop": flop, "flop_off": off["flop"], "bytes_off": off["bytes"],
    }  # fmt: skip


def _told(rest: Counter[Key]) -> list[str]:
    return [f"{n} {name} {'x'.join(map(str, shape))}" for (name, shape), n in rest.most_common()]


def _sums(ops: Iterable[Op], both: Counter[Key], name: str) -> dict[str, float]:
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
    peaks = {"described": memory.peak, "not_run": not_run, "torch": seen}
    off = {k: round(v / seen - 1, 4) for k, v in peaks.items() if k != "torch"}
    print(json.dumps({"model": name, "peak_bytes": peaks, "off": off}), flush=True)


def record_peak(name: str, out: Path) -> None:
    """Trace of two steps with every allocation since the module was made."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        step = make_step(MODELS[name])()
        step()
        step()
    profiler.export_chrome_trace(str(out))


def fitted_families(out: Path) -> Path:
    """Families of ops on a core, fitted to recordings of no model that is judged."""
    data = measured_rows([f"foretrace:torch-{name}-epyc" for name in ("shapes", "rare")])
    told = families_file(fit_families(data, "shapes", draws=2), data, "shapes", "")
    out.write_text(json.dumps(told))
    return out


def predicted(workload: dict[str, object], families: Path, ranks: int) -> float:
    """Iteration that a scenario predicts, s."""
    scenario = {
        "foretrace": 1, "name": "here", "workload": workload,
        "cluster": {
            "nodes": ranks,
            "node": {
                "gpu": {"model": "epyc-zen4-core", "count": 1}, "host": "epyc-zen4-vm",
                "nic": {"model": "loopback-tcp", "count": 1},
            },
            "fabric": {"library": "gloo"},
        },
        "backends": {
            "node*.gpu*": {
                "use": [{"use": "families", "file": str(families)}, "roofline", "recorded"]
            }
        },
        "run": {"replicas": 1},
    }  # fmt: skip
    (variant,) = build_variants(loads(json.dumps(scenario)))
    return float(variant.run().makespan)


def description_file(name: str, folder: Path) -> Path:
    """A description as the scenario reads it."""
    if name == "resnet":
        data = json.loads((ZOO / "resnet-50.json").read_text())["model"] | {"image": IMAGE}
    else:
        data = DENSE | ({"experts": EXPERTS} if name == "moe" else {})
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"model": data, "source": "tools/_cpu_models.py"}))
    return path


def judge_time(name: str, folder: Path, args: argparse.Namespace) -> None:
    """Print iterations as predicted, blind, beside those of process starts here."""
    of, ranks, families = MODELS[name], args.ranks, folder / "families.json"
    if not families.exists():
        fitted_families(families)
    told: dict[str, object] = {
        "type": "training", "model": str(description_file(name, folder)),
        "batch": of.samples * ranks, "micro_batch": of.samples, "precision": "fp32",
        "parallel": {"data": ranks}, "bucket": BUCKET // 4, "must_fit": False,
    }  # fmt: skip
    if of.sequence > 1:
        told["sequence"] = of.sequence
    made = folder / f"{name}.json.gz"
    record_step(make_step(of)).save(made)
    not_run: dict[str, object] = {"type": "trace", "trace": str(made)}
    if ranks > 1:
        not_run["scale_to"] = {"parallel": {"data": ranks}}
    said = {
        "described": predicted(told, families, ranks),
        "not run": predicted(not_run, families, ranks),
    }
    starts = [measured(name, ranks, args.steps) for _ in range(args.starts)]
    for clock in ("cpu", "wall"):
        times = np.array([start[clock] for start in starts])
        middle, spread = float(np.median(times)), float(np.ptp(times) / np.median(times))
        allowed = max(0.15, 1.5 * spread)
        words = [
            f"{what} {1e3 * s:.1f} ms ({s / middle - 1:+.1%}"
            f"{'' if abs(s / middle - 1) <= allowed else ', OUTSIDE'})"
            for what, s in said.items()
        ]
        print(
            f"{name} x {ranks}: {', '.join(words)}, here {1e3 * middle:.1f} ms by {clock} time, "
            f"A/A {spread:.1%}, allowed {allowed:.1%}",
            flush=True,
        )


def reduced(of: Described, ranks: int) -> list[float]:
    """Bytes of each all-reduce of a description."""
    ops = step_graph(of.model, plan(of, ranks)).ops
    rows = (ops.kind == Kind.COLLECTIVE) & (ops.rank == 0)
    return sorted(ops.bytes[rows].tolist())


def judge_exchange(name: str, folder: Path, ranks: int) -> None:
    """Print the all-reduces of a description, and those that torch's profiler captures."""
    path = folder / "rank0.json"
    run_ranks("exchange", name, ranks, "--out", str(path))
    trace = kineto.read(path)
    shapes = trace.text("shapes")[trace.text("name") == "c10d::allreduce_"]
    seen = sorted(4.0 * sum(math.prod(s) for s in json.loads(text)[0]) for text in shapes)
    told = {"model": name, "ranks": ranks, "described": reduced(MODELS[name], ranks)}
    print(json.dumps({**told, "captured": seen}), flush=True)


def record_exchange(name: str, ranks: int, out: Path) -> None:
    """Trace of a step of rank 0, once DDP has put its buckets into the order of the gradients."""
    torch.distributed.init_process_group("gloo")
    step = make_step(MODELS[name], ranks)()
    step()
    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        step()
    if torch.distributed.get_rank() == 0:
        profiler.export_chrome_trace(str(out))
    torch.distributed.destroy_process_group()


def run_ranks(what: str, name: str, ranks: int, *words: str) -> list[str]:
    """What all ranks of a job print."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, what, name, "--ranks", str(ranks), *words]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    own = os.environ | address | {"OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(command, env=own | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    found = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"{name}: a rank of {ranks} ended with an error")
    return found


def measured(name: str, ranks: int, steps: int) -> dict[str, float]:
    """Median step of one start of all ranks, s: by CPU and by wall time."""
    said = run_ranks("start", name, ranks, "--steps", str(steps))
    told = [json.loads(text.splitlines()[-1]) for text in said]
    return {clock: float(np.mean([t[clock] for t in told])) for clock in ("cpu", "wall")}


def start(name: str, ranks: int, steps: int) -> None:
    """Print the median step of this process."""
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    step, times = make_step(MODELS[name], ranks)(), []
    for _ in range(WARM_UP + steps):
        begun = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    wall, cpu = np.median(times[WARM_UP:], axis=0).tolist()
    print(json.dumps({"wall": wall, "cpu": cpu}))
    if ranks > 1:
        torch.distributed.destroy_process_group()


def main() -> None:
    """Judge what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*JUDGED, "peak", "start", "exchange"])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.what == "peak":
        record_peak(args.models[0], args.out)
        return
    if args.what == "start":
        start(args.models[0], args.ranks, args.steps)
        return
    if args.what == "exchange":
        record_exchange(args.models[0], args.ranks, args.out)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in args.models:
            if args.what == "ops":
                of = MODELS[model]
                found = compare(described(of), captured(of, folder / "rank0.json"))
                print(json.dumps({"model": model, **found}), flush=True)
            if args.what == "memory":
                judge_memory(model, folder)
            if args.what == "exchanged":
                judge_exchange(model, folder, args.ranks)
            if args.what == "time":
                judge_time(model, folder, args)


if __name__ == "__main__":
    main()
