"""Record this machine's memory, matrix products and torch ops with the drivers of ``hil/``.

``python benchmarks/record_devices.py LIST OUT [--python PYTHON]``, LIST being ``host``, ``gpt``
or ``resnet50``; PYTHON has torch and foretrace.  One core, one thread, the CPU clock; jemalloc
that keeps what is freed, as in ``record.py``.  Each list has the ops of the bundled trace, families
of shapes around them, its ops again each after those before it in the graph, the graph's ops
done in order (``compute:graph``), and real training steps (``compute:step``), interleaved in the
same starts of the process.
"""

import argparse
import ctypes.util
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
SQUARE = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
TALL = ((256, 256, 2048), (256, 2048, 256), (2048, 256, 256), (64, 1024, 1024), (16, 4096, 256))
IMAGES = ((64, 56), (128, 28), (256, 14), (512, 7))
BUSY = 2.0  # others may use the machine, as they do; each sample has the load
BEFORE = {"gpt": 12, "resnet50": 3}  # ops that restore what the caches hold; more are larger
KEEP_MEMORY = "dirty_decay_ms:-1,muzzy_decay_ms:-1"


def host() -> list[str]:
    """Memory by size, and products."""
    verbs = ("copy:h2h", "host:read", "host:fill", "host:chase")
    moved = [f"{verb} uint8[{n}]" for verb in verbs for n in SIZES]
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
    parser.add_argument("list", choices=("host", "gpt", "resnet50"))
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
