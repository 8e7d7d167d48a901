"""Reading: the variants of writers, and files in pieces."""

import json

import numpy as np
import pytest
from foretrace.traces.event_columns import Event
from foretrace.traces.formats import json_chunks, kineto


def written(path, *events, **document):
    path.write_text(json.dumps({**document, "traceEvents": events}))
    return path


def event(**fields):
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": "a",
        "pid": 1,
        "tid": 1,
        "ts": 5,
        "dur": 2,
        **fields,
    }


def test_times_are_exact_and_absolute(script, tmp_path):
    s = script(baseTimeNanoseconds=1_000_000_000_000_000_007)
    s.op("a", 0.001, 0.125)
    s.op("b", 2.5, 0)
    trace = s.read(tmp_path)
    base = 1_712_170_331_000_000_000 + 1_000_000_000_000_000_007
    assert [trace.absolute_start(0), trace.absolute_start(1)] == [base + 1, base + 2500]
    assert trace.events["dur"].tolist() == [125, 0]
    assert trace.resolution == 10**9


def test_finer_digits_make_finer_ticks(tmp_path):
    trace = kineto.read(written(tmp_path / "t.json", event(ts=1.5, dur=0.000125)))
    assert trace.resolution == 10**12
    assert trace.events["dur"].tolist() == [125]
    assert trace.absolute_start(0) == 1_500_000


def test_digits_beyond_that_are_rounded_and_noted(tmp_path):
    trace = kineto.read(written(tmp_path / "t.json", event(dur=0.30000000000000004)))
    assert trace.events["dur"].tolist() == [300]
    assert trace.notes == ("1 times had more digits than a picosecond and were rounded",)


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("cpu_op", Event.OP), ("Operator", Event.OP), ("user_annotation", Event.ANNOTATION),
        ("python_function", Event.PYTHON), ("cuda_runtime", Event.RUNTIME),
        ("cuda_driver", Event.RUNTIME), ("Runtime", Event.RUNTIME), ("kernel", Event.KERNEL),
        ("Kernel", Event.KERNEL), ("gpu_memcpy", Event.COPY), ("Memset", Event.COPY),
        ("cuda_sync", Event.SYNC), ("gpu_user_annotation", Event.OTHER), ("Trace", Event.OTHER),
    ],
)  # fmt: skip
def test_categories_of_all_writers(tmp_path, category, kind):
    trace = kineto.read(written(tmp_path / "t.json", event(cat=category)))
    assert trace.events["kind"].tolist() == [kind]
    assert trace.text("category").tolist() == [category]


def test_gpu_work_keeps_its_place(tmp_path):
    args = {"correlation": 9, "stream": 7, "device": 1, "bytes": 4096, "External id": 3}
    trace = kineto.read(written(tmp_path / "t.json", event(cat="gpu_memcpy", args=args)))
    found = {k: trace.events[k].tolist() for k in ("correlation", "stream", "device", "bytes")}
    assert found == {"correlation": [9], "stream": [7], "device": [1], "bytes": [4096]}
    assert trace.events["external"].tolist() == [3]


def test_old_writers_spell_and_quote_otherwise(tmp_path):
    """PyTorch 1.8: lower-case ids, quoted threads; ROCm quotes bytes."""
    old = event(cat="Kernel", tid="stream 7", args={"external id": 5, "bytes": "12", "stream": "7"})
    trace = kineto.read(written(tmp_path / "t.json", old, event(tid="1"), event(tid=1)))
    assert trace.events["external"].tolist() == [5, -1, -1]
    assert trace.events["bytes"].tolist()[0] == 12
    assert [t.thread for t in trace.tracks] == ["stream 7", "1"], "1 and '1' are one thread"


def test_operators_keep_shapes_types_and_origin(tmp_path):
    args = {
        "Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "1"],
        "Call stack": "train.py(3): main", "Module Hierarchy": "Net.fc", "Sequence number": 4,
        "Fwd thread id": 1,
    }  # fmt: skip
    trace = kineto.read(written(tmp_path / "t.json", event(args=args), event(name="b")))
    assert json.loads(trace.text("shapes")[0]) == [[2, 3], []]
    assert json.loads(trace.text("dtypes")[0]) == ["float", "Scalar"]
    assert trace.text("stack").tolist() == ["train.py(3): main", ""]
    assert trace.text("module").tolist() == ["Net.fc", ""]
    assert trace.events["sequence"].tolist() == [4, -1]
    assert trace.events["forward"].tolist() == [1, -1]


