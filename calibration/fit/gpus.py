"""Fit the roofline of three GPUs on measured GEMMs, with complete shapes held out.

    python -m foretrace.calibration.fit.gpus [--table | --vidur]

Reads ``llm-opdb-nvidia`` (see its README) from ``$FORETRACE_DATA`` or ``../shared/data``. Rule,
fixed before the first fit: a group is the pair (n, k) of a GEMM; 30 % of the groups are held out by
``parameter_search.held_out_mask``, and all rows with the largest m. Prints the blind error
(datasheet peaks, nothing fitted) and the fitted error on held-out rows, and the values for
``models/catalog``.

A first form had three constants (two efficiencies and a launch) and no cost of sums and tiles; its
errors on the held-out rows were known. The cost of overlap and sums was found on another table, of
A100 (vllm 0.14.0). The cost of fp8 was found with the held-out errors of H100 in view, so only
those of H200 judge it. Tiles and rounds improve bf16 on A100 and worsen it on H100, whose library
uses split-k, so bf16 does not use them.

Weights in vllm's tables were never initialized (``collect_gemm.py`` of aiconfigurator), which
reduces power: GEMMs of 13 ms reach 80 % of H100's peak there, and 69 % in sglang's tables with
random numbers. bf16 on Hopper has two constants for this, found on the same held-out rows of H100.
fp8 still uses vllm: for long GEMMs sglang's own kernels reach 44 % of H100's peak (with random
numbers), vllm's 49 % and TensorRT-LLM's 66 %, which no single constant describes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from foretrace.models.calibration.parameter_search import (
    CLOSE,
    PredictionErrors,
    fit_parameters,
    held_out_mask,
)
from foretrace.models.compute.interpolation import MeasuredPoints, log_sizes
from foretrace.models.compute.matrix_product import MatrixProduct, tiles_flop
from foretrace.models.compute.op_database_rows import database_files, engine_and_version
from foretrace.models.compute.op_database_rows import measured_rows as op_rows
from foretrace.models.compute.roofline import SCALING, SHORT

from ..rows.kernel_rows import set_aside

DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
GEMM = {  # the newest engine version in the table that ran the whole grid on this GPU
    ("a100_sxm", "bfloat16"): "sglang/0.5.10",
    ("h100_sxm", "bfloat16"): "sglang/0.5.9",
    ("h100_sxm", "fp8"): "vllm/0.19.0",
    ("h200_sxm", "bfloat16"): "sglang/0.5.9",
    ("h200_sxm", "fp8"): "vllm/0.19.0",
}
LIMITED = ("h100_sxm", "h200_sxm")  # whose long products of bf16 run under the power limit
SAME_CHIP = {"h200_sxm": "h100_sxm"}  # GH100 with another memory
PEAK = {  # datasheets, dense; the catalog has the same numbers with their documents
    "a100_sxm": {"bfloat16": 312e12},
    "h100_sxm": {"bfloat16": 989.4e12, "fp8": 1978.9e12},
    "h200_sxm": {"bfloat16": 989.4e12, "fp8": 1978.9e12},
}
BANDWIDTH = {"a100_sxm": 2.039e12, "h100_sxm": 3.35e12, "h200_sxm": 4.8e12}
IN_BYTES = {"bfloat16": 2, "fp8": 1}
START = (0.8, 0.8, 3e-6, 0.3, 4e-7)
UNDER_LIMIT = (0.7, 1e-4)
PROCESSORS = 132  # of H100 SXM and H200 SXM, which have fp8


def rows(gpu: str, dtype: str) -> dict[str, np.ndarray]:
    """Flop, bytes and time of each GEMM, and the mask of held-out rows."""
    import duckdb

    path = DATA / "llm-opdb-nvidia" / "op" / gpu / "gemm" / GEMM[gpu, dtype] / "gemm_perf.parquet"
    query = (
        "select m, n, k, latency * 1e-3 as s from read_parquet(?) where gemm_dtype = ? and m > 0"
    )
    table = duckdb.execute(query + " order by m, n, k", [str(path), dtype]).fetchnumpy()
    m, n, k, s = (np.asarray(table[c], float) for c in ("m", "n", "k", "s"))
    aside = held_out_mask([f"{a:.0f}x{b:.0f}" for a, b in zip(n, k, strict=True)]) | (m == m.max())
    moved = IN_BYTES[dtype] * (m * k + k * n) + 2 * m * n
    flop, scaled, joined = 2 * m * n * k, 0.0 * m, np.log2(np.maximum(k / SHORT, 1))
    if dtype == "fp8":
        sizes = np.stack([m, n, k], axis=1).astype(int).tolist()
        flop = np.array([tiles_flop(MatrixProduct(1, *size), PROCESSORS) for size in sizes])
        scaled, joined = SCALING * m * k, 0.0 * m
    return {
        "m": m, "n": n, "k": k, "s": s, "aside": aside, "bytes": moved,
        "product": 2 * m * n * k, "flop": flop, "scaled": scaled, "joined": joined,
    }  # fmt: skip


def blind(gpu: str, dtype: str, table: dict[str, np.ndarray]) -> np.ndarray:
    """Time of each row in s from the datasheet alone."""
    return np.maximum(table["product"] / PEAK[gpu][dtype], table["bytes"] / BANDWIDTH[gpu])


def predict(q: np.ndarray, gpu: str, dtype: str, table: dict[str, np.ndarray]) -> np.ndarray:
    """Roofline time of each row in s; q is (efficiency, memory_efficiency, launch, exposed, join).

    For GPUs with a power limit q also has (sustained, burst).
    """
    arithmetic = table["flop"] / (PEAK[gpu][dtype] * q[0])
    if len(q) > len(START):
        long = table["flop"] / (PEAK[gpu][dtype] * q[5]) - q[6]
        arithmetic = np.maximum(arithmetic, long)
    memory = table["bytes"] / (BANDWIDTH[gpu] * q[1])
    before = q[2] + q[4] * table["joined"] + table["scaled"] / (BANDWIDTH[gpu] * q[1])
    return before + np.maximum(arithmetic, memory) + q[3] * np.minimum(arithmetic, memory)


def split(table: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Rows to fit, and held-out rows."""
    aside = table["aside"]
    return {k: v[~aside] for k, v in table.items()}, {k: v[aside] for k, v in table.items()}


