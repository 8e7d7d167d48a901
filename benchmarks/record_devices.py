"""Record this machine's memory, matrix products and torch ops with the drivers of ``hil/``.

``python benchmarks/record_devices.py LIST OUT [--python PYTHON]``, LIST being ``host``, ``gpt``,
``resnet50`` or ``shapes``; PYTHON has torch and foretrace.  One core, one thread, the CPU clock;
jemalloc that keeps what is freed, as in ``record.py``.  The lists of models have the ops of the
bundled trace, families of shapes around them, its ops again each after those before it in the
graph, the graph's ops done in order (``compute:graph``), and real training steps
(``compute:step``), interleaved in the same starts of the process; ``shapes`` are of no model.
"""

import argparse
import ctypes.util
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from foretrace.hil import conditions
from foretrace.hil.address import Address
from foretrace.hil.client import Remote
from foretrace.hil.measure import measure
from foretrace.hil.recording import SUFFIX
from foretrace.hil.sample import Request
from foretrace.hil.start import own
from foretrace.hil.transport import child
from foretrace.hil.work import Work
from foretrace.scenarios.hil_work import strides_of

STEPS = Path(__file__).with_name("_steps.py")
SIZES = [1 << i for i in range(12, 28)]  # 4 KiB to 128 MiB
BEND = [round(2 ** (i / 4)) >> 12 << 12 for i in range(4 * 22, 4 * 27)]  # from 4 MiB, whole pages
SQUARE = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
TALL = ((256, 256, 2048), (256, 2048, 256), (2048, 256, 256), (64, 1024, 1024), (16, 4096, 256))
IMAGES = ((64, 56), (128, 28), (256, 14), (512, 7))
BUSY = 2.0  # others may use the machine, as they do; each sample has the load
BEFORE = {"gpt": 12, "resnet50": 3}  # ops that restore what the caches hold; more are larger
KEEP_MEMORY = "dirty_decay_ms:-1,muzzy_decay_ms:-1"


def host() -> list[str]:
    """Memory by size, and products."""
    verbs, sizes = ("copy:h2h", "host:read", "host:fill"), sorted({*SIZES, *BEND})
    moved = [f"{verb} uint8[{n}]" for verb in verbs for n in sizes]
    moved += [f"host:chase uint8[{n}]" for n in SIZES]
    added = [f"compute:aten::add fp32[{n // 4}] fp32[{n // 4}]" for n in SIZES[:-2]]
    return [*moved, *added, *products("fp32"), *products("fp64")[:6]]


def products(dtype: str) -> list[str]:
    """Matrix products, square and not."""
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
    """Convolutions and their normalisation, around those of ResNet-50."""
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
    """Shapes of no model, of every family that training steps spend time in.

    Drawn by a seed over the range that layers have, so that no shape is there for another's sake.
    """
    draw = random.Random("foretrace-shapes")
    found = [s for _ in range(24) for s in _convolved(draw)]
    found += [s for _ in range(14) for s in _normed(draw)]
    found += [s for _ in range(8) for s in _attended(draw)]
    found += [s for _ in range(6) for s in _pooled(draw)]
    for op, operands in ELEMENTWISE.items():
        for _ in range(5):
            one = f"fp32[{round(2 ** draw.uniform(8, 22))}]"
            found.append(" ".join([f"compute:aten::{op}", *[one] * operands]))
    for _ in range(16):
        m, k, n = (round(2 ** draw.uniform(low, 11)) for low in (0, 6, 6))
        found.append(f"compute:aten::mm fp32[{m}x{k}] fp32[{k}x{n}]")
    draw = random.Random("foretrace-shapes-2")  # of families that had few
    found += [s for _ in range(30) for s in _convolved(draw) if "x3x3]" in s]
    found += [s for _ in range(12) for s in _attended(draw)]
    found += [s for _ in range(14) for s in _pooled(draw)]
    found += [s for _ in range(10) for s in _normed(draw) if "batch" in s or "::sum" in s]
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


def _convolved(draw: random.Random) -> list[str]:
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


def _normed(draw: random.Random) -> list[str]:
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


def _attended(draw: random.Random) -> list[str]:
    """Attention and its gradients."""
    batch, heads = draw.choice((1, 2, 4)), draw.choice((2, 4, 8))
    length, width = round(2 ** draw.uniform(4, 9)), draw.choice((32, 64, 128))
    name, q = (
        "_scaled_dot_product_flash_attention_for_cpu",
        f"fp32[{batch}x{heads}x{length}x{width}]",
    )
    gradients = " ".join([q] * 5 + [f"fp32[{batch}x{length}x{heads}]"])
    return [f"compute:aten::{name} {q} {q} {q}", f"compute:aten::{name}_backward {gradients}"]


