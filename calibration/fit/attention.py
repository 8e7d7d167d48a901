"""Fit attention kernels of 2023 to training steps that differ only in sequence length.

    python -m foretrace.calibration.fit.attention [--once]

MPT was trained with the Triton kernel of the first flash attention (``attn_impl: triton``, the
default of the source's ``submit_benchmarks.py``, one image for both GPUs). The extra time per token
in longer sequences is attention, since nothing else in a step grows with the length. Two constants
per GPU are fitted: the fractions of the peak that forward and backward steps reach. Models with
recomputation, whose attention runs forward twice, separate the two. Three of the eight sizes were
set aside by the digest of their names before the first fit; ``--once`` scores them.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import CLOSE, PredictionErrors, fit_parameters
from foretrace.models.compute.kernel_work import kernel_work
from foretrace.models.compute.kernels import KernelFamily, load_families
from foretrace.models.compute.op_shape import op_shape

from .kernels import CHIPS, NAMES, PEAKS

SOURCE = "mosaicml/llm-foundry 8c8dd48f7, scripts/train/benchmarking/README.md"
SIZES = {  # hidden, layers, heads
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16),
    "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56),
}  # fmt: skip
K = 1024
RATES = {  # tokens a second and GPU, of eight GPUs, by length; layers are computed again or not
    ("h100", "125m", False): {4 * K: 219948, 16 * K: 103934, 32 * K: 60299, 64 * K: 33297},
    ("h100", "350m", False): {8 * K: 68513, 16 * K: 42576, 32 * K: 23843, 64 * K: 12932},
    ("h100", "760m", False): {4 * K: 55459, 8 * K: 41825, 16 * K: 27815, 32 * K: 16291},
    ("h100", "1b", False): {4 * K: 38535, 8 * K: 29157, 16 * K: 19649, 32 * K: 12025},
    ("h100", "3b", False): {4 * K: 20964, 8 * K: 16578, 16 * K: 11152},
    ("h100", "3b", True): {32 * K: 5873, 64 * K: 3262},
    ("h100", "7b", True): {4 * K: 8611, 8 * K: 6935, 32 * K: 3318, 64 * K: 1956},
    ("h100", "13b", True): {4 * K: 4717, 16 * K: 2985, 32 * K: 1976},
    ("h100", "30b", True): {4 * K: 1802, 8 * K: 1384},
    ("a100", "125m", False): {
        4 * K: 118396, 8 * K: 90392, 16 * K: 60040, 32 * K: 36407, 64 * K: 20368,
    },
    ("a100", "350m", False): {
        4 * K: 49555, 8 * K: 36569, 16 * K: 23559, 32 * K: 13652, 64 * K: 7524,
    },
    ("a100", "760m", False): {4 * K: 27351, 8 * K: 20933, 16 * K: 14274, 32 * K: 8802},
    ("a100", "1b", False): {4 * K: 17807, 8 * K: 13814, 16 * K: 9956, 32 * K: 6275},
    ("a100", "3b", False): {4 * K: 9457, 8 * K: 7695, 16 * K: 5529},
    ("a100", "3b", True): {32 * K: 3029, 64 * K: 1767},
    ("a100", "7b", True): {4 * K: 3684, 8 * K: 3206, 16 * K: 2453, 32 * K: 1672, 64 * K: 1013},
    ("a100", "13b", True): {4 * K: 2060, 8 * K: 1795, 16 * K: 1431, 32 * K: 1016},
    ("a100", "30b", True): {4 * K: 814, 8 * K: 574},
}  # fmt: skip
TOKENS = 64 * K  # of a micro-batch: what it has of them cancels out, but for rounds of blocks


class Growth(NamedTuple):
    """Growth of the time per token from one sequence length to the next.

    Parameters
    ----------
    size : size of the model
    twice : True if attention runs forward twice (recomputation)
    short, long : tokens per sequence
    seconds : extra time per token in s
    """

    size: str
    twice: bool
    short: int
    long: int
    seconds: float


def set_aside() -> set[str]:
    """Model sizes that are set aside: the three with the lowest digests."""
    return set(sorted(SIZES, key=lambda s: hashlib.sha256(f"mpt-{s}".encode()).hexdigest())[:3])


def measured_growths(gpu: str) -> Iterator[Growth]:
    """Measured growths of a GPU, from each sequence length to the next."""
    for (where, size, twice), rates in RATES.items():
        if where == gpu:
            for short, long in pairwise(rates):
                yield Growth(size, twice, short, long, 1 / rates[long] - 1 / rates[short])


def attention_seconds_per_token(
    gpu: str, families: dict[str, KernelFamily], size: str, twice: bool, length: int
) -> float:
    """Attention time per token in s, forward and backward, over all layers."""
    hidden, layers, heads = SIZES[size]
    operand = f" bf16[{TOKENS // length}x{heads}x{length}x{hidden // heads}]"
    told = 0.0
    for name, operator, operands, times in (
        ("attention", "flash_attention", 3, 1 + twice),
        ("attention backward", "attention_backward", 4, 1),
    ):
        shape = op_shape(f"compute:fused::{operator} causal=1{operand * operands}")
        assert shape is not None
        work = np.array([kernel_work(shape)], float)
        peak = np.array([PEAKS[gpu]["bf16"]])
        told += times * families[name].time_parts(work, CHIPS[gpu], peak, "step").sum()
    return layers * told / TOKENS


def predict(gpu: str, families: dict[str, KernelFamily], some: list[Growth]) -> np.ndarray:
    """Predicted extra time per token in s, shape (n,)."""
    return np.array(
        [
            attention_seconds_per_token(gpu, families, g.size, g.twice, g.long)
            - attention_seconds_per_token(gpu, families, g.size, g.twice, g.short)
            for g in some
        ]
    )


def with_fitted_steps(known: dict[str, KernelFamily], q: np.ndarray) -> dict[str, KernelFamily]:
    """Families with the step constants of attention replaced by ``q``."""
    forward, backward = (
        replace(known[name], first=value, again=value)
        for name, value in zip(("attention", "attention backward"), q, strict=True)
    )
    return {**known, "attention": forward, "attention backward": backward}


def main() -> None:
    """Print the fitted constants and the errors."""
    aside = set_aside()
    print("set aside:", *sorted(aside))
    for gpu in ("a100", "h100"):
        known = load_families(NAMES[gpu])
        every = list(measured_growths(gpu))
        near = [g for g in every if g.size not in aside]
        truth = np.array([g.seconds for g in near])

        def guess(q: np.ndarray, gpu=gpu, known=known, near=near) -> np.ndarray:
            return predict(gpu, with_fitted_steps(known, q), near)

        q = fit_parameters(guess, [3.0, 5.0], truth, CLOSE)
        print(f"{gpu}: forward {q[0]:.3f}  backward {q[1]:.3f} times the peak's")
        print(f"  programs of 2025: {PredictionErrors.of(predict(gpu, known, near), truth)}")
        print(f"  fitted:           {PredictionErrors.of(guess(q), truth)}")
        if "--once" in sys.argv:
            far = [g for g in every if g.size in aside]
            truth = np.array([g.seconds for g in far])
            print(f"  set aside, 2025:  {PredictionErrors.of(predict(gpu, known, far), truth)}")
            found = predict(gpu, with_fitted_steps(known, q), far)
            print(f"  set aside:        {PredictionErrors.of(found, truth)}")


if __name__ == "__main__":
    main()
