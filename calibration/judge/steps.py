"""Coverage of whole steps: the same model recorded on two GPUs, each asked for from the other.

    python -m foretrace.calibration.judge.steps

``foretrace run`` answers for a trace of one GPU on the other (``recorded_on`` and the cluster's GPU
differ, so that who answers is what a user gets who binds nothing); what the other trace took there
is read by ``foretrace trace info``: its median step, or all of it where steps are not marked.
Prints whether the 90 % interval of the step, and of its GPU time as ``traces.py`` sums it,
holds what was measured, and both counts with a 95 % interval of the share (Wilson's).  Hosts,
libraries and numbers of ranks differ as they did when recorded: that is in the errors.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.compute.chain import Chain
from foretrace.models.compute.cross_gpu_scaling import CrossGpuScaling
from foretrace.models.compute.recorded import Recorded
from foretrace.sim.facts.system import System
from scipy.stats import binomtest

from ..fit.kernels import machine
from ..rows.kernel_rows import DATA
from .traces import PAIRS, gpu, interval, kernels, periods

SCENARIO = """\
foretrace: 1
name: step
workload: {{trace: '{trace}', recorded_on: {{device: {here}}}, missing_ranks: recorded_waits}}
cluster:
  nodes: 1
  node:
    gpu: {{model: {there}, count: 8}}
    host: epyc-7742-dual
    links: [{{from: gpu, to: gpu, via: nvlink4}}, {{from: gpu, to: host, via: pcie5-x16}}]
  fabric: {{library: nccl-nvlink4}}
run: {{keep: none}}
"""
TRACES = DATA / "kineto-traces"


class Prediction(NamedTuple):
    """A predicted time, and what was measured.

    Parameters
    ----------
    low, high : ends of the 90 % interval, s; equal where there is none
    """

    predicted: float
    low: float
    high: float
    measured: float

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.low <= self.measured <= self.high

    def __str__(self) -> str:
        error = self.predicted / self.measured - 1
        ends = f"{self.low / self.measured:5.2f} to {self.high / self.measured:5.2f}"
        return f"{self.measured * 1e3:9.3f} ms {error:+8.1%}  {ends} {'' if self.inside else 'OUT'}"


def step(here: str, there: str) -> Prediction:
    """Step of a trace on the other GPU, by the command line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.yaml"
        file.write_text(
            SCENARIO.format(trace=TRACES / here, here=machine(here), there=machine(there))
        )
        summary = _answer("run", str(file), "--json", "--out", folder)
    asked = summary["points"]["base"]["metrics"][summary["answer"]["metric"]]
    low, high = asked["interval"] or (asked["value"], asked["value"])
    told = _answer("trace", "info", str(TRACES / there), "--json", "--on", machine(there))
    times = told["step_times"]
    measured = float(np.median(times)) if times else told["seconds"]
    return Prediction(asked["value"], low, high, measured)


def gpu_time(here: str, there: str) -> Prediction:
    """Sum of the kernels of a step; what nobody answers is copied, and doubted as assumed."""
    ops, truth = kernels(here), kernels(there)
    a, b = gpu(machine(here)), gpu(machine(there))
    chain = Chain.of(CrossGpuScaling(here=a, there=b), b.model, Recorded.of_another_gpu())
    chain.open(System(()))
    timing = chain.timing(ops)
    assert timing.doubt is not None
    ends = interval(timing.fixed, [timing.doubt[i] for i in range(len(ops))])
    seconds = np.array([timing.fixed.sum(), *ends])
    return Prediction(*(seconds / periods(ops)).tolist(), truth.duration.sum() / periods(truth))


def count(asked: list[Prediction]) -> str:
    """How many are inside, with an interval of the share."""
    held = sum(one.inside for one in asked)
    low, high = binomtest(held, len(asked)).proportion_ci(method="wilson")
    return f"{held} of {len(asked)} ({low:.0%} to {high:.0%})"


def _answer(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "foretrace", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"foretrace {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    steps, sums = [], []
    for here, there in PAIRS.items():
        steps.append(step(here, there))
        sums.append(gpu_time(here, there))
        print(f"{here} to {machine(there)}\n    step     {steps[-1]}\n    kernels  {sums[-1]}")
        sys.stdout.flush()
    print(f"steps inside: {count(steps)}\nsums of kernels inside: {count(sums)}")


if __name__ == "__main__":
    main()
