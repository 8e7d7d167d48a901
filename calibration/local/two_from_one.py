"""The step of two processes predicted from a recording of one, beside local + all-reduce.

    python -m foretrace.calibration.local.two_from_one [once | seen]

Blind: nothing of a two-process step goes in, only durations of the one-process trace and how its
untraced steps and starts differ, DDP's bucket rule, and all-reduces as they were measured on that
wire: how long they take alone, and what they take of a core beside a thread that computes, by a
line through their times each.  *Local + all-reduce* adds those of the same buckets, as measured,
to the local step.  The truth is the untraced steps in `traces/data/ddp-*/steps.csv`.

Sittings are told apart.  Errors of the first had been seen while the form was sought; starts from
`ONCE` on were scored once, when it was final.  What one and two processes take is of one sitting.

Calibrated: one constant each that multiplies what all-reduces take, fitted on every other start of
all variants and judged on the rest.  Intervals: 90 % of the errors when starts are drawn again,
those of one process and of two.
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
    """One two-process run, and what it is predicted from.

    Parameters
    ----------
    one, two : names of the recordings of one and of two processes
    bucket : MiB, as ``record/training_steps.py`` tells the script
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


def rows(table: Path) -> list[dict[str, str]]:
    """Rows of a bundled table."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def starts(configuration: str, once: bool) -> frozenset[str]:
    """Names of the process starts of a sitting."""
    told = [*rows(DATA / "starts.csv"), *rows(DATA / "variants.csv")]
    mine = [row for row in told if row["configuration"] == configuration]
    return frozenset(row["start"] for row in mine if (row["date"] >= ONCE) == once)


@contextmanager
def sitting(configuration: str, once: bool) -> Iterator[Path]:
    """A folder with the steps of those starts.

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
    """Median untraced step of every process start, s (mean of its ranks)."""
    with sitting(configuration, once) as folder:
        return read([folder]).medians


@cache
def drawn(variant: Variant, once: bool, shared: bool = True, times: float = 1.0) -> np.ndarray:
    """The step of two processes, s, in each replica: starts, steps and ranks differ as recorded.

    Parameters
    ----------
    once : whether of the starts that were scored once
    shared : whether they slow each other's memory
    times : what all-reduces take, over what they took alone
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
    """Predicted step: the median of the replicas, s."""
    return float(np.median(drawn(variant, once, shared, times)))


@cache
def line(table: str) -> tuple[float, float]:
    """What an all-reduce alone costs, s, and B/s beside that, as ``fit`` has it."""
    return _line(alone(table))


@cache
def core(table: str) -> tuple[float, float]:
    """What it takes of each core beside a thread that computes: s, and B/s beside that."""
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
    """Seconds of every all-reduce that was measured by itself, by size."""
    found: dict[int, list[float]] = {}
    for row in rows(DATA / table):
        found.setdefault(int(row["bytes"]), []).append(int(row["duration_ns"]) * 1e-9)
    return dict(sorted(found.items()))


def gloo(table: str, times: float, folder: Path) -> str:
    """The catalog's gloo with the times of that table; its name."""
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
    """Seconds of the all-reduces of one step, as measured alone, one after the other."""
    found = alone(variant.table)
    mean = [float(np.mean(x)) for x in found.values()]
    return float(np.interp(bucket_sizes(variant), list(found), mean).sum())


@cache
def bucket_sizes(variant: Variant) -> tuple[float, ...]:
    """B of each bucket of a step."""
    from foretrace.scenarios.workloads.trace_files import open_trace
    from foretrace.traces.infer.ranks.gradients import gradients

    found = gradients(open_trace(f"foretrace:{variant.one}"))
    size = found.bytes[found.step == found.step[0]]
    ends = [0, *bucket_ends(size, variant.bucket * 2**20)]
    return tuple(float(size[a:b].sum()) for a, b in pairwise(ends))


def summed(variant: Variant, once: bool, times: float = 1.0) -> float:
    """Local + all-reduce, s."""
    return float(np.median(measured(variant.one, once))) + times * all_reduces(variant)


def modelled(variant: Variant, once: bool, times: float = 1.0) -> float:
    """The model's step, s, between runs on a grid of constants."""
    if times == 1.0:
        return predicted(variant, once)
    steps = [predicted(variant, once, times=t) for t in GRID.tolist()]
    return float(np.interp(np.log(times), np.log(GRID), steps))


def truth(variant: Variant, once: bool) -> float:
    """The step of two processes as measured, s."""
    return float(np.median(measured(variant.two, once)))


@cache
def constant(how: Way, once: bool) -> float:
    """That which fits every other start of all variants best."""

    def loss(times: float) -> float:
        steps = [(how(v, once, times), measured(v.two, once)[::2]) for v in VARIANTS.values()]
        return float(np.mean([abs(np.log(step / np.median(fitted))) for step, fitted in steps]))

    return float(min(CONSTANTS.tolist(), key=loss))


def calibrated(how: Way, variant: Variant, once: bool) -> float:
    """The error that the constant leaves on the starts it was not fitted on."""
    step = how(variant, once, constant(how, once))
    return step / float(np.median(measured(variant.two, once)[1::2])) - 1


def errors(variant: Variant, once: bool, step: float) -> np.ndarray:
    """Those of a prediction when starts are drawn again, of one process and of two."""
    random = np.random.default_rng(SEED)
    local, two = measured(variant.one, once), measured(variant.two, once)
    one, both = (np.median(random.choice(x, (DRAWS, len(x))), axis=1) for x in (local, two))
    return (step + one - np.median(local)) / both - 1  # a local step counts once


def interval(variant: Variant, once: bool, step: float) -> list[float]:
    """90 % of those errors."""
    return [float(e) for e in np.quantile(errors(variant, once, step), [0.05, 0.95])]


def found(name: str, once: bool) -> dict[str, object]:
    """Measured and predicted steps of a variant in one sitting."""
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
    """Errors of one way to predict."""
    step = how(variant, once)
    return {
        "blind_ms": 1e3 * step,
        "blind_error": step / truth(variant, once) - 1,
        "interval": interval(variant, once, step),
        "constant": constant(how, once),
        "calibrated_error": calibrated(how, variant, once),
    }


def judged(variants: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Coverage of the replicas' 90 % over all starts, by the rule for intervals of a run.

    >>> judged([{"starts": 5, "starts_held": 4}, {"starts": 14, "starts_held": 10}])["state"]
    'unresolved'
    """
    starts = sum(v["starts"] for v in variants)
    held = sum(v["starts_held"] for v in variants)
    low, high = BAR
    state = "held" if low <= held / starts <= high else "unresolved"
    return {"starts": starts, "held": held, "share": held / starts, "bar": BAR, "state": state}


def main(sittings: list[str]) -> None:
    """Print all variants, of the starts that were scored once and of those that had been seen."""
    for once in (word == "once" for word in sittings or ["once", "seen"]):
        told = [found(name, once) for name in VARIANTS]
        for line in (*told, {"scored_once": once, "coverage": judged(told)}):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
