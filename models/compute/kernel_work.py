"""Work of a GPU kernel: thread blocks, steps per block, arithmetic and bytes.

A kernel is a grid of blocks. A multiprocessor holds a limited number of blocks, so a grid runs in
rounds. A block runs its steps one after another, even if the rest of the GPU is idle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...sim.facts.signature import WIDTH
from .op_shape import OpShape

FULL = 2048  # threads that a multiprocessor holds (CUDA C++ Programming Guide, 8.0 and 9.0)
TILE = 128  # queries, and keys, of one step of attention
LEAST = 16  # rows of the smallest tensor-core GEMM
BLOCK = 1024  # threads of a block that handles one row
BACKWARD = 2.5  # GEMMs of attention backward relative to forward: five against two


class KernelWork(NamedTuple):
    """Work of one kernel.

    Parameters
    ----------
    blocks : effective number of blocks: total work divided by the work of the longest block
    threads : threads per block; ``FULL`` threads fill a multiprocessor
    depth : sequential steps of one block
    step : flop of a step on tensor cores; 0 for steps that take a fixed number of cycles
    flop : total flop of a kernel whose arithmetic is not divided into steps; else 0
    bytes : bytes read and written
    far : part of ``bytes`` that is read from memory if the caches do not hold it
    """

    blocks: float = 0.0
    threads: float = FULL
    depth: float = 0.0
    step: float = 0.0
    flop: float = 0.0
    bytes: float = 0.0
    far: float = 0.0


def kernel_work(op: OpShape) -> KernelWork:
    """Work of the kernel that computes an op of this shape.

    Examples
    --------
    >>> from .op_shape import op_shape
    >>> kernel_work(op_shape("compute:vllm::rms_norm bf16[64x4096] bf16[4096]"))
    ... # doctest: +NORMALIZE_WHITESPACE
    KernelWork(blocks=64.0, threads=1024, depth=4, step=0.0, flop=0.0, bytes=1048576.0,
        far=1048576.0)
    """
    width = WIDTH[op.dtype]
    family = op.family
    if family == "product":
        batch, m, n, k = op.axes
        bytes_moved = width * batch * (m * k + k * n) + max(width, 2) * batch * m * n
        return KernelWork(flop=2 * batch * m * n * k, bytes=bytes_moved, far=bytes_moved)
    if family == "convolution":
        flop, bytes_moved = op.axes
        return KernelWork(flop=flop, bytes=bytes_moved, far=bytes_moved)
    if family == "attention":
        return _attention_work(op, width)
    if family == "attention backward":
        one = _attention_work(op, width)
        return one._replace(step=BACKWARD * one.step, bytes=2 * one.bytes, far=2 * one.far)
    if family == "decode attention":
        batch, heads, keys = op.axes
        group, head, _, window = op.exact
        keys = min(keys, window) if window else keys
        bytes_moved = batch * head * (2 * width * keys * heads / group + 4 * heads)
        steps = math.ceil(keys / TILE) + 1  # the start of a block counts as one step
        return KernelWork(batch * heads / group, 256, steps, 0.0, 0.0, bytes_moved, bytes_moved)
    if family == "experts":
        return _experts_work(op, width)
    if family in ("norm", "softmax", "layer norm"):
        rows, wide = op.axes
        bytes_moved = width * (op.exact[0] + 1) * rows * wide
        threads = min(wide, BLOCK) if family != "layer norm" else 128
        each = threads if family != "layer norm" else 4 * threads
        return KernelWork(rows, threads, math.ceil(wide / each), bytes=bytes_moved, far=bytes_moved)
    if family == "activation":
        rows, wide = op.axes
        bytes_moved = 3 * width * rows * wide
        threads = min(wide, BLOCK)
        return KernelWork(
            rows, threads, math.ceil(wide / threads), bytes=bytes_moved, far=bytes_moved
        )
    if family == "rope":
        rows, query, key = op.axes
        threads = min(query / 2, 512.0)
        steps = math.ceil(query / 2 / threads) + math.ceil(key / 2 / threads)
        bytes_moved = 2 * width * rows * (query + key)
        return KernelWork(rows, threads, steps, bytes=bytes_moved, far=bytes_moved)
    if family == "gather of few":
        return KernelWork(depth=op.axes[0], far=0.0)
    if family == "gather":
        rows, wide, _ = op.axes
        bytes_moved = 2 * width * rows * wide
        return KernelWork(rows * wide / 128, 128, 1, bytes=bytes_moved, far=bytes_moved / 2)
    return streaming_work(sum(op.axes))


def streaming_work(bytes_moved: float) -> KernelWork:
    """Work of a kernel that only moves bytes.

    >>> streaming_work(64.0).bytes
    64.0
    """
    return KernelWork(bytes_moved / 6 / 1024, 128, 1, bytes=bytes_moved, far=bytes_moved)


def _attention_work(op: OpShape, width: float) -> KernelWork:
    """Work of attention: each block has ``TILE`` queries of one head and loops over their keys."""
    batch, heads, queries, keys = op.axes
    group, head, causal, window = op.exact
    high = min(TILE, max(LEAST, 2 ** math.ceil(math.log2(queries))))
    rows, most = math.ceil(queries / high), math.ceil(keys / TILE)
    if window:
        most = min(most, math.ceil(window / TILE) + 1)
    first = max(most - rows, 0)  # keys of the first block of a causal mask beyond its own
    mean = (first + most + 1) / 2 if causal and not window else most
    each = 4.0 * high * min(TILE, max(LEAST, keys)) * head
    bytes_moved = width * batch * head * (2 * heads * queries + 2 * keys * heads / group)
    return KernelWork(
        batch * heads * rows * mean / most, FULL, most, each, 0.0, bytes_moved, bytes_moved
    )


def _experts_work(op: OpShape, width: float) -> KernelWork:
    """Work of fused experts: two grouped GEMMs, rows padded to tiles, weights of used experts."""
    (tokens,) = op.axes
    hidden, inner, top, here, of, gated = op.exact
    pairs = tokens * top * here / of
    reached = here * (1.0 - (1.0 - 1.0 / here) ** pairs) if here > 1 else 1.0
    sides = 3 if gated else 2
    each = pairs / max(reached, 1.0)
    high = LEAST if each <= LEAST else 64 if each <= 64 else TILE
    filled = reached * math.ceil(each / high) * high
    weights = width * reached * sides * hidden * inner
    # including slots for pairs of other ranks
    bytes_moved = weights + 2 * tokens * top * (2 * hidden + sides * inner)
    return KernelWork(
        0.0, FULL, 0.0, 0.0, 2 * filled * sides * hidden * inner, bytes_moved, weights
    )
