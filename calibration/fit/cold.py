"""Fit GEMM cold-start and alignment penalties to recorded training steps.

    python -m foretrace.calibration.fit.cold

A table of measured ops times one GEMM in a loop, so its code and operands are cached. In a training
step other kernels run in between. For each recorded trace of an NVIDIA GPU that is not set aside,
the fastest call of each GEMM is compared with the catalog's roofline without both constants. For
short aligned GEMMs the median difference in cycles is ``cold``. For long tensor-core GEMMs, after
subtracting it, the ratio of the median slowdowns of unaligned and aligned ones is ``unaligned``.
The difference for short elementwise kernels is ``COLD`` in ``kernels.py``. The fastest call is used
because kernels of other streams can slow down the others.
"""

from __future__ import annotations

import numpy as np
from foretrace.models.compute.cross_gpu_scaling import family_of
from foretrace.models.compute.kernels import load_families
from foretrace.models.compute.matrix_product import matrix_product, rows_are_aligned
from foretrace.models.compute.roofline import TENSOR_TYPES
from foretrace.sim.facts.signature import WIDTH, parse_signature

from ..judge.traces import kernels
from ..rows.kernel_rows import traces
from .kernels import gpu_roofline, machine

SHORT = 8e-6  # s of arithmetic and bytes
COLD = 4300.0  # cycles: the medians of both GPUs, to two digits
BRIEF = 2e-6  # s of bytes
PROFILED = "a100-sxm4-80g"
FEWEST = 5


def differences(trace: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Extra cycles of short aligned GEMMs, slowdown of long GEMMs, and the clock, for a trace.

    The first array of slowdowns is for aligned GEMMs, the second for unaligned ones.
    """
    gpu, ops = gpu_roofline(machine(trace)), kernels(trace)
    gpu.cold, gpu.unaligned = 0.0, 1.0
    short, long, apart = [], [], []
    for number in np.unique(ops.signature):
        parts = parse_signature(ops.signatures[number])
        rows = ops.take_with_placement(np.flatnonzero(ops.signature == number)[:1])
        shape = matrix_product(parts)
        if shape is None or min(shape.m, shape.n) == 1 or not gpu.knows(rows).all():
            continue
        took = float(ops.duration[ops.signature == number].min())
        launch, _, memory, arithmetic = gpu.parts(rows)[:, 0]
        aligned = rows_are_aligned(shape, WIDTH[parts.dtype])
        if memory + arithmetic < SHORT and aligned:
            short.append((took - launch - memory - arithmetic) * gpu.chip.clock)
        elif memory + arithmetic >= SHORT and parts.dtype in TENSOR_TYPES:
            times = (took - launch - COLD / gpu.chip.clock) / (memory + arithmetic)
            (long if aligned else apart).append(times)
    return np.array(short), np.array(long), np.array(apart), gpu.chip.clock


def elementwise(trace: str) -> np.ndarray:
    """Extra cycles of short elementwise kernels compared with warm ones.

    For V100 the constants of A100 are used, whose rows were profiled.
    """
    gpu, ops = gpu_roofline(machine(trace)), kernels(trace)
    ops = ops.take_with_placement(np.flatnonzero(gpu.knows(ops)))
    names = np.array([family_of(text) for text in ops.signatures])[ops.signature]
    ops = ops.take_with_placement(np.flatnonzero(names == "elementwise"))
    rest = gpu.parts(ops)[1:].sum(axis=0)
    warm = load_families(PROFILED)["elementwise"].launch
    quickest = [
        (ops.duration - rest)[ops.signature == number].min()
        for number in np.unique(ops.signature[rest < BRIEF])
    ]
    return np.array(quickest) * gpu.chip.clock - warm


def format_quantiles(values: np.ndarray, digits: int) -> str:
    if len(values) < FEWEST:
        return f"{len(values)} signatures"
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).round(digits)
    return f"{middle:g} ({low:g} to {high:g}; {len(values)} signatures)"


def main() -> None:
    for trace, aside in traces().items():
        if not aside and machine(trace).startswith(("a100", "v100", "h100", "rtx")):
            short, long, apart, clock = differences(trace)
            print(f"{trace}, {clock / 1e9:g} GHz")
            print(
                "  elementwise, cycles beside warm ones:", format_quantiles(elementwise(trace), 0)
            )
            print("  short, cycles beside the roofline:", format_quantiles(short, 0))
            print(
                "  long, times the roofline:",
                format_quantiles(long, 2),
                "not aligned:",
                format_quantiles(apart, 2),
            )


if __name__ == "__main__":
    main()
