"""Measure what ops alone do not tell: launches, long loops under power, attention programs.

    python -m foretrace.calibration.record.gpu_facts OUT.jsonl [NAME …]

One line a measurement: what, sizes, seconds (median of repeats unless a name says otherwise). Needs
torch and a GPU.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

Row = dict[str, Any]
DEVICE = "cuda:0"


def state() -> Row:
    """Clocks, power and temperature of the GPU now."""
    import pynvml as n

    n.nvmlInit()
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    return {
        "mhz": n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM),
        "watts": n.nvmlDeviceGetPowerUsage(gpu) / 1000,
        "celsius": n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU),
        "reasons": n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    }


def timed(call: Callable[[], object], n: int = 10) -> float:
    """Median time of a call in s, by events queued behind a sleep."""
    for _ in range(3):
        call()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000)
    for begin, end in pairs:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return float(np.median([b.elapsed_time(e) for b, e in pairs])) / 1e3


def launches() -> Iterator[Row]:
    """Time to launch from the host, and between kernels on the GPU, eager and from a graph."""
    count = 2000
    for numbers in (1, 1 << 20, 1 << 23):
        x = torch.zeros(numbers, device=DEVICE)

        def many(x: Tensor = x) -> None:
            for _ in range(count):
                x.add_(1.0)

        many()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        many()
        host = time.perf_counter() - begin
        torch.cuda.synchronize()
        whole = time.perf_counter() - begin
        yield {"what": "eager launches", "numbers": numbers, "host": host / count,
               "seconds": whole / count}  # fmt: skip
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            many()
        yield {"what": "graph launches", "numbers": numbers, "seconds": timed(graph.replay) / count}
        yield {"what": "one kernel between events", "numbers": numbers,
               "seconds": timed(lambda x=x: x.add_(1.0), 50)}  # fmt: skip
    y = torch.zeros(64, 64, device=DEVICE, dtype=torch.bfloat16)
    calls: dict[str, Callable[[], object]] = {
        "mm": lambda: y @ y,
        "gelu": lambda: F.gelu(y),
        "layer_norm": lambda: F.layer_norm(y, (64,)),
        "empty": lambda: torch.empty(1, device=DEVICE),
        "view": lambda: y.view(-1),
    }
    for name, call in calls.items():
        for _ in range(100):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(1000):
            call()
        yield {"what": "host time of an operator", "name": name,
               "seconds": (time.perf_counter() - begin) / 1000}  # fmt: skip
        torch.cuda.synchronize()


def sustained() -> Iterator[Row]:
    """Long loops of one GEMM: its time by the part of the loop, clocks and power at the end."""
    makers: dict[str, Callable[..., Tensor]] = {
        "normal": torch.randn,
        "0.5 to 1.5": lambda *shape, **how: torch.rand(*shape, **how) + 0.5,
        "zeros": torch.zeros,
    }
    for n in (8192, 4096, 2048):
        for name, make in makers.items():
            x, y = (make(n, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
            out = torch.empty_like(x)
            count = max(20, int(1.2 / (2 * n**3 / 6e14)))
            torch.cuda.synchronize()
            time.sleep(0.3)
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
            before = state()
            torch.cuda._sleep(2_000_000)
            marks[0].record()
            for mark in marks[1:]:
                torch.mm(x, y, out=out)
                mark.record()
            while not marks[-max(2, count // 20)].query():
                time.sleep(0.005)
            at_work = state()
            torch.cuda.synchronize()
            each = np.array([a.elapsed_time(b) for a, b in pairwise(marks)])
            tenth = [float(np.median(part)) / 1e3 for part in np.array_split(each, 10)]
            yield {"what": "long loop of mm bf16", "n": n, "values": name, "count": count,
                   "first": float(each[:3].mean()) / 1e3, "seconds": tenth,
                   "before": before, "at_work": at_work}  # fmt: skip


def powers() -> Iterator[Row]:
    """Half a second of one op each: its time at the end, clocks and power then."""
    how: Row = {"device": DEVICE, "dtype": torch.bfloat16}
    x, weight = torch.randn(8192, 4096, **how), torch.randn(4096, **how)
    q = torch.randn(2, 32, 4096, 128, **how, requires_grad=True)
    out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    gradient, one = torch.randn_like(out), torch.ones((), device=DEVICE)
    big = torch.randn(1 << 28, **how)
    a8, b8 = (torch.randn(8192, 8192, device=DEVICE).to(torch.float8_e4m3fn) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {
        "scaled_mm fp8 8192": lambda: torch._scaled_mm(
            a8, b8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        ),
        "scaled_mm fp8 8192 fast_accum": lambda: torch._scaled_mm(
            a8, b8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        ),
        "attention": lambda: F.scaled_dot_product_attention(
            q.detach(), q.detach(), q.detach(), is_causal=True
        ),
        "attention backward": lambda: torch.autograd.grad(out, q, gradient, retain_graph=True),
        "add": lambda: big + big,
        "gelu": lambda: F.gelu(big),
        "layer_norm": lambda: F.layer_norm(x, (4096,), weight, weight),
        "sum": lambda: big.sum(),
    }
    for m, k, n in ((8192, 768, 2304), (8192, 2048, 8192), (8192, 4096, 28672),
                    (1024, 4096, 6144), (64, 8192, 28672), (4096, 8192, 4096)):  # fmt: skip
        a, b = torch.randn(m, k, **how), torch.randn(k, n, **how)
        calls[f"mm bf16 {m} {k} {n}"] = lambda a=a, b=b: a @ b
    for name, call in calls.items():
        once = timed(call, 5)
        count = max(10, int(0.5 / once))
        torch.cuda.synchronize()
        for _ in range(count):
            call()
        at_work = state()
        yield {"what": "long loop", "name": name, "alone": once, "seconds": timed(call, 20),
               "count": count, "at_work": at_work}  # fmt: skip
        torch.cuda.synchronize()
        time.sleep(0.2)


def copies() -> Iterator[Row]:
    """Copies between host and GPU, from pinned memory and not: wall time with waiting."""
    for size in (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28):
        there = torch.zeros(size, dtype=torch.uint8, device=DEVICE)
        for pinned in (True, False):
            here = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
            for way, (a, b) in {"h2d": (there, here), "d2h": (here, there)}.items():
                took = []
                for _ in range(12):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    a.copy_(b)
                    torch.cuda.synchronize()
                    took.append(time.perf_counter() - begin)
                yield {"what": "copy, wall", "way": way, "pinned": pinned, "bytes": size,
                       "seconds": float(np.median(took[2:]))}  # fmt: skip
    big = torch.ones(1 << 32, dtype=torch.uint8, device=DEVICE)
    other = torch.empty_like(big)
    yield {"what": "copy d2d", "bytes": 1 << 32, "seconds": timed(lambda: other.copy_(big), 5)}


def updates() -> Iterator[Row]:
    """AdamW over the tensors of a GPT, fused and foreach; norm and limit of the gradients."""
    for hidden, layers in ((768, 12), (2048, 24)):
        h = hidden
        one = [(3 * h, h), (3 * h,), (h, h), (h,), (4 * h, h), (4 * h,), (h, 4 * h), (h,)]
        shapes = [(50304, h), (1024, h), *([*one, (h,), (h,), (h,), (h,)] * layers)]
        for dtype in (torch.float32, torch.bfloat16):
            weights = [torch.zeros(s, device=DEVICE, dtype=dtype).requires_grad_() for s in shapes]
            for w in weights:
                w.grad = torch.ones_like(w)
            for how in ("fused", "foreach"):
                update = torch.optim.AdamW(weights, lr=0.0, **{how: True})  # type: ignore[arg-type]
                yield {"what": "adamw", "how": how, "hidden": h, "layers": layers,
                       "dtype": str(dtype), "numbers": sum(w.numel() for w in weights),
                       "tensors": len(weights), "seconds": timed(update.step, 5)}  # fmt: skip
                del update
            yield {"what": "clip_grad_norm_", "hidden": h, "dtype": str(dtype), "seconds":
                   timed(lambda w=weights: torch.nn.utils.clip_grad_norm_(w, 1.0), 5)}  # fmt: skip
            del weights


def attentions() -> Iterator[Row]:
    """Attention and its gradients by each of torch's programs, and by the one that it chooses."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    programs = {
        "chosen": None,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    for batch, heads, shared, length, width in (
        (8, 12, 12, 1024, 64), (4, 16, 16, 2048, 128), (2, 32, 8, 4096, 128), (1, 32, 8, 16384, 128)
    ):  # fmt: skip
        for name, program in programs.items():
            row = {"what": "attention", "program": name,
                   "shape": [batch, heads, shared, length, width]}  # fmt: skip
            try:
                how = {"device": DEVICE, "dtype": torch.bfloat16, "requires_grad": True}
                q = torch.randn(batch, heads, length, width, **how)  # type: ignore[arg-type]
                k, v = (torch.randn(batch, shared, length, width, **how) for _ in range(2))  # type: ignore[arg-type]

                def forward(
                    q: Tensor = q, k: Tensor = k, v: Tensor = v, grouped: bool = heads != shared
                ) -> Tensor:
                    return F.scaled_dot_product_attention(
                        q, k, v, is_causal=True, enable_gqa=grouped
                    )

                with nullcontext() if program is None else sdpa_kernel(program):
                    out = forward()
                    gradient = torch.randn_like(out)
                    row["forward"] = timed(forward)
                    row["backward"] = timed(
                        lambda o=out, g=gradient, q=q, k=k, v=v: torch.autograd.grad(
                            o, (q, k, v), g, retain_graph=True
                        )
                    )
            except Exception as error:
                row["failed"] = str(error)[:300]
            yield row


