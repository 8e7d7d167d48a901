"""Predict the step of two processes from a recording of one, next to local step + all-reduce.

    python -m foretrace.calibration.local.two_from_one [once | seen]

Blind: no two-process step is used. Inputs are the durations of the one-process trace, the variation
of its untraced steps and starts, DDP's bucket rule, and all-reduces measured on that wire: their
time alone, and their use of a core next to a computing thread, each as a fitted line. *Local +
all-reduce* adds the measured all-reduces of the same buckets to the local step. The measurement is
the untraced steps in `traces/data/ddp-*/steps.csv`.

Measurement sessions are separated. Errors of the first session were known while the form was
chosen; starts from `ONCE` on were scored once, when it was final. One- and two-process times are of
the same session.

Calibrated: one constant factor on all-reduce times, fitted on every other start of all variants and
judged on the rest. Intervals: 90 % of the errors if the starts of one and of two processes are
resampled.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from foretrace.models.calibration.parameter_search import fit_parameters
from foretrace.models.compute.jitter import BAR
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.scenarios.studies.fitting.catalog_entry import entry_lines
from foretrace.scenarios.studies.variants.variants import build_variant
from foretrace.sim.setting_groups import flatten_settings
from foretrace.traces.step_times import read
from foretrace.traces.transform.data_parallel import bucket_ends

DATA = Path(__file__).parents[2] / "traces" / "data"
SCENARIO = """
foretrace: 1
name: two-from-one
workload:
  trace: foretrace:{one}
  starts: "{starts}"
  recorded_on: {{device: epyc-zen4-core, nodes: 1, parallel: {{data: 1}}}}
  scale_to: {{parallel: {{data: 2}}, bucket: {bucket} MiB}}
cluster:
  nodes: 1
  node:
    gpu: {{model: epyc-zen4-core, count: 2, core: true}}
    host: epyc-zen4-vm
    memory: epyc-zen4-vm
    links: [{{from: gpu, to: gpu, via: loopback-tcp, bandwidth: {rate:.6g} B/s}}]
  fabric: {{library: {library}}}
backends: {{"node*.gpu*": {{use: recorded, shared: {shared}, cache: 16 MiB}}}}
"""
STEPS = 2  # of a ring of two
ONCE = "2026-11-21T21:30Z"  # starts from here on had not been looked at when the form was final
GRID = np.array([0.7, 1.0, 1.4])
REPLICAS, DRAWS, SEED = 24, 2000, 1
CONSTANTS = np.exp(np.linspace(np.log(0.7), np.log(1.4), 71))


Way = Callable[..., float]  # variant, sitting, constant


@dataclass(frozen=True)
class Variant:
    """One two-process run, and the inputs of its prediction.

    Parameters
    ----------
    one, two : names of the recordings of one and of two processes
    bucket : bucket size in MiB, as passed by ``record/training_steps.py``
    table : table of all-reduces alone on that wire
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


