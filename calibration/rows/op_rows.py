"""LLM ops measured on A100, H100 and H200 by one version of one engine.

``llm-opdb-nvidia``, vllm 0.14.0, which no fit had used: every family in bf16 that all three GPUs
ran with the same kernels, and fp8 GEMMs, which A100 lacks. Digests identify the rows set aside,
before the first fit of a form that they judge.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
SEED = "foretrace-unseen-1"
FILES = {  # family: file, its rows, its shape
    "gemm": ("gemm", "gemm_perf", "gemm_dtype = 'bfloat16'", "m, n, k"),
    "gemm fp8": ("gemm", "gemm_perf", "gemm_dtype = 'fp8'", "m, n, k"),
    "context attention": (
        "attention", "context_attention_perf", "kv_cache_dtype = 'bfloat16'",
        "batch_size, isl, num_heads, num_key_value_heads, head_dim",
    ),
    "decode attention": (
        "attention", "generation_attention_perf", "kv_cache_dtype = 'bfloat16'",
        "batch_size, step, num_heads, num_key_value_heads, head_dim",
    ),
    "moe": (
        "moe", "moe_perf", "moe_dtype = 'bfloat16' and distribution = 'power_law_1.2'",
        "num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size",
    ),
}  # fmt: skip
ASIDE = {  # sha256 of the rows, its first 16 digits
    ("gemm", "a100_sxm"): "39dd236eddb02a6b",
    ("gemm", "h100_sxm"): "6d1a9cfe76a4105c",
    ("gemm", "h200_sxm"): "fb3df0333422bf20",
    ("gemm fp8", "h100_sxm"): "015492ae5c06d183",
    ("gemm fp8", "h200_sxm"): "c949a98979c15839",
    ("context attention", "a100_sxm"): "768e0028fa326818",
    ("context attention", "h100_sxm"): "e006e166b942d551",
    ("context attention", "h200_sxm"): "16b223cf0deb7b38",
    ("decode attention", "a100_sxm"): "28725d64b57e6573",
    ("decode attention", "h100_sxm"): "e4707b7d90c2321d",
    ("decode attention", "h200_sxm"): "a6e50d95d1dcfdfd",
    ("moe", "a100_sxm"): "817d184e83618906",
    ("moe", "h100_sxm"): "e4208d72f2c6c78d",
    ("moe", "h200_sxm"): "e3d9ba3822f2f0b0",
}


class Rows(NamedTuple):
    """Ops of one family on one GPU.

    Parameters
    ----------
    shape : (n, d) sizes, as in ``FILES``
    seconds : (n,) measured time in s
    """

    shape: np.ndarray
    seconds: np.ndarray


def rows(family: str, gpu: str) -> Rows:
    """Measured ops; the median of a shape measured several times."""
    import duckdb

    folder, file, where, columns = FILES[family]
    path = DATA / "llm-opdb-nvidia" / "op" / gpu / folder / "vllm" / "0.14.0" / f"{file}.parquet"
    query = (
        f"select {columns}, median(latency) * 1e-3 from read_parquet(?) "
        f"where {where} and latency > 0 group by {columns} order by {columns}"
    )
    found = np.array(duckdb.execute(query, [str(path)]).fetchall(), float)
    made = Rows(found[:, :-1], found[:, -1])
    if digest(made) != ASIDE[family, gpu]:
        raise SystemExit(
            f"{family} of {gpu}: rows {digest(made)} are not those that were set aside"
        )
    return made


def digest(found: Rows) -> str:
    """Hash of all rows of a table."""
    return sha256(repr((found.shape.tolist(), found.seconds.tolist())).encode()).hexdigest()[:16]


def measured(found: Rows, n: int = 20) -> np.ndarray:
    """Mask of the n rows given for an unseen GPU: the lowest hashes of shapes and ``SEED``."""
    keys = [sha256(f"{SEED}:{row}".encode()).digest() for row in found.shape.tolist()]
    given = np.zeros(len(keys), bool)
    given[np.argsort(keys)[:n]] = True
    return given
