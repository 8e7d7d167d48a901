"""Op lists for recordings of this machine: shapes, drawn independently of the judged models."""

import random
import re
from collections.abc import Collection, Sequence

from foretrace.sim.facts.signature import Operand, parse_signature

SIZES = [1 << i for i in range(12, 28)]  # 4 KiB to 128 MiB
BEND = [round(2 ** (i / 4)) >> 12 << 12 for i in range(4 * 22, 4 * 27)]  # from 4 MiB, whole pages
MOVES = ("copy:h2h", "host:read", "host:fill")
SQUARE = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
TALL = ((256, 256, 2048), (256, 2048, 256), (2048, 256, 256), (64, 1024, 1024), (16, 4096, 256))
IMAGES = ((64, 56), (128, 28), (256, 14), (512, 7))


def host() -> list[str]:
    """Memory ops by size, and GEMMs."""
    moved = [f"{verb} uint8[{n}]" for verb in MOVES for n in sorted({*SIZES, *BEND})]
    moved += [f"host:chase uint8[{n}]" for n in SIZES]
    added = [f"compute:aten::add fp32[{n // 4}] fp32[{n // 4}]" for n in SIZES[:-2]]
    return [*moved, *added, *products("fp32"), *products("fp64")[:6]]


def sizes() -> list[str]:
    """Memory ops at further sizes: four per octave from 4 KiB to 128 MiB."""
    every = {round(2 ** (i / 4 + 1 / 8)) >> 9 << 9 for i in range(4 * 12, 4 * 27)}
    return [f"{verb} uint8[{n}]" for verb in MOVES for n in sorted(every - {*SIZES, *BEND})]


def products(dtype: str) -> list[str]:
    """GEMMs, square and non-square."""
    shapes = [*((n, n, n) for n in SQUARE), *TALL]
    return [f"compute:aten::mm {dtype}[{m}x{k}] {dtype}[{k}x{n}]" for m, k, n in shapes]


def families() -> list[str]:
    """Shapes around those of the traces, by kind of op."""
    found = products("fp32")
    for n in SIZES[:-4:2]:
        one = f"fp32[{n // 4}]"
        found += [f"compute:aten::{op} {one}" for op in ("sqrt", "gelu")]
        found += [f"compute:aten::{op} {one} {one}" for op in ("add", "mul", "lerp_", "copy_")]
    for width in (128, 256, 512, 1024):
        rows = f"fp32[256x{width}]"
        found.append(f"compute:aten::native_layer_norm {rows} fp32[{width}] fp32[{width}]")
        found += [f"compute:aten::{op} {rows}" for op in ("_softmax", "_log_softmax")]
    for length in (32, 64, 128, 256):
        q = f"fp32[4x4x{length}x64]"
        name = "_scaled_dot_product_flash_attention_for_cpu"
        found.append(f"compute:aten::{name} {q} {q} {q}")
    return found


def images() -> list[str]:
    """Convolutions and norms around those of ResNet-50."""
    found = []
    for width, size in IMAGES:
        x = f"fp32[2x{width}x{size}x{size}]"
        for k in (1, 3):
            weight = f"fp32[{width}x{width}x{k}x{k}]"
            found.append(f"compute:aten::convolution stride=1 {x} {weight}")
            found.append(f"compute:aten::convolution_backward {x} {x} {weight}")
        statistics = " ".join([f"fp32[{width}]"] * 4)
        found.append(f"compute:aten::native_batch_norm {x} {statistics}")
        found += [f"compute:aten::{op} {x} {x}" for op in ("add_", "threshold_backward")]
    return found


