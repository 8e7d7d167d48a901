"""Rows of both op databases by GPU, family and source, and the sources that no fit may use.

Set aside before the first fit, by the hash of their names: complete engine versions of
AIConfigurator's tables, complete models of Vidur's, half of the recorded traces. Vidur's times are
integer microseconds, so that short ones are imprecise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import held_out_mask
from foretrace.models.compute.kernel_work import kernel_work
from foretrace.models.compute.kernels import GpuDatasheet
from foretrace.models.compute.op_database_rows import (
    database_files,
    engine_and_version,
    measured_rows,
)
from foretrace.models.compute.op_shape import OpShape

DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
SEED = "foretrace-kernels-1"
MIB = 2**20
CHIPS = {  # datasheets; the catalog has the same numbers with their documents
    "a100": GpuDatasheet(108, 1.41e9, 2.039e12, 40 * MIB),
    "h100": GpuDatasheet(132, 1.98e9, 3.35e12, 50 * MIB),
    "h200": GpuDatasheet(132, 1.98e9, 4.8e12, 50 * MIB),
}
HOPPER = {"bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12, "int8": 1978.9e12}
PEAKS = {
    "a100": {"bf16": 312e12, "fp16": 312e12, "int8": 624e12}, "h100": HOPPER, "h200": HOPPER,
}  # fmt: skip
MOST = 1500  # rows of a family and source, chosen once
WRONG = {("h200", "vllm/0.19.0", "attention")}  # windows are not in its columns, but in its times


class Group(NamedTuple):
    """Measured kernels of one family, GPU and source.

    Parameters
    ----------
    work : (n, 7) ``KernelWork``
    peak : (n,) peak rate in flop/s
    seconds : (n,) measured time in s
    floor : rounding of the times in s
    aside : True if no fit may use it
    """

    gpu: str
    family: str
    source: str
    shapes: list[OpShape]
    work: np.ndarray
    peak: np.ndarray
    seconds: np.ndarray
    floor: float
    aside: bool


def groups(most: int = MOST) -> list[Group]:
    """All groups of both databases, with at most ``most`` rows each."""
    return [g for gpu in CHIPS for g in _of(gpu, most)]


def _of(gpu: str, most: int) -> Iterator[Group]:
    found: dict[tuple[str, str], list] = {}
    folders = (
        DATA / "vidur-opdb" / "compute" / gpu,
        DATA / "llm-opdb-nvidia" / "op" / f"{gpu}_sxm",
    )
    for file in [f for folder in folders if folder.is_dir() for f in database_files(folder)]:
        for row in measured_rows(file):
            if row.shape.dtype in PEAKS[gpu]:
                found.setdefault((row.shape.family, engine_and_version(file)), []).append(row)
    for (family, source), all_rows in sorted(found.items()):
        if (gpu, source, family) in WRONG:
            continue
        at = np.random.default_rng(0).permutation(len(all_rows))[:most]
        chosen = [all_rows[i] for i in at.tolist()]
        yield Group(
            gpu, family, source,
            [r.shape for r in chosen],
            np.array([kernel_work(r.shape) for r in chosen], float),
            np.array([PEAKS[gpu][r.shape.dtype] for r in chosen]),
            np.array([r.seconds for r in chosen]),
            5e-7 if source.startswith("vidur") else 0.0,
            set_aside(family, source),
        )  # fmt: skip


def set_aside(family: str, source: str) -> bool:
    """True if no fit may use the rows of this family and source.

    >>> set_aside("norm", "vidur/Qwen-72B"), set_aside("norm", "vidur/phi-2")
    (True, False)
    """
    folder, _, name = source.partition("/")
    if folder == "vidur":
        return bool(held_out_mask([name], seed=SEED)[0])
    table = {"product": "gemm", "decode attention": "attention", "experts": "moe"}
    return bool(held_out_mask([f"{table.get(family, family)}/{source}"], seed=SEED)[0])


def traces() -> dict[str, bool]:
    """Recorded GPU traces, each with True if it is set aside."""
    folder = DATA / "kineto-traces"
    names = sorted(str(f.relative_to(folder)) for f in folder.rglob("*.json.gz"))
    names = [n for n in names if "/et/" not in n and "_et" not in n]
    names = [n for n in names if "8xV100" not in n or "rank0" in n]
    return dict(zip(names, held_out_mask(names, share=0.5, seed=SEED).tolist(), strict=True))
