"""Which ops the recordings of a GPU shall have: a grid in each family, and shapes that a seed drew.

Ranges are those of layers of language and image models.  ``aside`` says which of the drawn shapes
no fit may see; that was decided before any of them was measured.
"""

import random
from collections.abc import Callable, Iterable

from foretrace.models.calibration.parameter_search import held_out_mask

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


def aside(signature: str) -> bool:
    """Whether a drawn shape is kept from every fit."""
    return bool(held_out_mask([signature], share=SHARE, seed=SEED)[0])


def drawn(name: str, low: float, high: float, multiple: int = 1) -> Callable[[], int]:
    """Sizes between two powers of two, even in their logarithm."""
    draw = random.Random(f"{SEED}:{name}")
    return lambda: max(1, round(2 ** draw.uniform(low, high) / multiple)) * multiple


def products() -> tuple[list[str], list[str]]:
    """Matrix products of bf16: rows of a batch by layers, squares, batched ones."""
    grid = [_mm("bf16", m, k, n) for m in ROWS for n, k in LAYERS]
    grid += [_mm("bf16", n, n, n) for n in SQUARES]
    grid += [_bmm(b, n, k) for b in (8, 64) for n in (128, 512, 1024) for k in (64, 128)]
    size, rows, batch = drawn("mm", 6, 13, 8), drawn("rows", 0, 13), drawn("batch", 1, 7)
    some = [_mm("bf16", rows(), size(), size()) for _ in range(60)]
    some += [_bmm(batch(), drawn(f"bmm{i}", 5, 10, 8)(), 64) for i in range(20)]
    return grid, some


def types() -> tuple[list[str], list[str]]:
    """Matrix products in the other element types."""
    return _typed({"fp16": 13, "tf32": 13, "fp32": 11, "fp64": 11})


def scaled() -> tuple[list[str], list[str]]:
    """Matrix products of fp8, with a scale for each operand."""
    return _typed({"fp8": 13})


def _typed(most: dict[str, int]) -> tuple[list[str], list[str]]:
    """Squares and drawn ones up to a power of two, by type; whole rows of tensor cores."""
    grid, some = [], []
    for dtype, power in most.items():
        grid += [_mm(dtype, n, n, n) for n in SQUARES if n <= 1 << power]
        size, rows = drawn(f"{dtype} mm", 6, power, 16), drawn(f"{dtype} rows", 4, power, 16)
        some += [_mm(dtype, rows(), size(), size()) for _ in range(16)]
    return grid, some


def attention() -> tuple[list[str], list[str]]:
    """Causal attention and its gradients."""
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


def rows() -> tuple[list[str], list[str]]:
    """Norms, softmax, sums, losses and tables, by row."""
    grid = [s for n in (64, 1024, 8192) for w in (1024, 4096, 8192) for s in _row_ops(n, w)]
    count, width = drawn("count", 4, 14), drawn("width", 7, 13, 8)
    return grid, [s for _ in range(16) for s in _row_ops(count(), width())]


def pointwise() -> tuple[list[str], list[str]]:
    """Elementwise ops and casts, from the launch to beyond every cache."""
    grid = [s for i in range(10, 27, 2) for s in _pointwise_ops(1 << i)]
    size = drawn("numbers", 9, 26)
    return grid, [s for _ in range(6) for s in _pointwise_ops(size())]


def images() -> tuple[list[str], list[str]]:
    """Convolutions, their norms and pools."""
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


def memory() -> tuple[list[str], list[str]]:
    """Signatures of copies by direction and size."""
    size = drawn("bytes", 12, 28)
    ways = ("copy:h2d", "copy:d2h", "copy:d2d")
    grid = [f"{way} uint8[{n}]" for way in ways for n in BYTES]
    return grid, [f"{way} uint8[{size()}]" for way in ways for _ in range(16)]


LISTS: dict[str, Callable[[], tuple[list[str], list[str]]]] = {
    "products": products, "types": types, "scaled": scaled, "attention": attention, "rows": rows,
    "pointwise": pointwise, "images": images, "memory": memory,
}  # fmt: skip


def listed(name: str) -> tuple[list[str], list[str]]:
    """Signatures that a fit may see, and those set aside; each op once."""
    grid, some = (list(dict.fromkeys(s)) for s in LISTS[name]())
    known = set(grid)
    rest = [s for s in some if s not in known]
    return grid + [s for s in rest if not aside(s)], [s for s in rest if aside(s)]


def _mm(dtype: str, m: int, k: int, n: int) -> str:
    name = "_scaled_mm" if dtype == "fp8" else "mm"
    return f"compute:aten::{name} {dtype}[{m}x{k}] {dtype}[{k}x{n}]"


def _bmm(batch: int, n: int, k: int) -> str:
    return f"compute:aten::bmm bf16[{batch}x{n}x{k}] bf16[{batch}x{k}x{n}]"


def _attention_ops(batch: int, heads: int, length: int, width: int) -> Iterable[str]:
    name = "compute:aten::_scaled_dot_product_flash_attention"
    q = f"bf16[{batch}x{heads}x{length}x{width}]"
    return f"{name} {q} {q} {q}", f"{name}_backward {q} {q} {q} {q}"


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