def shapes() -> list[str]:
    """Shapes of no model, for every family that matters in training steps.

    They are drawn with a seed over the range of typical layers.
    """
    draw = random.Random("foretrace-shapes")
    found = [s for _ in range(24) for s in _convolution_ops(draw)]
    found += [s for _ in range(14) for s in _normalisation_ops(draw)]
    found += [s for _ in range(8) for s in _attention_ops(draw)]
    found += [s for _ in range(6) for s in _pooling_ops(draw)]
    for op, operands in ELEMENTWISE.items():
        for _ in range(5):
            one = f"fp32[{round(2 ** draw.uniform(8, 22))}]"
            found.append(" ".join([f"compute:aten::{op}", *[one] * operands]))
    for _ in range(16):
        m, k, n = (round(2 ** draw.uniform(low, 11)) for low in (0, 6, 6))
        found.append(f"compute:aten::mm fp32[{m}x{k}] fp32[{k}x{n}]")
    draw = random.Random("foretrace-shapes-2")  # of families that had few
    found += [s for _ in range(30) for s in _convolution_ops(draw) if "x3x3]" in s]
    found += [s for _ in range(12) for s in _attention_ops(draw)]
    found += [s for _ in range(14) for s in _pooling_ops(draw)]
    found += [
        s for _ in range(10) for s in _normalisation_ops(draw) if "batch" in s or "::sum" in s
    ]
    for op in ("gelu", "gelu_backward"):
        for _ in range(9):
            one = f"fp32[{round(2 ** draw.uniform(8, 22))}]"
            found.append(" ".join([f"compute:aten::{op}", *[one] * ELEMENTWISE[op]]))
    return list(dict.fromkeys(found))


SMALL_IMAGE = 20480  # elements of one image up to which torch takes im2col (Convolution.cpp)
ELEMENTWISE = {
    "sqrt": 1, "gelu": 1, "gelu_backward": 2, "add": 2, "add_": 2, "mul": 2, "mul_": 2, "div": 2,
    "lerp_": 2, "addcdiv_": 3, "addcmul_": 3, "copy_": 2, "clamp_min_": 1, "threshold_backward": 2,
    "fill_": 1, "zero_": 1,
}  # fmt: skip


def _convolution_ops(draw: random.Random) -> list[str]:
    """A convolution and its gradients, with a kernel of 1 (im2col) and of 3."""
    batch, size = draw.choice((1, 2, 4, 8)), draw.choice((2, 3, 4, 7, 8, 14, 16, 28))
    inputs, outputs = (1 << draw.randrange(5, 12) for _ in range(2))
    found = []
    for kernel, forward, backward in (
        (1, "_slow_conv2d_forward", "_slow_conv2d_backward"),
        (3, "mkldnn_convolution", "convolution_backward"),
    ):
        much = kernel * kernel * batch * inputs * outputs * size * size > 1 << 29
        if much or (kernel == 3 and batch * inputs * size * size <= SMALL_IMAGE):
            continue
        x, y = (f"fp32[{batch}x{n}x{size}x{size}]" for n in (inputs, outputs))
        weight = f"fp32[{outputs}x{inputs}x{kernel}x{kernel}]"
        found.append(f"compute:aten::{forward} stride=1 {x} {weight}")
        found.append(f"compute:aten::{backward} {y} {x} {weight}")
    return found


def _normalisation_ops(draw: random.Random) -> list[str]:
    """Normalisations over images and rows, and their gradients."""
    batch, size = draw.choice((1, 2, 4, 8, 16)), draw.choice((2, 4, 7, 8, 14, 16, 28, 32))
    width, rows = 1 << draw.randrange(5, 12), round(2 ** draw.uniform(3, 10))
    x, row = f"fp32[{batch}x{width}x{size}x{size}]", f"fp32[{rows}x{width}]"
    one = f"fp32[{width}]"
    found = [
        f"native_layer_norm {row} {one} {one}",
        f"native_layer_norm_backward {row} {row} fp32[{rows}x1] fp32[{rows}x1] {one} {one}",
        f"_softmax {row}",
        f"_log_softmax {row}",
        f"_log_softmax_backward_data {row} {row}",
        f"sum {row}",
    ]
    if batch * width * size * size <= 1 << 22:
        found.append(f"native_batch_norm {x} {one} {one} {one} {one}")
        found.append(f"native_batch_norm_backward {x} {x} {' '.join([one] * 5)}")
    return [f"compute:aten::{s}" for s in found]


