"""Compare descriptions of a small GPT, ResNet and mixture of experts with torch on this machine.

    python -m foretrace.calibration.local.descriptions ops|memory|time [MODEL …] [--ranks 2]

``ops``: the description's ops against those that torch's profiler captures: kind, operands, flop,
bytes; with several ranks those of each, and the order of collectives. ``memory``: peaks of the
description, of a meta-device step (``--meta``), and of torch's allocator since the start of the
process. ``time``: an iteration of the description and of the meta-device step, from families and
cache costs fitted to recordings without the model, next to CPU and wall times of several process
starts here, and their A/A spread. Needs torch.
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
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from foretrace.models.compute.matrix_product import matrix_product
from foretrace.models.training.description.model_zoo import ZOO
from foretrace.models.training.plan.rank_memory import rank_memory
from foretrace.models.training.program.step_graph import step_graph
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.fitting.caches import fit_cache_model
from foretrace.scenarios.studies.fitting.catalog_entry import families_file
from foretrace.scenarios.studies.fitting.families import fit_families
from foretrace.scenarios.studies.fitting.recording_rows import measured_rows
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.signature import Operand, Signature, parse_signature
from foretrace.traces.capture.meta_hook import is_work, record_step
from foretrace.traces.event_columns import Event
from foretrace.traces.formats import kineto
from foretrace.traces.infer.events.operands import parse_operands
from foretrace.traces.infer.op_work import OpWork, op_work
from foretrace.traces.infer.trace_info import memory_peak
from foretrace.traces.trace import Trace

from .cpu_models import (
    BUCKET,
    DENSE,
    EXPERTS,
    IMAGE,
    MODELS,
    Described,
    make_step,
    plan,
)

NAME = "foretrace.calibration.local.descriptions"
CACHES = ("foretrace:torch-cold-epyc", "foretrace:host-epyc")
JUDGED = ("ops", "memory", "time")
WARM_UP = 3  # steps
SAME = {  # operators of different names that do the same work
    "fused::flash_attention": "attention",
    "_scaled_dot_product_flash_attention_for_cpu": "attention",
    "fused::attention_backward": "attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "attention_backward",
    "_foreach_norm": "linalg_vector_norm",
}
OF_WEIGHTS = {"_foreach_norm": 1, "_fused_adamw": 7}
"""Operators of lists of all weights, and how often they move each number: read once; weights and
two moments read and written, gradients read."""
PRODUCTS = ("mm", "addmm", "bmm")
LISTS = ("cat",)  # of whose operands the profiler tells no more than thirty: compared by kind


class Op(NamedTuple):
    """Op in a comparable form: two ops are equal if all fields are."""

    kind: str
    operands: str
    flop: float
    bytes: float


def comparable_op(of: Described, signature: Signature, flop: float, moved: float) -> Op:
    """Comparable form of an op: sequences are flattened to rows, and transposed GEMMs are equal."""
    name = signature.op.removeprefix("aten::").removesuffix("_")
    if name in LISTS:
        return Op(name, "", 0.0, 0.0)
    operands = [str(Operand(o.dtype, _rows(of, o.shape))) for o in signature.operands]
    product = matrix_product(signature) if name in PRODUCTS else None
    if product is not None:
        m, n = sorted((int(product.m), int(product.n)))
        operands = [*operands[:-2], f"{signature.dtype} {product.batch}:{m}x{product.k}x{n}"]
    return Op(SAME.get(name, name), " ".join(operands), flop, moved)


def _rows(of: Described, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape with the tokens of all sequences flattened to rows, as in a description."""
    tokens = (of.samples, of.sequence)
    return (math.prod(tokens), *shape[2:]) if of.sequence > 1 and shape[:2] == tokens else shape


def described_ops(of: Described, ranks: int = 1, rank: int = 0) -> list[Op]:
    """Ops of one rank of a description, in order."""
    block = step_graph(of.model, plan(of, ranks)).ops
    rows = np.flatnonzero((block.kind == Kind.COMPUTE) & (block.rank == rank)).tolist()
    return [
        comparable_op(of, parse_signature(block.signature_text(i)), block.flop[i], block.bytes[i])
        for i in rows
    ]


