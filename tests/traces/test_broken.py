"""The likeliest broken traces: what the message says, to the letter."""

import gzip
import json

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces import kineto

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 2}


def refusal(path, **options):
    """What reading says, without the folder."""
    with pytest.raises(TraceError) as caught:
        kineto.read(path, **options)
    return str(caught.value).replace(f"{path.parent}/", "")


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_a_missing_file(tmp_path):
    assert refusal(tmp_path / "x*.json") == "x*.json: no such file; check the name or the pattern"


def test_an_empty_file(tmp_path):
    path = written(tmp_path / "t.json", b"")
    assert refusal(path) == "t.json: is empty; give the profiler's .json or .json.gz"


def test_a_folder(tmp_path):
    (tmp_path / "t").mkdir()
    assert refusal(tmp_path / "t") == "t: is a folder; give the profiler's .json or .json.gz"


def test_truncated_gzip(tmp_path):
    whole = gzip.compress(json.dumps({"traceEvents": [EVENT] * 999}).encode())
    path = written(tmp_path / "t.json.gz", whole[: len(whole) // 2])
    assert refusal(path) == (
        "t.json.gz: gzip ends in the middle; copy it again, or record it again"
    )


def test_damaged_gzip(tmp_path):
    whole = bytearray(gzip.compress(json.dumps({"traceEvents": [EVENT] * 999}).encode()))
    whole[len(whole) // 2] ^= 255
    message = refusal(written(tmp_path / "t.json.gz", bytes(whole)))
    assert message.startswith("t.json.gz: gzip is damaged (Error -3 while decompressing data: ")
    assert message.endswith("; copy it again")


def test_json_that_breaks_off(tmp_path):
    path = written(tmp_path / "t.json", b'{"traceEvents": [{"ph": "X"')
    assert refusal(path) == (
        "t.json: JSON ends in the middle, after 27 bytes; the file is damaged or no profiler "
        "trace, record it again"
    )


def test_wrong_json_has_a_place(tmp_path):
    path = written(tmp_path / "t.json", b'{"traceEvents": [\n  {"ph": "X",, "name": "a"}\n]}')
    assert refusal(path) == (
        "t.json: line 2, column 14: JSON is wrong (object keys must be strings); the file is "
        "damaged or no profiler trace, record it again"
    )


def test_no_trace_at_all(tmp_path):
    path = written(tmp_path / "t.json", b"\x00\x01\x02")
    assert refusal(path) == (
        "t.json: line 1, column 1: JSON is wrong (invalid character); the file is damaged or no "
        "profiler trace, record it again"
    )


def test_json_without_events(tmp_path):
    path = written(tmp_path / "t.json", {"hello": "world"})
    assert refusal(path) == (
        "t.json: has no traceEvents; give a trace of the PyTorch profiler (Kineto JSON)"
    )


def test_an_execution_trace(tmp_path):
    path = written(tmp_path / "t.json", {"schema": "1.0.1", "nodes": []})
    assert refusal(path) == (
        "t.json: is an execution trace, which has no times; give the profiler's Kineto file"
    )


def test_no_events(tmp_path):
    path = written(tmp_path / "t.json", {"traceEvents": []})
    assert refusal(path) == "t.json: holds no events with a duration; record at least one step"


def test_a_negative_duration(tmp_path):
    path = written(tmp_path / "t.json", {"traceEvents": [EVENT, {**EVENT, "dur": -3.5}]})
    assert refusal(path) == (
        "t.json: event 1 ('aten::mm'): lasts -3.5 us; the clock was set meanwhile, record it again"
    )


def test_a_time_that_is_none(tmp_path):
    path = written(tmp_path / "t.json", {"traceEvents": [{**EVENT, "ts": "noon"}]})
    assert refusal(path) == (
        "t.json: 'aten::mm': ts is '\"noon\"', which is no time in microseconds; the file is "
        "damaged, record it again"
    )


def test_an_event_without_a_name(tmp_path):
    nameless = {k: v for k, v in EVENT.items() if k != "name"}
    path = written(tmp_path / "t.json", {"traceEvents": [EVENT, nameless]})
    assert (
        refusal(path) == "t.json: event 1 (None): has no name; the file is damaged, record it again"
    )


def test_a_field_of_the_wrong_type(tmp_path):
    wrong = {**EVENT, "args": {"correlation": [1]}}
    path = written(tmp_path / "t.json", {"traceEvents": [EVENT, wrong]})
    assert refusal(path) == (
        "t.json: event 1: args.correlation: Expected `int | str | null`, got `array`; the file is "
        "damaged or no profiler trace, record it again"
    )


def test_events_that_begin_and_end_apart(tmp_path):
    path = written(tmp_path / "t.json", {"traceEvents": [{**EVENT, "ph": "B"}]})
    assert refusal(path) == (
        "t.json: event 0 ('aten::mm'): begins or ends apart; record complete events (ph X)"
    )


def test_two_files_of_one_rank(tmp_path):
    for name in ("a.json", "b.json"):
        written(tmp_path / name, {"distributedInfo": {"rank": 3}, "traceEvents": [EVENT]})
    assert refusal(tmp_path / "?.json") == (
        "b.json: is of rank 3, as is a.json; give one file a rank (names like rank3.json.gz say "
        "the rank where the file does not)"
    )


def test_more_than_the_memory_allowed(tmp_path):
    path = written(tmp_path / "t.json", {"traceEvents": [EVENT] * 20_000})
    assert refusal(path, memory=300_000) == (
        "t.json: needs about 0.00246 GiB of memory, 0.000279 are allowed; allow more, or record "
        "fewer steps"
    )


def test_clocks_that_do_not_belong_together(tmp_path):
    written(tmp_path / "rank0.json", {"traceEvents": [EVENT]})
    written(tmp_path / "rank1.json", {"traceEvents": [{**EVENT, "ts": 8e17}]})
    assert refusal(tmp_path / "rank*.json") == (
        "rank1.json: its times span more than 53376 days; its clock and those of the other files "
        "do not belong together"
    )