def losses() -> Iterator[Row]:
    """Cross entropy of bf16 logits with its gradient, as torch computes it."""
    for rows, words in ((8192, 50304), (8192, 128256)):
        x = torch.randn(rows, words, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        target = torch.randint(words, (rows,), device=DEVICE)
        loss = F.cross_entropy(x, target)
        yield {"what": "cross entropy", "rows": rows, "words": words,
               "forward": timed(lambda x=x, t=target: F.cross_entropy(x, t), 5),
               "backward": timed(lambda loss=loss, x=x:
                                 torch.autograd.grad(loss, x, retain_graph=True), 5)}  # fmt: skip
        del x, loss


def scaling() -> Iterator[Row]:
    """Compiled casts of bf16 to fp8: a given scale, the tensor's maximum, the rows' maxima."""
    largest, fp8 = 448.0, torch.float8_e4m3fn

    def given(x: Tensor) -> Any:
        return (x.float() * 2.0).clamp(-largest, largest).to(fp8)

    def of_tensor(x: Tensor) -> Any:
        scale = x.abs().amax().float() / largest
        return (x.float() / scale).clamp(-largest, largest).to(fp8), scale

    def of_rows(x: Tensor) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / largest
        return (x.float() / scale).clamp(-largest, largest).to(fp8), scale

    def both(x: Tensor) -> Any:
        y = (x.float() * 2.0).clamp(-largest, largest).to(fp8)
        return y, y.t().contiguous()

    for how in (given, of_tensor, of_rows, both):
        for rows, width in ((1024, 4096), (8192, 4096), (8192, 14336)):
            does = torch.compile(how, dynamic=False)
            x = torch.randn(rows, width, device=DEVICE, dtype=torch.bfloat16)
            yield {"what": "scaling to fp8", "how": how.__name__, "rows": rows, "width": width,
                   "seconds": timed(lambda d=does, x=x: d(x))}  # fmt: skip


PARTS = {f.__name__: f for f in
         (launches, sustained, powers, attentions, updates, losses, copies, scaling)}  # fmt: skip


def main() -> None:
    out = Path(sys.argv[1])
    for name in sys.argv[2:] or PARTS:
        try:
            for row in PARTS[name]():
                with out.open("a") as file:
                    file.write(json.dumps({"part": name, **row}) + "\n")
        except Exception:
            with out.open("a") as file:
                file.write(json.dumps({"part": name, "failed": traceback.format_exc()}) + "\n")
        print(name, "done", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
