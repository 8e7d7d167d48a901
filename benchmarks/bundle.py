"""Make the bundled traces of what `record.py` recorded: native form, one table of all steps.

    python benchmarks/bundle.py RECORDINGS [traces/data]

Of every configuration the ops of one process start are kept, those of all its ranks, and the step
times of all starts.  The start is the one during which others used the machine least; the times
themselves have no say.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import foretrace
from foretrace.traces import kineto, native

MODELS = ("resnet50", "gpt", "ddp-resnet50", "ddp-gpt")
LOADS = ("core_seconds", "own_core_seconds", "foreign_core_seconds", "stolen_core_seconds")
HOST = ("cpu", "cores", "kernel", "python", "torch", "allocator")
STARTS = ("configuration", "start", "date", "load_before", "load_after", *LOADS, "bundled", *HOST)
STEPS = ("configuration", "start", "rank", "step", "phase", "duration_ns", "cpu_ns")
RATES = {"compute.csv": ("compute", "compute-pair"), "all_reduce.csv": ("all-reduce",)}

Facts = dict[str, Any]


def starts(recordings: Path, name: str) -> list[Facts]:
    """Facts of every process start of one configuration, in order."""
    files = sorted(recordings.glob(f"{name}/start*/host.json"))
    return [json.loads(f.read_text()) | {"folder": f.parent, "bundled": False} for f in files]


def lost(facts: Facts) -> float:
    """Share of the cores' time that others used or the hypervisor took."""
    others = facts["foreign_core_seconds"] + facts["stolen_core_seconds"]
    return float(others / facts["core_seconds"])


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
                yield (
                    row | {key: chosen[key] for key in ("configuration", "start")} | {"rank": rank}
                )


def rates(recordings: Path, names: tuple[str, ...]) -> str:
    """Tables of all process starts under one head."""
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
    """Write everything that is bundled."""
    names = [*MODELS, *(name for group in RATES.values() for name in group)]
    found = {name: starts(recordings, name) for name in names}
    for name in MODELS:
        bundle_trace(min(found[name], key=lost), data)
    everything = [facts for name in names for facts in found[name]]
    write(data / "starts.csv", STARTS, everything)
    of_models = [facts for name in MODELS for facts in found[name]]
    write(data / "steps.csv", STEPS, [row for facts in of_models for row in steps(facts)])
    for file, group in RATES.items():
        (data / file).write_text(rates(recordings, group))


if __name__ == "__main__":
    default = Path(foretrace.__file__).parent / "traces/data"
    main(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else default)