class DispatchedOp(NamedTuple):
    """An operator that reached a backend.

    Parameters
    ----------
    name : without the mark of an operator that works in place, which is as much work
    operands : tensors that it reads, in call order; not where it puts its result (``out=``)
    lists : shapes of each list of tensors, whose types the profiler leaves out
    work : flop and bytes; None of an operator with such a list
    seconds : that it lasted, what it called included
    """

    name: str
    operands: tuple[Operand, ...]
    lists: tuple[tuple[tuple[int, ...], ...], ...]
    work: OpWork | None
    seconds: float

    @property
    def untimed(self) -> str:
        """All but its time, as text, so that what is unknown (nan) of two is equal."""
        return repr(self[:-1])


def dispatched_ops(trace: Trace) -> list[DispatchedOp]:
    """Operators of a trace of one rank, in order; views and allocations are none."""
    columns = ("name", "shapes", "dtypes", "scalars")
    name, *texts = (trace.text(c) for c in columns)
    ts, dur = trace.events["ts"], trace.events["dur"]
    rows = np.flatnonzero(trace.events["kind"] == Event.OP)
    found, until = [], -1
    for i in rows[np.lexsort((-dur[rows], ts[rows]))].tolist():
        func = overload(name[i], texts[1][i]) if ts[i] >= until else None
        if func is None or _is_composite(func):
            continue
        until = int(ts[i] + dur[i])
        if is_work(func):
            said = [text[i] for text in texts]
            found.append(_dispatched(func, name[i], said, float(dur[i]) / trace.resolution))
    return found


def _dispatched(func: Any, name: str, said: list[str], seconds: float) -> DispatchedOp:
    shapes, dtypes, _ = said
    kinds = [str(argument.type) for argument in func._schema.arguments]
    words = ["" if w.startswith("TensorList") else w for w in json.loads(dtypes)]
    operands = parse_operands(shapes, json.dumps(words))
    places = sum(argument.is_out for argument in func._schema.arguments)  # the last ones
    operands = operands[: len(operands) - places]
    pairs = zip(kinds, json.loads(shapes), strict=True)
    lists = tuple(tuple(map(tuple, dims)) for kind, dims in pairs if kind == "List[Tensor]")
    listed = any("List[" in kind and "Tensor" in kind for kind in kinds)
    return DispatchedOp(
        name.removesuffix("_"),
        tuple(o for o in operands if not _is_workspace(name, o)),
        lists,
        None if listed else op_work(name, *said),
        seconds,
    )


def overload(name: str, types: str) -> Any:
    """Overload that a recorded operator is, by its arguments; None of what is no operator.

    >>> overload("aten::mm", '["float", "float"]').name(), overload("my step", "")
    ('aten::mm', None)
    """
    words = json.loads(types) if types else []
    return next((f for f in _overloads(name) if _fits(f._schema.arguments, words)), None)


def _overloads(name: str) -> list[Any]:
    """Overloads of an operator that the dispatcher knows."""
    space, _, op = name.partition("::")
    packet: Any = getattr(getattr(torch.ops, space), op, None) if op.isidentifier() else None
    names = packet.overloads() if hasattr(packet, "overloads") else []
    found = [getattr(packet, name) for name in names]
    return [func for func in found if torch._C._dispatch_has_kernel(func.name())]


def _fits(wanted: list[Any], words: list[str]) -> bool:
    """Whether recorded types are those of an overload: tensors and scalars in the same places."""
    pairs = zip((str(argument.type) for argument in wanted), words, strict=False)
    return len(wanted) == len(words) and all(
        ("Tensor" in kind) == (word not in ("Scalar", "ScalarList")) for kind, word in pairs if word
    )


def _is_composite(func: Any) -> bool:
    """Whether an operator only calls others, and has no kernel of its own."""
    has, keys = func.has_kernel_for_dispatch_key, torch._C.DispatchKey
    return has(keys.CompositeImplicitAutograd) and not has(keys.CPU)


