"""Coverage of complete steps: one model recorded on two GPUs, each predicted from the other.

    python -m foretrace.calibration.judge.steps

``foretrace run`` predicts a trace of one GPU on the other, with the default backends
(``recorded_on`` and the cluster's GPU differ). ``foretrace trace info`` gives the measured time on
the other GPU: its median step, or all of it without step marks. Prints whether the 90 % intervals
of the step, and of its GPU time as ``traces.py`` sums it, contain the measurement, and both counts
with a 95 % interval of the fraction (Wilson's). Hosts, libraries and rank counts differ as
recorded, which is part of the errors.
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
    """Predicted time, and its measurement.

    Parameters
    ----------
    low, high : ends of the 90 % interval in s; equal if there is none
    """

    predicted: float
    low: float
    high: float
    measured: float

    @property
    def inside(self) -> bool:
        """True if the interval contains the measurement."""
        return self.low <= self.measured <= self.high

    def __str__(self) -> str:
        error = self.predicted / self.measured - 1
        ends = f"{self.low / self.measured:5.2f} to {self.high / self.measured:5.2f}"
        return f"{self.measured * 1e3:9.3f} ms {error:+8.1%}  {ends} {'' if self.inside else 'OUT'}"


def step(here: str, there: str) -> Prediction:
    """Step of a trace predicted on the other GPU, by the command line."""
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
    """Sum of a step's kernels; ops without a prediction are copied, with the interval of an assumed
    time.
    """
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
    """Text with the number of predictions inside, and an interval of the fraction."""
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