def test_collectives_are_kept_apart(tmp_path):
    args = {
        "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10,
        "Out msg nelems": 10, "Group size": 2, "Process Group Name": "dp",
        "Process Group Ranks": "[0, 1]",
    }  # fmt: skip
    trace = kineto.read(written(tmp_path / "t.json", event(), event(cat="kernel", args=args)))
    assert trace.collectives["event"].tolist() == [1]
    assert trace.collectives["size"].tolist() == [2]
    assert trace.text("name", "collectives").tolist() == ["allreduce"]
    assert trace.text("ranks", "collectives").tolist() == ["[0, 1]"]


def test_memory_events_need_no_duration(tmp_path):
    memory = {
        "ph": "i",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": 7,
        "args": {"Bytes": -512, "Device Id": 0, "Device Type": 1, "Total Allocated": 99},
    }
    trace = kineto.read(written(tmp_path / "t.json", event(), memory))
    assert trace.events["kind"].tolist() == [Event.OP, Event.MEMORY]
    assert trace.events["bytes"].tolist() == [0, -512]
    assert trace.allocations["allocated"].tolist() == [99]


def test_a_list_of_events_is_a_trace_too(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([event(), event(name="b")]))
    assert kineto.read(path).text("name").tolist() == ["a", "b"]


def test_threads_have_names(tmp_path):
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}}
    trace = kineto.read(written(tmp_path / "t.json", named, event()))
    assert [t.name for t in trace.tracks] == ["main"]


def test_ranks_come_from_the_file_else_its_name(script, tmp_path):
    a = written(tmp_path / "rank3.json", event())
    b = written(tmp_path / "x.json", event(ts=9), distributedInfo={"rank": 1, "world_size": 4})
    trace = kineto.read([a, b])
    assert trace.ranks == (1, 3)
    assert trace.processes[0].world == 4
    assert trace.events["rank"].tolist() == [1, 3]
    assert [t.rank for t in trace.tracks] == [3, 1]


def test_a_file_in_pieces_is_the_same_trace(script, tmp_path, monkeypatch):
    s = script(baseTimeNanoseconds=7)
    for i in range(2000):
        s.op(
            f'op{i % 9} \\"}},{{\\"ph\\":',
            i,
            0.5,
            **{"Input Dims": [[i % 5]], "Input type": ["float"]},
        )
        s.launch(i, i + 0.25, 0.125, **{"Collective name": "allreduce", "In msg nelems": i})
    path = s.write(tmp_path)
    whole = kineto.read(path)
    monkeypatch.setattr(json_chunks, "CHUNK", 4096)
    parts = list(json_chunks.json_chunks(path, 2**30))
    assert len(parts) > 50
    again = kineto.read(path)
    assert again.strings == whole.strings
    for table in ("events", "collectives"):
        for name, column in getattr(whole, table).columns.items():
            np.testing.assert_array_equal(column, getattr(again, table)[name], err_msg=name)


def test_events_that_do_not_begin_with_their_phase_are_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(json_chunks, "CHUNK", 4096)
    turned = [dict(reversed(event(ts=i).items())) for i in range(500)]
    path = written(tmp_path / "t.json", *turned)
    assert len(list(json_chunks.json_chunks(path, 2**30))) == 1
    assert kineto.read(path).events["ts"].tolist() == [1000 * i for i in range(500)]
    with pytest.raises(
        kineto.TraceError, match=r"t.json: needs about .* GiB of memory, .* allowed"
    ):
        kineto.read(path, memory=100_000)


def test_an_error_in_a_later_piece_has_its_true_place(script, tmp_path, monkeypatch):
    monkeypatch.setattr(json_chunks, "CHUNK", 4096)
    s = script()
    for i in range(300):
        s.op("a", i, 0.5)
    s.add("cpu_op", "late", 300, -1)
    with pytest.raises(kineto.TraceError, match=r"event 300 \('late'\): has the duration -1 us"):
        kineto.read(s.write(tmp_path))
