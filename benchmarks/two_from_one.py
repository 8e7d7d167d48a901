"""The step of two processes predicted from a recording of one, beside local + all-reduce.

    python benchmarks/two_from_one.py

Blind: nothing of a two-process step goes in, only durations of the one-process trace and how its
untraced steps and starts differ, DDP's bucket rule, and all-reduces as they were measured alone on
that wire, by a line through their times.  *Local + all-reduce* adds those of the same buckets, as
measured, to the local step.  The truth is the untraced steps in
`traces/data/ddp-*/steps.csv`.

Calibrated: one constant each that multiplies what all-reduces take, fitted on every other start of
all variants and judged on the rest.  Intervals: 90 % of the errors when starts are drawn again,
those of one process and of two.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from foretrace.models.fit import fit
from foretrace.scenarios.catalog import installed
from foretrace.scenarios.loader import loads
from foretrace.scenarios.points import point
from foretrace.traces.starts import read
from foretrace.traces.transform.data_parallel import buckets

DATA = Path(__file__).parent.parent / "traces" / "data"
SCENARIO = """
foretrace: 1
name: two-from-one
workload:
  trace: foretrace:{one}
  starts: foretrace:{one}
  recorded_on: {{device: epyc-zen4-core, nodes: 1, parallel: {{data: 1}}}}
  scale_to: {{parallel: {{data: 2}}, bucket: {bucket} MiB}}
cluster:
  nodes: 1
  node:
    gpu: {{model: epyc-zen4-core, count: 2}}
    host: epyc-zen4-vm
    memory: epyc-zen4-vm
    links: [{{from: gpu, to: gpu, via: loopback-tcp, bandwidth: {rate:.6g} B/s}}]
  fabric: {{library: {library}}}
backends: {{"node*.gpu*": {{use: recorded, shared: {shared}, cache: 16 MiB}}}}
"""
STEPS = 2  # of a ring of two
GRID = np.exp(np.linspace(np.log(0.5), np.log(2.0), 5))
REPLICAS, DRAWS, SEED = 24, 2000, 1
CONSTANTS = np.exp(np.linspace(np.log(0.5), np.log(2.0), 141))


Way = Callable[["Variant", float], float]


@dataclass(frozen=True)
class Variant:
    """One two-process run, and what it is predicted from.

    Parameters
    ----------
    one, two : names of the recordings of one and of two processes
    bucket : MiB, as ``record.py`` tells the script
    table : of all-reduces alone, on that wire
    """

    one: str
    two: str
    bucket: float
    table: str = "all_reduce.csv"


VARIANTS = {
    "resnet50": Variant("resnet50", "ddp-resnet50", 25),
    "gpt": Variant("gpt", "ddp-gpt", 4),
    "comm-heavy": Variant("gpt", "ddp-gpt-2gbit", 4, "all_reduce-2gbit.csv"),
    "comm-heavy, loopback": Variant("resnet50-small", "ddp-resnet50-small", 25),
    "overlapped": Variant("gpt-large", "ddp-gpt-large-2gbit", 1, "all_reduce-2gbit.csv"),
}


def measured(configuration: str) -> np.ndarray:
    """Median untraced step of every process start, s (mean of its ranks)."""
    return read([DATA / configuration]).medians


@cache
def drawn(variant: Variant, shared: bool = True, times: float = 1.0) -> np.ndarray:
    """The step of two processes, s, in each replica: starts, steps and ranks differ as recorded.

    Parameters
    ----------
    shared : whether they slow each other's memory
    times : what all-reduces take, over what they took alone
    """
    with tempfile.TemporaryDirectory() as folder:
        library, rate = (
            gloo(variant.table, times, Path(folder)),
            line(variant.table)[1] / times,
        )
        told = SCENARIO.format(
            one=variant.one, bucket=variant.bucket, rate=rate, library=library,
            shared=str(shared).lower(),
        )  # fmt: skip
        made = point(loads(told, catalogs=[folder]))
        return np.array([made.run(k).iteration_time for k in range(REPLICAS)])


def predicted(variant: Variant, shared: bool = True, times: float = 1.0) -> float:
    """The median of the replicas, s."""
    return float(np.median(drawn(variant, shared, times)))


@cache
def line(table: str) -> tuple[float, float]:
    """What an all-reduce alone costs, s, and B/s beside that, as ``fit`` has it."""
    found = alone(table)
    size, seconds = np.array(list(found)), np.array([np.mean(x) for x in found.values()])
    each, rate = fit(lambda q: q[0] + size / q[1], (1e-3, 1e9), seconds)
    return float(each), float(rate)


@cache
def alone(table: str) -> dict[int, list[float]]:
    """Seconds of every all-reduce that was measured by itself, by size."""
    found: dict[int, list[float]] = {}
    with (DATA / table).open() as file:
        for row in csv.DictReader(file):
            found.setdefault(int(row["bytes"]), []).append(int(row["duration_ns"]) * 1e-9)
    return dict(sorted(found.items()))


def gloo(table: str, times: float, folder: Path) -> str:
    """The catalog's gloo with the times of that table; its name."""
    source = "{kind: assumed, where: benchmarks/two_from_one.py, date: 2026-11-21, error: null}"
    values = {k: str(n.value) for k, n in installed(()).entry("library", "gloo").mapping.items()}
    values["step"] = f"{times * line(table)[0] / STEPS:.6g} s"
    lines = [f"    {k}: {{value: '{v}', source: {source}}}" for k, v in values.items()]
    (folder / "gloo.yaml").write_text("\n".join(["library:", "  gloo-here:", *lines]) + "\n")
    return "gloo-here"


