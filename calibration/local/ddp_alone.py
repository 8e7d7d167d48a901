"""Measure the cost of DistributedDataParallel in a single process.

    python calibration/record/training_steps.py launch 1 calibration/local/ddp_alone.py HOW MODULE …

HOW is ``plain`` or ``ddp``.

MODULE is ``foretrace.traces.zoo.gpt`` or ``.resnet50``, with the arguments of
``record/training_steps.py``. Prints the median step in ms, without the first six.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
from itertools import pairwise
from statistics import median

import torch
from foretrace.traces.zoo import train
from torch import distributed as dist
from torch import nn

WARM_UP = 6


def wrap_in_ddp(model: nn.Module, args: argparse.Namespace) -> nn.Module:
    """Wrap a model in DDP as for two processes, in a single process."""
    dist.init_process_group("gloo")
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb)


def main(how: str, module: str, *arguments: str) -> None:
    """Train, and measure the time from one ``zero_grad`` to the next."""
    began, plain = [], torch.optim.Optimizer.zero_grad

    def timed(self: torch.optim.Optimizer, *args: bool) -> None:
        began.append(time.perf_counter())
        plain(self, *args)

    torch.optim.Optimizer.zero_grad = timed
    if how == "ddp":
        train._wrap_in_ddp = wrap_in_ddp
    os.environ["WORLD_SIZE"] = "1"
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")
    steps = [b - a for a, b in pairwise(began[WARM_UP:])]
    print(f"{how} {module} {1e3 * median(steps):.1f} ms", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
