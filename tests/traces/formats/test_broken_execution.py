"""Broken execution traces: what is said, to the letter, and exit code 2.

Each row is the file that is given beside a whole profiler trace of one operator, ``aten::addmm``.
"""

import gzip
import json

import pytest

NODE = {"id": 9, "name": "aten::addmm", "inputs": {}, "attrs": [{"name": "rf_id", "value": 5}]}
EVENT = {
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 5, "dur": 2,
    "args": {"Record function id": 5},
}  # fmt: skip


def document(*nodes, pid=1):
    return {"schema": "1.1.1-chakra.0.0.4", "pid": pid, "nodes": list(nodes)}


def number(value):
    """The operator with another number."""
    return document({**NODE, "attrs": [{"name": "rf_id", "value": value}]})


NONE = "the file is damaged or is not an execution trace of PyTorch; record it again"
NOBODY = (
    "none of its {0} operators is in the trace of rank 0; take both in the same steps, with "
    "PyTorch 2.1 or later"
)
TABLE = {
    "no file": (None, "No such file or directory; correct the path or copy it again"),
    "an empty file": (b"", f"Input data was truncated; {NONE}"),
    "JSON that breaks off": (b'{"schema": ', f"Input data was truncated; {NONE}"),
    "not UTF-8": (b'{"schema": "\xff"}', f"is not UTF-8; {NONE}"),
    "nested without end": (
        b'{"schema": "1", "pid": 1, "nodes": [{"name": "a", "inputs": ' + b"[" * 100_000,
        f"is nested too deeply; {NONE}",
    ),
    "gzip that breaks off": (
        gzip.compress(json.dumps(document(NODE)).encode())[:-12],
        f"Compressed file ended before the end-of-stream marker was reached; {NONE}",
    ),
    "no nodes": (
        {"schema": "1.1.1", "pid": 1},
        f"Object missing required field `nodes`; {NONE}",
    ),
    "an operator without a name": (
        document({"id": 1}),
        f"Object missing required field `name` - at `$.nodes[0]`; {NONE}",
    ),
    "a process in words": (
        document(NODE, pid="main"),
        f"Expected `int`, got `str` - at `$.pid`; {NONE}",
    ),
    "another run": (
        document({**NODE, "name": "aten::mm"}),
        "operator 5 is 'aten::mm' there and 'aten::addmm' in the trace; give the execution trace "
        "that was taken in the same run",
    ),
    "another process": (
        document(NODE, pid=77),
        "is of process 77, but no rank of the trace has this process (it has 1); give files of the "
        "same run, one per rank",
    ),
    "other steps": (number(500), NOBODY.format(1)),
    "numbers that are none": (number("five"), NOBODY.format(0)),
}


@pytest.mark.parametrize("case", TABLE)
def test_broken_input_is_reported_with_its_place_and_a_cure(case, refused, tmp_path):
    content, message = TABLE[case]
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": [EVENT]}))
    if content is not None:
        told = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / "et.json").write_bytes(told)
    words = ("trace", "import", "rank0.json", "--execution-trace", "et.json", "--out", "t")
    assert refused(*words) == f"et.json: {message}"
    assert not (tmp_path / "t").exists()
