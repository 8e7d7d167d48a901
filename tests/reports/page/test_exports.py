"""Exported tables and timelines contain every op with exact times."""

import shutil
from collections import Counter

import duckdb
import pytest
from foretrace.reports.export import perfetto
from foretrace.reports.export.op_places import op_places
from foretrace.reports.export.tables import write_ops
from foretrace.sim.facts.ops import Kind
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace


@pytest.fixture
def packets(small, tmp_path):
    def write():
        cut = perfetto.write_perfetto_timeline(tmp_path / "t.pftrace", small.results)
        trace = Trace.FromString((tmp_path / "t.pftrace").read_bytes())
        return cut, list(trace.packet)

    return write


def test_the_table_has_one_row_per_op_with_exact_times(small, tmp_path):
    result = small.results["base"]
    write_ops(tmp_path / "ops.parquet", result)
    rows = duckdb.sql(f"SELECT op, kind, rank, start, \"end\" FROM '{tmp_path}/ops.parquet'")
    rows = rows.fetchall()
    assert [r[0] for r in rows] == list(range(len(result.ops)))
    assert [r[3] for r in rows] == result.columns.start.tolist()
    assert [r[4] for r in rows] == result.columns.end.tolist()
    assert sum(r[1] == "collective" for r in rows) == 4


def test_reading_the_table_gives_the_ops_of_the_result(small, tmp_path):
    import pandas as pd
    from foretrace import ScenarioError, read_ops

    result = small.results["base"]
    write_ops(tmp_path / "ops.base.parquet", result)
    found, told = read_ops(tmp_path), result.frame()
    assert {*told.columns} <= {*found.columns}
    pd.testing.assert_frame_equal(
        found[[*told.columns]], told, check_names=False, check_dtype=False, check_index_type=False
    )
    with pytest.raises(ScenarioError, match=r"no ops of 'quick' were kept; there is base$"):
        read_ops(tmp_path, "quick")
    with pytest.raises(
        ScenarioError, match=r"no ops of 'base' were kept; run it again with --keep ops$"
    ):
        read_ops(tmp_path / "none")


def test_the_timeline_has_a_process_for_each_rank_of_each_variant(packets):
    _, found = packets()
    names = [p.track_descriptor.process.process_name for p in found]
    assert sorted(n for n in names if n) == [
        "base: rank 0", "base: rank 1", "quick: rank 0", "quick: rank 1"
    ]  # fmt: skip


def test_every_slice_that_begins_ends_on_its_track(packets):
    cut, found = packets()
    depth = {}
    for p in found:
        if p.HasField("track_event"):
            track = p.track_event.track_uuid
            depth[track] = depth.get(track, 0) + (1 if p.track_event.type == 1 else -1)
            assert depth[track] >= 0
    assert cut == 0
    assert set(depth.values()) == {0}


def test_a_collective_is_a_slice_on_every_member(packets, small):
    _, found = packets()
    begun = [p.track_event.name for p in found if p.track_event.type == 1]
    ended = small.results["base"].columns.end
    assert len(begun) == 2 * ((ended >= 0).sum() + 4)


def test_slices_have_the_names_and_times_of_their_ops(packets, small):
    _, found = packets()
    names = {e.iid: e.name for p in found for e in p.interned_data.event_names}
    begun = [p for p in found if p.track_event.type == 1]
    frames = [result.frame() for result in small.results.values()]
    ops = [row for f in frames for row in zip(f["name"], f["kind"], f["start_us"], strict=True)]
    told = {(names[p.track_event.name_iid], p.timestamp) for p in begun}
    assert told == {(name or kind, round(start * 1000)) for name, kind, start in ops}


def test_slices_that_are_left_out_are_counted(packets, monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_SLICES", 20)
    cut, found = packets()
    kept = sum(p.track_event.type == 1 for p in found)
    assert kept == 20
    monkeypatch.undo()
    assert cut == sum(p.track_event.type == 1 for p in packets()[1]) - 20


def slices(found):
    """Slices as (name, track, start, length), paired like an importer does: last begun, first
    ended.
    """
    events = sorted((p for p in found if p.HasField("track_event")), key=lambda p: p.timestamp)
    names = {e.iid: e.name for p in found for e in p.interned_data.event_names}
    begun, ended = {}, []
    for p in events:
        track = begun.setdefault(p.track_event.track_uuid, [])
        if p.track_event.type == 1:
            track.append((names[p.track_event.name_iid], p.timestamp))
        else:
            name, start = track.pop()
            ended.append((name, p.track_event.track_uuid, start, p.timestamp - start))
    return ended


def test_an_importer_sees_every_op_with_its_length(packets, small):
    """If slices on a track overlapped, an importer would pair the wrong ends."""
    _, found = packets()
    told = Counter((name, start, length) for name, _, start, length in slices(found))
    was = Counter()
    for result in small.results.values():
        where = op_places(result)
        texts = [label.name for run in result.runs for label in run.graph.labels]
        for op in where.op[result.columns.end[where.op] >= 0].tolist():
            start, end = (round(int(c[op]) * result.tick * 1e9)
                          for c in (result.columns.start, result.columns.end))  # fmt: skip
            label = int(result.ops.label[op])
            kind = Kind(int(result.ops.kind[op])).name.lower()
            was[texts[label] if label >= 0 else kind, start, end - start] += 1
    assert told == was


def test_tracks_are_described_before_they_are_used_and_hang_on_a_process(packets):
    _, found = packets()
    processes, tracks = set(), set()
    for p in found:
        if p.HasField("track_descriptor"):
            own = p.track_descriptor
            assert own.uuid not in processes | tracks
            assert own.HasField("process") or own.parent_uuid in processes
            (processes if own.HasField("process") else tracks).add(own.uuid)
        elif p.HasField("track_event"):
            assert p.trusted_packet_sequence_id  # without one an importer drops the event
            assert p.track_event.track_uuid in tracks


def test_the_trace_processor_opens_it(packets, small, tmp_path):
    shell = shutil.which("trace_processor_shell")
    if shell is None:
        pytest.skip("no trace_processor_shell here; the perfetto package would download it")
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    _, found = packets()
    config = TraceProcessorConfig(bin_path=shell)
    with TraceProcessor(trace=str(tmp_path / "t.pftrace"), config=config) as opened:
        seen = Counter((r.name, r.ts, r.dur) for r in opened.query("SELECT * FROM slice"))
        wrong = [r.name for r in opened.query("SELECT * FROM stats WHERE severity = 'error'"
                                              " AND value > 0")]  # fmt: skip
    assert wrong == []
    assert seen == Counter((name, start, length) for name, _, start, length in slices(found))
