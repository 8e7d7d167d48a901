"""Workloads of plug-ins in scenarios: serving and a fleet, answered by their own numbers."""

import json
import shutil
import sys
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.models.parts import PARTS
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.plugin_errors import PREFIX
from foretrace.scenarios.config.schema import scenario_model
from foretrace.scenarios.config.settings import known_backends, known_workloads
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.samples import headline_value, samples_of
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.run.process import PROCESSES
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import WORKLOADS

EXAMPLES = Path(foretrace.__file__).resolve().parent / "docs" / "examples"
FEWER = "--set", "workload.requests=60"


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Examples in a folder of their own, and what they register gone afterwards."""
    folder = tmp_path_factory.mktemp("docs") / "examples"
    shutil.copytree(EXAMPLES, folder)
    known_backends(), known_workloads()
    tables = PROCESSES, WORKLOADS, PARTS
    before = [dict(t) for t in tables]
    yield folder
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)
    for name in [n for n in sys.modules if n.startswith(PREFIX)]:
        del sys.modules[name]
    scenario_model.cache_clear()


@pytest.fixture(autouse=True)
def here(examples, monkeypatch):
    """Where the examples are; a run that was made once is found again."""
    monkeypatch.chdir(examples)


@pytest.fixture
def served(cli):
    """The run of the serving example, as its command leaves it."""
    code, out, err = cli("run", "serving.yaml", *FEWER)
    assert code == 0, err
    folder = Path(out.split()[-1]).parent
    return json.loads((folder / "summary.json").read_text()), out, folder


def test_a_process_workload_is_run_answered_and_reported_by_its_own_number(served):
    summary, out, folder = served
    assert summary["answer"] == {
        "job": "main", "metric": "ttft.p99", "unit": "s", "better": "lower"
    }  # fmt: skip
    value = summary["points"]["base"]["metrics"]["ttft.p99"]
    assert value["unit"] == "s"
    assert "As described, ttft p99 is" in out
    half = summary["points"]["half-the-cache"]["change"]
    assert 0.5 < half["value"] < half["interval"][1]
    assert (
        "times that, jitter left out" in out
    )  # where requests fill a queue, not +- thousands of %
    page = (folder / "report.html").read_text()
    assert "around the highest percent of ttft" in page
    assert "these are 10 % more capacity" in page
    (met,) = summary["points"]["base"]["expect"]
    assert met["met"]


def test_iteration_is_in_no_key_no_column_and_no_sentence_of_a_served_model(served):
    import duckdb

    summary, out, folder = served
    assert "iteration" not in json.dumps(summary)
    assert "iteration" not in out
    assert "iteration" not in (folder / "report.html").read_text().lower()
    (table, *_) = folder.glob("ops.*.parquet")
    assert "iteration" not in duckdb.sql(f"select * from '{table}'").columns


def test_half_the_cache_changes_the_time_to_the_first_token():
    base, half = (headline_value(p, p.run()) for p in build_variants(load("serving.yaml")))
    assert half > 2 * base


def test_a_served_model_takes_no_step_without_a_token():
    seldom = [f"workload.{setting}" for setting in ("requests=20", "rate=1")]
    rows = build_variants(load("serving.yaml", set=seldom))[0].run().frame()
    reduced = rows[rows["kind"] == "collective"]
    took = (reduced["end_us"] - reduced["start_us"]).to_numpy()  # most make one token
    assert took.min() == pytest.approx(np.median(took), rel=1e-6)


def test_blame_of_a_served_model_is_that_of_a_window_around_its_slowest_answers(served):
    for point in served[0]["points"].values():
        window = point["window"]
        assert 0 <= window["first"] < window["last"]
        assert sum(point["blame"].values()) == pytest.approx(window["length"])


def test_a_sweep_finds_the_rate_at_which_the_first_token_comes_soonest(cli):
    code, out, err = cli("sweep", "serving.yaml", *FEWER, "--workers", "local:1")
    assert code == 0, err
    assert "ttft p99" in out
    assert "iteration" not in out


def test_runs_of_a_served_model_are_compared_by_its_answer(served, cli):
    code, out, _ = cli("compare", str(served[2]), "--fail-if", "ttft.p99 > +10 %")
    assert code == 5
    assert out.splitlines()[0].split()[:4] == ["run", "ttft", "p99", "change"]


def test_the_metrics_of_a_plug_in_are_known_before_anything_runs(cli):
    code, out, err = cli("explain", "ttft", "--plugin", "plugins/serving.py")
    assert code == 0, err
    assert "From the arrival of a request to its first token." in out
    assert "better   lower" in out
    code, out, _ = cli("explain", "cluster.node.kv", "--plugin", "plugins/serving.py")
    assert code == 0


@pytest.mark.nightly
def test_a_plan_says_how_often_a_process_is_run(cli, monkeypatch):
    _, said, _ = cli("plan", "serving.yaml")
    base, _, runs, *_ = (line.split(maxsplit=1)[1] for line in said.splitlines())
    assert base.startswith("a process: its ops are known only after a simulation")
    planned = json.loads(cli("plan", "serving.yaml", "--json")[1])["simulations"]
    assert runs.startswith(f"about {planned} simulations of 2 variants")
    counted = []
    simulate = Simulation.run

    def run(*args, **settings):
        counted.append(1)
        return simulate(*args, **settings)

    monkeypatch.setattr(Simulation, "run", run)
    study(load("serving.yaml", set=["workload.requests=1"]), threads=1)
    assert planned == pytest.approx(len(counted), rel=0.2)


def test_a_plan_counts_a_scenario_whose_backend_is_of_a_plug_in(cli):
    code, said, err = cli("plan", "plugins/drive.yaml")
    assert code == 0, err
    assert "devices     none" in said


def test_an_answer_of_which_nothing_was_emitted_is_told_so():
    text = "answer: {minimize: tpot.p99}\n"
    Path("mine.yaml").write_text(Path("serving.yaml").read_text() + text)
    one = build_variants(load("mine.yaml"))[0]
    assert one.answer.metric == "tpot.p99"
    with pytest.raises(
        foretrace.ScenarioError,
        match="answer: the run has no value of 'tpot', because its job emitted none",
    ):
        one.answer.of({})


def test_the_command_tells_when_each_job_of_a_fleet_is_done(cli):
    code, out, err = cli("run", "fleet.yaml")
    assert code == 0, err
    assert "a.makespan" in out
    assert "pass  b.makespan" in out
    assert "As described, makespan is" in out
    assert "iteration" not in out


def test_a_sweep_of_a_fleet_finds_how_often_to_save(cli):
    code, out, err = cli("sweep", "fleet.yaml", "--workers", "local:1")
    assert code == 0, err
    assert "The smallest makespan of 2 points" in out
    assert "iteration" not in out


def test_a_fleet_answers_when_each_of_its_jobs_is_done():
    base, two = build_variants(load("fleet.yaml"))
    found = samples_of(base, base.run())
    assert found["a.lost_steps"].max() >= 1  # node1 failed under it
    done = [found[f"{job}.makespan"].item() for job in "ab"]
    assert found["makespan"].item() >= max(done)
    fewer = samples_of(two, two.run())
    assert fewer["b.makespan"].item() > done[1]  # it waits for the GPUs of a