def _is_workspace(name: str, operand: Operand) -> bool:
    """Bytes that oneDNN keeps for itself, as many as only running it tells."""
    return "mkldnn_rnn" in name and operand.dtype == "uint8"


def captured_ops(of: Described, trace: Trace) -> list[Op]:
    """Ops of a step captured by torch's profiler, in order.

    The profiler lists at most thirty shapes of a tensor list; shapes of all weights come from the
    module.
    """
    weights = sum(p.numel() for p in of.module().parameters())
    found = []
    for op in dispatched_ops(trace):
        name = op.name.removeprefix("aten::")
        if name in OF_WEIGHTS:
            one = Signature("compute", name, (Operand("fp32", (weights,)),))
            found.append(comparable_op(of, one, 0.0, 4.0 * OF_WEIGHTS[name] * weights))
        elif not name.startswith("c10d::"):
            told = Signature("compute", op.name, op.operands)
            found.append(comparable_op(of, told, *(op.work or (0.0, math.nan))))
    return found


def profiled(of: Described, path: Path) -> Trace:
    """Profiler trace of the second step of one process."""
    step = make_step(of)()
    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        step()
    profiler.export_chrome_trace(str(path))
    return kineto.read(path)


def compare(said: list[Op], seen: list[Op]) -> dict[str, Any]:
    """Common ops with flop and bytes, and ops that only one side has."""
    here, there = Counter(said), Counter(seen)
    told = [float(np.nansum([op.flop for op in ops])) for ops in (said, seen)]
    return {
        "described": len(said), "captured": len(seen), "both": (here & there).total(),
        "described_only": _format_ops(here - there),
        "captured_only": _format_ops(there - here), "flop": told,
    }  # fmt: skip


def _format_ops(rest: Counter[Op]) -> dict[str, int]:
    """Counts of ops that only one side has, by kind, operands, and known flop and bytes."""
    found = Counter[str]()
    for op, count in rest.items():
        work = "" if math.isnan(op.bytes) else f" | {op.flop:.0f} flop {op.bytes:.0f} B"
        found[f"{op.kind} {op.operands}".strip() + work] += count
    return dict(sorted(found.items()))


def judge_ops(name: str, folder: Path, ranks: int) -> None:
    """Print how a description's ops match the captured ones; with ranks, also collectives."""
    of = MODELS[name]
    if ranks == 1:
        found = compare(described_ops(of), captured_ops(of, profiled(of, folder / "rank0.json")))
        print(json.dumps({"model": name, **found}), flush=True)
        return
    run_ranks("exchange", name, ranks, "--out", str(folder))
    for rank in range(ranks):
        trace = kineto.read(folder / f"{name}-{rank}.json")
        found = compare(described_ops(of, ranks, rank), captured_ops(of, trace))
        both = {"described": described_collectives(of, ranks), "captured": collectives(trace)}
        line = {"model": name, "rank": rank, **found, "collectives": both}
        print(json.dumps(line), flush=True)


def described_collectives(of: Described, ranks: int) -> list[str]:
    """Collectives of rank 0 of a description, in order: kind and operand."""
    ops = step_graph(of.model, plan(of, ranks)).ops
    rows = np.flatnonzero((ops.kind == Kind.COLLECTIVE) & (ops.rank == 0)).tolist()
    return [ops.signature_text(i).removeprefix("collective:") for i in rows]


KINDS = {"allreduce_": "all-reduce", "broadcast_": "broadcast"}
TYPES = {"float": "fp32", "long int": "int64"}


def collectives(trace: Trace) -> list[str]:
    """Collectives of a captured step, in call order."""
    name, shapes, dtypes = (trace.text(column) for column in ("name", "shapes", "dtypes"))
    types = {}  # gloo's own thread tells the element type
    asked = []
    for i in np.argsort(trace.events["ts"], kind="stable").tolist():
        kind = name[i].partition(":")[2].replace("_", "-")
        if name[i].startswith("gloo:"):
            (shape,), (dtype,) = json.loads(shapes[i])[:1], json.loads(dtypes[i])[:1]
            types[kind, math.prod(shape)] = TYPES[dtype]
        elif name[i].startswith("c10d::"):
            numbers = sum(math.prod(shape) for shape in json.loads(shapes[i])[0])
            asked.append((KINDS[name[i].removeprefix("c10d::")], numbers))
    return [f"{kind} {types[kind, numbers]}[{numbers}]" for kind, numbers in asked]


