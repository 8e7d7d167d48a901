"""Create the bundled traces from the output of `record.py`: native form, one table of all steps.

    python -m foretrace.calibration.record.bundle RECORDINGS [traces/data]
    python -m foretrace.calibration.record.bundle --add RECORDINGS [traces/data]
    python -m foretrace.calibration.record.bundle --variants RECORDINGS [traces/data]
    python -m foretrace.calibration.record.bundle --add-variants RECORDINGS [traces/data]

For every configuration the ops of one process start are kept, for all its ranks, and the step times
of all starts. The start is the one whose traced steps are nearest to a typical untraced step, among
those not held out for the interval check (`parameter_search.held_out_mask`, by start number: one
choice for all configurations).

``--add`` appends the steps of another session and keeps the traces. For variants, which have few
starts, the start is chosen among all, and for two processes only step times are kept.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import foretrace
import numpy as np
from foretrace.models.calibration.parameter_search import held_out_mask
from foretrace.traces.formats import kineto, native

MODELS = ("resnet50", "gpt", "ddp-resnet50", "ddp-gpt")
LOADS = ("core_seconds", "own_core_seconds", "foreign_core_seconds", "stolen_core_seconds")
HOST = ("cpu", "cores", "kernel", "python", "torch", "allocator")
STARTS = ("configuration", "start", "date", "load_before", "load_after", *LOADS, "bundled", *HOST)
STEPS = ("start", "rank", "step", "phase", "duration_ns", "cpu_ns")
FOREIGN = 0.15  # of the time of all cores
ASIDE = 0.5  # share of the starts that is held out
PROFILES = ("resnet50-small", "gpt-large")
VARIANTS = ("ddp-resnet50-small", "ddp-gpt-2gbit", "ddp-gpt-large-2gbit")
WIRED = "all-reduce-2gbit"
BESIDE = ("all-reduce-beside", "all-reduce-beside-2gbit")
RATES = {"compute.csv": ("compute", "compute-pair"), "all_reduce.csv": ("all-reduce",)}

Facts = dict[str, Any]


def starts(recordings: Path, name: str) -> list[Facts]:
    """Facts of every process start of one configuration, in order."""
    files = sorted(recordings.glob(f"{name}/start*/host.json"))
    return [json.loads(f.read_text()) | {"folder": f.parent, "bundled": False} for f in files]


def typical(facts: Facts, phase: str) -> float:
    """Median step of a start, all ranks, ns."""
    return float(np.median([int(r["duration_ns"]) for r in steps(facts) if r["phase"] == phase]))


def choose(found: list[Facts], share: float = ASIDE) -> Facts:
    """Process start whose traced steps are nearest to a typical untraced step."""
    aside = held_out_mask([f"start{facts['start']}" for facts in found], share=share)
    kept = [facts for facts, out in zip(found, aside, strict=True) if not out]
    usual = np.mean([np.log(typical(facts, "untraced")) for facts in kept])
    return min(kept, key=lambda facts: abs(np.log(typical(facts, "traced")) - usual))


def bundle_trace(chosen: Facts, data: Path) -> None:
    """Write the trace of one process start in native form."""
    chosen["bundled"] = True
    trace = kineto.read(sorted(chosen["folder"].glob("rank*.json.gz")))
    native.write(trace, data / chosen["configuration"])


def steps(chosen: Facts) -> Iterator[Facts]:
    """Rows of all ranks of one process start."""
    for file in sorted(chosen["folder"].glob("rank*.steps.csv")):
        rank = int(file.name.removeprefix("rank").split(".")[0])
        with file.open(newline="") as text:
            for row in csv.DictReader(text):
                yield row | {"start": chosen["start"], "rank": rank}


def rates(recordings: Path, names: tuple[str, ...]) -> str:
    """Tables of all process starts under one header."""
    files = [f for name in names for f in sorted(recordings.glob(f"{name}/start*/*.csv"))]
    tables = [f.read_text().splitlines() for f in files]
    rows = [row for table in tables for row in table[1:]]
    return "\n".join([tables[0][0], *rows]) + "\n"


def write(path: Path, columns: tuple[str, ...], rows: list[Facts]) -> None:
    """Write those columns of the rows as CSV."""
    with path.open("w", newline="") as text:
        table = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main(recordings: Path, data: Path) -> None:
    """Write every table that is bundled with the package."""
    names = [*MODELS, *(name for group in RATES.values() for name in group)]
    found = {name: starts(recordings, name) for name in names}
    for name in MODELS:
        bundle_trace(choose(found[name]), data)
        write(data / name / "steps.csv", STEPS, [row for f in found[name] for row in steps(f)])
    everything = [facts for name in names for facts in found[name]]
    write(data / "starts.csv", STARTS, everything)
    for file, group in RATES.items():
        (data / file).write_text(rates(recordings, group))


def add(
    recordings: Path, data: Path, names: tuple[str, ...] = MODELS, told: str = "starts.csv"
) -> None:
    """Append the step times of more process starts, numbered after the existing ones."""
    everything = _read(data / told)
    for name in names:
        table = data / name / "steps.csv"
        there = _read(table)
        first = 1 + max(int(row["start"]) for row in there)
        new = undisturbed_starts(starts(recordings, name))
        found = [facts | {"start": first + k} for k, facts in enumerate(new)]
        write(table, STEPS, there + [row for facts in found for row in steps(facts)])
        at = 1 + max(i for i, row in enumerate(everything) if row["configuration"] == name)
        everything[at:at] = found
    write(data / told, STARTS, everything)


def add_variants(recordings: Path, data: Path) -> None:
    """Add the recordings of the variants to the bundled data."""
    add(recordings, data, (*PROFILES, *VARIANTS), "variants.csv")


def _read(path: Path) -> list[Facts]:
    with path.open(newline="") as text:
        return list(csv.DictReader(text))


def undisturbed_starts(found: list[Facts]) -> list[Facts]:
    """Process starts during which other processes used almost no CPU time."""
    return [f for f in found if f["foreign_core_seconds"] <= FOREIGN * f["core_seconds"]]


def variants(recordings: Path, data: Path) -> None:
    """Write the two-process variants, and the profiles from which they are predicted."""
    found = {name: undisturbed_starts(starts(recordings, name)) for name in (*PROFILES, *VARIANTS)}
    for name in (*PROFILES, *VARIANTS):
        if name in PROFILES:
            bundle_trace(choose(found[name], share=0.0), data)
        (data / name).mkdir(exist_ok=True)
        write(data / name / "steps.csv", STEPS, [row for f in found[name] for row in steps(f)])
    write(data / "variants.csv", STARTS, [facts for each in found.values() for facts in each])
    for name in (WIRED, *BESIDE):
        file = name.replace("all-reduce", "all_reduce")
        (data / f"{file}.csv").write_text(rates(recordings, (name,)))


if __name__ == "__main__":
    others = {"--add": add, "--variants": variants, "--add-variants": add_variants}
    what, words = others.get(sys.argv[1], main), sys.argv[1 + (sys.argv[1] in others) :]
    default = Path(foretrace.__file__).parent / "traces/data"
    what(Path(words[0]), Path(words[1]) if words[1:] else default)
