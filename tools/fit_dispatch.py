"""What a host thread takes to dispatch an operator, and an exchange, of recorded traces.

    FORETRACE_DATA=../shared/data python tools/fit_dispatch.py [--once]

Launches of a trace are put in order of time, those of all its threads: autograd's has the turn while the
main thread waits for it.  An operator is the innermost one around launches (an exchange where it is
a collective's), and costs the time since the operator before it: what Python, the dispatcher and
operators that launch nothing take is in it, as in a described step, whose ops are those with a
kernel.  Left out are waiting for the GPU, for data, and what lies outside step marks where there are any.
Of each trace the constants are means, since a step is their sum; of a machine the median of its traces.

One trace of each kind of machine that has two was set aside by hash before the first fit; ``--once``
scores it: the time of its dispatching, predicted from the counts of its operators.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SEED = "foretrace-dispatch-2026-11-23"
TRACES = Path(os.environ.get("FORETRACE_DATA", "../shared/data")) / "kineto-traces"
MACHINES = {
    "epyc-7742-dual": ("ddp-A100x2/rank0.json.gz", "dlrm-A100x8-rank3/control.json.gz"),
    "xeon-8480c-dual": tuple(
        f"h100-mi300-pairs/{model}.h100.json.gz"
        for model in ("bert-small", "nsfw-vit", "qwen1.5-0.5b-chat")
    ),
}
"""Traces of A100s and of H100s; none names its processor, which is taken for that of a DGX."""
OPERATOR = {"cpu_op", "operator"}
CALL = {"cuda_runtime", "runtime", "cuda_driver"}
LAUNCH = re.compile("LaunchKernel|LaunchCooperativeKernel|MemsetAsync|MemcpyAsync", re.I)
WAIT = re.compile("Synchronize|cudaMemcpy$|StreamWaitEvent_never|enumerate\\(DataLoader\\)", re.I)
EXCHANGE = re.compile("nccl|c10d", re.I)
Times = np.ndarray[Any, np.dtype[np.float64]]


class Dispatching(NamedTuple):
    """Costs of operators and of exchanges of one trace, s each."""

    operators: Times
    exchanges: Times

    @property
    def constants(self) -> tuple[float, float]:
        """Mean cost of an operator, and of an exchange; NaN where there is none."""
        return tuple(float(np.mean(c)) if len(c) else np.nan for c in self)  # type: ignore


def is_aside(name: str) -> bool:
    """Whether a trace is set aside: of a machine's the one with the lowest digest."""
    for names in MACHINES.values():
        if name in names:
            return name == min(names, key=_digest)
    return False


def _digest(name: str) -> str:
    return hashlib.sha256(f"{SEED}|{name}".encode()).hexdigest()


if __name__ == "__main__":
    for m, names in MACHINES.items():
        for n in names:
            print(m, n, is_aside(n))
