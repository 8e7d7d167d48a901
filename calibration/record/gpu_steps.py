"""Record training steps of one GPU: times, clocks, and a profiler's trace of one step.

    python -m foretrace.calibration.record.gpu_steps OUT [NAME …]

Eager PyTorch with random tokens or images. A step is: forward, loss, backward, the norm of the
gradients limited to 1, AdamW (images: SGD). Times are of the wall clock: ``synced`` waits for the
GPU after each step, ``queued`` after ten. Writes ``steps.jsonl``, one line a configuration, and
``NAME.json.gz`` of the profiler. ``--no-traces`` leaves the profiler out. Needs torch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

WARM_UP, TIMED = 4, 10
IMAGE, CLASSES = 224, 1000


class Gpt(NamedTuple):
    """Sizes of a GPT-2 or, with ``shared``, of a Llama."""

    hidden: int
    layers: int
    heads: int
    words: int = 50304
    inner: int = 0
    shared: int = 0


class Step(NamedTuple):
    """Configuration of a step.

    Parameters
    ----------
    model : sizes of a language model; None for ResNet-50
    types : ``autocast`` (fp32 weights, bf16 ops), ``bf16`` (all bf16) or ``tf32``
    """

    model: Gpt | None
    batch: int
    length: int
    types: str
    update: str = "fused"
    channels_last: bool = False
    compiled: bool = False


GPT_125M, GPT_350M, GPT_1B = Gpt(768, 12, 12), Gpt(1024, 24, 16), Gpt(2048, 24, 16)
LLAMA = Gpt(4096, 4, 32, 128256, 14336, 8)
STEPS = {
    "gpt-125m-autocast": Step(GPT_125M, 8, 1024, "autocast"),
    "gpt-1.3b-bf16": Step(GPT_1B, 4, 2048, "bf16"),
    "llama-8b-4-layers-bf16": Step(LLAMA, 2, 4096, "bf16"),
    "resnet50-autocast": Step(None, 128, 0, "autocast"),
    "gpt-125m-bf16": Step(GPT_125M, 8, 1024, "bf16"),
    "gpt-125m-bf16-batch-32": Step(GPT_125M, 32, 1024, "bf16"),
    "gpt-125m-bf16-tiny": Step(GPT_125M, 1, 64, "bf16"),
    "gpt-350m-autocast": Step(GPT_350M, 8, 1024, "autocast"),
    "gpt-350m-bf16": Step(GPT_350M, 8, 1024, "bf16"),
    "gpt-350m-bf16-foreach": Step(GPT_350M, 8, 1024, "bf16", "foreach"),
    "gpt-1.3b-autocast": Step(GPT_1B, 4, 2048, "autocast"),
    "gpt-1.3b-bf16-batch-1": Step(GPT_1B, 1, 2048, "bf16"),
    "llama-8b-4-layers-autocast": Step(LLAMA, 1, 4096, "autocast"),
    "llama-8b-4-layers-bf16-batch-4": Step(LLAMA, 4, 4096, "bf16"),
    "resnet50-autocast-nhwc": Step(None, 128, 0, "autocast", channels_last=True),
    "resnet50-tf32": Step(None, 64, 0, "tf32"),
    "llama-8b-4-layers-bf16-compiled": Step(LLAMA, 2, 4096, "bf16", compiled=True),
}


class Block(nn.Module):
    """Layer of a GPT-2 or Llama."""

    def __init__(self, of: Gpt):
        super().__init__()
        self.of, self.llama = of, bool(of.shared)
        head = of.hidden // of.heads
        keys, inner = head * (of.shared or of.heads), of.inner or 4 * of.hidden
        bias = not self.llama
        norm = nn.RMSNorm if self.llama else nn.LayerNorm
        self.norm_1, self.norm_2 = norm(of.hidden), norm(of.hidden)
        self.qkv = nn.Linear(of.hidden, of.hidden + 2 * keys, bias=bias)
        self.project = nn.Linear(of.hidden, of.hidden, bias=bias)
        self.up = nn.Linear(of.hidden, inner * (2 if self.llama else 1), bias=bias)
        self.down = nn.Linear(inner, of.hidden, bias=bias)
        self.split, self.head = (of.hidden, keys, keys), head

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.project(self.attend(self.norm_1(x), turn))
        inside = self.up(self.norm_2(x))
        if self.llama:
            gate, value = inside.chunk(2, -1)
            return x + self.down(F.silu(gate) * value)
        return x + self.down(F.gelu(inside))

    def attend(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        batch, length, hidden = x.shape
        q, k, v = (
            t.view(batch, length, -1, self.head).transpose(1, 2)
            for t in self.qkv(x).split(self.split, -1)
        )
        if turn is not None:
            q, k = _turned(q, turn), _turned(k, turn)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.llama)
        return mixed.transpose(1, 2).reshape(batch, length, hidden)


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of queries or keys."""
    cosine, sine = (t.to(x.dtype) for t in turn)
    one, other = x.chunk(2, -1)
    return x * cosine + torch.cat((-other, one), -1) * sine


