"""GEMM dimensions of an op, from its signature: batch, m, n and k."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...sim.facts.signature import Signature

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear", "_scaled_mm")
ADDED = ("addmm", "baddbmm")  # the added matrix comes first
TRANSPOSED = ("linear",)  # weights as (n, k)


class MatrixProduct(NamedTuple):
    """GEMM dimensions: ``batch`` products of an m x k matrix with a k x n matrix."""

    batch: int
    m: int
    n: int
    k: int


def matrix_product(parts: Signature) -> MatrixProduct | None:
    """GEMM dimensions of an op; None for other ops and for missing shapes.

    >>> from ...sim.facts.signature import parse_signature
    >>> matrix_product(parse_signature("compute:aten::addmm bf16[32] bf16[4x8x16] bf16[16x32]"))
    MatrixProduct(batch=1, m=32, n=32, k=16)
    >>> matrix_product(parse_signature("compute:aten::bmm bf16[4x8x16] bf16[4x16x32]"))
    MatrixProduct(batch=4, m=8, n=32, k=16)
    >>> matrix_product(parse_signature("compute:aten::add bf16[4] bf16[4]"))
    """
    name = parts.name.split(" ", 1)[0].rpartition("::")[2]
    several = [o.shape for o in parts.operands if len(o.shape) >= 2]
    if name not in PRODUCTS or len(several) < 2:
        return None
    a, b = several[-2:] if name in ADDED else several[:2]
    batch = math.prod(b[:-2])
    rows = math.prod(a[:-1]) // max(batch, 1)
    return MatrixProduct(batch, rows, b[-2] if name in TRANSPOSED else b[-1], a[-1])


ALIGNED = 16  # B that one thread loads at a time
COPIED = 4  # smallest copy in B that bypasses registers (PTX ISA, cp.async)


def rows_are_aligned(p: MatrixProduct, width: float, at: int = ALIGNED) -> bool:
    """True if the rows of both operands and of the result start at multiples of ``at`` bytes.

    Libraries use slower kernels for other rows (CUTLASS names kernels by ``align``).

    >>> [rows_are_aligned(MatrixProduct(1, 7, n, 64), width=2) for n in (32, 15)]
    [True, False]
    """
    return all(size * width % at == 0 for size in (p.k, p.n))


def tiles_flop(p: MatrixProduct, processors: int) -> float:
    """Flop of a tiled GEMM including padding: full waves of complete tiles on all processors.

    Tiles are 64 x 64 up to m = 64, 64 x 128 up to 128, then 128 x 128, without split-k: as in
    vllm's fp8 kernels for compute capability 9.0 (csrc/quantization, scaled_mm, CUTLASS), which
    those of other libraries resemble.

    >>> tiles_flop(MatrixProduct(1, 128, 256, 10), 4) == 4 * 2 * 64 * 128 * 10
    True
    """
    high, wide = (64 if p.m <= 128 else 128), (64 if p.m <= 64 else 128)
    tiles = p.batch * math.ceil(p.m / high) * math.ceil(p.n / wide)
    rounds = math.ceil(tiles / processors)
    return 2.0 * rounds * processors * high * wide * p.k
