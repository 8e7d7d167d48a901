"""Readers of published op databases: rows as op shapes and times.

Supported: AIConfigurator (``op/<gpu>/<family>/<engine>/<version>/*.parquet``, latency in ms) and
Vidur (``compute/<gpu>/<model>/mlp.csv.gz``, medians in ms). Each reader handles the columns of one
file. Collectives are left out, since the fabric models them.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from .op_shape import FEW, OpShape

Columns = dict[str, Any]
DTYPES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8": "fp8", "fp8_block": "fp8",
    "int8": "int8",
}  # fmt: skip
MS = 1e-3


class OpRow(NamedTuple):
    """One measured op: its shape and its time."""

    shape: OpShape
    seconds: float


def measured_rows(file: Path) -> Iterator[OpRow]:
    """Measured ops of one file; none for tables of collectives, or of modules with several kernels.

    Raises
    ------
    BackendError
        The file does not have the expected columns.
    """
    if file.name.startswith("mlp.csv"):
        yield from _vidur_rows(file)
        return
    reader = PARQUET.get(file.name)
    if reader is None:
        return
    table = _read_parquet(file)
    try:
        yield from reader(table)
    except KeyError as error:
        raise BackendError(
            f"{file}: has no column {error}, only {', '.join(table)}; give a database of "
            "AIConfigurator 0.12, since other versions have other columns"
        ) from error


def engine_and_version(file: Path) -> str:
    """Source of a file: engine and version for AIConfigurator, the model for Vidur.

    >>> engine_and_version(Path("op/h100_sxm/gemm/vllm/0.19.0/gemm_perf.parquet"))
    'vllm/0.19.0'
    """
    if file.name.startswith("mlp.csv"):
        return f"vidur/{file.parent.name}"
    return "/".join(file.parts[-3:-1])


def database_files(folder: Path, family: str = "") -> list[Path]:
    """Files with measured ops in a database folder: all, or those of one family."""
    wanted = {name for name, of in FAMILIES.items() if not family or family in of}
    return sorted(f for f in folder.rglob("*") if f.name in wanted)


def _read_parquet(file: Path) -> dict[str, NDArray[Any]]:
    import duckdb

    try:
        found = duckdb.execute("select * from read_parquet(?)", [str(file)]).fetchnumpy()
    except duckdb.Error as error:
        raise BackendError(
            f"{file}: cannot be read as parquet ({error}); give a file of an AIConfigurator "
            "database"
        ) from error
    return {name: np.asarray(column) for name, column in found.items()}


def _timed_rows(table: Columns, *names: str) -> Iterator[tuple[Any, ...]]:
    """Values of some columns, and the time in s, for each row that has a time."""
    columns = [np.asarray(table[n]).tolist() for n in names]
    for *values, ms in zip(*columns, np.asarray(table["latency"], float).tolist(), strict=True):
        if ms > 0:
            yield (*values, ms * MS)


def _product_rows(t: Columns) -> Iterator[OpRow]:
    for dtype, m, n, k, s in _timed_rows(t, "gemm_dtype", "m", "n", "k"):
        if dtype in DTYPES and m > 0:
            yield OpRow(OpShape("product", DTYPES[dtype], (), (1.0, m, n, k)), s)


def _batched_product_rows(t: Columns) -> Iterator[OpRow]:
    """Batched GEMMs of latent attention: heads x (tokens, 128) x (128, 512), and the reverse."""
    for name, dtype, tokens, heads, s in _timed_rows(
        t, "op_name", "bmm_dtype", "num_tokens", "num_heads"
    ):
        if dtype in DTYPES:
            n, k = (512, 128) if name.endswith("pre") else (128, 512)
            yield OpRow(OpShape("product", DTYPES[dtype], (), (heads, tokens, n, k)), s)


def _attention_rows(t: Columns, *, decode: bool) -> Iterator[OpRow]:
    names = ("batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim")
    zeros = np.zeros(len(t["isl"]), int)
    t = {"window_size": zeros, "attn_dtype": np.full(len(zeros), "bfloat16"), **t}
    for b, queries, past, heads, shared, width, window, dtype, kept, s in _timed_rows(
        t, *names, "window_size", "attn_dtype", "kv_cache_dtype"
    ):
        group = heads / shared if shared else 1.0
        if dtype not in DTYPES or kept not in DTYPES:
            continue
        if decode:
            exact = (group, float(width), 0.0, float(window))
            axes: tuple[float, ...] = (b, heads, past + queries)
            yield OpRow(OpShape("decode attention", DTYPES[kept], exact, axes), s)
        else:
            exact = (group, float(width), 1.0, float(window))
            axes = (b, heads, queries, queries + past)
            yield OpRow(OpShape("attention", DTYPES[dtype], exact, axes), s)


def _prefill_rows(t: Columns) -> Iterator[OpRow]:
    return _attention_rows(t, decode=False)


def _decode_rows(t: Columns) -> Iterator[OpRow]:
    return _attention_rows(t, decode=True)


def _expert_rows(t: Columns) -> Iterator[OpRow]:
    names = ("moe_dtype", "kernel_source", "num_tokens", "hidden_size", "inter_size", "topk")
    for dtype, source, tokens, hidden, inner, top, of, tensor, parallel, s in _timed_rows(
        t, *names, "num_experts", "moe_tp_size", "moe_ep_size"
    ):
        if dtype in DTYPES:
            gated = float("nongated" not in source)
            exact = (hidden, inner / tensor, top, of / parallel, of, gated)
            yield OpRow(OpShape("experts", DTYPES[dtype], tuple(map(float, exact)), (tokens,)), s)


def _scale_rows(t: Columns) -> Iterator[OpRow]:
    for m, k, s in _timed_rows(t, "m", "k"):
        yield OpRow(OpShape("reduction", "bf16", (), (2.0 * m * k, 0.0)), s)


def _scaled_rows(t: Columns) -> Iterator[OpRow]:
    for m, k, s in _timed_rows(t, "m", "k"):
        yield OpRow(OpShape("elementwise", "bf16", (), (2.0 * m * k, 1.0 * m * k)), s)


PARQUET: dict[str, Callable[[Columns], Iterator[OpRow]]] = {
    "gemm_perf.parquet": _product_rows,
    "mla_bmm_perf.parquet": _batched_product_rows,
    "context_attention_perf.parquet": _prefill_rows,
    "generation_attention_perf.parquet": _decode_rows,
    "moe_perf.parquet": _expert_rows,
    "computescale_perf.parquet": _scale_rows,
    "scale_matrix_perf.parquet": _scaled_rows,
}
VIDUR = (
    "norm", "layer norm", "rope", "activation", "gather", "gather of few", "elementwise", "product",
)  # fmt: skip
FAMILIES: dict[str, tuple[str, ...]] = {
    "gemm_perf.parquet": ("product",),
    "mla_bmm_perf.parquet": ("product",),
    "context_attention_perf.parquet": ("attention",),
    "generation_attention_perf.parquet": ("decode attention",),
    "moe_perf.parquet": ("experts",),
    "computescale_perf.parquet": ("reduction",),
    "scale_matrix_perf.parquet": ("elementwise",),
    "mlp.csv.gz": VIDUR,
    "mlp.csv": VIDUR,
}


def _vidur_rows(file: Path) -> Iterator[OpRow]:
    """Ops of a transformer layer in fp16, sharded over ``num_tensor_parallel_workers``."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else open(file) as lines:
        for row in csv.DictReader(lines):
            for op, shape, share in _vidur_shapes(row):
                ms = row.get(f"time_stats.{op}.median")
                if ms:
                    yield OpRow(shape, float(ms) * MS * share)


