"""``foretrace run``: what it says, what it leaves on disk, and that it is found again."""

import io
import json
import re
import sys
from pathlib import Path

import duckdb
import pytest
from foretrace.scenarios.cli.terminal.progress import RunProgress
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.confidence.defence import TRIED
from foretrace.scenarios.studies.run.run import study


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
    assert json.loads((other / "manifest.json").read_text())["rate_scale"]["base"]["B"] > 0


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


def test_both_engines_leave_the_same_summary_and_tables(saved):
    runs = [saved(engine, "--set", f"run.engine={engine}") for engine in ("core", "reference")]
    one, other = ((run / "summary.json").read_bytes() for run in runs)
    assert one == other
    for variant in ("base", "slow"):
        tables = [duckdb.sql(f"SELECT * FROM '{run}/ops.{variant}.parquet'") for run in runs]
        assert tables[0].columns == tables[1].columns
        assert tables[0].fetchall() == tables[1].fetchall()
    manifests = [json.loads((run / "manifest.json").read_text()) for run in runs]
    assert [m["engine"] for m in manifests] == ["core", "reference"]


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
        "manifest.json", "ops.base.parquet", "ops.slow.parquet", "places.base.parquet",
        "places.slow.parquet", "report.html", "resolved.yaml", "scenario.yaml", "summary.json",
        "timeline.pftrace",
    ]  # fmt: skip
    assert [p for p in run.parent.iterdir() if p.name.startswith(".")] == []


def test_a_report_is_copied_where_it_is_wanted(saved, cli, folder):
    run = saved("runs")
    code, out, _ = cli("report", run, "-o", "mail.html")
    assert code == 0
    assert out.startswith("wrote mail.html")
    assert (folder / "mail.html").read_bytes() == (run / "report.html").read_bytes()


@pytest.mark.nightly
def test_the_report_of_the_first_scenario_is_small_enough_to_mail(cli, folder):
    code, out, _ = cli("run", "first", "--out", "first", "--json")
    assert code == 0
    assert (folder / json.loads(out)["folder"] / "report.html").stat().st_size <= 2_000_000


def test_a_quick_run_leaves_out_the_runs_that_explain(cli, saved):
    whole, quick = (
        json.loads((saved("runs", *words) / "summary.json").read_text())["points"]
        for words in ((), ("--quick",))
    )
    assert whole["base"]["faster"]
    assert [p["faster"] for p in quick.values()] == [[], []]
    deciding = "iteration_time.p50"
    values = [p["base"]["metrics"][deciding]["value"] for p in (whole, quick)]
    assert values[0] == values[1]
    code, out, err = cli("run", "tiny.yaml", "--out", "quick", "--quick", "--no-cache")
    assert code == 0
    assert "A quick run: the effect of faster parts" in out
    assert "making any kind of part" not in out
    assert "parts faster or wrong" not in err
    page = next(Path("quick").rglob("report.html")).read_text()
    assert "Each row is a run of its own" not in page


def test_quick_and_defend_exclude_each_other(cli):
    code, _, err = cli("run", "tiny.yaml", "--quick", "--defend")
    assert code == 2
    assert "'quick' skips the runs that 'defend' needs" in err


@pytest.mark.parametrize("words", [(), ("--quick",)])
def test_plan_tells_the_simulations_that_a_run_takes(cli, words):
    sets = [] if not words else ["--set", "run.quick=true"]
    planned = json.loads(cli("plan", "tiny.yaml", "--json", *sets)[1])
    told = []
    scenario = load("tiny.yaml", set=sets[1:])
    study(scenario, counted=lambda done, of: told.append((done, of)))
    assert len(told) == told[-1][0]
    assert {of for _, of in told} == {planned["simulations"]}
    assert len(told) <= planned["simulations"]
    assert planned["simulations"] - planned["explaining"] == 2
    assert bool(planned["explaining"]) == (not words)


def test_a_defended_run_takes_the_simulations_that_its_plan_tells(cli):
    planned = json.loads(cli("plan", "tiny.yaml", "--defend", "--json")[1])
    told = []
    done = study(
        load("tiny.yaml", set=["run.defend=true"]), counted=lambda *counts: told.append(counts)
    )
    assert all(e["error"] is None for e in done.summary.provenance["break_even"])
    assert planned["defending"] > 2 * len(TRIED)
    assert told[0] == (1, planned["simulations"])
    assert told[-1] == (len(told), len(told))  # as the search knows by then
    assert len(told) <= planned["simulations"]


def test_a_run_in_a_terminal_shows_how_much_is_done_and_left(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with RunProgress(quiet=False) as progress:
        progress.tell("running [base]: 3 ops")
        progress.count(3, 40)
    shown = screen.getvalue()
    assert "running [base]: 3 ops" in shown
    assert "3 of about 40" in shown
    assert re.search(r"-:--:--|\d:\d\d:\d\d", shown)  # time left


def test_a_quiet_run_shows_nothing(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with RunProgress(quiet=True) as progress:
        progress.tell("running")
        progress.count(3, 40)
    assert screen.getvalue() == ""


class Terminal(io.StringIO):
    """A terminal's screen."""

    def isatty(self):
        return True


def test_how_long_an_iteration_takes_is_told_where_another_number_decides(cli):
    priced = ("--set", "cost.items=[{what: gpu, each: 1 USD/hour}]")
    decides = ("--set", "answer={minimize: exposed_communication.mean}")
    code, out, err = cli("run", "tiny.yaml", "--quick", "--out", "decided", *priced, *decides)
    assert (code, "\n  iteration time " in out) == (0, True), err
