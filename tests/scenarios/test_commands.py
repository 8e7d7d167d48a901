"""Commands, as a user or a script meets them: exit codes, stdout, and what is left on disk."""

import json
import logging
import random
import subprocess
import sys
import time

import pytest
from foretrace.scenarios.commands import app as application

STEPS = 8

SCENARIO = """\
foretrace: 1
name: tiny
question: Is a machine that is twice as fast worth it?
workload:
  trace: {trace}
  recorded_on: {{device: epyc-zen4-core}}
cluster:
  nodes: 1
  node:
    gpu: {{model: epyc-zen4-core, count: 1}}
    host: epyc-zen4-vm
what_if:
  - name: slow
    set: {{cluster.override.node0.gpu0.slowdown: 1.5}}
run: {{seed: 3, replicas: 1}}
"""

EXPECT = """\
expect:
  - {{that: iteration_time.p50 <= {0}}}
  - {{that: iteration_time.p95 <= {1}, otherwise: warn}}
"""


def tiny_trace(folder):
    """Eight steps of three operators each, as the profiler writes them on a CPU."""
    events = []
    for step in range(STEPS):
        at = 1000.0 * step
        events.append(event("user_annotation", f"ProfilerStep#{step}", at, 900.0))
        for i, name in enumerate(("aten::mm", "aten::relu", "aten::mm")):
            events.append(event("cpu_op", name, at + 10 + 250 * i, 200.0 + step))
    document = {"schemaVersion": 1, "traceEvents": events}
    (folder / "rank0.json").write_text(json.dumps(document))
    return folder / "rank0.json"


def event(kind, name, at, took):
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": took, "args": {}
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("commands")
    tiny_trace(where)
    (where / "tiny.yaml").write_text(SCENARIO.format(trace=where / "rank0.json"))
    return where


@pytest.fixture
def cli(folder, capsys, monkeypatch):
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*words):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["foretrace", *map(str, words)])
        monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
        with pytest.raises(SystemExit) as left:
            application.main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run


@pytest.fixture
def saved(cli, folder):
    """A finished run's folder and its summary."""

    def make(out, *words):
        code, told, error = cli("run", "tiny.yaml", "--out", out, "--json", *words)
        assert code == 0, error
        return folder / json.loads(told)["folder"]

    return make


def test_json_is_one_object_on_stdout(cli):
    code, out, _ = cli("run", "tiny.yaml", "--out", "json", "--no-cache", "--json")
    told = json.loads(out)
    assert code == 0
    assert list(told["points"]) == ["base", "slow"]
    assert told["points"]["base"]["metrics"]["iteration_time.p50"]["unit"] == "s"


def test_a_slower_part_makes_a_longer_iteration(saved):
    points = json.loads((saved("runs") / "summary.json").read_text())["points"]
    base, slow = (points[n]["metrics"]["iteration_time.p50"]["value"] for n in ("base", "slow"))
    assert base < slow < 1.5 * base + 1e-12
    assert points["slow"]["change"]["value"] == pytest.approx(slow / base - 1)


def test_the_answer_is_text_for_people(cli):
    code, out, err = cli("run", "tiny.yaml", "--out", "text", "--no-cache")
    assert code == 0
    assert out.startswith("As described, an iteration takes ")
    assert "running base: " in err
    assert " on 1 rank\n" in err


def test_quiet_says_only_the_answer(cli):
    _, out, err = cli("run", "tiny.yaml", "--out", "text", "--no-cache", "-q")
    assert "metric" not in out
    assert err == ""


def test_a_run_that_is_saved_is_found_again(cli):
    _, first, _ = cli("run", "tiny.yaml", "--out", "again", "--no-cache", "-q")
    _, second, err = cli("run", "tiny.yaml", "--out", "again")
    assert "\nsaved again" in first
    assert "\nfound again" in second
    assert "running" not in err


def test_set_changes_a_setting_and_the_name_of_the_run(saved):
    one, other = saved("runs"), saved("runs", "--set", "run.seed=4")
    assert one != other
    assert json.loads((other / "manifest.json").read_text())["seed"] == 4


def test_seed_and_replicas_are_settings_too(saved):
    same = saved("runs", "--set", "run.seed=5", "--set", "run.replicas=2")
    assert saved("runs", "--seed", "5", "--replicas", "2") == same


def test_one_variant_can_be_asked_for(saved):
    told = json.loads((saved("runs", "--variant", "slow") / "summary.json").read_text())
    assert list(told["points"]) == ["base", "slow"]


