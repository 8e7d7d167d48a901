"""``foretrace trace``, ``catalog`` and ``validate``."""

import json
from pathlib import Path

import pytest


def test_a_trace_says_what_it_is_usable_for(cli):
    code, out, _ = cli("trace", "info", "foretrace:gpt")
    assert code == 0
    assert "usable for replay yes" in out


def test_a_trace_is_imported_and_reads_the_same(cli):
    assert cli("trace", "import", "rank0.json", "--out", "native")[0] == 0
    native, kineto = (
        json.loads(cli("trace", "info", name, "--json")[1]) for name in ("native", "rank0.json")
    )
    assert native == kineto


def test_an_imported_trace_gives_the_same_numbers(cli, saved):
    cli("trace", "import", "rank0.json", "--out", "native2")
    runs = saved("runs"), saved("runs", "--set", "workload.trace=native2")
    one, other = (json.loads((r / "summary.json").read_text())["points"] for r in runs)
    assert one["base"]["metrics"] == other["base"]["metrics"]


@pytest.mark.nightly
def test_chakra_files_tell_what_the_trace_told_that_they_were_made_from(cli, tmp_path):
    name, out = "foretrace:ddp-gpt", str(tmp_path / "et")
    assert cli("trace", "export", name, "--format", "chakra", "--out", out)[0] == 0
    files = sorted(map(str, (tmp_path / "et").glob("*.et")))
    graph = json.loads(cli("trace", "info", f"{out}/*.et", "--json")[1])
    assert json.loads(cli("trace", "info", *files, "--json")[1]) == graph
    trace = json.loads(cli("trace", "info", name, "--json")[1])
    same = ("ranks", "world", "steps", "step_times", "collectives", "facts")
    assert {k: graph[k] for k in same} == {k: trace[k] for k in same}
    uses = [{u[0]: u[1] for u in found["uses"]} for found in (graph, trace)]
    assert uses[0] == uses[1]
    again = str(tmp_path / "again")
    assert cli("trace", "export", f"{out}/*.et", "--format", "chakra", "--out", again)[0] == 0
    (written, *_), (first, *_) = sorted((tmp_path / "again").glob("*.et")), files
    assert written.read_bytes() == Path(first).read_bytes()


def test_the_catalog_lists_parts(cli):
    code, out, _ = cli("catalog", "gpu")
    assert code == 0
    assert "a100-sxm4-80g" in out


def test_a_part_is_shown_with_the_source_of_each_value(cli):
    rows = json.loads(cli("catalog", "gpu", "a100-sxm4-80g", "--json")[1])["values"]
    assert "peaks.bf16" in {row["setting"] for row in rows}
    kinds = {row["kind"] for row in rows if row["setting"] != "what"}
    assert kinds <= {"measured", "fitted", "datasheet", "assumed"}
    assert all(row["where"] for row in rows)


def test_validate_misses_a_trace_that_is_not_there(cli):
    code, out, err = cli("validate", "tiny.yaml", "--set", "workload.trace=gone*.json")
    assert (code, out) == (2, "")
    assert "gone*.json'; correct the path" in err


def test_validate_says_ok(cli):
    assert cli("validate", "tiny.yaml") == (0, "ok    tiny.yaml\n", "")


def late_rank(folder):
    """Two ranks whose first all-reduce waits for the second one, whose kernel takes longer."""
    for rank, took in enumerate((100.0, 400.0)):
        events = [step_mark(0, 1000.0, 900.0)]
        work = (
            ("gemm", 1010.0, took, {}),
            ("ncclDevKernel_AllReduce_Sum_f32", 1020.0 + took, 430.0 - took, {
                "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100,
                "Group size": 2, "dtype": "Float", "Process Group Name": "0",
                "Process Group Ranks": "[0, 1]",
            }),
        )  # fmt: skip
        for correlation, (name, at, lasts, args) in enumerate(work, 1):
            linked = {"correlation": correlation}
            events.append(
                timed("cuda_runtime", "cudaLaunchKernel", 1001.0 + correlation, 1.0, **linked)
            )
            on = {"stream": 7, "device": rank, **linked, **args}
            events.append(timed("kernel", name, at, lasts, pid=rank, tid=7, **on))
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        document = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
        (folder / f"late{rank}.json").write_text(json.dumps(document))


def step_mark(number, at, took):
    return timed("user_annotation", f"ProfilerStep#{number}", at, took)


def timed(kind, name, at, took, pid=1, tid=1, **args):
    return {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": took,
            "args": args}  # fmt: skip


def test_recorded_files_say_where_their_time_goes_and_which_rank_it_is(cli, folder):
    late_rank(folder)
    code, out, err = cli("trace", "report", "late*.json", "-o", "late.html")
    assert (code, err) == (0, "")
    assert (
        "Rank 1 arrives last in 1 of 1 collectives; the others wait 300 µs for it in total." in out
    )
    page = (folder / "late.html").read_text()
    assert "Rank 1 arrives last in 1 of 1 collectives" in page
    assert "rank 0 waits 300 µs at collective 1" in page
    assert page.count("<svg") == 3
    assert '<figure data-component="timeline">' in page
    told = json.loads(cli("trace", "report", "late*.json", "-o", "late.html", "--json")[1])
    assert [round(1e6 * t) for t in told["boxes"]["waiting"]] == [300, 0]
    assert sum(one["seconds"] for one in told["path"]) == pytest.approx(told["seconds"])
    assert told["late"]["met"][0]["last"] == 1


