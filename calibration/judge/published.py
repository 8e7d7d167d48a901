"""Predict published training steps blind: the table of ``docs/training/accuracy.md``.

``judge.published [--only NAME] [--set PATH=VALUE]``: ``--only`` selects rows whose name contains
the word, ``--set`` changes a setting of all rows (an ablation).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np
from foretrace.models.training.layer.model_size import model_flop
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import Study, study
from foretrace.scenarios.workloads.training import TrainingWorkload

from ..rows.published_rows import A100, GB200, PublishedStep, steps

MACHINE = 8  # GPUs


def scenario(step: PublishedStep) -> str:
    """Scenario of a row: machines with eight GPUs and one NIC per GPU."""
    ampere = step.gpu == A100
    nic = {"model": "connectx-7", "count": MACHINE} | ({"bandwidth": "200 Gb/s"} if ampere else {})
    link = "nvlink3" if ampere else "nvlink5" if step.gpu in (GB200, "b200-sxm-180g") else "nvlink4"
    library = "nccl-nvlink3" if ampere else "nccl-nvlink4"
    programs = {"kernels": step.kernels} if step.kernels else {}
    said: dict[str, Any] = {
        "foretrace": 1,
        "name": "published",
        "workload": {"type": "training", "must_fit": False, **step.workload},
        "cluster": {
            "nodes": step.gpus // MACHINE,
            "node": {
                "gpu": {"model": step.gpu, "count": MACHINE, **programs},
                "nic": nic,
                "links": [
                    {"from": "gpu", "to": "gpu", "via": link},
                    {"from": "gpu", "to": "nic", "via": "pcie4-x16" if ampere else "pcie5-x16"},
                ],
            },
            "fabric": {"library": library, "switch": "tomahawk-5", "fidelity": "alpha-beta"},
        },
        "backends": {"node*.gpu*": {"use": "roofline"}},
        "run": {"keep": "ranks", "memory": "1 TB"},
    }
    return json.dumps(said)


def seconds_published(step: PublishedStep, told: dict[str, float]) -> float:
    """Published iteration time in s, converted from the published metric."""
    if step.metric == "iteration_time":
        return step.value
    if step.metric == "tokens":
        return float(step.workload["batch"] * step.workload["sequence"] / step.gpus / step.value)
    return told["iteration_time"] * told[step.metric] / step.value


def share_of_all_scores(found: Study) -> float:
    """Model flop with masked scores, as papers count it, divided by the flop in ``mfu``."""
    (asked,) = found.measured[0].point.workloads.values()
    assert isinstance(asked, TrainingWorkload)
    every = replace(asked.model, attention=replace(asked.model.attention, causal=False))
    return model_flop(every, asked.plan.sequence) / model_flop(asked.model, asked.plan.sequence)


def answer(step: PublishedStep, set_: list[str]) -> dict[str, float]:
    """Metrics of a row, with the 90 % interval of ``iteration_time``."""
    ran = study(loads(scenario(step), set=set_))
    found = ran.summary
    time = found.value("base", "iteration_time.p50")
    low, high = time.interval or (np.nan, np.nan)
    told = {name: found.value("base", f"{name}.p50").value for name in ("mfu", "hfu")}
    told["mfu"] *= share_of_all_scores(ran)
    return told | {"iteration_time": time.value, "low": low, "high": high}


def main() -> None:
    """Print a line for each row, and the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    errors, held = [], []
    for step in (s for s in steps() if args.only in s.name):
        told = answer(step, args.set)
        took, said = seconds_published(step, told), told["iteration_time"]
        low, high = told["low"], told["high"]
        errors.append(said / took - 1)
        held.append(low <= took <= high)
        print(
            f"{step.name:26} {took:9.3f} {said:9.3f} {errors[-1]:+7.1%}  {low:.3f} to {high:.3f} "
            f"{'in' if held[-1] else 'OUT'}",
            flush=True,
        )
    size = np.abs(errors)
    print(
        f"{len(size)} rows: median {np.median(size):.1%}, mean {size.mean():.1%}, worst "
        f"{size.max():.1%}, bias {np.median(errors):+.1%}; {sum(held)} inside 90 %"
    )


if __name__ == "__main__":
    main()