def rows(table: Path) -> list[dict[str, str]]:
    """Rows of a bundled table."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def starts(configuration: str, once: bool) -> frozenset[str]:
    """Names of the process starts of a session."""
    told = [*rows(DATA / "starts.csv"), *rows(DATA / "variants.csv")]
    mine = [row for row in told if row["configuration"] == configuration]
    return frozenset(row["start"] for row in mine if (row["date"] >= ONCE) == once)


@contextmanager
def sitting(configuration: str, once: bool) -> Iterator[Path]:
    """Folder with the steps of a session's starts.

    Raises
    ------
    LookupError
        There are none.
    """
    table = rows(DATA / configuration / "steps.csv")
    kept = [row for row in table if row["start"] in starts(configuration, once)]
    if not kept:
        raise LookupError(f"{configuration}: no starts of that sitting are bundled")
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "steps.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, kept[0])
            writer.writeheader()
            writer.writerows(kept)
        yield Path(folder)


@cache
def measured(configuration: str, once: bool) -> np.ndarray:
    """Median untraced step of every process start in s (mean over ranks)."""
    with sitting(configuration, once) as folder:
        return read([folder]).medians


@cache
def drawn(variant: Variant, once: bool, shared: bool = True, times: float = 1.0) -> np.ndarray:
    """Step of two processes in s, per replica; starts, steps and ranks vary as recorded.

    Parameters
    ----------
    once : True for the starts that were scored once
    shared : True if the processes slow down each other's memory accesses
    times : factor on all-reduce times
    """
    with tempfile.TemporaryDirectory() as folder, sitting(variant.one, once) as local:
        library, rate = (
            gloo(variant.table, times, Path(folder)),
            line(variant.table)[1] / times,
        )
        told = SCENARIO.format(
            one=variant.one, starts=local, bucket=variant.bucket, rate=rate, library=library,
            shared=str(shared).lower(),
        )  # fmt: skip
        made = build_variant(loads(told, catalogs=[folder]))
        return np.array([made.run(k).period_time for k in range(REPLICAS)])


def predicted(variant: Variant, once: bool, shared: bool = True, times: float = 1.0) -> float:
    """Predicted step in s: the median of the replicas."""
    return float(np.median(drawn(variant, once, shared, times)))


@cache
def line(table: str) -> tuple[float, float]:
    """Fixed time of an all-reduce alone in s, and its rate in B/s, as ``fit`` computes them."""
    return _line(alone(table))


@cache
def core(table: str) -> tuple[float, float]:
    """Core time of an all-reduce next to a computing thread: fixed time in s, and rate in B/s."""
    found: dict[int, list[float]] = {}
    for row in rows(DATA / table.replace("all_reduce", "all_reduce-beside")):
        if row["busy"] == "1" and row["threads"] == "1":
            spent = int(row["cpu_ns"]) / int(row["calls"]) * 1e-9
            found.setdefault(int(row["bytes"]), []).append(spent)
    return _line(found)


def _line(found: dict[int, list[float]]) -> tuple[float, float]:
    size, seconds = np.array(list(found)), np.array([np.mean(x) for x in found.values()])
    each, rate = fit_parameters(lambda q: q[0] + size / q[1], (1e-3, 1e9), seconds)
    return float(each), float(rate)


@cache
def alone(table: str) -> dict[int, list[float]]:
    """Time in s of every all-reduce that was measured alone, by size."""
    found: dict[int, list[float]] = {}
    for row in rows(DATA / table):
        found.setdefault(int(row["bytes"]), []).append(int(row["duration_ns"]) * 1e-9)
    return dict(sorted(found.items()))


def gloo(table: str, times: float, folder: Path) -> str:
    """Catalog entry of gloo with the times of a table; returns its name."""
    source = (
        "{kind: assumed, where: calibration/local/two_from_one.py, date: 2026-11-21, error: null}"
    )
    values = flatten_settings(to_dict(installed(()).entry("library", "gloo")))
    values["simple.step"] = f"{times * line(table)[0] / STEPS:.6g} s"
    each, rate = core(table)
    values |= {"cores.step": f"{each / STEPS:.6g} s", "cores.rate": f"{rate:.6g} B/s"}
    lines = entry_lines({k: f"{{value: '{v}', source: {source}}}" for k, v in values.items()})
    (folder / "gloo.yaml").write_text("\n".join(["library:", "  gloo-here:", *lines]) + "\n")
    return "gloo-here"


def all_reduces(variant: Variant) -> float:
    """Time in s of the all-reduces of one step, measured alone, one after another."""
    found = alone(variant.table)
    mean = [float(np.mean(x)) for x in found.values()]
    return float(np.interp(bucket_sizes(variant), list(found), mean).sum())


@cache
def bucket_sizes(variant: Variant) -> tuple[float, ...]:
    """Size in B of each bucket of a step."""
    from foretrace.scenarios.workloads.trace_files import open_trace
    from foretrace.traces.infer.ranks.gradients import gradients

    found = gradients(open_trace(f"foretrace:{variant.one}"))
    size = found.bytes[found.step == found.step[0]]
    ends = [0, *bucket_ends(size, variant.bucket * 2**20)]
    return tuple(float(size[a:b].sum()) for a, b in pairwise(ends))


def summed(variant: Variant, once: bool, times: float = 1.0) -> float:
    """Local step + all-reduce, in s."""
    return float(np.median(measured(variant.one, once))) + times * all_reduces(variant)


def modelled(variant: Variant, once: bool, times: float = 1.0) -> float:
    """Model's step in s, interpolated between runs on a grid of constants."""
    if times == 1.0:
        return predicted(variant, once)
    steps = [predicted(variant, once, times=t) for t in GRID.tolist()]
    return float(np.interp(np.log(times), np.log(GRID), steps))


