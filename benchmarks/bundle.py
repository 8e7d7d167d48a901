"""Make the bundled traces of what `record.py` recorded: native form, one table of all steps.

    python benchmarks/bundle.py RECORDINGS [traces/data]

Of every configuration the ops of one process start are kept, those of all its ranks, and the step
times of all starts.  The start is the first during which the machine did little else: what others
used decides, never the times themselves.
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
STARTS = ("configuration", "start", "date", "load_before", "load_after", *LOADS, "quiet", "bundled")
STEPS = ("configuration", "start", "rank", "step", "phase", "duration_ns", "cpu_ns")
RATES = {"compute": "compute.csv", "all-reduce": "all_reduce.csv"}
QUIET = 0.05  # of the cores' time, used by others or taken by the hypervisor

Facts = dict[str, Any]


def starts(recordings: Path, name: str) -> list[Facts]:
    """Facts of every process start of one configuration, in order, quiet or not."""
    found = []
    for file in sorted(recordings.glob(f"{name}/start*/host.json")):
        facts = json.loads(file.read_text()) | {"folder": file.parent, "bundled": False}
        lost = facts["foreign_core_seconds"] + facts["stolen_core_seconds"]
        found.append(facts | {"quiet": lost <= QUIET * facts["core_seconds"]})
    return found


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


def rates(recordings: Path, name: str) -> str:
    """Tables of all process starts under one head."""
    tables = [f.read_text().splitlines() for f in sorted(recordings.glob(f"{name}/start*/*.csv"))]
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
    found = {name: starts(recordings, name) for name in (*MODELS, *RATES)}
    for name in MODELS:
        bundle_trace(next(facts for facts in found[name] if facts["quiet"]), data)
    everything = [facts for name in found for facts in found[name]]
    write(data / "starts.csv", STARTS, everything)
    write(
        data / "steps.csv", STEPS, [row for name in MODELS for f in found[name] for row in steps(f)]
    )
    for name, file in RATES.items():
        (data / file).write_text(rates(recordings, name))
    machine = {
        key: everything[0][key]
        for key in ("cpu", "cores", "kernel", "python", "torch", "allocator")
    }
    (data / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2] if sys.argv[2:] else Path(foretrace.__file__).parent / "traces/data"),
    )
