"""Predict op times on a GPU with no, or twenty, measurements (check D10): A100 to H100 to H200.

    python -m foretrace.calibration.judge.unseen_gpu [--looked]

``rows/op_rows.py`` has the tables and selects the twenty. The roofline's five constants are fitted
to a family on the nearest GPU; peaks, bandwidth, multiprocessors and clock come from the target's
datasheet. Costs in cycles (start-up, joins) keep their number of cycles. Hopper feeds its tensor
cores without threads, so GEMMs, which have kernels for each generation, overlap fully there.

*Roofline* is only that. *Carried* is the time on the nearest GPU times the ratio of both rooflines.
*Blind* is carried, except for GEMMs on another generation: other kernels run there, so the losses
of one do not apply. *With 20* refits both efficiencies and the launch of the target on twenty ops
of the family. Baselines: *copied*, the nearest GPU's times; *peaks*, scaled by datasheet ratio.

Regimes: ops up to 20 us on the target, and longer ones by what limits them on its datasheet. Every
tenth shape, by hash, was inspected while this was chosen (``--looked``); the others judge.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import (
    ROUGH,
    PredictionErrors,
    fit_parameters,
    held_out_mask,
)
from foretrace.models.compute.gpu_groups import Fp8Gemm, Gemm, Peaks
from foretrace.models.compute.roofline import Roofline
from foretrace.sim.facts.ops import Ops

from ..rows.op_rows import Rows, measured, rows


class Datasheet(NamedTuple):
    """Datasheet values of a GPU.

    Parameters
    ----------
    clock : Hz
        Its fp32 peak divided by the flop of its multiprocessors per cycle.
    asynchronous : True if its tensor cores are fed without threads (Hopper's TMA and wgmma)
    """

    bandwidth: float
    peaks: dict[str, float]
    processors: int
    clock: float
    asynchronous: bool


HOPPER = 132, 67e12 / (132 * 256), True
FAST = {"bf16": 989.4e12, "fp8": 1978.9e12}
GPUS = {
    "a100_sxm": Datasheet(2.039e12, {"bf16": 312e12}, 108, 19.5e12 / (108 * 128), False),
    "h100_sxm": Datasheet(3.35e12, FAST, *HOPPER),
    "h200_sxm": Datasheet(4.8e12, FAST, *HOPPER),
}
NEAREST = {"h100_sxm": "a100_sxm", "h200_sxm": "h100_sxm"}
FAMILIES = ("gemm", "gemm fp8", "context attention", "decode attention", "moe")
START = (0.7, 0.8, 3e-6, 0.3, 3e-7)  # efficiency, memory_efficiency, launch, exposed, join
SAMPLE = 1500  # rows of a fit
SMALL = 20e-6
FEWEST = 20  # rows of a regime that is told
PROGRAMS = ("gemm", "gemm fp8")  # of which libraries have others for each generation


class OpDemands(NamedTuple):
    """Flop, bytes and signatures of ops, independent of the GPU."""

    flop: np.ndarray
    bytes: np.ndarray
    signatures: list[str]


def op_demands(family: str, shape: np.ndarray) -> OpDemands:
    """Flop, bytes and signatures of a family's shapes."""
    if family.startswith("gemm"):
        return products(shape, "fp8" if family.endswith("fp8") else "bf16")
    return {"context attention": context, "decode attention": decode, "moe": moe}[family](shape)


def products(shape: np.ndarray, dtype: str) -> OpDemands:
    m, n, k = shape.T
    width = 1 if dtype == "fp8" else 2
    texts = [f"compute:mm {dtype}[{a:.0f}x{c:.0f}] {dtype}[{c:.0f}x{b:.0f}]" for a, b, c in shape]
    return OpDemands(2 * m * n * k, width * (m * k + k * n) + 2 * m * n, texts)


def context(shape: np.ndarray) -> OpDemands:
    """Demands of causal attention: half of all token pairs."""
    batch, length, heads, shared, width = shape.T
    flop = 2 * batch * heads * length**2 * width
    moved = 2 * batch * length * width * (2 * heads + 2 * shared)
    return OpDemands(flop, moved, ["compute:attention bf16[1]"] * len(shape))


def decode(shape: np.ndarray) -> OpDemands:
    """Demands of decode attention: one token against all earlier ones."""
    batch, length, heads, shared, width = shape.T
    flop = 4 * batch * heads * length * width
    moved = 2 * batch * width * (2 * length * shared + 2 * heads)
    return OpDemands(flop, moved, ["compute:attention bf16[1]"] * len(shape))


def moe(shape: np.ndarray) -> OpDemands:
    """Demands of experts: three GEMMs per token and expert; weights of used experts."""
    tokens, hidden, inner, top, experts, tensor, parallel = shape.T
    pairs, inner, experts = tokens * top / parallel, inner / tensor, experts / parallel
    weights = np.minimum(experts, pairs) * 3 * hidden * inner
    moved = 2 * (weights + pairs * (2 * hidden + 3 * inner))
    return OpDemands(6 * pairs * hidden * inner, moved, ["compute:moe bf16[1]"] * len(shape))


def roofline(gpu: str, q: np.ndarray) -> Roofline:
    """Roofline of one GPU with fitted constants."""
    bandwidth, peaks, processors, *_ = GPUS[gpu]
    return Roofline(
        bandwidth=bandwidth,
        peaks=Peaks(bf16=peaks["bf16"], fp8=peaks.get("fp8")),
        efficiency=q[0],
        memory_efficiency=q[1],
        launch=q[2],
        gemm=Gemm(fp8=Fp8Gemm(launch=q[2], tile_processors=processors), join=q[4]),
        exposed=q[3],
    )


def seconds(gpu: str, q: np.ndarray, of: OpDemands) -> np.ndarray:
    """Time of each op in s by the fitted roofline."""
    ops = Ops.of(
        flop=of.flop, bytes=of.bytes, signature=np.arange(len(of.flop)), signatures=of.signatures
    )
    return np.asarray(roofline(gpu, q).timing(ops).fixed)


def datasheet(gpu: str, of: OpDemands) -> np.ndarray:
    """Time of each op in s by the slower of both datasheet roofs."""
    bandwidth, peaks, *_ = GPUS[gpu]
    peak = peaks["fp8" if "fp8" in of.signatures[0] else "bf16"]
    return np.maximum(of.flop / peak, of.bytes / bandwidth)


def only(of: OpDemands, at: np.ndarray) -> OpDemands:
    return OpDemands(of.flop[at], of.bytes[at], [of.signatures[i] for i in at.tolist()])


def fitted(gpu: str, of: OpDemands, took: np.ndarray) -> np.ndarray:
    """Constants of a family on a GPU, from a sample of its rows."""
    at = np.random.default_rng(0).permutation(len(took))[:SAMPLE]
    some = only(of, at)
    return fit_parameters(lambda q: seconds(gpu, q, some), START, took[at], ROUGH)


def moved(q: np.ndarray, source: str, target: str, family: str) -> np.ndarray:
    """Constants converted to another GPU."""
    cycles = GPUS[source].clock / GPUS[target].clock
    hides = family in PROGRAMS and GPUS[target].asynchronous > GPUS[source].asynchronous
    return q * [1.0, 1.0, cycles, 0.0 if hides else 1.0, cycles]


def common_shapes(
    family: str, source: str, target: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shapes measured on both GPUs, and their times in s on the source and on the target."""
    here, there = rows(family, source), rows(family, target)
    known = {tuple(s): t for s, t in zip(here.shape.tolist(), here.seconds, strict=True)}
    both = np.array([tuple(s) in known for s in there.shape.tolist()])
    shape = there.shape[both]
    return shape, np.array([known[tuple(s)] for s in shape.tolist()]), there.seconds[both]


def compare(family: str, source: str, target: str, looked: bool) -> None:
    """Print the errors of one family."""
    shape, near, truth = common_shapes(family, source, target)
    of, given = op_demands(family, shape), measured(Rows(shape, truth))
    q = fitted(source, of, near)
    there = moved(q, source, target, family)
    lost = near / seconds(source, q, of)
    other = family in PROGRAMS and GPUS[source].asynchronous != GPUS[target].asynchronous
    kept = np.ones(len(near)) if other else lost
    at = np.flatnonzero(given)
    known = refitted(target, there, only(of, at), truth[at] / kept[at])
    guesses = {
        "copied": near,
        "peaks": near * datasheet(target, of) / datasheet(source, of),
        "roofline": seconds(target, there, of),
        "carried": seconds(target, there, of) * lost,
        "blind": seconds(target, there, of) * kept,
        "with 20": seconds(target, known, of) * kept,
    }
    here = held_out_mask([str(s) for s in shape.tolist()], share=0.1, seed="looked") == looked
    print(f"{family}, {source} to {target}: {np.array2string(q, precision=3)}")
    print(f"{'':26s}{'rows':>7s}" + "".join(f"{name:>18s}" for name in guesses))
    for name, regime in regimes(target, of, truth).items():
        rest = here & regime & ~given
        if rest.sum() >= FEWEST:
            errors = [PredictionErrors.of(g[rest], truth[rest]) for g in guesses.values()]
            line = "".join(f"{e.median:9.1%} {e.bias:+7.1%} " for e in errors)
            print(f"  {name:24s}{rest.sum():7d}{line}")


def regimes(target: str, of: OpDemands, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Masks of rows by regime: all, short, compute-bound, memory-bound."""
    sheet, small = GPUS[target], truth <= SMALL
    peak = sheet.peaks["fp8" if "fp8" in of.signatures[0] else "bf16"]
    arithmetic = of.flop / peak > of.bytes / sheet.bandwidth
    return {
        "all": np.ones(len(truth), bool),
        "up to 20 us": small,
        "arithmetic": ~small & arithmetic,
        "memory": ~small & ~arithmetic,
    }


def refitted(gpu: str, q: np.ndarray, of: OpDemands, took: np.ndarray) -> np.ndarray:
    """Both efficiencies and the launch, refitted to a few measured ops."""
    found = fit_parameters(lambda p: seconds(gpu, np.array([*p, *q[3:]]), of), q[:3], took, ROUGH)
    return np.array([*found, *q[3:]])


def main() -> None:
    for target, source in NEAREST.items():
        for family in FAMILIES:
            if "fp8" not in family or "fp8" in GPUS[source].peaks:
                compare(family, source, target, "--looked" in sys.argv)


if __name__ == "__main__":
    main()