def truth(variant: Variant, once: bool) -> float:
    """Measured step of two processes, in s."""
    return float(np.median(measured(variant.two, once)))


@cache
def constant(how: Way, once: bool) -> float:
    """Constant that best fits every other start of all variants."""

    def loss(times: float) -> float:
        steps = [(how(v, once, times), measured(v.two, once)[::2]) for v in VARIANTS.values()]
        return float(np.mean([abs(np.log(step / np.median(fitted))) for step, fitted in steps]))

    return float(min(CONSTANTS.tolist(), key=loss))


def calibrated(how: Way, variant: Variant, once: bool) -> float:
    """Remaining error on the starts that the constant was not fitted on."""
    step = how(variant, once, constant(how, once))
    return step / float(np.median(measured(variant.two, once)[1::2])) - 1


def errors(variant: Variant, once: bool, step: float) -> np.ndarray:
    """Errors of a prediction if the starts of one and of two processes are resampled."""
    random = np.random.default_rng(SEED)
    local, two = measured(variant.one, once), measured(variant.two, once)
    one, both = (np.median(random.choice(x, (DRAWS, len(x))), axis=1) for x in (local, two))
    return (step + one - np.median(local)) / both - 1  # a local step counts once


def interval(variant: Variant, once: bool, step: float) -> list[float]:
    """90 % interval of the resampled errors."""
    return [float(e) for e in np.quantile(errors(variant, once, step), [0.05, 0.95])]


def found(name: str, once: bool) -> dict[str, object]:
    """Measured and predicted steps of a variant in one session."""
    variant = VARIANTS[name]
    steps, draws, real = measured(variant.two, once), drawn(variant, once), truth(variant, once)
    low, high = np.quantile(draws, [0.05, 0.95])
    sizes = [np.abs(errors(variant, once, how(variant, once))) for how in (modelled, summed)]
    return {
        "variant": name,
        "scored_once": once,
        "one_ms": 1e3 * float(np.median(measured(variant.one, once))),
        "all_reduces_ms": 1e3 * all_reduces(variant),
        "two_ms": 1e3 * real,
        "starts": len(steps),
        "replicas_ms": [1e3 * float(low), 1e3 * float(high)],
        "starts_held": int(((steps >= low) & (steps <= high)).sum()),
        "model_errs_less": float(np.mean(np.less(*sizes))),
        "memory_apart_error": predicted(variant, once, shared=False) / real - 1,
        **{how.__name__: told(how, variant, once) for how in (modelled, summed)},
    }


def told(how: Way, variant: Variant, once: bool) -> dict[str, object]:
    """Errors of one prediction method."""
    step = how(variant, once)
    return {
        "blind_ms": 1e3 * step,
        "blind_error": step / truth(variant, once) - 1,
        "interval": interval(variant, once, step),
        "constant": constant(how, once),
        "calibrated_error": calibrated(how, variant, once),
    }


def judged(variants: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Coverage of the replicas' 90 % interval over all starts, by the rule for run intervals.

    >>> judged([{"starts": 5, "starts_held": 4}, {"starts": 14, "starts_held": 10}])["state"]
    'unresolved'
    """
    starts = sum(v["starts"] for v in variants)
    held = sum(v["starts_held"] for v in variants)
    low, high = BAR
    state = "held" if low <= held / starts <= high else "unresolved"
    return {"starts": starts, "held": held, "share": held / starts, "bar": BAR, "state": state}


def main(sittings: list[str]) -> None:
    """Print all variants, for the starts that were scored once and for the known ones."""
    for once in (word == "once" for word in sittings or ["once", "seen"]):
        told = [found(name, once) for name in VARIANTS]
        for line in (*told, {"scored_once": once, "coverage": judged(told)}):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