def _pooled(draw: random.Random) -> list[str]:
    """The largest of windows, and its gradient."""
    batch, width = draw.choice((1, 2, 4, 8)), draw.choice((16, 32, 64, 128))
    size = draw.choice((8, 16, 32, 56))
    x, half = (
        f"fp32[{batch}x{width}x{size}x{size}]",
        f"fp32[{batch}x{width}x{size // 2}x{size // 2}]",
    )
    name = "compute:aten::max_pool2d_with_indices"
    return [f"{name} {x}", f"{name}_backward {half} {x} int64{half[4:]}"]


def recorded(name: str) -> tuple[list[str], list[str]]:
    """All ops of a bundled trace, and those of its third iteration in order."""
    from foretrace.scenarios.workloads import open_trace

    ops = open_trace(f"foretrace:{name}").graph().ops
    rows = np.flatnonzero(ops.iteration == 3)
    return sorted(set(ops.signatures)), [ops.signature_text(int(r)) for r in rows]


def preceded(graph: list[str], before: int) -> dict[str, tuple[str, ...]]:
    """Each distinct op of a graph, and the ops right before its first place there."""
    first = {signature: i for i, signature in reversed(list(enumerate(graph))) if i >= before}
    return {s: tuple(graph[i - before : i]) for s, i in first.items()}


def work(name: str, repeats: int, seconds: float) -> Work:
    """The list of that name."""
    limits = {"starts": 4, "most_starts": 4, "blocks": 4, "seconds": seconds, "busy": BUSY}
    if name == "host":
        asked = tuple(Request(s, repeats) for s in host())
        return Work("host", asked, **limits)
    if name == "shapes":
        asked = tuple(Request(s, repeats) for s in shapes())
        return Work("torch", asked, **limits)
    from foretrace.hil.torch_device import Torch

    every, once = recorded(name)
    able = Torch()
    strides = strides_of(every)
    around = families() if name == "gpt" else images()
    known = [s for s in every if s and able.answers(s) and _told(s, strides)]
    asked = [Request(s, repeats) for s in dict.fromkeys([*known, *around])]
    asked += [Request(f"compute:graph {name}", 2), Request(f"compute:step {name}", 2)]
    graph = [s for s in once if s in set(known)]
    context = preceded(graph, BEFORE[name])
    asked += [Request(s, repeats, "after", before) for s, before in context.items()]
    spec = {"strides": strides, "graphs": {name: graph}}
    return Work("torch-zoo", tuple(asked), spec, **limits)


def _told(signature: str, strides: dict[str, int]) -> bool:
    """A convolution needs its stride, a concatenation its operands."""
    if "cat" in signature.split() or signature == "compute:aten::cat":
        return False
    forward = ("conv" in signature) and "backward" not in signature
    return not forward or signature in strides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", choices=("host", "gpt", "resnet50", "shapes"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default="")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=165.0)
    args = parser.parse_args()
    asked = work(args.list, args.repeats, args.seconds)
    preload = {"LD_PRELOAD": str(ctypes.util.find_library("jemalloc")), "MALLOC_CONF": KEEP_MEMORY}

    def opener() -> Remote:
        wait_for_idleness(patience=10)
        if args.list == "host":
            return Remote(Address().open(), "host")
        load = (str(STEPS),)
        address = Address("torch", python=args.python, load=load, environment=preload)
        if args.python:  # that Python has the whole package, which the steps need
            command = [args.python, *own()[1:], "--stdio", "--load", str(STEPS)]
            return Remote(child(command, {**threads(), **preload}), asked.driver)
        return Remote(address.open(), asked.driver)

    kept = measure(asked, opener, lambda text: print(text, file=sys.stderr, flush=True))
    kept = replace(kept, driver=asked.driver.partition("-")[0], note=" ".join(sys.argv[1:2]))
    path = args.out / f"{args.list}-{kept.date[:10]}{SUFFIX}"
    kept.write(path)
    print(path, len(kept.samples), "samples", kept.ended, path.stat().st_size, "B")


def wait_for_idleness(patience: int) -> None:
    """Until the others leave a second in peace, or patience ends."""
    for _ in range(patience):
        if conditions.used_by_others(1.0) < 0.3:
            return


def threads() -> dict[str, str]:
    from foretrace.hil.start import ONE_THREAD

    return ONE_THREAD


if __name__ == "__main__":
    main()
