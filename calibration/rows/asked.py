"""Run measured ops through `foretrace run`: as a Kineto trace of one GPU, predicted on another.

Each row becomes an operator with its operands and one kernel with the measured time, as a profiler
would record it. The op table of the run has the predicted times.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.compute.op_shape import OpShape
from foretrace.sim.setting_groups import flatten_settings, unflatten_settings

TYPES = {
    "bf16": "c10::BFloat16", "fp16": "c10::Half", "fp8": "c10::Float8_e4m3fn", "fp32": "float",
    "int32": "int", "int64": "long int", "int8": "signed char",
}  # fmt: skip
TICK = 1e-12
SCENARIO = """\
foretrace: 1
name: ops
workload: {{trace: '{trace}', recorded_on: {{device: {here}}}}}
cluster: {{nodes: 1, node: {{gpu: {{model: {there}, count: 1}}, host: {{cores: 8}}}}}}
backends: {{'node*.gpu*': {{use: {chain}}}}}
"""
Operands = list[tuple[str, tuple[float, ...]]]


class Operator(NamedTuple):
    """Operator as a profiler names it, with its tensors."""

    name: str
    operands: Operands


class RunTimes(NamedTuple):
    """Times of ops predicted by a run.

    Parameters
    ----------
    seconds : (n,) predicted time in s
    low, high : (n,) ends of the 90 % interval, as factors
    sum : predicted sum of the run in s
    interval : interval of that sum in s; None if there is none
    shares : fraction of the time by backend of the chain
    """

    seconds: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sum: float
    interval: tuple[float, float] | None
    shares: Mapping[str, float]


def operator(shape: OpShape) -> Operator | None:
    """Operator of a shape; None if operands alone do not determine the shape."""
    of = OPERATORS.get(shape.family)
    return None if of is None else of(shape)


def _product(s: OpShape) -> Operator:
    b, m, n, k = s.axes
    if b > 1:
        return Operator("aten::bmm", [(s.dtype, (b, m, k)), (s.dtype, (b, k, n))])
    name = "aten::_scaled_mm" if s.dtype == "fp8" else "aten::mm"
    return Operator(name, [(s.dtype, (m, k)), (s.dtype, (k, n))])


def _attention(s: OpShape) -> Operator | None:
    """Attention operator over packed sequences of equal length."""
    group, width, causal, window = s.exact
    batch, heads, queries, keys = s.axes
    if not causal or window:
        return None
    kept = (s.dtype, (batch * keys, heads / group, width))
    starts = ("int32", (batch + 1,))
    query = (s.dtype, (batch * queries, heads, width))
    return Operator("vllm::flash_attn_varlen_func", [query, kept, kept, starts])


def _decode(s: OpShape) -> Operator | None:
    group, width, _, window = s.exact
    batch, heads, keys = s.axes
    kept = (s.dtype, (batch, heads / group, keys, width))
    query = ("bf16", (batch, heads, 1, width))
    name = "aten::_scaled_dot_product_flash_attention"
    return None if window else Operator(name, [query, kept, kept])


def _experts(s: OpShape) -> Operator | None:
    """Experts operator with all experts on this GPU, as operands lack their total number."""
    hidden, inner, top, here, of, gated = s.exact
    if of != here:
        return None
    first = (s.dtype, (here, inner * (2 if gated else 1), hidden))
    second = (s.dtype, (here, hidden, inner))
    (tokens,) = s.axes
    chosen = ("fp32", (tokens, top))
    return Operator("vllm::fused_experts", [("bf16", (tokens, hidden)), first, second, chosen])


def _row_op(name: str, wider: int = 1) -> Any:
    return lambda s: Operator(name, [(s.dtype, (s.axes[0], s.axes[1] * wider))])


def _rope(s: OpShape) -> Operator:
    (head,), (rows, query, key) = s.exact, s.axes
    both: Operands = [(s.dtype, (rows, n / head, head)) for n in (query, key)]
    return Operator("vllm::rotary_embedding", both)


def _gather(s: OpShape) -> Operator:
    rows, width, table = s.axes
    return Operator("aten::embedding", [(s.dtype, (table, width)), ("int64", (rows,))])


def _elementwise(s: OpShape) -> Operator:
    """Elementwise operator: two operands if it reads twice what it writes, or a cast to half the
    size.
    """
    read, written = (n / 2 for n in s.axes)
    if read == written:
        return Operator("aten::gelu", [(s.dtype, (read,))])
    if s.dtype == "fp16":
        return Operator("aten::add", [(s.dtype, (written,))] * 2)
    return Operator("aten::copy_", [("fp8", (read,)), (s.dtype, (read,))])


def _reduction(s: OpShape) -> Operator:
    return Operator("aten::sum", [(s.dtype, (s.axes[0] / 2,))])


OPERATORS: dict[str, Any] = {
    "product": _product, "attention": _attention, "decode attention": _decode,
    "experts": _experts, "norm": _row_op("vllm::rms_norm"),
    "layer norm": _row_op("aten::native_layer_norm"),
    "activation": _row_op("vllm::silu_and_mul", 2), "rope": _rope, "gather": _gather,
    "gather of few": _gather, "elementwise": _elementwise, "reduction": _reduction,
}  # fmt: skip


def write_trace(file: Path, ops: Sequence[Operator], seconds: np.ndarray) -> None:
    """Write a Kineto trace of ops one after another on one stream, launched ahead of time."""
    events: list[dict[str, Any]] = []
    free = 0.0
    for number, (op, took) in enumerate(zip(ops, (seconds * 1e6).tolist(), strict=True), 1):
        told = {
            "Input Dims": [[round(n) for n in shape] for _, shape in op.operands],
            "Input type": [TYPES[dtype] for dtype, _ in op.operands],
        }
        place, at = {"ph": "X", "pid": 1, "tid": 1}, float(number)
        start = max(free, at + 1)
        free = round(start + took + 0.001, 3)
        launch = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "ts": at + 0.1, "dur": 0.5}
        kernel = {"name": "kernel", "cat": "kernel", "ts": start, "dur": took, "pid": 0, "tid": 7}
        events += [
            {**place, "name": op.name, "cat": "cpu_op", "ts": at, "dur": 0.8, "args": told},
            {**place, **launch, "args": {"correlation": number}},
            {"ph": "X", **kernel, "args": {"correlation": number, "stream": 7, "device": 0}},
        ]
    with gzip.open(file, "wt", compresslevel=1) as text:
        json.dump({"deviceProperties": [{"name": "GPU"}], "traceEvents": events}, text)


def asked(
    ops: Sequence[Operator],
    seconds: np.ndarray,
    *,
    here: str,
    there: str,
    chain: str,
    entries: Mapping[str, Mapping[str, Any]] = {},
) -> RunTimes:
    """Predict ops measured on one GPU on another, with ``foretrace run``.

    Parameters
    ----------
    here, there : names of both GPUs in the catalog, or in ``entries``
    chain : backends, in scenario notation
    entries : GPUs that the catalog lacks, by name
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_trace(folder / "ops.json.gz", ops, seconds)
        text = SCENARIO.format(trace=folder / "ops.json.gz", here=here, there=there, chain=chain)
        (folder / "ops.yaml").write_text(text)
        (folder / "catalog").mkdir()
        told = {"gpu": {n: _with_sources(e) for n, e in entries.items()}}
        if entries:
            (folder / "catalog" / "mine.yaml").write_text(json.dumps(told))
        words = ["run", "ops.yaml", "--json", "--out", "runs"]
        words += ["--catalog", "catalog"] if entries else []
        found = _run(words, folder)
        table = folder / found["folder"] / "ops.base.parquet"
        return _read(table, found, len(ops))