def _vidur_shapes(row: dict[str, str]) -> Iterator[tuple[str, OpShape, float]]:
    """Op name, shape, and fraction of the time per kernel, for each op of one row.

    A model without a gated MLP is phi-2, whose blocks add attention and MLP to the same input: its
    ``add`` is two kernels, its norm computes a mean, and its activation has no gate.
    """
    tokens, parts, hidden, inner, heads, shared, words = (
        float(row[c])
        for c in (
            "num_tokens", "num_tensor_parallel_workers", "n_embd", "n_expanded_embd", "n_head",
            "n_kv_head", "vocab_size",
        )
    )  # fmt: skip
    gated, head = row["use_gated_mlp"] == "True", hidden / heads
    inner, query, key = inner / parts, heads / parts * head, max(shared / parts, 1.0) * head
    one = 2.0 * tokens * hidden
    few = "gather of few" if tokens <= FEW else "gather"
    yield "emb", OpShape(few, "fp16", (), (tokens, hidden, words / parts)), 1.0
    norm = "norm" if gated else "layer norm"
    yield "input_layernorm", OpShape(norm, "fp16", (1.0,), (tokens, hidden)), 1.0
    yield "attn_rope", OpShape("rope", "fp16", (head,), (tokens, query, key)), 1.0
    active = (
        OpShape("activation", "fp16", (), (tokens, inner))
        if gated
        else OpShape("elementwise", "fp16", (), (2 * tokens * inner, 2 * tokens * inner))
    )
    yield "mlp_act", active, 1.0
    yield "add", OpShape("elementwise", "fp16", (), (2 * one, one)), 1.0 if gated else 0.5
    for op, n, k in (
        ("attn_pre_proj", query + 2 * key, hidden),
        ("attn_post_proj", hidden, query),
        ("mlp_up_proj", (2 if gated else 1) * inner, hidden),
        ("mlp_down_proj", hidden, inner),
    ):
        yield op, OpShape("product", "fp16", (), (1.0, tokens, n, k)), 1.0
