"""The step of two processes predicted from a recording of one, beside local + all-reduce.

    python benchmarks/two_from_one.py

Blind: nothing of a two-process step goes in, only durations of the one-process trace and its
untraced steps, DDP's bucket rule, the catalog's gloo, and what the wire is said to be: the loopback
device as it was fitted alone, or told by its queue to send 2 Gbit/s, both directions together.
*Local + all-reduce* has more: the all-reduces of the same buckets as they were measured alone on
that very wire.  The truth is the untraced steps in `traces/data/ddp-*/steps.csv`.

Calibrated: one constant each, by which all-reduces take longer, fitted on the other variants.
Intervals: 90 % of the errors when starts are drawn again, those of one process and of two.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
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
    links: [{{from: gpu, to: gpu, via: loopback-tcp, bandwidth: {rate:.6g} GB/s}}]
  fabric: {{library: gloo, step: {step:.6g} ms}}
backends: {{"node*.gpu*": {{use: recorded, shared: {shared}, cache: 16 MiB}}}}
"""
LOOPBACK, WIRE = 1.605, 0.125  # GB/s each way: the catalog's, and half of 2 Gbit/s
STEP = 1.021  # ms, the catalog's gloo
GRID = np.exp(np.linspace(np.log(0.5), np.log(2.0), 9))
DRAWS, SEED = 2000, 1


@dataclass(frozen=True)
class Variant:
    """One two-process run, and what it is predicted from.

    Parameters
    ----------
    one, two : names of the recordings of one and of two processes
    bucket : MiB, as ``record.py`` tells the script
    table : of all-reduces alone, on that wire
    rate : GB/s each way
    """

    one: str
    two: str
    bucket: float
    table: str = "all_reduce.csv"
    rate: float = LOOPBACK


VARIANTS = {
    "resnet50": Variant("resnet50", "ddp-resnet50", 25),
    "gpt": Variant("gpt", "ddp-gpt", 4),
    "comm-heavy": Variant("gpt", "ddp-gpt-2gbit", 4, "all_reduce-2gbit.csv", WIRE),
    "comm-heavy, loopback": Variant("resnet50-small", "ddp-resnet50-small", 25),
    "overlapped": Variant("gpt-large", "ddp-gpt-large-2gbit", 1, "all_reduce-2gbit.csv", WIRE),
}


def measured(configuration: str) -> np.ndarray:
    """Median untraced step of every process start, s (mean of its ranks)."""
    return read([DATA / configuration]).medians


@cache
def predicted(variant: Variant, shared: bool = True, times: float = 1.0) -> float:
    """The step of two processes, s.

    Parameters
    ----------
    shared : whether they slow each other's memory
    times : by what all-reduces take longer than the catalog and the wire say
    """
    told = SCENARIO.format(
        one=variant.one, bucket=variant.bucket, rate=variant.rate / times, step=STEP * times,
        shared=str(shared).lower(),
    )  # fmt: skip
    return point(loads(told)).run().iteration_time


@cache
def all_reduces(variant: Variant) -> float:
    """Seconds of the all-reduces of one step, as measured alone, one after the other."""
    found: dict[int, list[float]] = {}
    with (DATA / variant.table).open() as file:
        for row in csv.DictReader(file):
            found.setdefault(int(row["bytes"]), []).append(int(row["duration_ns"]) * 1e-9)
    size = sorted(found)
    mean = np.array([np.mean(found[s]) for s in size])
    return float(np.interp(_buckets(variant), size, mean).sum())


@cache
def _buckets(variant: Variant) -> tuple[float, ...]:
    """B of each bucket of a step."""
    from foretrace.scenarios.workloads import open_trace
    from foretrace.traces.transform.data_parallel import gradients

    found = gradients(open_trace(f"foretrace:{variant.one}"))
    size = found.bytes[found.step == found.step[0]]
    ends = [0, *buckets(size, cap=variant.bucket * 2**20)]
    return tuple(float(size[a:b].sum()) for a, b in zip(ends, ends[1:], strict=False))


def summed(variant: Variant, times: float = 1.0) -> float:
    """Local + all-reduce, s."""
    return float(np.median(measured(variant.one))) + times * all_reduces(variant)


def modelled(variant: Variant, times: float = 1.0) -> float:
    """The model's step, s, between runs on a grid of constants."""
    if times == 1.0:
        return predicted(variant)
    steps = [predicted(variant, times=t) for t in GRID.tolist()]
    return float(np.interp(np.log(times), np.log(GRID), steps))


def calibrated(how, judged: str) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """The constant that fits the other variants best, and the error that it leaves on this one."""
    others = [v for name, v in VARIANTS.items() if name != judged]
    truth = [float(np.median(measured(v.two))) for v in others]

    def loss(times: float) -> float:
        return float(
            np.mean([abs(np.log(how(v, times) / t)) for v, t in zip(others, truth, strict=True)])
        )

    times = min(np.exp(np.linspace(np.log(0.5), np.log(2.0), 141)).tolist(), key=loss)
    one = VARIANTS[judged]
    return times, how(one, times) / float(np.median(measured(one.two))) - 1


def interval(variant: Variant, step: float) -> tuple[float, float]:
    """90 % of a prediction's errors when starts are drawn again."""
    random = np.random.default_rng(SEED)
    one, two = (np.log(measured(n)) for n in (variant.one, variant.two))
    draws = [random.choice(x, (DRAWS, len(x))).mean(axis=1) for x in (one, two)]
    local = np.exp(draws[0]) - np.exp(one.mean())  # what the start costs, the step costs
    errors = (step + local) / np.exp(draws[1]) - 1
    return tuple(np.quantile(errors, [0.05, 0.95]).tolist())  # type: ignore[return-value]


def main() -> None:
    """Print all variants."""
    for name, variant in VARIANTS.items():
        truth = measured(variant.two)
        typical = float(np.median(truth))
        found: dict[str, object] = {
            "variant": name,
            "one_ms": 1e3 * float(np.median(measured(variant.one))),
            "all_reduces_ms": 1e3 * all_reduces(variant),
            "two_ms": 1e3 * typical,
            "starts": len(truth),
            "noise": float(truth.max() - truth.min()) / 2 / typical,
            "memory_apart_error": predicted(variant, shared=False) / typical - 1,
        }
        for how in (modelled, summed):
            step = how(variant)
            times, error = calibrated(how, name)
            found[how.__name__] = {
                "blind_ms": 1e3 * step,
                "blind_error": step / typical - 1,
                "interval": interval(variant, step),
                "constant": times,
                "calibrated_error": error,
            }
        print(json.dumps(found))


if __name__ == "__main__":
    main()
