"""Kineto files, from gzip to dependencies: megabytes of JSON text a CPU second.

Usage: python benchmarks/kineto_import.py FILE…    (default: the public traces in FORETRACE_DATA)

Each file is imported as a rank of its own, serially; the general reader beside it only parses.
"""

import gzip
import json
import os
import sys
from pathlib import Path

from _measure import report, side_by_side
from foretrace.traces.kineto import read

SMALLEST = 10e6  # B of text: below, fixed costs are what is measured


def text_of(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def default() -> list[Path]:
    place = os.environ.get("FORETRACE_DATA", Path(__file__).parents[2] / "shared" / "data")
    folder = Path(place) / "kineto-traces"
    if not folder.is_dir():
        sys.exit(f"{folder}: not there; name the files, or set FORETRACE_DATA")
    return [f for f in sorted(folder.rglob("*.json.gz")) if "_et." not in f.name]


def imported(file: Path) -> int:
    """Ops of the graph."""
    return len(read(file).graph(missing_ranks="recorded_waits", serialise=True))


def main(*names: str) -> None:
    rates, rows = [], []
    for file in [Path(n) for n in names] or default():
        size = len(text_of(file))
        if size < SMALLEST:
            continue
        spent = side_by_side(
            3, ours=lambda f=file: imported(f), json=lambda f=file: json.loads(text_of(f))
        )
        rates.append(size / spent["ours"])
        rows.append({"file": file.name, "bytes": size, "cpu_seconds": spent})
        print(
            f"{file.name}: {size / 1e6:.0f} MB, {spent['ours']:.2f} s, json {spent['json']:.2f} s"
        )
    if not rates:
        sys.exit(f"no file holds {SMALLEST / 1e6:.0f} MB of text; name larger ones")
    report(
        "kineto_import",
        {"slowest file, MB of JSON a CPU second": (min(rates) / 1e6, ">=", 50)},
        files=rows,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
