"""Write the plan of the recordings `*-h100`: ops of transformers and other layers on one GPU.

    python -m foretrace.calibration.record.gpu plan.json [--part first|second]
    python3 foretrace-agent.pyz --plan plan.json --out kept

The lists of ``hil plan gpu`` and more: GEMMs of transformers of 125M to 70B parameters at 1 to 16k
tokens, forward and both gradients; few rows of decoding; fp8 with and without the scaling of the
first operand; attention with grouped heads to 16k tokens; updates. An op has few repeats where it
takes long. GEMMs and attention have normally distributed operands. ``first`` has the most important
lists, ``second`` the rest.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from foretrace.hil.measuring.plan import PlanPiece, RecordingPlan
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.sample import COLD, WARM, Request
from foretrace.models.compute.demand import demand
from foretrace.scenarios.studies.fitting.gpu_shapes import drawn, signatures_of_list

MODELS = {  # hidden, outputs of query, key and value, of the way up, inner, words
    "125m": (768, 2304, 3072, 3072, 50304),
    "350m": (1024, 3072, 4096, 4096, 50304),
    "1.3b": (2048, 6144, 8192, 8192, 50304),
    "8b": (4096, 6144, 28672, 14336, 128256),
    "13b": (5120, 15360, 27648, 13824, 32000),
    "70b": (8192, 10240, 57344, 28672, 128256),
}
TOKENS = (1024, 2048, 4096, 8192, 16384)
FEW = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LARGEST = 4e12  # flop: about 6 ms
RATE, BANDWIDTH = 5e14, 2e12  # flop/s and B/s, to choose repeats
BATCH_SECONDS, MOST, FEWEST = 6e-3, 10, 4
BUSY = 8.0
NORMAL = ("gemm", "attention", "fp8", "shapes")  # lists
EACH = 0.07  # s of an op


def mm(m: int, k: int, n: int, dtype: str = "bf16", told: str = "") -> str:
    name = "_scaled_mm" if dtype.startswith("fp8") else "mm"
    return f"compute:aten::{name} {told}{dtype}[{m}x{k}] {dtype}[{k}x{n}]"


def transformer_gemms() -> Iterator[str]:
    """GEMMs of training: forward, gradient of the input, gradient of the weights."""
    for hidden, qkv, up, inner, words in MODELS.values():
        for m in TOKENS:
            pairs = [(hidden, qkv), (hidden, hidden), (hidden, up), (inner, hidden)]
            for k, n in pairs + ([(hidden, words)] if m in (2048, 8192) else []):
                yield from (s for s in (mm(m, k, n), mm(m, n, k), mm(k, m, n)) if fits(s))


def decode_gemms() -> Iterator[str]:
    """GEMMs of few rows, as in decoding."""
    for name in ("8b", "70b"):
        hidden, qkv, up, inner, _ = MODELS[name]
        for m in FEW:
            yield from (mm(m, k, n) for k, n in ((hidden, qkv), (hidden, up), (inner, hidden)))


def other_types() -> Iterator[str]:
    """A fifth of the GEMMs of transformers in fp16 and tf32."""
    every = list(dict.fromkeys(transformer_gemms()))[::5]
    for dtype in ("fp16", "tf32"):
        yield from (s.replace("bf16", dtype) for s in every)


def fp8_gemms() -> Iterator[str]:
    """GEMMs of quantized operands, forward of transformers and of few rows."""
    for name in ("1.3b", "8b", "70b"):
        hidden, qkv, up, inner, _ = MODELS[name]
        for m in (16, 128, 1024, 4096, 16384):
            for k, n in ((hidden, qkv), (hidden, up), (inner, hidden)):
                for fast in ("", "fast_accum=1 "):
                    s = mm(m, k, n, "fp8", f"quantized=1 {fast}")
                    yield from [s] if fits(s) else []
    size, rows = drawn("h100 fp8", 7, 13, 16), drawn("h100 fp8 rows", 4, 13, 16)
    for _ in range(24):
        yield mm(rows(), size(), size(), "fp8", "quantized=1 ")


def scaling() -> Iterator[str]:
    """fp8 GEMMs with the scaling of their first operand, next to the same ones without."""
    for m in (128, 1024, 4096, 16384):
        yield from (mm(m, k, n, "fp8") for k, n in ((4096, 6144), (14336, 4096)))


def long_attention() -> Iterator[str]:
    """Attention of up to 16k tokens and its gradients, grouped heads, not causal too."""
    forward, backward = "compute:fused::flash_attention", "compute:fused::attention_backward"
    for tokens in (8192, 16384):
        for length in (512, 1024, 2048, 4096, 8192, 16384):
            for heads, shared, width in ((12, 12, 64), (32, 32, 128), (32, 8, 128), (64, 8, 128)):
                for causal in (0, 1):
                    batch = tokens // length
                    q, k = (f"bf16[{batch}x{h}x{length}x{width}]" for h in (heads, shared))
                    stats = f"fp32[{batch}x{heads}x{length}]"
                    if batch and (causal or length in (512, 4096)):
                        yield f"{forward} causal={causal} {q} {k} {k}"
                        yield f"{backward} causal={causal} {q} {q} {k} {k} {q} {stats}"


def updates() -> Iterator[str]:
    """Optimizer updates and norms of gradients."""
    for n in (1 << 20, 7_080_000, 38_597_376, 124_000_000, 353_000_000, 1_000_000_000):
        yield f"compute:aten::_fused_adamw_ fp32[{n}]"
        yield f"compute:aten::linalg_vector_norm fp32[{n}]"


def losses() -> Iterator[str]:
    """Softmax over vocabularies, RMS norms, means and their gradients as torch has them."""
    for rows, words in ((1024, 32000), (4096, 50304), (8192, 50304), (4096, 128256)):
        x = f"fp32[{rows}x{words}]"
        yield f"compute:aten::_log_softmax {x}"
        yield f"compute:aten::_log_softmax_backward_data {x} {x}"
        yield f"compute:aten::copy_ {x} bf16[{rows}x{words}]"
    for rows in (1024, 4096, 16384):
        for width in (2048, 4096, 8192):
            x, one = f"bf16[{rows}x{width}]", f"bf16[{width}]"
            yield f"compute:aten::rms_norm {x} {one}"
            yield f"compute:aten::rms_norm_backward {x} {x} {one}"
            yield f"compute:aten::native_layer_norm {x} {one} {one}"
            yield f"compute:aten::native_layer_norm_backward {x} {x}"


def fits(signature: str) -> bool:
    return demand(signature).flop <= LARGEST


def listed(*names: str) -> Iterator[str]:
    """Ops of lists of ``hil plan gpu``, those that it holds out too."""
    for name in names:
        for part in signatures_of_list(name):
            yield from part


def compiled_norms() -> list[str]:
    """Some of the ops that are compiled, which takes seconds each."""
    return random.Random("h100 norms").sample(list(listed("norms")), 18)


def cold_ops() -> list[str]:
    """Ops of other lists that are timed with emptied caches too."""
    gemms = [*list(transformer_gemms())[::8], *list(decode_gemms())[::3]]
    return [*gemms, *list(listed("pointwise"))[::6], *list(listed("rows"))[::12]]


PARTS: dict[str, dict[str, Callable[[], Iterable[str]]]] = {
    "first": {
        "gemm": lambda: [*listed("launches"), *transformer_gemms(), *decode_gemms()],
        "attention": lambda: [*long_attention(), *listed("decode")],
        "layers": lambda: [*updates(), *losses(), *listed("pointwise")],
        "fp8": lambda: [*fp8_gemms(), *scaling()],
    },
    "second": {
        "rows": lambda: listed("rows", "tables"),
        "shapes": lambda: [*listed("products", "sums", "unaligned", "attention"), *other_types()],
        "cold": lambda: cold_ops(),
        "copies": lambda: listed("memory"),
        "images": lambda: [*listed("images", "experts")],
        "compiled": compiled_norms,
    },
}


def request(signature: str, context: str = WARM) -> Request:
    """Request with few repeats of an op that takes long."""
    asked = demand(signature)
    slower = 8 if "tf32" in signature or "fp32[" in signature.partition("mm ")[2] else 1
    once = asked.flop * slower / RATE + (asked.bytes or 0) / BANDWIDTH
    if signature.startswith(("copy:h2d", "copy:d2h")):
        once = asked.bytes / 2e10
    n = int(min(MOST, max(FEWEST, BATCH_SECONDS / max(once, 1e-9))))
    return Request(signature, n, context)


def piece(name: str, requests: list[Request]) -> PlanPiece:
    values = "normal" if name in NORMAL else "near one"
    work = WorkList(
        "torch", tuple(requests), {"device": "cuda:0", "values": values}, starts=1, most_starts=1,
        blocks=2, seconds=110.0, bytes=1e12, busy=BUSY, note=name,
    )  # fmt: skip
    return PlanPiece(work, round(8 + EACH * len(requests), 1))


def pieces(part: str) -> list[PlanPiece]:
    return [
        piece(name, [request(s, COLD if name == "cold" else WARM) for s in dict.fromkeys(make())])
        for name, make in PARTS[part].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", choices=[*PARTS], default="first")
    args = parser.parse_args()
    plan = RecordingPlan(tuple(pieces(args.part)), 1)
    args.out.write_text(plan.text())
    for one in plan.pieces:
        print(f"{one.name}: {len(one.work.requests)} ops, about {one.seconds:.0f} s")


if __name__ == "__main__":
    main()