def test_the_same_run_leaves_the_same_summary(saved):
    one = (saved("same1", "--no-cache") / "summary.json").read_bytes()
    assert (saved("same2", "--no-cache") / "summary.json").read_bytes() == one


def test_replicas_leave_the_same_summary(saved):
    one = (saved("same3", "--no-cache", "--replicas", 10) / "summary.json").read_bytes()
    assert (saved("same4", "--no-cache", "--replicas", 10) / "summary.json").read_bytes() == one
    assert b'"jitter"' in one


def test_a_resolved_scenario_gives_the_same_summary(saved, cli, folder):
    run = saved("runs")
    code, out, error = cli("run", run / "resolved.yaml", "--out", "resolved2", "--json")
    assert code == 0, error
    again = folder / json.loads(out)["folder"]
    assert (again / "summary.json").read_bytes() == (run / "summary.json").read_bytes()


def test_both_engines_leave_the_same_summary(saved):
    def told(engine):
        run = saved(engine, "--set", f"run.engine={engine}")
        summary = json.loads((run / "summary.json").read_text())
        assert summary["provenance"].pop("engine") == engine
        return summary

    assert told("core") == told("reference")


@pytest.mark.parametrize("keep", ["ranks", "none"])
def test_a_run_that_keeps_less_says_so_and_leaves_the_same_numbers(saved, keep):
    whole, less = saved("runs"), saved(f"kept_{keep}", "--keep", keep)
    assert not list(less.glob("ops.*"))
    assert (less / "timeline.pftrace").is_file()
    want, found = (json.loads((run / "summary.json").read_text()) for run in (whole, less))
    for name, point in found["points"].items():
        said = point["facts"].pop("table_of_ops")
        assert said == f"left out: the run kept {keep}; --keep ops writes it"
        metrics = want["points"][name]["metrics"]
        lost = [m for m in metrics if m not in point["metrics"]]
        assert all("utilization" in m or keep == "none" for m in lost)
        assert (lost == []) == (keep == "ranks")
        want["points"][name]["metrics"] = {k: metrics[k] for k in point["metrics"]}
    assert found == want
    left_out = json.loads((less / "manifest.json").read_text())["left_out"]
    rows = found["points"]["base"]["facts"]["ops"]
    assert left_out[0] == f"ops of base: {rows} rows; --keep ops writes them"


def test_what_cannot_be_kept_is_refused(cli):
    code, _, error = cli("run", "tiny.yaml", "--keep", "everything")
    assert code == 2
    assert "run.keep" in error


def test_a_run_folder_holds_all_that_is_promised(saved):
    run = saved("runs")
    assert sorted(p.name for p in run.iterdir()) == [
        "manifest.json", "ops.base.parquet", "ops.slow.parquet", "report.html", "resolved.yaml",
        "scenario.yaml", "summary.json", "timeline.pftrace",
    ]  # fmt: skip
    assert [p for p in run.parent.iterdir() if p.name.startswith(".")] == []


def expecting(folder, name, *limits):
    text = SCENARIO.format(trace=folder / "rank0.json") + EXPECT.format(*limits)
    (folder / f"{name}.yaml").write_text(text)
    return f"{name}.yaml"


def test_a_missed_expectation_is_exit_5(cli, folder):
    file = expecting(folder, "missed", "1 us", "1 s")
    code, out, _ = cli("run", file, "--out", "missed")
    assert code == 5
    assert "FAIL  iteration time" in out
    assert "Not met: iteration_time.p50 <= 1 us" in out


def test_one_that_only_a_variant_misses_is_exit_5_and_says_which(cli, folder, saved):
    points = json.loads((saved("runs") / "summary.json").read_text())["points"]
    values = [points[n]["metrics"]["iteration_time.p50"]["value"] for n in ("base", "slow")]
    limit = f"{sum(values) / 2 * 1e6:.3f} us"
    code, out, _ = cli("run", expecting(folder, "between", limit, "1 s"), "--out", "between")
    assert code == 5
    assert f"Not met by slow: iteration_time.p50 <= {limit}" in out
    assert "Not met:" not in out


def test_one_that_is_to_warn_does_not_fail(cli, folder):
    code, out, _ = cli("run", expecting(folder, "warned", "1 s", "1 us"), "--out", "warned")
    assert code == 0
    assert "warn  iteration time" in out


def test_met_expectations_pass(cli, folder):
    code, out, _ = cli("run", expecting(folder, "passed", "1 s", "1 s"), "--out", "passed")
    assert code == 0
    assert "pass  iteration time" in out