def all_reduces(variant: Variant) -> float:
    """Seconds of the all-reduces of one step, as measured alone, one after the other."""
    found = alone(variant.table)
    mean = [float(np.mean(x)) for x in found.values()]
    return float(np.interp(_buckets(variant), list(found), mean).sum())


@cache
def _buckets(variant: Variant) -> tuple[float, ...]:
    """B of each bucket of a step."""
    from foretrace.scenarios.workloads import open_trace
    from foretrace.traces.transform.data_parallel import gradients

    found = gradients(open_trace(f"foretrace:{variant.one}"))
    size = found.bytes[found.step == found.step[0]]
    ends = [0, *buckets(size, cap=variant.bucket * 2**20)]
    return tuple(float(size[a:b].sum()) for a, b in pairwise(ends))


def summed(variant: Variant, times: float = 1.0) -> float:
    """Local + all-reduce, s."""
    return float(np.median(measured(variant.one))) + times * all_reduces(variant)


def modelled(variant: Variant, times: float = 1.0) -> float:
    """The model's step, s, between runs on a grid of constants."""
    if times == 1.0:
        return predicted(variant)
    steps = [predicted(variant, times=t) for t in GRID.tolist()]
    return float(np.interp(np.log(times), np.log(GRID), steps))


def truth(variant: Variant) -> float:
    """The step of two processes as measured, s."""
    return float(np.median(measured(variant.two)))


@cache
def constant(how: Way) -> float:
    """That which fits every other start of all variants best."""

    def loss(times: float) -> float:
        found = [
            abs(np.log(how(v, times) / np.median(measured(v.two)[::2]))) for v in VARIANTS.values()
        ]
        return float(np.mean(found))

    return float(min(CONSTANTS.tolist(), key=loss))


def calibrated(how: Way, variant: Variant) -> float:
    """The error that the constant leaves on the starts it was not fitted on."""
    return how(variant, constant(how)) / float(np.median(measured(variant.two)[1::2])) - 1


def errors(variant: Variant, step: float) -> np.ndarray:
    """Those of a prediction when starts are drawn again, of one process and of two."""
    random = np.random.default_rng(SEED)
    one, two = (
        np.median(random.choice(steps, (DRAWS, len(steps))), axis=1)
        for steps in (measured(variant.one), measured(variant.two))
    )
    return (step + one - np.median(measured(variant.one))) / two - 1  # a local step counts once


def interval(variant: Variant, step: float) -> list[float]:
    """90 % of those errors."""
    return [float(e) for e in np.quantile(errors(variant, step), [0.05, 0.95])]


def main() -> None:
    """Print all variants."""
    for name, variant in VARIANTS.items():
        steps, draws = measured(variant.two), drawn(variant)
        low, high = np.quantile(draws, [0.05, 0.95])
        sizes = [np.abs(errors(variant, how(variant))) for how in (modelled, summed)]
        found: dict[str, object] = {
            "variant": name,
            "one_ms": 1e3 * float(np.median(measured(variant.one))),
            "all_reduces_ms": 1e3 * all_reduces(variant),
            "two_ms": 1e3 * truth(variant),
            "starts": len(steps),
            "noise": float(steps.max() - steps.min()) / 2 / truth(variant),
            "replicas_ms": [1e3 * float(low), 1e3 * float(high)],
            "starts_held": int(((steps >= low) & (steps <= high)).sum()),
            "model_errs_less": float(np.mean(np.less(*sizes))),
            "memory_apart_error": predicted(variant, shared=False) / truth(variant) - 1,
        }
        for how in (modelled, summed):
            step = how(variant)
            found[how.__name__] = {
                "blind_ms": 1e3 * step,
                "blind_error": step / truth(variant) - 1,
                "interval": interval(variant, step),
                "constant": constant(how),
                "calibrated_error": calibrated(how, variant),
            }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
