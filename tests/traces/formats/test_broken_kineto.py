"""The likeliest broken traces of the profiler: what is said, to the letter, and exit code 2.

Each row is what lies in the folder and all that the command says; one file is read by its name,
several as ``rank*.json``.
"""

import gzip
import json

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import kineto

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 2}
LAUNCH = {**EVENT, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 1}}
KERNEL = {**EVENT, "cat": "kernel", "pid": 0, "tid": 7, "args": {"correlation": 1, "stream": 7}}


def trace(*events, **document):
    return {**document, "traceEvents": list(events)}


def told(**args):
    """One operator with other arguments."""
    return trace({**EVENT, "args": args})


def of_rank(rank, *events, world=2, **document):
    return trace(*events, distributedInfo={"rank": rank, "world_size": world}, **document)


def collective(name="allreduce", ranks="[0, 1]", ts=5, kernel="AllReduce"):
    """The launch and the kernel of a collective."""
    said = {
        "Collective name": name, "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8,
        "Process Group Name": "0", "Process Group Ranks": ranks, "stream": 20, "correlation": ts,
    }  # fmt: skip
    launch = {**LAUNCH, "ts": ts - 4, "args": {"correlation": said["correlation"]}}
    kernel = {**KERNEL, "name": f"ncclDevKernel_{kernel}", "ts": ts, "dur": 50, "tid": 20}
    return [launch, {**kernel, "args": said}]


def step(number, ts):
    mark = {**EVENT, "cat": "user_annotation", "name": f"ProfilerStep#{number}"}
    return [{**mark, "ts": ts, "dur": 100}, {**EVENT, "ts": ts + 1, "dur": 90}]


DAMAGED = "the file is damaged or not a profiler trace, record it again"
GIVE = "give the profiler's .json or .json.gz"
RECORD = "the file is damaged, record it again"
BUNDLED = (
    "foretrace:ddp-gpt, foretrace:ddp-resnet50, foretrace:gpt, foretrace:gpt-large, "
    "foretrace:resnet50, foretrace:resnet50-small"
)

FILES = {
    "no file": ({}, "workload.trace: no file matches 't.json'; correct the path, or use a "
                    f"bundled trace: {BUNDLED}"),
    "an empty file": ({"t.json": b""}, f"t.json: is empty; {GIVE}"),
    "a folder": ({"t.json": None}, f"t.json: is a folder; {GIVE}"),
    "gzip that breaks off": (
        {"t.json.gz": gzip.compress(json.dumps(trace(*[EVENT] * 999)).encode())[:200]},
        "t.json.gz: gzip ends in the middle; copy it again, or record it again",
    ),
    "gzip that is damaged": (
        {"t.json.gz": b"\x1f\x8b\x08\0\0\0\0\0\0\3\7\7\7\7"},
        "t.json.gz: gzip is damaged (Error -3 while decompressing data: invalid block type); copy "
        "it again",
    ),
    "JSON that breaks off": (
        {"t.json": b'{"traceEvents": [{"ph": "X"'},
        f"t.json: JSON ends in the middle, after 27 bytes; {DAMAGED}",
    ),
    "wrong JSON": (
        {"t.json": b'{"traceEvents": [\n  {"ph": "X",, "name": "a"}\n]}'},
        f"t.json: line 2, column 14: JSON is wrong (object keys must be strings); {DAMAGED}",
    ),
    "no JSON": (
        {"t.json": b"\x00\x01\x02"},
        f"t.json: line 1, column 1: JSON is wrong (invalid character); {DAMAGED}",
    ),
    "no UTF-8": (
        {"t.json": b'{"traceEvents": [{"ph": "X", "name": "\xff"}]}'},
        f"t.json: line 1: byte 0xff is not UTF-8; {DAMAGED}",
    ),
    "JSON nested without end": (
        {"t.json": b'{"traceEvents": [{"ph": "X", "args": {"Input Dims": ' + b"[" * 100_000},
        f"t.json: is nested too deeply; {DAMAGED}",
    ),
    "JSON of something else": (
        {"t.json": {"hello": "world"}},
        "t.json: has no traceEvents; give a trace of the PyTorch profiler (Kineto JSON)",
    ),
    "an execution trace": (
        {"t.json": {"schema": "1.0.1", "nodes": []}},
        "t.json: is an execution trace, which has no times; give the profiler's Kineto file",
    ),
    "no events": (
        {"t.json": trace()},
        "t.json: holds no events with a duration; record at least one step",
    ),
    "an empty Chakra trace": ({"x.0.et": b""}, "x.0.et: is empty; export it again"),
}  # fmt: skip

