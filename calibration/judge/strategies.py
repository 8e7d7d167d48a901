"""Rank parallel plans of one model on one machine (D4 and D7), with parts of the method removed.

    python -m foretrace.calibration.judge.strategies [D4] [D7]

The method is that of Huang et al. (2020, arXiv:2002.06790): op times independent of the plan (D4:
families fitted to other ops of the GPU; D7: a recorded layer profile), collectives by message size,
the graph of the plan, and a simulation of all of it. Blind: no measured iteration is used. *Sum*:
the ops of the mean rank one after another, in place of the schedule. *Peak*: collectives at the
full rate of their links, without start-up and step times, in place of times by message size.

Prints the error of each plan in the three ways. For plans of one machine and batch that differ by
more than a tenth, it prints how many pairs are in the wrong order. Rows that were set aside had
been scored before (``training.py``, ``profile.py``); nothing was chosen on them here.
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
    """Result for one plan.

    Parameters
    ----------
    name : name of the plan
    among : machine and batch, within which plans are ranked
    measured : iteration time in s
    predicted : (3,) predicted time in s, in each of ``WAYS``
    doubted : True if its measurement is inconsistent with its neighbours
    """

    name: str
    among: tuple[int, int]
    measured: float
    predicted: tuple[float, float, float]
    doubted: bool = False


def seconds(text: str) -> tuple[float, float, float]:
    """Iteration time of a scenario in s, in each of ``WAYS``."""
    replayed, summed = _replayed(text)
    peak, _ = _replayed(text, PEAK)
    return replayed, summed, peak


def _replayed(text: str, *set_: str) -> tuple[float, float]:
    """Iteration time in s, and the sum of the mean rank's op times."""
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
    """Pairs that differ by more than a tenth: number in the wrong order, and total number.

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
    """Text with errors and ranking in one of ``WAYS``."""
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
