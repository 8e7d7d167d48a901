"""Training loop shared by the example models.

Under a launcher that sets ``WORLD_SIZE`` it trains data-parallel, over gloo, or over NCCL on GPUs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch import distributed as dist


def common_argument_parser(description: str, *, batch: int) -> argparse.ArgumentParser:
    """Parser of the command-line arguments that all example models have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=batch, help="samples a rank and step")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="DDP's gradient buckets")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser


def train(
    model: nn.Module,
    optimizer: Callable[..., torch.optim.Optimizer],
    batch: Callable[[], tuple[Tensor, Tensor]],
    args: argparse.Namespace,
) -> float:
    """Train for ``args.steps`` steps on synthetic batches; returns the last loss."""
    device = torch.device(args.device)
    replica = _wrap_in_ddp(model.to(device), args)
    step = optimizer(replica.parameters())
    loss = torch.zeros(())
    for _ in range(args.steps):
        sample, target = (tensor.to(device) for tensor in batch())
        loss = nn.functional.cross_entropy(replica(sample), target)
        step.zero_grad()
        loss.backward()
        step.step()
    value = float(loss.item())
    if dist.is_initialized():
        dist.destroy_process_group()
    return value


def _wrap_in_ddp(model: nn.Module, args: argparse.Namespace) -> nn.Module:
    """Wrap the model in DDP if a launcher started several ranks; otherwise return it unchanged."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return model
    dist.init_process_group("nccl" if args.device.startswith("cuda") else "gloo")
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb)