class Language(nn.Module):
    """GPT-2 (tied words, learned positions) or Llama."""

    def __init__(self, of: Gpt, length: int):
        super().__init__()
        self.of = of
        self.words = nn.Embedding(of.words, of.hidden)
        self.places = None if of.shared else nn.Embedding(length, of.hidden)
        self.blocks = nn.ModuleList(Block(of) for _ in range(of.layers))
        self.norm = (nn.RMSNorm if of.shared else nn.LayerNorm)(of.hidden)
        self.head = nn.Linear(of.hidden, of.words, bias=False)
        if not of.shared:
            self.head.weight = self.words.weight
        angles = torch.rand(length, of.hidden // of.heads)
        self.turn = (angles.cos(), angles.sin()) if of.shared else None
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, self.turn)
        return self.head(self.norm(x))


def prepared(of: Step, device: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Model, input and target of a step."""
    torch.manual_seed(0)
    with torch.device(device):
        if of.model is None:
            from foretrace.traces.zoo.resnet50 import resnet50

            model: nn.Module = resnet50(CLASSES)
            x = torch.randn(of.batch, 3, IMAGE, IMAGE)
            if of.channels_last:
                model, x = (t.to(memory_format=torch.channels_last) for t in (model, x))
            return model, x, torch.randint(CLASSES, (of.batch,))
        text = torch.randint(of.model.words, (of.batch, of.length + 1))
        model = Language(of.model, of.length)
    model = model.to(torch.bfloat16) if of.types == "bf16" else model
    return model, text[:, :-1].contiguous(), text[:, 1:].contiguous().flatten()


def made(of: Step, device: str) -> Callable[[], None]:
    """Function that runs one step."""
    model, x, target = prepared(of, device)
    model.train()
    whole = torch.compile(model) if of.compiled else model
    if of.model is None:
        update: Any = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        how = {of.update: True}
        update = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    kind = device.partition(":")[0]
    cast = torch.autocast(kind, torch.bfloat16) if of.types == "autocast" else nullcontext()

    def step() -> None:
        update.zero_grad(set_to_none=True)
        with cast:
            logits = whole(x)
            loss = F.cross_entropy(logits.flatten(0, -2), target)
        loss.backward()
        if of.model is not None:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()

    return step


def state() -> dict[str, float]:
    """Clocks, power and temperature of the GPU now."""
    try:
        import pynvml as n

        n.nvmlInit()
        gpu = n.nvmlDeviceGetHandleByIndex(0)
        return {
            "mhz": n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM),
            "watts": n.nvmlDeviceGetPowerUsage(gpu) / 1000,
            "celsius": n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU),
            "reasons": n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
        }
    except Exception as error:
        return {"unknown": str(error)}  # type: ignore[dict-item]


def measured(of: Step, device: str, trace: Path | None) -> dict[str, Any]:
    """Times of a step in s, and a trace of one more."""
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    precision = "high" if of.types == "tf32" else "highest"
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = of.types == "tf32"
    begin = time.perf_counter()
    step = made(of, device)
    for _ in range(WARM_UP):
        step()
    wait()
    found: dict[str, Any] = {"prepared": round(time.perf_counter() - begin, 3), "before": state()}
    synced, host = [], []
    for _ in range(TIMED):
        begin = time.perf_counter()
        step()
        host.append(time.perf_counter() - begin)
        wait()
        synced.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(TIMED):
        step()
    found["host"] = host
    found["at_work"] = state()
    wait()
    found |= {"synced": synced, "queued": (time.perf_counter() - begin) / TIMED, "after": state()}
    if device != "cpu":
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    if trace is not None:
        found["trace"] = traced(step, wait, trace)
    return found


def traced(step: Callable[[], None], wait: Callable[[], None], file: Path) -> str:
    """Write the profiler's trace of one step, after one step under the profiler."""
    from torch.profiler import ProfilerActivity, profile, schedule

    every = [ProfilerActivity.CPU]
    every += [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    plain = file.with_suffix("")
    with profile(
        activities=every, record_shapes=True, schedule=schedule(wait=0, warmup=1, active=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(plain)),
    ) as under_way:  # fmt: skip
        for _ in range(2):
            step()
            wait()
            under_way.step()
    file.write_bytes(gzip.compress(plain.read_bytes(), 6))
    plain.unlink()
    return file.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--no-traces", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further one after")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    begin = time.perf_counter()
    for name in args.names or STEPS:
        if time.perf_counter() - begin > args.seconds:
            break
        line = {"name": name, **STEPS[name]._asdict(), "torch": torch.__version__}
        line["start"] = round(time.time(), 2)
        try:
            trace = None if args.no_traces else args.out / f"{name}.json.gz"
            line |= measured(STEPS[name], device, trace)
        except Exception:
            line["failed"] = traceback.format_exc()
        line["end"] = round(time.time(), 2)
        with (args.out / "steps.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(name, line.get("queued"), line.get("failed", "")[-300:], flush=True)
        if device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