EVENTS = {
    "a negative duration": (
        {"t.json": trace(EVENT, {**EVENT, "dur": -3.5})},
        "t.json: event 1 ('aten::mm'): has the duration -3.5 us, because the clock was set back; "
        "record it again",
    ),
    "a time that is none": (
        {"t.json": trace({**EVENT, "ts": "noon"})},
        "t.json: 'aten::mm': ts is '\"noon\"', which is no time in microseconds; " + RECORD,
    ),
    "a time beyond all clocks": (
        {"t.json": trace({**EVENT, "ts": 1e300})},
        f"t.json: 'aten::mm': ts is '1e+300', which is no time in microseconds; {RECORD}",
    ),
    "an event without a name": (
        {"t.json": trace(EVENT, {k: v for k, v in EVENT.items() if k != "name"})},
        f"t.json: event 1 (None): has no name; {RECORD}",
    ),
    "a field of another type": (
        {"t.json": trace(EVENT, {**EVENT, "args": {"correlation": [1]}})},
        "t.json: event 1: args.correlation: Expected `int | str | null`, got `array`; " + DAMAGED,
    ),
    "a number that is none": (
        {"t.json": told(**{"Sequence number": "third"})},
        f"t.json: args: sequence is 'third', which is not a 64-bit integer; {RECORD}",
    ),
    "a number of 70 bits": (
        {"t.json": told(**{"External id": str(2**70)})},
        "t.json: args: external is '1180591620717411303424', which is not a 64-bit integer; "
        + RECORD,
    ),
    "begin and end apart": (
        {"t.json": trace({**EVENT, "ph": "B"})},
        "t.json: event 0 ('aten::mm'): is split into begin and end; record complete events (ph X)",
    ),
    "a rank beyond all jobs": (
        {"t.json": of_rank(2**40, EVENT)},
        "t.json: is of rank 1099511627776 of 2; a job has ranks from 0, and at most 1048576: "
        + RECORD,
    ),
    "a kernel without its launch": (
        {"t.json": trace(EVENT, KERNEL)},
        "t.json: none of 1 GPU ops can be joined to the call that launched it, so "
        "dependencies are unknown; record with CPU activities too, or allow the recorded order "
        "to be kept (serialise: true)",
    ),
    "ranks that were not recorded": (
        {"t.json": of_rank(3, *collective(ranks="[0, 1, 2, 3]"), world=4)},
        "t.json: collectives involve ranks 0, 1, 2, which were not recorded; add their files, or "
        "choose what replaces them (missing_ranks: like_recorded | recorded_waits)",
    ),
}  # fmt: skip


def two(first, second):
    """Files of two ranks."""
    return {"rank0.json": of_rank(0, *first), "rank1.json": of_rank(1, *second)}


RANKS = {
    "two files of one rank": (
        {"rank0.json": of_rank(1, EVENT), "rank1.json": of_rank(1, EVENT)},
        "rank1.json: is of rank 1, like rank0.json; give one file per rank (if a file contains no "
        "rank, name it like rank3.json.gz)",
    ),
    "clocks that do not belong together": (
        two([EVENT], [{**EVENT, "ts": 8e17}]),
        "rank1.json: its times span more than 53376 days; its clock and those of the other files "
        "do not belong together; give files of one recording",
    ),
    "other steps": (
        two([*step(4, 0), *step(5, 100)], [*step(5, 0), *step(6, 100)]),
        "rank1.json: has steps 5 to 6, but rank0.json has 4 to 5; keep those of both "
        "(iterations: [5])",
    ),
    "a rank outside its group": (
        two(collective(ranks="[1]"), collective(ranks="[1]")),
        "rank0.json: rank 0 takes part in a collective of ranks 1, to which it does not belong; "
        "the file names its rank or the group wrongly, record it again",
    ),
    "a collective too few": (
        two([*collective(), *collective(ts=105)], collective()),
        "rank1.json: rank 1 has 1 collectives of group '0', others 2; record the same steps on "
        "every rank",
    ),
    "another collective": (
        two(collective(), collective("allgather", kernel="AllGather")),
        "rank1.json: collective 0 is collective:all-gather fp32[8] on rank 1, but "
        "collective:all-reduce fp32[8] on rank 0; give traces of the same steps of one job",
    ),
}  # fmt: skip
TABLE = FILES | EVENTS | RANKS


def put(folder, files):
    """Write files; the name to read them by."""
    for name, content in files.items():
        if content is None:
            (folder / name).mkdir()
        else:
            told = content if isinstance(content, bytes) else json.dumps(content).encode()
            (folder / name).write_bytes(told)
    return "rank*.json" if len(files) > 1 else next(iter(files), "t.json")


@pytest.mark.parametrize("case", TABLE)
def test_broken_input_is_reported_with_its_place_and_a_cure(case, refused, tmp_path):
    files, message = TABLE[case]
    name = put(tmp_path, files)
    assert refused("trace", "export", name, "--format", "chakra") == message
    assert ";" in message or ":" in message.partition(": ")[2]
    assert not (tmp_path / "export").exists()


def test_a_graph_is_no_recording_to_import(refused, tmp_path):
    name = put(tmp_path, {"x.0.et": b""})
    assert refused("trace", "import", name, "--out", "kept") == (
        "'x.0.et' is a Chakra trace, a graph without recorded events; run it, or use the Kineto "
        "trace that it was made from"
    )


def test_a_file_that_needs_more_than_the_memory_allowed(tmp_path):
    put(tmp_path, {"t.json": trace(*[EVENT] * 20_000)})
    with pytest.raises(TraceError) as caught:
        kineto.read(tmp_path / "t.json", memory=300_000)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == (
        "t.json: needs about 0.00246 GiB of memory, but 0.000279 GiB are allowed; raise the limit "
        "(ulimit -v; in Python: memory=), or record fewer steps"
    )
