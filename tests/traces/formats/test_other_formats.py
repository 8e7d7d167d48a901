"""Files of other programs are named, each with what to use instead."""

import gzip
import json
import pickle
import sqlite3

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import kineto

CURE = "record the step with torch.profiler and give its export_chrome_trace file"
XPLANE = b"\n\x9f\x01\x08\x02\x12\x0d/device:GPU:0\x1a\x85\x01"


def sqlite(path):
    with sqlite3.connect(path) as database:
        database.execute("create table kernels (start int)")


def raw(content):
    return lambda path: path.write_bytes(content)


def text(value):
    return raw(json.dumps(value).encode())


def x(pid, **fields):
    return {"name": "add", "ph": "X", "ts": 1.5, "dur": 2, "tid": 1, "pid": pid, **fields}


def process(name, pid=1):
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def pair(**fields):
    return [{"name": "AllReduce", "ph": ph, "id": 0, "pid": 7, "tid": 1, "ts": ts, **fields}
            for ph, ts in (("b", 10.5), ("e", 90.5))]  # fmt: skip


FILES = {
    "XPlane": (raw(XPLANE), "is an XPlane profile (xplane.pb) of JAX or TensorFlow"),
    "XPlane of a host": (raw(XPLANE.replace(b"device:GPU", b"host:CPU__")), "is an XPlane profile"),
    "XPlane, gzipped": (raw(gzip.compress(XPLANE)), "is an XPlane profile"),
    "SQLite": (sqlite, "is an SQLite database, as of Nsight Systems"),
    "zip": (raw(b"PK\x03\x04\x14"), "is a zip archive; unpack it"),
    "zstd": (raw(b"\x28\xb5\x2f\xfd\x04"), "is compressed with zstd; unpack it (zstd -d)"),
    "a memory snapshot": (raw(pickle.dumps({"segments": []})), "is a pickle, as of torch's memory"),
    "a memory snapshot in JSON": (text({"segments": [], "device_traces": []}),
                                  "is a memory snapshot of torch, which has no ops"),
    "HTML": (raw(b"<html>\n<img src=..>"), "is HTML or XML, as of torch's memory timeline"),
    "a memory timeline": (text([[1, 2], [[0, 1], [2, 3]]]), "is a list of numbers, as of torch's"),
    "raw memory events": (text([[1, 0, 512, 3]]), "is a list of numbers, as of torch's memory"),
    "rocprofv3": (text({"rocprofiler-sdk-tool": [{"metadata": {}}]}), "is JSON of rocprofv3"),
    "autograd": (text([x("CPU functions"), x("CUDA functions", tid=0)]),
                 "is a trace of torch.autograd.profiler before PyTorch 1.8.1"),
    "autograd without kernels": (text([x("CPU functions")]), "is a trace of torch.autograd"),
    "autograd in a document": (text({"traceEvents": [x("CUDA functions")]}), "is a trace of torch"),
    "JAX": (text({"traceEvents": [process("/device:GPU:0"), x(1)]}), "is a trace of JAX or Tensor"),
    "TPU": (text({"traceEvents": [x(3), process("/device:TPU:0", 3)]}), "is a trace of JAX"),
    "JAX, an empty event": (text({"traceEvents": [process("/device:GPU:0"), x(1), {}]}), "is a"),
    "NCCL": (text(pair(cat="COLL")), "holds only asynchronous events (ph b and e: begin and end"),
    "NCCL, no category": (text(pair()), "holds only asynchronous events"),
    "NCCL, not closed": (raw(json.dumps(pair())[:-1].encode()), "holds only asynchronous events"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_another_format_is_named_with_what_to_use(tmp_path, case):
    write, message = FILES[case]
    write(tmp_path / "t.json")
    with pytest.raises(TraceError) as caught:
        kineto.read(tmp_path / "t.json")
    told = str(caught.value).removeprefix(f"{tmp_path}/")
    assert told.startswith(f"t.json: {message}"), told
    assert told.count("\n") == 0
    assert CURE in told or "unpack it" in told or "give the profiler's" in told


def test_asynchronous_events_next_to_others_are_left_out(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps([*pair(), x(1, cat="cpu_op")]))
    assert len(kineto.read(tmp_path / "t.json")) == 1


def test_a_trace_without_ops_is_not_usable_and_is_refused(tmp_path):
    """The description and the graph agree."""
    no_ops, unread = "no operator and no GPU work", "device work is not read"
    for name, events, why in (
        ("no category", [x(1)], unread),
        ("an unknown one", [x(1, cat="Op")], unread),
        ("only marks", [x(1, cat="user_annotation", name="ProfilerStep#1", dur=0)], no_ops),
        ("no time", [x(1, cat="Trace", dur=0)], no_ops),
    ):
        (tmp_path / "t.json").write_text(json.dumps(events))
        trace = kineto.read(tmp_path / "t.json")
        use = trace.info().find_use("replay")
        assert not use.possible, name
        assert why in use.why, name
        assert str(trace.info())
        with pytest.raises(TraceError, match=why):
            trace.graph(serialise=True)
