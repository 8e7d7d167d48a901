"""The native form gives back every column, to the last bit."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.column_table import ColumnTable
from foretrace.traces.event_columns import TABLES
from foretrace.traces.formats import native
from foretrace.traces.formats.autodetect import read
from foretrace.traces.recorded_events import FileHeader, ProcessGroup, Track
from foretrace.traces.trace import Trace


def assert_equal(a, b):
    for name, columns in TABLES.items():
        for column in columns:
            left, right = getattr(a, name)[column], getattr(b, name)[column]
            assert left.dtype == right.dtype == columns[column].dtype, (name, column)
            np.testing.assert_array_equal(left, right, err_msg=f"{name}.{column}")
    for field in ("strings", "tracks", "processes", "origin", "resolution", "notes"):
        assert getattr(a, field) == getattr(b, field), field


@pytest.fixture
def trace():
    made = Trace.of(strings=("a", "b'\"é", ""), name=[0, 1, 2], ts=[2**62, 1, 2], dur=[1, 2, 3])
    return replace(
        made,
        tracks=(Track(0, "1", "stream 7", "main"),),
        processes=(
            FileHeader(
                0, "rank0.json.gz", 2, "nccl", "A GPU", (ProcessGroup("0", (0, 1), "nccl"),)
            ),
        ),
        collectives=ColumnTable.of("collectives", event=[1], size=2, ranks=0),
        allocations=ColumnTable.of("allocations", event=[2], allocated=[2**40]),
        origin=1_712_170_331_000_000_123,  # more than a float64 holds
        notes=("a note",),
    )


def test_write_then_read_is_the_same_trace(trace, tmp_path):
    assert_equal(trace, native.read(native.write(trace, tmp_path / "a folder's name")))


def test_writing_again_replaces_the_trace(trace, tmp_path):
    native.write(trace, tmp_path / "t")
    native.write(replace(trace, notes=("another",)), tmp_path / "t")
    assert native.read(tmp_path / "t").notes == ("another",)
    assert [p.name for p in tmp_path.iterdir()] == ["t"], "nothing is left beside it"


def test_an_empty_trace_survives(tmp_path):
    empty = Trace.of(ts=np.empty(0, np.int64))
    assert_equal(empty, native.read(native.write(empty, tmp_path / "t")))


def test_an_interrupted_write_leaves_nothing_that_looks_whole(trace, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(KeyboardInterrupt):
        native.write(trace, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_trace_is_never_overwritten(trace, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "precious.txt").write_text("mine")
    with pytest.raises(
        TraceError, match="exists and is not a trace; choose another name or remove it"
    ):
        native.write(trace, tmp_path / "t")


def test_another_schema_is_refused(trace, tmp_path):
    path = native.write(trace, tmp_path / "t")
    manifest = json.loads((path / native.MANIFEST).read_text())
    (path / native.MANIFEST).write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(TraceError, match=r"has schema 99, this version reads 1 to 3; import .* ag"):
        native.read(path)


def test_a_damaged_table_is_named(trace, tmp_path):
    path = native.write(trace, tmp_path / "t")
    (path / "events.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"events\.parquet: cannot be read \(.*\); import"):
        native.read(path)


def test_read_detects_the_format(trace, tmp_path, script):
    assert len(read(native.write(trace, tmp_path / "t"))) == 3
    s = script()
    s.op("aten::mm", 0, 1)
    assert len(read(s.write(tmp_path))) == 1


def test_the_documented_columns_are_the_columns():
    text = (Path(__file__).parents[3] / "docs" / "trace-format.md").read_text()
    for table, columns in TABLES.items():
        section = text.split(f"## {table}\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (-?\d+) \| (.*) \|$", section, re.MULTILINE)
        documented = {n: (t, int(a), m) for n, t, a, m in rows}
        assert documented == {n: tuple(c) for n, c in columns.items()}
    assert f"schema version is {native.SCHEMA}" in text