def _with_sources(entry: Mapping[str, Any]) -> dict[str, Any]:
    return unflatten_settings({k: _sourced(v) for k, v in flatten_settings(entry).items()})


def _sourced(value: Any) -> dict[str, Any]:
    """Value of a catalog entry, with the source that an entry requires."""
    source = {
        "kind": "assumed",
        "where": "calibration/rows/asked.py",
        "date": "2026-11-22",
        "error": None,
    }
    return {"value": value, "source": source}


def _run(words: Sequence[str], folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "foretrace", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"foretrace {' '.join(words)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _read(table: Path, summary: Mapping[str, Any], count: int) -> RunTimes:
    import duckdb

    columns = duckdb.execute(
        f"select * from read_parquet('{table}') where kind = 'compute' and component like '%gpu%' "
        "order by start"
    ).fetchnumpy()
    took = (columns["end"] - columns["start"]) * TICK
    if len(took) != count:
        raise SystemExit(f"{len(took)} kernels are in the run, {count} were asked")
    point = summary["points"]["base"]
    sums = point["metrics"][summary["answer"]["metric"]]
    interval = sums["interval"]
    chains = point.get("chains", {}).get("gpu", {"links": []})
    nothing = np.full(count, np.nan)
    return RunTimes(
        took, np.ma.filled(columns.get("low", nothing), np.nan),
        np.ma.filled(columns.get("high", nothing), np.nan), sums["value"],
        tuple(interval) if interval else None,
        {one["link"]: one["share"] for one in chains["links"]},
    )  # fmt: skip
