"""Traces larger than the memory that there is: read in pieces, or refused with what they need."""

import gzip
import json
import os
import subprocess
import sys

import pytest

LIMIT = 2 * 2**30  # B of address space
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
from foretrace.sim.errors import TraceError
from foretrace.traces.formats.kineto import read
try:
    trace = read(sys.argv[1])
    print(len(trace.events), int(trace.events["dur"].sum()))
except TraceError as error:
    print(error)
"""
EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 2,
         "args": {"External id": 7, "Input type": ["float", "float"]}}  # fmt: skip


def written(path, events):
    """A trace of so many equal events; returns its length in bytes."""
    one = json.dumps(EVENT)
    thousand = ",\n".join([one] * 1000)
    length = 0
    with gzip.open(path, "wt", compresslevel=1) as file:
        length += file.write('{"traceEvents": [\n')
        for k in range(events // 1000):
            length += file.write((",\n" if k else "") + thousand)
        length += file.write("\n]}")
    return length


def read_within(path, limit):
    """What a process of so much address space says."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, "-c", PROGRAM, str(path), str(limit)]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.nightly
def test_a_trace_whose_objects_would_fill_the_memory_is_read_in_pieces(tmp_path):
    events = 3_000_000
    assert 5 * written(tmp_path / "t.json.gz", events) > LIMIT  # its objects, all at once
    found, total = map(int, read_within(tmp_path / "t.json.gz", LIMIT).split())
    assert found == events
    assert total == events * 2000  # ns


@pytest.mark.nightly
def test_a_trace_beyond_the_memory_limit_is_refused_with_its_need(tmp_path):
    length = written(tmp_path / "t.json.gz", 16_000_000)
    assert length > LIMIT
    told = read_within(tmp_path / "t.json.gz", LIMIT)
    assert "t.json.gz: needs about " in told
    assert "GiB of memory, " in told
    assert "raise the limit (ulimit -v; in Python: memory=), or record fewer steps" in told


@pytest.mark.nightly
def test_running_out_of_memory_is_reported(tmp_path):
    """The estimate is of what is kept; an allocator may want more."""
    written(tmp_path / "t.json.gz", 3_000_000)
    told = read_within(tmp_path / "t.json.gz", LIMIT // 2)
    assert "GiB of memory" in told
    assert "raise the limit (ulimit -v; in Python: memory=), or record fewer steps" in told