def test_two_conditions_on_one_number_are_both_kept(cli, folder):
    text = SCENARIO.format(trace=folder / "rank0.json")
    text += (
        "expect:\n  - {that: iteration_time.p50 <= 1 us}\n  - {that: iteration_time.p50 < 1 s}\n"
    )
    (folder / "twice.yaml").write_text(text)
    code, out, _ = cli("run", "twice.yaml", "--out", "twice", "--json")
    value = json.loads(out)["points"]["base"]["metrics"]["iteration_time.p50"]
    assert (code, value["expected"], value["met"]) == (5, "<= 1 us; < 1 s", False)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["run", "tiny.yaml", "--set", "run.sed=1"], 2, "run.seed"),
        (["run", "tiny.yaml", "--variant", "fast"], 2, "fast"),
        (["run", "tiny.yaml", "--set", "workload.trace=foretrace:gtp"], 2, "'foretrace:gpt'"),
        (["run"], 2, "Missing argument"),
        (["compare", "nowhere"], 2, "nowhere"),
        (["compare", "tiny.yaml", "--fail-if", "iteration_time.p50 is bad"], 2, "--fail-if"),
        (["report", "nowhere"], 2, "no saved run"),
        (["catalog", "gpus"], 2, "'gpu'"),
        (["catalog", "gpu", "a100"], 2, "a100-sxm4-80g"),
        (["trace", "info", "nowhere.json"], 2, "nowhere.json"),
        (["trace", "capture", "--steps", "0", "--", "python", "x.py"], 2, "'--steps'"),
        (["trace", "capture", "--warm-up", "-1", "--", "python", "x.py"], 2, "'--warm-up'"),
        (["trace", "capture", "--untraced", "-1", "--", "python", "x.py"], 2, "'--untraced'"),
        (["validate", "nowhere.yaml"], 2, "nowhere.yaml"),
    ],
)
def test_a_wrong_request_is_exit_2_and_says_what(cli, words, code, says):
    left, out, err = cli(*words)
    assert left == code
    assert says in err
    assert out == ""


def test_a_run_that_cannot_finish_is_exit_3(cli):
    """The only GPU is down from the start: its ops wait for ever."""
    down = "cluster.override.node0.gpu0.down=true"
    code, out, err = cli("run", "tiny.yaml", "--out", "down", "--set", down)
    assert code == 3
    assert out == ""
    assert err.count("error ") == 1


def test_missing_hardware_is_exit_4(cli, monkeypatch):
    from foretrace.scenarios import study
    from foretrace.sim.errors import HardwareUnavailable

    def absent(*_):
        raise HardwareUnavailable("node0.gpu0: no CUDA device; bind a recording")

    monkeypatch.setattr(study, "study", absent)
    code, _, err = cli("run", "tiny.yaml", "--out", "absent", "--no-cache")
    assert (code, err) == (4, "error node0.gpu0: no CUDA device; bind a recording\n")


def test_our_own_fault_is_exit_1_with_all_there_is(cli, monkeypatch):
    from foretrace.scenarios import study

    monkeypatch.setattr(study, "study", lambda *_: 1 / 0)
    code, _, err = cli("run", "tiny.yaml", "--out", "fault", "--no-cache")
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "fault of foretrace" in err


def test_an_interrupt_is_exit_130(cli, monkeypatch):
    from foretrace.scenarios import study

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "study", interrupted)
    assert cli("run", "tiny.yaml", "--out", "interrupted", "--no-cache")[0] == 130


def test_a_folder_that_cannot_be_written_is_named(cli, folder):
    (folder / "file").write_text("in the way")
    code, _, err = cli("run", "tiny.yaml", "--out", "file")
    assert code == 2
    assert "choose another --out" in err


def test_saved_runs_are_compared(saved, cli):
    one = saved("runs")
    other = saved("runs", "--set", "cluster.override.node0.gpu0.slowdown=2")
    code, out, _ = cli("compare", one, other, "--json")
    rows = json.loads(out)["rows"]
    values = [row["iteration_time.p50"] for row in rows]
    assert code == 0
    assert rows[1]["iteration_time.p50 change"] == pytest.approx(values[1] / values[0] - 1)
    assert values[1] > values[0]
    assert rows[0]["settings"] == {}
    assert rows[1]["settings"] == {"cluster.override.node0.gpu0.slowdown": ["", "2"]}


def test_a_folder_of_runs_is_no_run_but_names_them(saved, cli):
    run = saved("runs")
    code, _, err = cli("compare", run.parent)
    assert code == 2
    assert str(run) in err


