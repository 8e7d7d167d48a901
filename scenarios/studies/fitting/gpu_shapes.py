"""Ops to record on a GPU: a grid of shapes per kernel family, and random shapes from a fixed seed.

The sizes cover the layers of language and image models. ``is_held_out`` is true for the
random shapes that no fit uses; this was fixed before any of them was measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cache

from ....models.calibration.parameter_search import held_out_mask

SEED, SHARE = "foretrace-gpu-1", 0.4
BYTES = [1 << i for i in range(12, 29)]  # 4 KiB to 256 MiB
ROWS = (1, 16, 64, 256, 1024, 4096)
LAYERS = ((4096, 4096), (11008, 4096), (4096, 11008), (1024, 8192), (32000, 2048))
SQUARES = (128, 256, 512, 1024, 2048, 4096, 8192)
IMAGES = ((64, 56), (128, 28), (256, 14), (512, 7))
POINTWISE = {
    "add": 2, "mul": 2, "add_": 2, "mul_": 2, "gelu": 1, "gelu_backward": 2, "silu": 1, "relu": 1,
    "sqrt": 1, "addcdiv_": 3, "addcmul_": 3, "lerp_": 2, "zero_": 1, "fill_": 1,
    "threshold_backward": 2,
}  # fmt: skip


def is_held_out(signature: str) -> bool:
    """True if the op with this signature, of random shape, is held out from every fit.

    >>> is_held_out("compute:aten::mm bf16[4x8] bf16[8x4]")
    True
    """
    return bool(held_out_mask([signature], share=SHARE, seed=SEED)[0])


def drawn(name: str, low: float, high: float, multiple: int = 1) -> Callable[[], int]:
    """Sampler of sizes between two powers of two, uniform in the logarithm."""
    draw = random.Random(f"{SEED}:{name}")
    return lambda: max(1, round(2 ** draw.uniform(low, high) / multiple)) * multiple


Drawn = tuple[list[str], list[str]]
"""Signatures of the grid, and signatures of random shapes."""


def products() -> Drawn:
    """Signatures of bf16 GEMMs to record: grid, random, square, batched, and of layer sizes."""
    grid = [_mm("bf16", m, k, n) for m in ROWS for n, k in LAYERS]
    grid += [_mm("bf16", n, n, n) for n in SQUARES]
    grid += [_bmm(b, n, k) for b in (8, 64) for n in (128, 512, 1024) for k in (64, 128)]
    size, rows, batch = drawn("mm", 6, 13, 8), drawn("rows", 0, 13), drawn("batch", 1, 7)
    some = [_mm("bf16", rows(), size(), size()) for _ in range(60)]
    some += [_bmm(batch(), drawn(f"bmm{i}", 5, 10, 8)(), 64) for i in range(20)]
    return grid, some


def types() -> Drawn:
    """Signatures of fp16, tf32, fp32 and fp64 GEMMs to record: grid and random shapes."""
    return _typed({"fp16": 13, "tf32": 13, "fp32": 11, "fp64": 11})


def scaled() -> Drawn:
    """Signatures of fp8 GEMMs to record, with a scale per operand: grid and random shapes."""
    return _typed({"fp8": 13})


def _typed(most: dict[str, int]) -> Drawn:
    """Signatures of square and of random GEMMs for each element type, aligned to tensor cores.

    ``most`` maps each type to the base-2 logarithm of its largest size.
    """
    grid, some = [], []
    for dtype, power in most.items():
        grid += [_mm(dtype, n, n, n) for n in SQUARES if n <= 1 << power]
        size, rows = drawn(f"{dtype} mm", 6, power, 16), drawn(f"{dtype} rows", 4, power, 16)
        some += [_mm(dtype, rows(), size(), size()) for _ in range(16)]
    return grid, some


def attention() -> Drawn:
    """Signatures of causal attention and its gradients to record: grid and random shapes."""
    grid = [
        s
        for n in (128, 512, 1024, 2048, 4096)
        for d in (64, 128)
        for s in _attention_ops(4, 16, n, d)
    ]
    length, heads, batch = drawn("length", 5, 12), drawn("heads", 0, 5), drawn("sequences", 0, 3)
    some = [
        s for i in range(16) for s in _attention_ops(batch(), heads(), length(), (64, 128)[i % 2])
    ]
    return grid, some


def rows() -> Drawn:
    """Signatures of row-wise ops to record: norms, softmax, sums, losses, embeddings."""
    grid = [s for n in (64, 1024, 4096, 8192) for w in (1024, 4096, 8192) for s in _row_ops(n, w)]
    count, width = drawn("count", 4, 14), drawn("width", 7, 13, 8)
    return grid, [s for _ in range(16) for s in _row_ops(count(), width())]


def pointwise() -> Drawn:
    """Signatures of elementwise ops and casts to record, from launch-bound to beyond all caches."""
    grid = [s for i in range(10, 27, 2) for s in _pointwise_ops(1 << i)]
    size = drawn("numbers", 9, 26)
    return grid, [s for _ in range(6) for s in _pointwise_ops(size())]


def images() -> Drawn:
    """Signatures of convolutions, batch norms and max pools to record: grid and random shapes."""
    grid = [
        s
        for width, size in IMAGES
        for k in (1, 3)
        for s in _convolution_ops(32, width, width, size, k)
    ]
    channels, batch = drawn("channels", 5, 10, 8), drawn("images", 4, 6)
    some = [
        s for i in range(16)
        for s in _convolution_ops(batch(), channels(), channels(), IMAGES[i % 4][1], (1, 3)[i % 2])
    ]  # fmt: skip
    return grid, some


def memory() -> Drawn:
    """Signatures of copies to record, for each direction (h2d, d2h, d2d): grid and random sizes."""
    size = drawn("bytes", 12, 28)
    ways = ("copy:h2d", "copy:d2h", "copy:d2d")
    grid = [f"{way} uint8[{n}]" for way in ways for n in BYTES]
    return grid, [f"{way} uint8[{size()}]" for way in ways for _ in range(16)]


def decode() -> Drawn:
    """Signatures of decode attention to record: one query per sequence over a key cache.

    Heads share keys (grouped-query attention) or have their own.
    """
    grid = [
        _decode(batch, heads, shared, keys)
        for batch in (1, 8, 64, 256)
        for heads, shared in ((32, 32), (32, 8), (8, 8))
        for keys in (128, 512, 2048, 8192)
        if batch * shared * keys <= 1 << 21
    ]
    keys, batch = drawn("keys", 6, 13), drawn("requests", 0, 6)
    heads = ((32, 8), (16, 16), (64, 8), (8, 8))
    return grid, [_decode(batch(), *heads[i % 4], keys()) for i in range(24)]


def norms() -> Drawn:
    """Signatures of single-kernel RMS norms, gated activations and rotary embeddings to record."""
    grid = [s for n in (*ROWS, 16384) for w in (1024, 4096, 8192) for s in _layer_ops(n, w)]
    count, width = drawn("norm rows", 0, 14), drawn("norm width", 8, 13, 128)
    return grid, [s for _ in range(20) for s in _layer_ops(count(), width())]


def tables() -> Drawn:
    """Signatures of embedding lookups of few and many tokens to record, and of row sums."""
    few = (1, 2, 3, 4, 6, 8, 12, 16)
    grid = [_gather(n, w) for n in (*few, 64, 512, 4096, 32768) for w in (1024, 4096, 8192)]
    grid += [f"compute:aten::sum bf16[{n}x{w}]" for n in (1, 64, 4096) for w in (1024, 8192)]
    grid += [f"compute:aten::sum bf16[{1 << i}]" for i in range(10, 28)]
    count, width = drawn("tokens", 5, 15), drawn("table width", 8, 13, 8)
    some = [_gather(count(), width()) for _ in range(20)]
    some += [_gather(1 + i % 16, width()) for i in range(12)]
    return grid, some + [f"compute:aten::sum bf16[{count()}x{width()}]" for _ in range(16)]


def experts() -> Drawn:
    """Signatures of fused mixture-of-experts layers to record: two GEMMs for each chosen expert."""
    tokens = (1, 4, 16, 64, 256, 1024, 4096)
    sizes = ((4096, 896, 2, 8), (2048, 384, 8, 64), (1024, 512, 6, 32), (1024, 128, 2, 8))
    grid = [_experts(n, *size) for n in tokens for size in sizes]
    count = drawn("routed", 0, 13)
    return grid, [_experts(count(), *sizes[i % 4]) for i in range(24)]


def unaligned() -> Drawn:
    """Signatures of bf16 GEMMs with odd row lengths to record: grid and random shapes."""
    odd = [n + 1 for n in (64, 256, 1024, 4096)]
    grid = [_mm("bf16", m, k, n) for m in (64, 512, 4096) for n in odd for k in (1024, 4096)]
    size, rows = drawn("odd", 7, 12), drawn("odd rows", 4, 12)
    return grid, [_mm("bf16", rows(), size() | 1, size() | 1) for _ in range(16)]


def launches() -> Drawn:
    """Signatures of tiny ops to record, whose time is the launch time only."""
    grid = [f"compute:aten::{op} bf16[{n}]" for op in ("zero_", "fill_") for n in (1, 32, 512)]
    return grid + [f"compute:aten::add bf16[{n}] bf16[{n}]" for n in (1, 32, 512)], []


def sums() -> Drawn:
    """Signatures of split-K GEMMs to record: bf16, small outputs, long inner dimension."""
    deeps = (32, 128, 512, 2048, 8192, 32768)
    grid = [_mm("bf16", m, k, m) for m in (64, 256, 1024) for k in deeps]
    size, deep = drawn("joined", 5, 11, 8), drawn("deep", 5, 15, 8)
    return grid, [_mm("bf16", size(), deep(), size()) for _ in range(20)]


LISTS: dict[str, Callable[[], Drawn]] = {
    "launches": launches, "products": products, "sums": sums, "attention": attention,
    "decode": decode, "norms": norms, "pointwise": pointwise, "tables": tables, "rows": rows,
    "experts": experts, "memory": memory, "types": types, "scaled": scaled, "unaligned": unaligned,
    "images": images,
}  # fmt: skip
"""Function that lists the ops of a kernel family, by name; families that take most time in a step
are first."""
NEIGHBOURS = (
    "compute:aten::mm bf16[256x1024] bf16[1024x1024]",
    "compute:aten::native_layer_norm bf16[256x1024] bf16[1024] bf16[1024]",
    "compute:aten::gelu bf16[1048576]",
    "compute:aten::_softmax bf16[1024x1024]",
    "compute:aten::index_select bf16[8192x1024] int64[256]",
)
"""Kernels that run before each timed op; small, so that they leave part of the cache to it."""
IN_PLACE = ("products", "norms", "pointwise", "tables", "rows")
EVERY = 5  # of these lists, each so many ops is timed after others too


def signatures_of_list(name: str) -> Drawn:
    """Signatures of one family's ops: those to fit to, and those held out; each op once.

    >>> shown, kept = signatures_of_list("experts")
    >>> len(shown), set(shown) & set(kept)
    (43, set())
    """
    grid, some = (list(dict.fromkeys(s)) for s in LISTS[name]())
    known = set(grid)
    rest = [s for s in some if s not in known]
    return grid + [s for s in rest if not is_held_out(s)], [s for s in rest if is_held_out(s)]


@cache
def held_out_signatures() -> frozenset[str]:
    """Signatures of all ops that are held out from every fit."""
    shown = {s for name in LISTS for s in signatures_of_list(name)[0]}
    return frozenset(s for name in LISTS for s in signatures_of_list(name)[1]) - shown


def ops_timed_after_others() -> list[str]:
    """Signatures of ops that are measured twice: alone, and after other kernels as in a step."""
    every = [s for name in IN_PLACE for s in signatures_of_list(name)[0][::EVERY]]
    return [s for s in dict.fromkeys(every) if s not in NEIGHBOURS]


def _mm(dtype: str, m: int, k: int, n: int) -> str:
    name = "_scaled_mm" if dtype == "fp8" else "mm"
    return f"compute:aten::{name} {dtype}[{m}x{k}] {dtype}[{k}x{n}]"


def _bmm(batch: int, n: int, k: int) -> str:
    return f"compute:aten::bmm bf16[{batch}x{n}x{k}] bf16[{batch}x{k}x{n}]"


def _attention_ops(batch: int, heads: int, length: int, width: int) -> Iterable[str]:
    name = "compute:aten::_scaled_dot_product_flash_attention"
    q = f"bf16[{batch}x{heads}x{length}x{width}]"
    return f"{name} causal=1 {q} {q} {q}", f"{name}_backward {q} {q} {q} {q}"


def _row_ops(n: int, width: int) -> Iterable[str]:
    x, one, at = f"bf16[{n}x{width}]", f"bf16[{width}]", f"int64[{n}]"
    whole = f"fp32[{n}x{width}]"
    return [f"compute:aten::{s}" for s in (
        f"native_layer_norm {x} {one} {one}", f"native_layer_norm_backward {x} {x}",
        f"_softmax {x}", f"_log_softmax {whole}", f"_log_softmax_backward_data {whole} {whole}",
        f"sum {x}", f"nll_loss_forward {whole} {at}", f"embedding bf16[8192x{width}] {at}",
        f"embedding_dense_backward {x} {at}", f"index_select bf16[8192x{width}] {at}",
    )]  # fmt: skip


def _pointwise_ops(numbers: int) -> Iterable[str]:
    one, wide = f"bf16[{numbers}]", f"fp32[{numbers}]"
    found = [" ".join([f"compute:aten::{op}", *[one] * n]) for op, n in POINTWISE.items()]
    return [*found, f"compute:aten::copy_ {one} {wide}", f"compute:aten::copy_ {wide} {one}"]


def _convolution_ops(
    batch: int, inputs: int, outputs: int, size: int, kernel: int
) -> Iterable[str]:
    x, y = (f"bf16[{batch}x{n}x{size}x{size}]" for n in (inputs, outputs))
    weight, of = f"bf16[{outputs}x{inputs}x{kernel}x{kernel}]", f"fp32[{outputs}]"
    half = f"bf16[{batch}x{outputs}x{(size + 1) // 2}x{(size + 1) // 2}]"
    return [f"compute:aten::{s}" for s in (
        f"cudnn_convolution stride=1 {x} {weight}", f"convolution_backward {y} {x} {weight}",
        f"native_batch_norm {y} {of} {of} {of} {of}",
        f"native_batch_norm_backward {y} {y} {of} {of} {of} {of} {of}",
        f"max_pool2d_with_indices {y}", f"max_pool2d_with_indices_backward {half} {y}",
    )]  # fmt: skip


def _decode(batch: int, heads: int, shared: int, keys: int) -> str:
    q, k = (f"bf16[{batch}x{h}x{n}x128]" for h, n in ((heads, 1), (shared, keys)))
    return f"compute:aten::scaled_dot_product_attention {q} {k} {k}"


def _layer_ops(n: int, width: int) -> Iterable[str]:
    q, k = f"bf16[{n}x{width}]", f"bf16[{n}x{max(width // 4, 128)}]"
    return (
        f"compute:inductor::rms_norm bf16[{n}x{width}] bf16[{width}]",
        f"compute:inductor::silu_and_mul bf16[{n}x{2 * width}]",
        f"compute:inductor::rotary_embedding head=128 {q} {k}",
    )


def _gather(n: int, width: int) -> str:
    return f"compute:aten::index_select bf16[8192x{width}] int64[{n}]"


def _experts(tokens: int, hidden: int, inner: int, top: int, every: int) -> str:
    first, second = f"bf16[{every}x{2 * inner}x{hidden}]", f"bf16[{every}x{hidden}x{inner}]"
    return (
        f"compute:torch::fused_experts bf16[{tokens}x{hidden}] {first} {second} "
        f"int64[{tokens}x{top}]"
    )
