"""Predict the kernels of recorded GPU traces with models only: coverage and accuracy.

    python -m foretrace.calibration.judge.traces [--once] [--blind]

The kernels of every trace are predicted with the roofline of its own GPU, without ``recorded``.
Printed are the fraction of kernel time that is predicted, the error of the sum, the median error of
a kernel weighted by time, and whether the sum is inside its 90 % interval. Errors of kernels in a
family are fully correlated; those of different families are independent. Pairs are the same work on
two GPUs: the chain ``carried``, ``roofline`` for the other GPU is compared with its recording, next
to copied times and times scaled by datasheet ratio. Unexplained gaps of a trace are not kernels.
``rows/kernel_rows.py`` defines which traces are set aside; ``--once`` scores only those.
``--blind`` uses constants of other GPUs if those of the catalog were scaled to recorded traces of
the same GPU.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.compute.chain import Chain
from foretrace.models.compute.cross_gpu_scaling import (
    CrossGpuScaling,
    GpuModel,
    family_of,
    peak_rate_time_ratio,
)
from foretrace.models.value_doubts import doubt_without_measurements
from foretrace.scenarios.config.settings import backend_settings_model
from foretrace.scenarios.studies.explaining.trace_answers import catalog_gpu
from foretrace.sim.facts.backend import Backend
from foretrace.sim.facts.doubt import Doubt
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import System
from foretrace.traces.formats import autodetect

from ..fit.kernels import LEVELLED, machine
from ..rows.kernel_rows import DATA, traces

DRAWS = 2000
PAIRS = {  # the same work, recorded twice
    f"h100-mi300-pairs/{name}.{here}.json.gz": f"h100-mi300-pairs/{name}.{there}.json.gz"
    for name in ("bert-small", "nsfw-vit", "qwen1.5-0.5b-chat")
    for here, there in (("h100", "mi300"), ("mi300", "h100"))
} | {"ddp-A100x2/rank0.json.gz": "ddp-V100x1/rank0.json.gz"}


class Score(NamedTuple):
    """Prediction accuracy for a set of kernels.

    Parameters
    ----------
    answered : fraction of their time that is predicted
    sum : relative error of the sum
    median : median relative error, weighted by time
    low, high : ends of the sum's 90 % interval, relative to the recording
    """

    answered: float
    sum: float
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        inside = "inside" if self.low <= 1 <= self.high else "OUTSIDE"
        return (
            f"{self.answered:7.1%} {self.sum:+8.1%} {self.median:8.1%}   "
            f"{self.low:5.2f} to {self.high:5.2f} {inside}"
        )


@cache
def kernels(trace: str) -> Ops:
    """Kernels of a trace, in its complete periods if it has several."""
    graph = autodetect.read(DATA / "kineto-traces" / trace).graph(missing_ranks="recorded_waits")
    ops = graph.ops
    mine = (ops.kind == Kind.COMPUTE) & (ops.duration > 0) & (ops.signature >= 0)
    return ops.take_with_placement(np.flatnonzero(mine))


def score(ops: Ops, who: Backend) -> Score:
    """Score of predicted kernels against their recorded times."""
    known = who.knows(ops)
    some = ops.take_with_placement(np.flatnonzero(known))
    if not len(some):
        return Score(0.0, np.nan, np.nan, np.nan, np.nan)
    timing = who.timing(some)
    wrong = np.abs(timing.fixed / some.duration - 1)
    order = np.argsort(wrong)
    half = np.searchsorted(np.cumsum(some.duration[order]), some.duration.sum() / 2)
    whole = some.duration.sum()
    low, high = interval(timing.fixed, [timing.doubt[i] for i in range(len(some))]) / whole
    return Score(
        whole / ops.duration.sum(), timing.fixed.sum() / whole - 1, float(wrong[order][half]),
        float(low), float(high),
    )  # fmt: skip


def interval(seconds: np.ndarray, doubts: list[Doubt | None]) -> np.ndarray:
    """90 % interval of a sum, with one random quantile per family."""
    cells = sorted({(d.family, d.regime) for d in doubts if d is not None})
    rng = np.random.default_rng(1)
    level = {family: rng.uniform(size=DRAWS) for family in sorted({f for f, _ in cells})}
    drawn = np.zeros(DRAWS)
    for cell in cells:
        at = [i for i, d in enumerate(doubts) if d is not None and (d.family, d.regime) == cell]
        told = doubts[at[0]].quantiles or doubt_without_measurements().quantiles  # type: ignore[union-attr]
        where = (np.arange(len(told)) + 0.5) / len(told)
        drawn += seconds[at].sum() * np.exp(np.interp(level[cell[0]], where, told))
    return np.quantile(drawn, [0.05, 0.95])


@cache
def gpu(name: str) -> GpuModel:
    """GPU of the catalog."""
    return GpuModel.of(name, settings(name))


def by_family(ops: Ops) -> dict[str, np.ndarray]:
    """Rows of each family in descending order of time; "" if operands do not determine it."""
    names = np.array([*(family_of(text) for text in ops.signatures), ""])[ops.signature]
    rows = {name: np.flatnonzero(names == name) for name in set(names.tolist())}
    return dict(sorted(rows.items(), key=lambda item: -ops.duration[item[1]].sum()))


def own(names: list[str]) -> None:
    print(f"{'':54s}{'ms':>9s}{'answered':>9s}{'sum':>7s}{'median':>9s}   90 % of the sum")
    for name in names:
        ops, model = kernels(name), gpu(machine(name)).model
        print(f"{name:54s}{ops.duration.sum() * 1e3:9.2f}{score(ops, model)}")
        for family, rows in by_family(ops).items():
            some = ops.take_with_placement(rows)
            if some.duration.sum() > 0.03 * ops.duration.sum():
                told = score(some, model)
                print(f"    {family or 'other':50s}{some.duration.sum() * 1e3:9.2f}{told}")


def pairs(names: list[str]) -> None:
    print(
        f"\n{'pairs: error of the sum':58s}{'answered':>9s}{'chain':>9s}{'copied':>9s}{'peaks':>9s}"
    )
    for here, there in PAIRS.items():
        if here not in names and there not in names:
            continue
        ops, truth = kernels(here), kernels(there)
        a, b = gpu(machine(here)), gpu(machine(there))
        chain = Chain.of(CrossGpuScaling(here=a, there=b), b.model)
        chain.open(System(()))
        per = periods(truth) / periods(ops)
        told = line(chain, a, b, ops, truth, per)
        print(f"{here + ' to ' + machine(there):58s}{told}")
        of = by_family(truth)
        for family, rows in by_family(ops).items():
            if family in of and truth.duration[of[family]].sum() > 0.03 * truth.duration.sum():
                told = line(
                    chain,
                    a,
                    b,
                    ops.take_with_placement(rows),
                    truth.take_with_placement(of[family]),
                    per,
                )
                print(f"    {family or 'other':54s}{told}")


def line(chain: Chain, a: GpuModel, b: GpuModel, ops: Ops, truth: Ops, per: float) -> str:
    """Text with the predicted fraction, and errors of the sum."""
    share, *errors = carried_errors(chain, a, b, ops, truth, per)
    return f"{share:9.1%}" + "".join(f"{error:+9.1%}" for error in errors)


def carried_errors(
    chain: Chain, a: GpuModel, b: GpuModel, ops: Ops, truth: Ops, per: float
) -> tuple[float, ...]:
    """Predicted fraction; errors of the sum by the chain, copied, and by the ratio of peaks.

    Kernels without a prediction are copied in all three.
    """
    known = chain.knows(ops)
    seconds = ops.duration.copy()
    some = ops.take_with_placement(np.flatnonzero(known))
    seconds[known] = chain.timing(some).fixed
    ratio = np.ones(len(ops))
    ratio[known] = peak_rate_time_ratio(a, b, some)
    share = ops.duration[known].sum() / ops.duration.sum()
    sums = seconds.sum(), ops.duration.sum(), (ops.duration * np.nan_to_num(ratio, nan=1.0)).sum()
    return share, *(float(s * per / truth.duration.sum() - 1) for s in sums)


def periods(ops: Ops) -> int:
    return len(np.unique(ops.period))


def settings(name: str) -> dict[str, Any]:
    """Roofline settings of a catalog GPU."""
    taken = backend_settings_model("roofline").model_fields
    told = {k: v for k, v in catalog_gpu(name).settings.items() if k in taken}
    return told | ({"kernels": "other"} if "--blind" in sys.argv and name == LEVELLED else {})


def main() -> None:
    aside = "--once" in sys.argv
    names = [name for name, is_aside in traces().items() if is_aside == aside]
    own(names)
    if aside:
        pairs(names)


if __name__ == "__main__":
    main()
