"""Speed of trace import, from gzip to dependencies, in uncompressed JSON per CPU second.

    python -m foretrace.benchmarks.commands.import_kineto [FILE ...]

FILE : recorded traces; by default those stored next to the checkout

The goal is 50 MB per CPU second for the complete import, over all files.
"""

import os
import sys
import time
from glob import glob
from pathlib import Path

from foretrace.traces.formats import json_chunks, kineto

GOAL = 50.0  # MB a CPU second
REPEAT = 3


def recorded():
    root = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
    return sorted(glob(str(root / "kineto-traces/**/*.json.gz"), recursive=True))


def measure(file):
    """Size in MB, seconds to read and seconds to infer dependencies; the best of several runs."""
    best = (float("inf"), 0.0, 0.0)
    for _ in range(REPEAT):
        began = time.process_time()
        trace = kineto.read(file)
        read = time.process_time()
        trace.graph(missing_ranks="recorded_waits", serialise=True)
        done = time.process_time()
        best = min(best, (done - began, read - began, done - read))
    length = sum(len(p.text) for p in json_chunks.json_chunks(Path(file), 2**34))
    return length / 1e6, best[1], best[2]


def main(files):
    total = [0.0, 0.0, 0.0]
    files = files or recorded()
    if not files:
        sys.exit("import_kineto: no recorded traces; name files, or set FORETRACE_DATA")
    for file in files:
        try:
            found = measure(file)
        except kineto.TraceError as e:
            print(f"{'':>8}  left out: {str(e).split(';')[0][-60:]}")
            continue
        total = [a + b for a, b in zip(total, found, strict=True)]
        size, read, graph = found
        print(
            f"{size:8.1f} MB  read {read:6.3f} s  infer {graph:6.3f} s  "
            f"{size / (read + graph):6.1f} MB/s  {'/'.join(Path(file).parts[-2:])}"
        )
    size, read, graph = total
    rate = size / (read + graph)
    print(f"{size:8.1f} MB  read {read:6.3f} s  infer {graph:6.3f} s  {rate:6.1f} MB/s  all files")
    print(f"goal {GOAL:.0f} MB/s: {'met' if rate >= GOAL else 'missed'}")
    return int(rate < GOAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
