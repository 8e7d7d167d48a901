"""Whatever happens to a file, reading it gives a trace or a TraceError: never anything else."""

import json

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import kineto
from hypothesis import example, given
from hypothesis import strategies as st

ARGS = {
    "External id": 1, "correlation": 5, "stream": 7, "device": 0, "bytes": 8, "Bytes": 64,
    "Input Dims": [[4, 8], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "2"],
    "Sequence number": 3, "Fwd thread id": 0, "Call stack": "a.py(1): f", "Python id": 4,
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4, "Out msg nelems": 4,
    "Process Group Name": "0", "Process Group Ranks": "[0]", "Total Allocated": 5,
    "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 5, "cuda_sync_kind": "Event Sync",
}  # fmt: skip
CATEGORIES = ("cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "cuda_sync")
NAMES = (
    "ProfilerStep#1", "aten::mm", "cudaLaunchKernel", "cudaStreamWaitEvent", "cudaMemcpyAsync",
    "ncclDevKernel_AllReduce_Sum_f32", "gloo:all_reduce", "c10d::allreduce_",
    "cudaStreamSynchronize", "autograd::engine::evaluate_function: X",
)  # fmt: skip
EVENTS = st.builds(
    lambda cat, name, ts, dur, tid, keys: {
        "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
        "args": {k: ARGS[k] for k in sorted(keys)},
    },
    st.sampled_from(CATEGORIES), st.sampled_from(NAMES), st.integers(0, 50), st.integers(0, 20),
    st.integers(1, 3), st.sets(st.sampled_from(sorted(ARGS))),
)  # fmt: skip


NO_TIME = [
    {"ph": "X", "cat": cat, "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 0,
     "args": {"correlation": 1}}
    for cat in ("cuda_runtime", "kernel")
]  # fmt: skip


def try_everything(path):
    """Read, describe and infer; TraceError is the only refusal, and says where and what to do."""
    try:
        trace = kineto.read(path)
        str(trace.info())
        trace.graph(missing_ranks="recorded_waits", serialise=True)
    except TraceError as error:
        said = str(error)
    else:
        return
    assert path.name in said
    assert ";" in said


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rank0.json"


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.lists(st.one_of(st.integers(-9, 9), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(st.lists(EVENTS, max_size=12))
@example(NO_TIME)
@example([NO_TIME[1] | {"args": {}}] * 2)  # each ended before the other began
def test_any_events_are_read_or_refused(path, events):
    path.write_text(json.dumps({"traceEvents": events}))
    try_everything(path)


@given(
    st.lists(EVENTS, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), max_size=3),
)
@example([], [(0, b"")])
def test_damaged_bytes_are_read_or_refused(path, events, edits):
    document = {"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}
    text = bytearray(json.dumps(document).encode())
    for at, new in edits:
        at %= len(text) + 1
        text[at : at + len(new)] = new
    path.write_bytes(bytes(text))
    try_everything(path)


@given(
    st.sampled_from(sorted(ARGS)),
    VALUES,
    st.sampled_from(CATEGORIES),
)  # fmt: skip
@example("Input Dims", "00", "cpu_op")
def test_any_value_of_any_field_is_read_or_refused(path, field, value, category):
    event = {
        "ph": "X",
        "cat": category,
        "name": "ncclDevKernel_AllReduce",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "dur": 1,
    }
    path.write_text(json.dumps({"traceEvents": [{**event, "args": {**ARGS, field: value}}]}))
    try_everything(path)