def _attention_ops(draw: random.Random) -> list[str]:
    """Attention and its gradients."""
    batch, heads = draw.choice((1, 2, 4)), draw.choice((2, 4, 8))
    length, width = round(2 ** draw.uniform(4, 9)), draw.choice((32, 64, 128))
    name, q = (
        "_scaled_dot_product_flash_attention_for_cpu",
        f"fp32[{batch}x{heads}x{length}x{width}]",
    )
    gradients = " ".join([q] * 5 + [f"fp32[{batch}x{length}x{heads}]"])
    return [f"compute:aten::{name} {q} {q} {q}", f"compute:aten::{name}_backward {gradients}"]


def _pooling_ops(draw: random.Random) -> list[str]:
    """Max pooling and its gradient."""
    batch, width = draw.choice((1, 2, 4, 8)), draw.choice((16, 32, 64, 128))
    size = draw.choice((8, 16, 32, 56))
    x, half = (
        f"fp32[{batch}x{width}x{size}x{size}]",
        f"fp32[{batch}x{width}x{size // 2}x{size // 2}]",
    )
    name = "compute:aten::max_pool2d_with_indices"
    return [f"{name} {x}", f"{name}_backward {half} {x} int64{half[4:]}"]


def rare(used: Collection[tuple[Operand, ...]] = ()) -> list[str]:
    """Shapes of families with few shapes so far; operands in ``used`` are left out.

    1x1 convolutions over small images are GEMMs of one to sixteen columns with weights of up to 8
    MiB; half of the channel counts are powers of two.
    """
    draw = random.Random("foretrace-rare")
    found = [s for _ in range(44) for s in _few_pixels(draw)]
    found += [s for _ in range(14) for s in _sum_ops(draw)]
    found += [s for _ in range(14) for s in _normalisation_ops(draw) if RARE_NORMS.search(s)]
    found += [s for _ in range(8) for s in _pooling_ops(draw)]
    for op in ("gelu", "gelu_backward"):
        for _ in range(8):
            one = f"fp32[{round(2 ** draw.uniform(8, 22))}]"
            found.append(" ".join([f"compute:aten::{op}", *[one] * ELEMENTWISE[op]]))
    return [s for s in dict.fromkeys(found) if parse_signature(s).operands not in used]


RARE_NORMS = re.compile("::(native_batch_norm_backward|native_layer_norm |_log_softmax_backward)")


def _few_pixels(draw: random.Random) -> list[str]:
    """1x1 convolution, image by image, and its gradients."""
    batch = draw.choice((1, 2, 3, 4, 6, 8))
    size = "x".join(str(draw.choice((1, 2, 2, 3, 4))) for _ in range(2))
    inputs, outputs = (_channels(draw) for _ in range(2))
    if inputs * outputs > 1 << 21:
        return []
    x, y = (f"fp32[{batch}x{n}x{size}]" for n in (inputs, outputs))
    weight = f"fp32[{outputs}x{inputs}x1x1]"
    return [
        f"compute:aten::_slow_conv2d_forward stride=1 {x} {weight}",
        f"compute:aten::_slow_conv2d_backward {y} {x} {weight}",
    ]


def _channels(draw: random.Random) -> int:
    """Number of channels, 128 to 4096; half of the draws are a power of two."""
    exact = draw.uniform(7, 12)
    return 1 << round(exact) if draw.random() < 0.5 else 32 * round(2**exact / 32)


def _sum_ops(draw: random.Random) -> list[str]:
    """Sums over rows, and over the complete tensor."""
    rows, width = (round(2 ** draw.uniform(low, high)) for low, high in ((2, 11), (3, 12)))
    wide = 16 * max(1, width // 16)
    return [f"compute:aten::sum fp32[{rows}x{n}]" for n in dict.fromkeys((width, wide))] + [
        f"compute:aten::sum fp32[{rows * width}]"
    ]


def alike(every: Sequence[str], count: int) -> list[str]:
    """Random sample of a list with a fixed seed, equal in each run."""
    draw = random.Random("foretrace-cold")
    return sorted(draw.sample(sorted(every), min(count, len(every))))
