"""Fit the penalty of GEMMs with rows of an odd number of bf16, from two H100 traces.

    python -m foretrace.calibration.fit.odd FOLDER

Rows that do not start at multiples of 4 B cannot be copied without registers (cp.async), so cuBLAS
uses kernels of compute capability 7.5 (``cutlass_75_tensorop_bf16_s1688gemm..._align1`` in both
traces). No op table has such rows. Of the traces of ``judge/unseen_traces.py`` in ``FOLDER``, two
have them: four GEMMs of unfused attention. One trace was set aside by the hash of its name before
the first fit. Printed are the slowdown of each GEMM relative to aligned rows, the value of ``odd``
from one trace (the median), and the errors of the other trace with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from foretrace.models.calibration.parameter_search import held_out_mask
from foretrace.models.compute.matrix_product import COPIED, matrix_product, rows_are_aligned
from foretrace.sim.facts.signature import WIDTH, parse_signature

from ..judge.traces import kernels
from .kernels import gpu_roofline

TRACES = ("timesformer.h100", "owlv2.h100")
SEED = "foretrace-odd-rows-1"
SHORT = 20e-6  # s; what is shorter is mostly its start


def times(trace: Path) -> dict[str, float]:
    """Slowdown of each odd GEMM relative to the compute and memory time of aligned rows."""
    gpu, ops = gpu_roofline("h100-sxm5-80g"), kernels(str(trace.resolve()))
    gpu.unaligned = gpu.odd = 1.0
    found = {}
    for number in np.unique(ops.signature).tolist():
        parts = parse_signature(ops.signatures[number])
        shape = matrix_product(parts)
        if shape is None or rows_are_aligned(shape, WIDTH[parts.dtype], COPIED):
            continue
        some = ops.take_with_placement(np.flatnonzero(ops.signature == number))
        launch, _, memory, arithmetic = gpu.parts(some)[:, 0]
        if memory + arithmetic > SHORT:
            took = float(np.median(some.duration))
            found[ops.signatures[number]] = (took - launch) / (memory + arithmetic)
    return found


def main() -> None:
    folder, aside = Path(sys.argv[1]), held_out_mask(TRACES, share=0.5, seed=SEED).tolist()
    near, apart = (
        {k: v for t, a in zip(TRACES, aside, strict=True) if a == which
         for k, v in times(folder / f"{t}.json.gz").items()}
        for which in (False, True)
    )  # fmt: skip
    odd = float(np.median(list(near.values())))
    print(f"odd {odd:.2f}")
    for told, name in ((near, "fitted"), (apart, "set aside")):
        for text, value in told.items():
            print(f"  {name:10s}{value:5.2f}  {odd / value - 1:+7.1%}  {text}")


if __name__ == "__main__":
    main()
