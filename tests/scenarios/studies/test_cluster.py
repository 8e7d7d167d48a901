"""The same bytes from every kind of workers, processes of a Dask cluster included."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.sweep.sweep_folder import outcome_store, save_sweep
from foretrace.scenarios.studies.sweep.sweeping import SweepInProgress
from foretrace.scenarios.studies.sweep.task import make_task, shared_task_part
from foretrace.scenarios.studies.workers import dask
from foretrace.scenarios.studies.workers.workers import make_workers
from foretrace.sim.errors import ScenarioError

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
SCENARIO = """\
foretrace: 1
name: tiny
workload: {trace: foretrace:gpt, recorded_on: {device: epyc-zen4-core}, iterations: {measure: 2}}
cluster:
  nodes: 1
  node: {gpu: epyc-zen4-core, host: epyc-zen4-vm}
  override: {node0.gpu0: {slowdown: 1}}
run: {seed: 3, replicas: 5}
sweep:
  method: METHOD
  points: 12
  vary:
    cluster.override.node0.gpu0.slowdown: {from: 1, to: 2}
    cluster.node.host.cores: [1, 4]
  optimize: [{minimize: iteration_time.p50}]
"""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A scheduler with two workers, each a process of its own."""
    pytest.importorskip("distributed")
    where = tmp_path_factory.mktemp("dask")
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    file = where / "scheduler.json"
    options = ["--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    begun = [subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)]
    try:
        for _ in range(600):
            if file.is_file():
                break
            time.sleep(0.1)
        for _ in range(2):
            command = [sys.executable, "-m", "distributed.cli.dask_worker"]
            options = ["--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard"]
            begun.append(
                subprocess.Popen([*command, *options], cwd=where, stderr=subprocess.DEVNULL)
            )
        import json

        address = json.loads(file.read_text())["address"].removeprefix("tcp://")
        _wait_for_workers(address, 2)
        yield f"dask://{address}"
    finally:
        for process in reversed(begun):
            process.terminate()
            process.wait(20)


def _wait_for_workers(address, count):
    import distributed

    with distributed.Client(f"tcp://{address}", set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """Summary bytes and decoded table of a sweep."""
    monkeypatch.chdir(tmp_path)

    def run(text, method, *settings):
        (tmp_path / "tiny.yaml").write_text(SCENARIO.replace("METHOD", method))
        scenario = load("tiny.yaml", set=settings)
        out = Path(f"out{len(list(tmp_path.iterdir()))}")
        kept, crew = outcome_store(out, scenario), make_workers(text)
        try:
            with kept:
                done = SweepInProgress(scenario, kept, crew).try_all_points()
        finally:
            crew.close()
        folder = save_sweep(done, kept, out, {}, 0.0)
        return (folder / "summary.json").read_bytes(), _table(folder / "points.parquet")

    return run


def _table(file):
    import duckdb

    with duckdb.connect() as db:
        return db.execute(f"SELECT * FROM '{file}'").fetchall()


@pytest.mark.parametrize("method", ["grid", "tpe", "nsga2"])
def test_all_workers_say_the_same(swept, scheduler, method):
    pytest.importorskip("optuna")
    grid = ["sweep.vary.cluster.override.node0.gpu0.slowdown={step: 0.25}", "sweep.points=20"]
    told = grid if method == "grid" else ["sweep.points=22"]
    one = swept("local:1", method, *told)
    assert swept("local:2", method, *told) == one
    assert swept("dask://local:2", method, *told) == one
    assert swept(scheduler, method, *told) == one


def test_workers_that_differ_are_refused(scheduler, monkeypatch):
    here = dask.code_identity()
    monkeypatch.setattr(dask, "code_identity", lambda: {**here, "code": "another"})
    with pytest.raises(ScenarioError, match=r"has .*code .* there, another here; install the same"):
        # sent by reference: the workers answer with what they are
        dask._refuse_other_versions(_Asks(here), "somewhere")


class _Asks:
    """A client whose one worker says what it is."""

    def __init__(self, told):
        self.told = told

    def run(self, _):
        return {"tcp://worker": self.told}


def test_nobody_at_an_address_is_named(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask, "PATIENCE", 1)
    with pytest.raises(ScenarioError, match=r"no Dask scheduler answers at 127\.0\.0\.1:9 "):
        make_workers("dask://127.0.0.1:9")


DEADLY = """\
import os, signal
def dies(point):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_of_dask_that_are_slow_to_end_take_no_outcome_with_them():
    class Slow:
        def close(self, timeout):
            raise TimeoutError

    crew = object.__new__(dask.DaskCluster)
    crew._client = crew._own = Slow()
    crew.close(kill=True)


def test_a_point_that_kills_workers_of_dask_is_poisonous(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    (tmp_path / "deadly_of_dask.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    from deadly_of_dask import dies

    crew = make_workers("dask://local:1")
    try:
        (outcome,) = [
            found for _, found in crew.run(dies, [make_task(shared_task_part(load("first")), {})])
        ]
    finally:
        crew.close(kill=True)
    assert outcome is None
