"""Parallel plans of one model on one machine, ranked: D4 and D7, with a piece of the method off.

    python -m foretrace.calibration.judge.strategies [D4] [D7]

The method is that of Huang et al. (2020, arXiv:2002.06790): times of ops that know nothing of the
plan (D4: families fitted to other ops of that GPU; D7: a recorded profile of layers), collectives
by the size of their messages, the graph written for the plan, and all of it simulated.  Blind:
nothing is taken from a measured iteration.  *Sum*: what the ops of the mean rank take, one after
the other, in place of the schedule.  *Peak*: collectives at the full rate of their links, without
starts and steps, in place of times by size of message.

Prints each plan's error in the three ways, and for the plans of one machine and batch that differ
by more than a tenth how many pairs come out in the wrong order.  Rows that were set aside had been
scored before (``training.py``, ``profile.py``); no choice was made here on any.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants

from ..rows.megatron_rows import TREND, rows
from ..rows.sailor_rows import plans
from . import profile as judge_profile
from . import training as judge_training

PEAK = (  # what is left of a library are its algorithms, those of both of NCCL's here
    "cluster.fabric.library={model: gloo, simple: {step: 0 s}, "
    "algorithms: 'ring, chain-tree, chain, grouped, linear, dissemination'}"
)
WAYS = ("replay", "sum", "peak")
DIFFER = 0.10  # plans that take so much longer than another


class Judged(NamedTuple):
    """One plan.

    Parameters
    ----------
    name : of it
    among : machine and batch, within which plans are ranked
    measured : s of an iteration
    predicted : (3,) s, in each of ``WAYS``
    doubted : whether its measurement breaks its neighbours' trend
    """

    name: str
    among: tuple[int, int]
    measured: float
    predicted: tuple[float, float, float]
    doubted: bool = False


def seconds(text: str) -> tuple[float, float, float]:
    """Seconds of an iteration of a scenario, in each of ``WAYS``."""
    replayed, summed = _replayed(text)
    peak, _ = _replayed(text, PEAK)
    return replayed, summed, peak


def _replayed(text: str, *set_: str) -> tuple[float, float]:
    """An iteration, and the sum of the times of the ops of the mean rank, s."""
    (point,) = build_variants(loads(text, set=set_))
    told = {name: float(of[0]) for name, of in samples_of(point, point.run()).items()}
    took = told["iteration_time"]
    waited = took * told["bubble"] + told["waiting"]
    return took, took - waited + told["overlapped_communication"]


def of_megatron(folder: Path) -> Iterator[Judged]:
    """D4: a GPT of 3.6 billion parameters on 64 A100s."""
    for row in filter(judge_training.fills_pipeline, rows("measured_multi_node_3.6B")):
        text = judge_training.scenario(row, "full", folder)
        among = row.settings["gpus"], row.settings["batch"]
        name, doubted = f"row {row.number}", row.number in TREND
        yield Judged(name, among, row.seconds, seconds(text), doubted)


def of_sailor(folder: Path) -> Iterator[Judged]:
    """D7: OPT-350M on nodes of four GH200."""
    for plan in plans():
        text = judge_profile.scenario(plan, folder)
        yield Judged(plan.name, (plan.nodes, plan.batch), plan.seconds, seconds(text))


def inverted(some: Sequence[Judged], way: int) -> tuple[int, int]:
    """Pairs that differ by more than a tenth: in the wrong order, and all.

    >>> quick, slow = (Judged("", (1, 1), t, (2 - t, t, t)) for t in (0.5, 1.0))
    >>> inverted([quick, slow], 0), inverted([quick, slow], 1)
    ((1, 1), (0, 1))
    """
    pairs = [
        (a, b) if a.measured < b.measured else (b, a)
        for a, b in combinations(some, 2)
        if a.among == b.among
        and max(a.measured, b.measured) > (1 + DIFFER) * min(a.measured, b.measured)
    ]
    return sum(quick.predicted[way] >= slow.predicted[way] for quick, slow in pairs), len(pairs)


def score_line(some: Sequence[Judged], way: int) -> str:
    """Errors and ranking in one of ``WAYS``, in words."""
    error = np.array([plan.predicted[way] / plan.measured - 1 for plan in some])
    wrong, of = inverted(some, way)
    return (
        f"{WAYS[way]:6} {len(some)} plans: median {np.median(abs(error)):.1%}, "
        f"mean {abs(error).mean():.1%}, {error.min():+.1%} to {error.max():+.1%}; "
        f"{wrong} of {of} pairs in the wrong order"
    )


SETS = {"D4": of_megatron, "D7": of_sailor}


def main(names: Sequence[str]) -> None:
    """Print each plan, and the scores."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names or SETS:
            every = []
            for plan in SETS[name](Path(folder)):
                every.append(plan)
                errors = "".join(
                    f"{predicted / plan.measured - 1:+9.1%}" for predicted in plan.predicted
                )
                print(f"{name} {plan.name:10}{plan.measured:9.3f} s{errors}", flush=True)
            kept = [plan for plan in every if not plan.doubted]
            for some in (every, kept) if len(kept) < len(every) else (every,):
                for way in range(len(WAYS)):
                    print(f"{name} {score_line(some, way)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