def test_one_rank_of_several_says_that_the_others_are_lacking(cli, folder):
    late_rank(folder)
    code, out, _ = cli("trace", "report", "late1.json", "-o", "late.html")
    assert code == 0
    assert out.startswith("Rank 1 of 2, ")
    assert "The files of the other ranks are needed" in out


def test_a_recording_that_is_not_there_is_named(cli):
    code, _, err = cli("trace", "report", "gone*.json")
    assert code == 2
    assert "gone*.json" in err


def test_the_gap_share_of_a_run_is_that_of_trace_info(cli, saved):
    told = json.loads(cli("trace", "info", "rank0.json", "--json")[1])["facts"]["gap_share"]
    assert told > 0
    for sets in ((), ("--set", "workload.serialise=true")):
        run = json.loads((saved("runs", *sets) / "summary.json").read_text())
        assert run["points"]["base"]["facts"]["gap_share"] == told


UNREAD = "mtia_insight"  # a category that no table knows


def unread_device(folder):
    """A step whose GPU work has a category that is not known."""
    events = [step_mark(0, 1000.0, 900.0), timed("cpu_op", "aten::mm", 1001.0, 8.0)]
    events.append(timed("cuda_runtime", "cudaLaunchKernel", 1002.0, 1.0, correlation=1))
    on = {"stream": 7, "device": 0, "correlation": 1}
    events.append(timed(UNREAD, "gemm", 1010.0, 400.0, pid=0, tid=7, **on))
    (folder / "unread.json").write_text(json.dumps({"traceEvents": events}))


@pytest.mark.parametrize("command", [["report", "-o", "u.html"], ["import", "--out", "u"]])
def test_a_category_is_given_a_kind(cli, folder, command):
    unread_device(folder)
    name, *options = command
    code, out, err = cli("trace", name, "unread.json", *options)
    if name == "report":
        assert (code, out) == (2, "")
        assert f"1 events of 0.4 ms in category {UNREAD}; set what it is" in err
    said = cli("trace", name, "unread.json", *options, "--category", f"{UNREAD}=kernel")
    assert said[0] == 0
    if name == "import":
        assert "usable for replay yes" in cli("trace", "info", "u")[1]


def test_info_names_what_is_not_read_first(cli, folder):
    unread_device(folder)
    code, out, _ = cli("trace", "info", "unread.json")
    assert code == 0
    assert out.startswith(f"caution    Not read: 1 events of 0.4 ms in category {UNREAD}")
    cured = cli("trace", "info", "unread.json", "--category", f"{UNREAD}=kernel")[1]
    assert "usable for replay yes" in cured
    code, _, err = cli("trace", "info", "unread.json", "--category", UNREAD)
    assert (code, f"write NAME=KIND, such as {UNREAD}=kernel" in err) == (2, True)


def test_a_report_of_lost_work_begins_with_it(cli, folder):
    unread_device(folder)
    document = json.loads((folder / "unread.json").read_text())
    events = document["traceEvents"]
    events[-1]["cat"] = "kernel"
    events.append(timed("cuda_runtime", "cudaLaunchKernel", 1004.0, 1.0, correlation=2))
    (folder / "lost.json").write_text(json.dumps(document))
    code, _, err = cli("trace", "report", "lost.json", "-o", "l.html")
    assert (code, "--allow-lost" in err) == (2, True)
    code, out, _ = cli("trace", "report", "lost.json", "-o", "l.html", "--allow-lost")
    assert code == 0
    assert out.startswith("1 of 2 launches have no work: the profiler lost it.")
    assert "1 of 2 launches have no work" in (folder / "l.html").read_text()


RUN = """\
foretrace: 1
name: unread
question: How long is a step?
workload: {trace: unread.json, recorded_on: {device: h100-sxm5-80g}}
cluster: {nodes: 1, node: {gpu: {model: h100-sxm5-80g, count: 1}}}
"""


def test_a_run_refuses_unread_work_until_its_kind_is_stated(cli, folder):
    unread_device(folder)
    (folder / "unread.yaml").write_text(RUN)
    code, _, err = cli("run", "unread.yaml", "--quick")
    assert (code, "workload.reading.categories: {NAME: kernel}" in err) == (2, True)
    kind = f"workload.reading.categories.{UNREAD}=kernel"
    code, out, _ = cli("run", "unread.yaml", "--quick", "--set", kind)
    assert (code, out.startswith("As described")) == (0, True)


def test_a_run_of_lost_work_begins_with_it(cli, folder):
    test_a_report_of_lost_work_begins_with_it(cli, folder)
    (folder / "lost.yaml").write_text(RUN.replace("unread", "lost"))
    assert cli("run", "lost.yaml", "--quick")[0] == 2
    allowed = ("--quick", "--set", "workload.reading.allow_lost=true")
    code, out, _ = cli("run", "lost.yaml", *allowed)
    assert (code, out.startswith("1 of 2 launches have no work")) == (0, True)
    (page,) = (folder / "runs" / "lost").glob("*/report.html")
    assert "1 of 2 launches have no work" in page.read_text()
