"""Small GPT, ResNet and mixture of experts, as torch modules and as model descriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from foretrace.models.training.description.description import (
    Experts,
    Model,
    TokenOptions,
    Transformer,
)
from foretrace.models.training.description.model_zoo import model
from foretrace.models.training.layer.precision import PRECISIONS
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.traces.zoo.gpt import GPT
from foretrace.traces.zoo.moe import MoE
from foretrace.traces.zoo.resnet50 import resnet50
from torch import nn

WORDS, WIDTH, LAYERS, LENGTH, BATCH = 2048, 256, 4, 64, 4
IMAGE, IMAGES = 64, 8
BUCKET = 25 * 2**20  # B, of torch's DDP
DENSE: dict[str, Any] = {
    "hidden": WIDTH, "layers": LAYERS, "heads": 4, "vocabulary": WORDS, "inner": 4 * WIDTH,
    "tokens": TokenOptions(positions=LENGTH, tied=False),
}  # fmt: skip


EXPERTS: dict[str, Any] = {
    "count": 4, "chosen": 2, "inner": 4 * WIDTH, "chosen_by": "experts",
}  # fmt: skip


class Described(NamedTuple):
    """Model as a torch module, its batch, and its description."""

    module: Callable[[], nn.Module]
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    model: Model
    samples: int
    sequence: int


def _text() -> tuple[torch.Tensor, torch.Tensor]:
    text = torch.randint(WORDS, (BATCH, LENGTH + 1))
    return text[:, :-1], text[:, 1:].flatten()


def _images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(IMAGES, 3, IMAGE, IMAGE), torch.randint(1000, (IMAGES,))


MODELS = {
    "gpt": Described(
        lambda: GPT(WORDS, WIDTH, LAYERS, LENGTH), _text, Transformer(**DENSE), BATCH, LENGTH
    ),
    "resnet": Described(resnet50, _images, replace(model("resnet-50"), image=IMAGE), IMAGES, 1),
    "moe": Described(
        lambda: MoE(WORDS, WIDTH, LAYERS, LENGTH, 4, 2),
        _text,
        Transformer(**DENSE, experts=Experts(**EXPERTS)),
        BATCH,
        LENGTH,
    ),
}


def plan(of: Described, ranks: int = 1) -> ParallelPlan:
    """Plan of a step: data-parallel ranks with one micro-batch each, all in fp32."""
    return ParallelPlan(
        batch=of.samples * ranks, sequence=of.sequence, micro_batch=of.samples, data=ranks,
        precision=PRECISIONS["fp32"], bucket=BUCKET // 4, loss="written", reducer="ddp",
    )  # fmt: skip


def make_step(of: Described, ranks: int = 1) -> Callable[[], Callable[[], None]]:
    """Function that creates a training step: gradients, their norm, Adam as one op."""

    def make() -> Callable[[], None]:
        torch.manual_seed(0)
        module = of.module()
        if ranks > 1:
            module = nn.parallel.DistributedDataParallel(module, bucket_cap_mb=25)
        adam = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            sample, target = of.batch()
            loss = nn.functional.cross_entropy(module(sample), target)
            adam.zero_grad()
            loss.backward()
            gradients = [p.grad for p in module.parameters() if p.grad is not None]
            torch.nn.utils.get_total_norm(gradients)
            adam.step()

        return step

    return make