def test_variants_of_one_run_are_compared(saved, cli):
    code, out, _ = cli("compare", saved("runs"))
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["run", "base", "slow"]
    assert "slow: why: compute " in out
    assert "cluster.override.node0.gpu0.slowdown" in out


def test_compare_writes_a_markdown_table(saved, cli):
    _, out, _ = cli("compare", saved("runs"), "--md")
    lines = out.splitlines()
    assert set(lines[1].split()) == {"|", "---"}
    assert len({line.count("|") for line in lines[:4]}) == 1
    assert lines[3].startswith("| slow | ")


def test_fail_if_decides_the_exit_code(saved, cli):
    run = saved("runs")
    assert cli("compare", run, "--fail-if", "iteration_time.p50 > +100 %")[0] == 0
    code, _, err = cli("compare", run, "--fail-if", "iteration_time.p50 > +3 %")
    assert code == 5
    assert err == "FAIL  slow: iteration_time.p50 > +3 %\n"


def test_fail_if_names_a_metric_that_a_run_lacks(saved, cli):
    code, _, err = cli("compare", saved("runs"), "--fail-if", "nic.utilization.p95 > +3 %")
    assert code == 2
    assert "nic.utilization.p95" in err


def test_a_report_is_copied_where_it_is_wanted(saved, cli, folder):
    run = saved("runs")
    code, out, _ = cli("report", run, "-o", "mail.html")
    assert code == 0
    assert out.startswith("wrote mail.html")
    assert (folder / "mail.html").read_bytes() == (run / "report.html").read_bytes()


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


def test_the_catalog_lists_parts(cli):
    code, out, _ = cli("catalog", "gpu")
    assert code == 0
    assert "a100-sxm4-80g" in out


def test_a_part_is_shown_with_the_source_of_each_value(cli):
    rows = json.loads(cli("catalog", "gpu", "a100-sxm4-80g", "--json")[1])["values"]
    kinds = {row["kind"] for row in rows if row["setting"] != "what"}
    assert kinds <= {"measured", "fitted", "datasheet", "assumed"}
    assert all(row["where"] for row in rows)


def test_validate_misses_a_trace_that_is_not_there(cli):
    code, out, err = cli("validate", "tiny.yaml", "--set", "workload.trace=gone*.json")
    assert (code, out) == (2, "")
    assert "gone*.json'; correct the path" in err


def test_validate_says_ok(cli):
    assert cli("validate", "tiny.yaml") == (0, "ok    tiny.yaml\n", "")


SAVER = """\
import sys, time
from pathlib import Path
from foretrace.scenarios.folder import save
from foretrace.scenarios.loader import load
from foretrace.scenarios.study import study

done = study(load("tiny.yaml"))
started = time.monotonic()
save(done, Path(sys.argv[1]), 0.0, "")
print(time.monotonic() - started, flush=True)
while True:
    save(done, Path(sys.argv[1]), 0.0, "")
"""


@pytest.mark.parametrize("instants", [3, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_killed_run_leaves_nothing_that_looks_whole(folder, instants):
    """One that replaces its own run over and over is killed while it does."""
    out = folder / f"kills{instants}"
    draw = random.Random(1)
    unfinished = 0
    for _ in range(instants):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, str(out)], cwd=folder, stdout=subprocess.PIPE
        ) as process:
            took = float(process.stdout.readline())
            time.sleep(took * draw.uniform(0.0, 4.0))
            process.kill()
        left = list(out.glob("tiny/*"))
        parts = [p for p in left if p.name.startswith(".")]
        assert len(parts) <= 1, "what the killed runs before it left is still there"
        unfinished += len(parts)
        (run,) = set(left) - set(parts)
        json.loads((run / "manifest.json").read_text())
        json.loads((run / "summary.json").read_text())
        assert (run / "report.html").read_text().endswith("</html>\n")
    assert unfinished, "no kill fell into a save"


def test_a_write_that_fails_leaves_nothing(cli, folder, monkeypatch):
    from foretrace.scenarios import folder as run_folder

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_report", full)
    assert cli("run", "tiny.yaml", "--out", "full", "--no-cache")[0] != 0
    assert list((folder / "full" / "tiny").iterdir()) == []


@pytest.mark.nightly
def test_the_report_of_the_first_scenario_is_small_enough_to_mail(cli, folder):
    code, out, _ = cli("run", "first", "--out", "first", "--json")
    assert code == 0
    assert (folder / json.loads(out)["folder"] / "report.html").stat().st_size <= 2_000_000
