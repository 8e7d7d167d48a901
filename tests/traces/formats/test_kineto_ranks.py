"""Whose rank a file or process is: as recorded, else guessed from names, and said to be."""

import json

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import kineto
from foretrace.traces.formats.rank_names import ranks_from_names
from foretrace.traces.infer.trace_facts import trace_facts


def file_of(folder, name, *events, **document):
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": 1, "dur": 2}
    path = folder / name
    path.write_text(json.dumps({**document, "traceEvents": [op, *events]}))
    return path


def kernel(pid=0, ts=1.5, device=0):
    args = {"stream": 7, "device": device}
    return {"ph": "X", "cat": "kernel", "name": "gemm", "pid": pid, "tid": 7, "ts": ts, "dur": 1,
            "args": args}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["1728-TP-0.json", "1728-TP-10.json", "1728-TP-2.json"], [0, 10, 2]),
        (["rank3.json.gz"], [3]),
        (["resnet50.json"], [0]),
        (["trace-17.json", "trace-4.json"], [17, 4]),
        (["host_900001.1700000002.json", "host_900000.1700000001.json"], [1, 0]),
        (["n1-rank_4-TP-0.json", "n0-rank_2-TP-1.json"], [4, 2]),
        (["TP-0-PP-0", "TP-1-PP-0", "TP-0-PP-1", "TP-1-PP-1"], [0, 2, 1, 3]),
        (["b.json", "a.json"], [1, 0]),
    ],
)
def test_a_counter_that_differs_is_the_rank_as_a_number(names, ranks):
    assert ranks_from_names(names) == ranks


def test_a_guess_is_said_with_the_names_of_the_files(tmp_path):
    files = [file_of(tmp_path, f"t-TP-{n}.json") for n in (0, 10, 2)]
    trace = kineto.read(files)
    told = "Ranks are guessed from the names of the files: 0 t-TP-0.json, 2 t-TP-2.json, 10 t-TP-10"
    assert trace.ranks == (0, 2, 10)
    assert trace.notes[0].startswith(told)
    assert str(trace.info()).splitlines()[0].startswith(f"caution    {told}")
    assert trace.graph().facts["recording"].startswith(told)


def test_recorded_ranks_are_no_guess(tmp_path):
    files = [
        file_of(tmp_path, f"t{n}.json", distributedInfo={"rank": 1 - n, "world_size": 2})
        for n in (0, 1)
    ]
    trace = kineto.read(files)
    assert [p.file for p in trace.processes] == ["t1.json", "t0.json"]
    assert trace_facts(trace).guess == ""


def test_a_file_without_gpu_work_among_files_with_it_is_refused_by_name(tmp_path):
    files = [file_of(tmp_path, f"vllm-rank-{n}.json", kernel()) for n in (0, 1)]
    front = file_of(tmp_path, "vllm-async_llm.json")
    with pytest.raises(TraceError, match=r"vllm-async_llm.json: has no GPU work, but .*rank-0"):
        kineto.read([front, *files])
    assert kineto.read(files).ranks == (0, 1)


def merged(folder, pids, *described, **document):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": 1, "ts": 1, "dur": 2}
        for pid in pids
    ]
    path = folder / "merged.json"
    path.write_text(json.dumps({**document, "traceEvents": [*events, *described]}))
    return path


@pytest.mark.parametrize(
    ("pids", "described"),
    [
        (["[TP00] 50", "[TP03] 50"], []),
        ([50, 51], [("process_name", {"name": "rank 0: python"}, 50),
                    ("process_name", {"name": "rank 3: python"}, 51)]),
        ([50, 51], [("process_labels", {"labels": "[TP00]"}, 50),
                    ("process_labels", {"labels": "[TP03]"}, 51)]),
        ([50, 51], [("process_info", {"rank": 0}, 50), ("process_info", {"rank": 3}, 51)]),
    ],
)  # fmt: skip
def test_processes_of_one_file_are_several_ranks(tmp_path, pids, described):
    said = [{"ph": "M", "name": n, "pid": pid, "args": args} for n, args, pid in described]
    trace = kineto.read(merged(tmp_path, pids, *said))
    assert trace.ranks == (0, 3)
    assert trace.events["rank"].tolist() == [0, 3]
    assert [t.rank for t in trace.tracks] == [0, 3]
    assert trace_facts(trace).guess.startswith("Ranks are guessed from the processes of merged")


def test_a_process_without_a_rank_in_a_merged_file_is_refused(tmp_path):
    with pytest.raises(TraceError, match="process 52 has no rank, but other processes"):
        kineto.read(merged(tmp_path, ["[TP00] 50", "[TP01] 50", 52]))


def test_processes_without_marks_are_one_rank(tmp_path):
    assert kineto.read(merged(tmp_path, [50, 51])).ranks == (0,)


def test_ranks_guessed_twice_are_refused(tmp_path):
    one = file_of(tmp_path, "a.json", distributedInfo={"rank": 0, "world_size": 2})
    with pytest.raises(TraceError, match=r"b.json: is of rank 0, like a.json"):
        kineto.read([one, file_of(tmp_path, "b.json")])