def judge_memory(name: str, folder: Path) -> None:
    """Print memory peaks; torch's is measured in a separate process from its start."""
    of = MODELS[name]
    path = folder / "rank0.json"
    command = [sys.executable, "-m", NAME, "peak", name, "--out", str(path)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seen = memory_peak(kineto.read(path))["host"]
    not_run = record_step(make_step(of)).facts["peak_bytes"]
    memory = rank_memory(of.model, plan(of), 0, reserve=0)
    peaks = {"described": memory.peak, "not_run": not_run, "torch": seen}
    off = {k: round(v / seen - 1, 4) for k, v in peaks.items() if k != "torch"}
    print(json.dumps({"model": name, "peak_bytes": peaks, "off": off}), flush=True)


def record_peak(name: str, out: Path) -> None:
    """Record a trace of two steps with all allocations since the module was created."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        step = make_step(MODELS[name])()
        step()
        step()
    profiler.export_chrome_trace(str(out))


def fitted_families(out: Path) -> Path:
    """Fit op families of a core, and its caches, to recordings without the judged models."""
    data = measured_rows([f"foretrace:torch-{name}-epyc" for name in ("shapes", "rare")])
    caches = fit_cache_model(CACHES)
    told = families_file(fit_families(data, "shapes", draws=2), data, "shapes", "", caches=caches)
    out.write_text(json.dumps(told))
    return out


def predicted(workload: dict[str, object], families: Path, ranks: int) -> float:
    """Predicted iteration time of a workload in s."""
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
                "use": [
                    {"use": "families", "file": str(families), "caches": "step"},
                    "roofline", "recorded",
                ]
            }
        },
        "run": {"replicas": 1},
    }  # fmt: skip
    (variant,) = build_variants(loads(json.dumps(scenario)))
    return float(variant.run().makespan)


def description_file(name: str, folder: Path) -> Path:
    """Write a description in the form that scenarios read."""
    if name == "resnet":
        data = json.loads((ZOO / "resnet-50.json").read_text())["model"] | {"image": IMAGE}
    else:
        data = DENSE | ({"experts": EXPERTS} if name == "moe" else {})
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"model": data, "source": "calibration/local/cpu_models.py"}))
    return path


def judge_time(name: str, folder: Path, args: argparse.Namespace) -> None:
    """Print blind predictions of iterations next to process starts measured here."""
    of, ranks, families = MODELS[name], args.ranks, folder / "families.json"
    if not families.exists():
        fitted_families(families)
    told: dict[str, object] = {
        "type": "training", "model": str(description_file(name, folder)),
        "batch": of.samples * ranks, "micro_batch": of.samples, "precision": "fp32",
        "parallel": {"data": ranks}, "bucket": BUCKET // 4, "must_fit": False,
        "loss": "written", "reducer": "ddp",
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


def record_exchange(name: str, ranks: int, folder: Path) -> None:
    """Record a trace of a step of each rank, after DDP has reordered its buckets."""
    torch.distributed.init_process_group("gloo")
    step = make_step(MODELS[name], ranks)()
    step()
    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        step()
    rank = torch.distributed.get_rank()
    profiler.export_chrome_trace(str(folder / f"{name}-{rank}.json"))
    torch.distributed.destroy_process_group()


def run_ranks(what: str, name: str, ranks: int, *words: str) -> list[str]:
    """Output of all ranks of a job."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", NAME, what, name, "--ranks", str(ranks), *words]
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
    """Median step of one start of all ranks in s, by CPU and by wall time."""
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
    """Run the requested comparisons."""
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
                judge_ops(model, folder, args.ranks)
            if args.what == "memory":
                judge_memory(model, folder)
            if args.what == "time":
                judge_time(model, folder, args)


if __name__ == "__main__":
    main()
