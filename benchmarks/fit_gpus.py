"""Fit the roofline of three GPUs on measured GEMMs, with whole shapes held out.

    python benchmarks/fit_gpus.py [--table]

Reads ``llm-opdb-nvidia`` (see its README) from ``$FORETRACE_DATA`` or ``../shared/data``.
Rule, fixed before the first fit: a group is the pair (n, k) of a GEMM; 30 % of the groups are
held out by ``models.fit.held_out``, and with them every row of the largest m.
Prints, for the held-out rows, the blind error (datasheet peaks, nothing fitted) and the error
after the fit, and the values for ``models/catalog``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from foretrace.models.compute.between import Measured, logs
from foretrace.models.fit import Errors, fit, held_out

DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[2] / "shared" / "data"))
GEMM = {  # the newest engine version in the table that ran the whole grid on this GPU
    "a100_sxm": "sglang/0.5.10",
    "h100_sxm": "vllm/0.19.0",
    "h200_sxm": "vllm/0.19.0",
}
PEAK = {  # datasheets, dense; the catalog has the same numbers with their documents
    "a100_sxm": {"bfloat16": 312e12},
    "h100_sxm": {"bfloat16": 989.4e12, "fp8": 1978.9e12},
    "h200_sxm": {"bfloat16": 989.4e12, "fp8": 1978.9e12},
}
BANDWIDTH = {"a100_sxm": 2.039e12, "h100_sxm": 3.35e12, "h200_sxm": 4.8e12}
IN_BYTES = {"bfloat16": 2, "fp8": 1}


def rows(gpu: str, dtype: str) -> dict[str, np.ndarray]:
    """Flop, bytes and seconds of each GEMM, and which rows are held out."""
    import duckdb

    path = DATA / "llm-opdb-nvidia" / "op" / gpu / "gemm" / GEMM[gpu] / "gemm_perf.parquet"
    query = (
        "select m, n, k, latency * 1e-3 as s from read_parquet(?) where gemm_dtype = ? and m > 0"
    )
    table = duckdb.execute(query + " order by m, n, k", [str(path), dtype]).fetchnumpy()
    m, n, k, s = (np.asarray(table[c], float) for c in ("m", "n", "k", "s"))
    aside = held_out([f"{a:.0f}x{b:.0f}" for a, b in zip(n, k, strict=True)]) | (m == m.max())
    moved = IN_BYTES[dtype] * (m * k + k * n) + 2 * m * n
    return {"m": m, "n": n, "k": k, "flop": 2 * m * n * k, "bytes": moved, "s": s, "aside": aside}


def predict(q: np.ndarray, gpu: str, dtype: str, table: dict[str, np.ndarray]) -> np.ndarray:
    """Seconds by the roofline; q is (efficiency, memory_efficiency, launch)."""
    arithmetic = table["flop"] / (PEAK[gpu][dtype] * q[0])
    return q[2] + np.maximum(arithmetic, table["bytes"] / (BANDWIDTH[gpu] * q[1]))


def split(table: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(rows to fit on, rows held out)."""
    aside = table["aside"]
    return {k: v[~aside] for k, v in table.items()}, {k: v[aside] for k, v in table.items()}


def main() -> None:
    """Three constants from bf16; for fp8 its own efficiency and launch, with bf16's memory."""
    for gpu, peaks in PEAK.items():
        shared = np.array([0.7, 0.8, 3e-6])
        for dtype in peaks:
            near, aside = split(rows(gpu, dtype))
            blind = predict(np.array([1.0, 1.0, 0.0]), gpu, dtype, aside)
            first = dtype == "bfloat16"

            def whole(q, shared=shared, first=first):
                return q if first else np.array([q[0], shared[1], q[1]])

            def guess(q, gpu=gpu, dtype=dtype, near=near, whole=whole):
                return predict(whole(q), gpu, dtype, near)

            q = whole(fit(guess, shared if first else shared[[0, 2]], near["s"]))
            shared = q if first else shared
            told = (
                f"efficiency {q[0]:.3f}  memory_efficiency {q[1]:.3f}  launch {q[2] * 1e6:.2f} us"
            )
            print(f"{gpu} {dtype}: {told}")
            print(f"  held out, blind:  {Errors.of(blind, aside['s'])}")
            print(f"  held out, fitted: {Errors.of(predict(q, gpu, dtype, aside), aside['s'])}")
            large = aside["s"] > 20e-6
            errors = Errors.of(predict(q, gpu, dtype, aside)[large], aside["s"][large])
            print(f"  of these > 20 us: {errors}")


def interpolated() -> None:
    """The table backend on the same rows: what is not fitted but looked up (minutes)."""
    for gpu in PEAK:
        near, aside = split(rows(gpu, "bfloat16"))
        table = Measured(
            [(sizes, s) for sizes, s in zip(shapes(near), near["s"].tolist(), strict=True)]
        )
        guess = table.inside(logs(shapes(aside)))
        known = ~np.isnan(guess)
        print(f"{gpu}: {known.mean():.1%} answered, {Errors.of(guess[known], aside['s'][known])}")


def shapes(table: dict[str, np.ndarray]) -> list[list[int]]:
    """[m, n, k] of each row."""
    return np.stack([table[c] for c in "mnk"], axis=1).astype(int).tolist()


if __name__ == "__main__":
    interpolated() if "--table" in sys.argv else main()