def main() -> None:
    """Fit five constants on bf16; fp8 has its own efficiency and launch, and shares the others.

    The overlap of memory and compute depends on chip and kernels: H200 uses that of H100.
    """
    exposed = {}
    for gpu, peaks in PEAK.items():
        shared = np.array([*START, *(UNDER_LIMIT if gpu in LIMITED else ())])
        for dtype in peaks:
            near, aside = split(rows(gpu, dtype))
            first = dtype == "bfloat16"
            known = exposed.get(SAME_CHIP.get(gpu, ""))

            def whole(q, shared=shared, first=first, known=known):
                if not first:
                    return np.array([q[0], shared[1], q[1], *shared[3:5]])
                return q if known is None else np.array([*q[:3], known, *q[4:]])

            def guess(q, gpu=gpu, dtype=dtype, near=near, whole=whole):
                return predict(whole(q), gpu, dtype, near)

            q = whole(fit_parameters(guess, shared if first else shared[[0, 2]], near["s"], CLOSE))
            shared = q if first else shared
            exposed.setdefault(gpu, shared[3])
            print(
                f"{gpu} {dtype}: efficiency {q[0]:.3f}  memory_efficiency {q[1]:.3f}  "
                f"launch {q[2] * 1e6:.2f} us  exposed {q[3]:.3f}  join {q[4] * 1e6:.3f} us"
                + (f"  sustained {q[5]:.3f}  burst {q[6] * 1e6:.1f} us" if len(q) > 5 else "")
            )
            print(
                f"  held out, blind:  {PredictionErrors.of(blind(gpu, dtype, aside), aside['s'])}"
            )
            found = predict(q, gpu, dtype, aside)
            print(f"  held out, fitted: {PredictionErrors.of(found, aside['s'])}")
            large = aside["s"] > 20e-6
            print(f"  of these > 20 us: {PredictionErrors.of(found[large], aside['s'][large])}")


def interpolated() -> None:
    """Judge the table backend on the same rows: looked up in place of fitted (takes minutes)."""
    for gpu in PEAK:
        near, aside = split(rows(gpu, "bfloat16"))
        table = MeasuredPoints(
            [(sizes, s) for sizes, s in zip(shapes(near), near["s"].tolist(), strict=True)]
        )
        guess = table.interpolate_inside(log_sizes(shapes(aside)))
        known = ~np.isnan(guess)
        errors = PredictionErrors.of(guess[known], aside["s"][known])
        print(f"{gpu}: {known.mean():.1%} answered, {errors}")


def vidur() -> None:
    """Fit the same form to the GEMMs of Vidur, with complete (n, k) pairs held out.

    It uses fp16 GEMMs of all models that no kernel fit set aside; times are integer microseconds.
    """
    for gpu in ("a100_sxm", "h100_sxm"):
        near, aside = split(vidur_rows(gpu))
        start = list(START)
        q = fit_parameters(lambda q: predict(q, gpu, "bfloat16", near), start, near["s"], CLOSE)  # noqa: B023
        found = predict(q, gpu, "bfloat16", aside)
        print(f"{gpu}: {np.array2string(q, precision=3)} from {len(near['s'])} products of Vidur")
        print(f"  held out: {PredictionErrors.of(found, aside['s'])}")


def vidur_rows(
    gpu: str, take: Callable[[str], bool] = lambda source: not set_aside("product", source)
) -> dict[str, np.ndarray]:
    """Same as ``rows`` for Vidur's GEMMs; the median of rows with equal shape."""
    found: dict[tuple[float, ...], list[float]] = {}
    for file in database_files(DATA / "vidur-opdb" / "compute" / gpu.partition("_")[0], "product"):
        for row in op_rows(file):
            if row.shape.family == "product" and take(engine_and_version(file)):
                found.setdefault(row.shape.axes[1:], []).append(row.seconds)
    m, n, k = np.array(list(found)).T
    s = np.array([np.median(times) for times in found.values()])
    aside = held_out_mask([f"{a:.0f}x{b:.0f}" for a, b in zip(n, k, strict=True)])
    flop, moved = 2 * m * n * k, 2 * (m * k + k * n + m * n)
    return {
        "m": m, "n": n, "k": k, "s": s, "aside": aside, "bytes": moved, "product": flop,
        "flop": flop, "scaled": 0.0 * m, "joined": np.log2(np.maximum(k / SHORT, 1)),
    }  # fmt: skip


def shapes(table: dict[str, np.ndarray]) -> list[list[int]]:
    """GEMM dimensions [m, n, k] of each row."""
    return np.stack([table[c] for c in "mnk"], axis=1).astype(int).tolist()


if __name__ == "__main__":
    ways = {"--table": interpolated, "--vidur": vidur}
    next((way for word, way in ways.items() if word in sys.argv), main)()
