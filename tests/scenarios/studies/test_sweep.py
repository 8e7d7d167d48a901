"""Sweeps: the same bytes whoever runs them, nothing lost that was reported, every failure told."""

import importlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import load, with_overrides
from foretrace.scenarios.config.sections.run import check_workers_text
from foretrace.scenarios.studies.sweep.method import make_method
from foretrace.scenarios.studies.sweep.outcomes import OutcomeStore
from foretrace.scenarios.studies.sweep.sweep_folder import outcome_store, save_sweep
from foretrace.scenarios.studies.sweep.sweep_summary import sweep_summary
from foretrace.scenarios.studies.sweep.sweeping import Shard, SweepInProgress
from foretrace.scenarios.studies.sweep.task import (
    evaluate_point,
    make_task,
    point_key,
    poison_outcome,
    shared_task_part,
)
from foretrace.scenarios.studies.workers.process_pool import ProcessPool
from foretrace.scenarios.studies.workers.workers import make_workers, workers_option
from foretrace.sim.errors import ScenarioError

STEPS = 4
SCENARIO = """\
foretrace: 1
name: tiny
question: Which is the best?
workload:
  trace: rank0.json
  recorded_on: {device: epyc-zen4-core}
  iterations: {warm_up: 1}
cluster:
  nodes: 1
  node:
    gpu: {model: epyc-zen4-core, count: 1}
    host: epyc-zen4-vm
  override: {node0.gpu0: {slowdown: 1}}
run: {seed: 3}
expect:
  - that: iteration_time.p50 <= 1 s
sweep:
  optimize:
    - minimize: iteration_time.p50
  vary: """
SLOWDOWN = "cluster.override.node0.gpu0.slowdown"
VARY = f"{{{SLOWDOWN}: [1, 1.25, 1.5, 2], cluster.node.host.cores: [1, 4]}}"
MANY = f"{{{SLOWDOWN}: {{from: 1, to: 3, step: 0.005}}}}"
LONG = f"{{{SLOWDOWN}: {{from: 1, to: 3, step: 0.0004}}}}"  # nobody waits for its end
ANY = f"{{{SLOWDOWN}: {{from: 1, to: 9}}}}"


class Here:
    """Workers that are this process: for tests of what does not depend on them."""

    name = "here"

    def run(self, work, tasks):
        for one in tasks:
            yield one, work(one)

    def close(self, *, kill=False):
        pass


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    """A scenario in a folder of its own, with changes."""
    events = []
    for step in range(STEPS):
        at = 2000.0 * step
        events.append(_event("user_annotation", f"ProfilerStep#{step}", at, 900.0))
        events += [_event("cpu_op", "aten::mm", at + 10 + 250 * i, 200.0 + step) for i in range(3)]
    document = {"schemaVersion": 1, "traceEvents": events}
    (tmp_path / "rank0.json").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)

    def make(*settings, vary=VARY):
        (tmp_path / "tiny.yaml").write_text(SCENARIO + vary + "\n")
        return load("tiny.yaml", set=settings)

    make()

    return make


def _event(kind, name, at, took):
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": took, "args": {}
    }  # fmt: skip


def swept(scenario, crew=None, out="out", **options):
    kept = outcome_store(Path(out), scenario)
    with kept:
        return SweepInProgress(scenario, kept, crew or Here(), **options).try_all_points()


def test_a_point_is_a_plain_dict_with_a_key_of_its_own(scenario):
    shared = shared_task_part(scenario())
    one, other = (make_task(shared, {"cluster.node.host.cores": n}) for n in (1, 2))
    assert json.loads(json.dumps(one)) == one
    assert point_key(one) == point_key(json.loads(json.dumps(one))) != point_key(other)


def test_what_a_point_says_is_what_its_scenario_says(scenario):
    from foretrace.scenarios.studies.variants.variants import build_variant, run_with_replicas

    changed = {SLOWDOWN: 2}
    said = evaluate_point(make_task(shared_task_part(scenario()), changed))
    alone = run_with_replicas(build_variant(with_overrides(scenario().resolved(), changed)))
    assert said["values"]["iteration_time.max"] == alone.samples["iteration_time"].max()
    assert said["set"] == changed


def test_what_does_not_change_a_point_does_not_change_its_key(scenario):
    one = shared_task_part(scenario())
    same = shared_task_part(
        scenario("question=other", "run.workers=local:2", "sweep.points=100", "expect=[]")
    )
    assert point_key(make_task(one, {})) == point_key(make_task(same, {}))
    assert point_key(make_task(one, {})) != point_key(
        make_task(shared_task_part(scenario("run.seed=4")), {})
    )


def test_a_grid_tries_every_combination_and_finds_the_best(scenario):
    summary = sweep_summary(swept(scenario()))
    assert [p["set"]["cluster.node.host.cores"] for p in summary["points"]] == [1, 4] * 4
    best = [p for p in summary["points"] if p["front"]]
    assert {p["set"][SLOWDOWN] for p in best} == {1}
    assert summary["base"]["values"]["iteration_time.p50"] == pytest.approx(
        best[0]["values"]["iteration_time.p50"]
    )


def test_points_that_miss_what_is_expected_are_not_on_the_front(scenario):
    summary = sweep_summary(swept(scenario("expect=[{that: iteration_time.p50 > 1 s}]")))
    assert summary["counts"]["front"] == 0
    assert all(p["missed"] == ["iteration_time.p50 > 1 s"] for p in summary["points"])


def test_a_setting_that_changes_nothing_is_listed(scenario):
    assert sweep_summary(swept(scenario()))["no_effect"] == ["cluster.node.host.cores"]


def test_the_front_of_two_objectives_holds_the_trade_off(scenario):
    wanted = "sweep.optimize=[{minimize: iteration_time.p50}, {maximize: gpu.utilization.mean}]"
    summary = sweep_summary(swept(scenario(wanted, "expect=[]")))
    values = [
        (p["values"]["iteration_time.p50"], -p["values"]["gpu.utilization.mean"])
        for p in summary["points"]
    ]
    for p, v in zip(summary["points"], values, strict=True):
        beaten = any(w != v and w[0] <= v[0] and w[1] <= v[1] for w in values)
        assert p["front"] is not beaten


def test_a_point_has_its_price_and_says_when_a_bar_is_within_its_interval(scenario):
    told_of = "cost={items: [{what: node, each: 0.5 USD/hour}]}", "run.replicas=10"
    first = sweep_summary(swept(scenario(*told_of)))["points"][0]
    assert first["values"]["cost_per_hour"] == pytest.approx(0.5)
    low, high = first["intervals"]["iteration_time.p50"]
    assert low < high
    bars = [f"{{that: iteration_time.p50 <= {bar} s}}" for bar in ((low + high) / 2, 2 * high)]
    again = sweep_summary(swept(scenario(*told_of, f"expect=[{', '.join(bars)}]")))["points"][0]
    assert again["unsure"] == [bars[0].partition(": ")[2].rstrip("}")]


def test_finished_points_are_not_run_again(scenario):
    first = swept(scenario())
    again = swept(scenario())
    assert not any(t.cached for t in first.trials)
    assert all(t.cached for t in again.trials)
    assert sweep_summary(again) == sweep_summary(first)
    assert not any(t.cached for t in swept(scenario(), resume=False).trials)


def test_another_sweep_of_the_same_scenario_takes_the_points_that_it_knows(scenario):
    swept(scenario())
    more = f"{{{SLOWDOWN}: [2, 3], cluster.node.host.cores: [1]}}"
    assert [t.cached for t in swept(scenario(vary=more)).trials] == [True, False]


def test_a_line_that_was_torn_is_run_again(scenario):
    first = sweep_summary(swept(scenario()))
    (file,) = outcome_store(Path("out"), scenario()).folder.glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-40])
    again = swept(scenario())
    assert sum(not t.cached for t in again.trials) == 1
    assert sweep_summary(again) == first


def test_a_file_that_is_garbage_is_no_outcome(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"schema": 1}\n[]\nnull\n{"schema": 9, "key": "k"}\n\x00\n{"schema": 1, "key": {}}\n'
    )
    assert list(OutcomeStore(tmp_path).outcomes()) == []


def test_a_point_that_fails_is_told_and_the_others_go_on(scenario):
    vary = "{cluster.override.node0.gpu0: [{slowdown: 1}, {down: true}]}"
    done = swept(scenario(vary=vary))
    assert [t.error is None for t in done.trials] == [True, False]
    assert done.trials[1].error["kind"] == "SimulationError"
    assert sweep_summary(done)["counts"]["failed"] == 1
    assert [t.cached for t in swept(scenario(vary=vary)).trials] == [True, False]  # tried again


def test_shards_together_are_the_whole(scenario):
    parts = [swept(scenario(), shard=Shard(k, 3), out="shards").trials for k in (1, 2, 3)]
    assert sum(map(len, parts)) == 8
    whole = swept(scenario(), out="shards")
    assert all(t.cached for t in whole.trials)
    assert sweep_summary(whole) == sweep_summary(swept(scenario(), out="other"))


@pytest.mark.parametrize("name", ["random", "sobol"])
def test_drawn_points_depend_on_the_seed_alone(scenario, name):
    section = scenario(
        f"sweep.method={name}", "sweep.points=20",
        vary=ANY,
    ).section("sweep")  # fmt: skip
    one, same, other = (make_method(section, seed).ask() for seed in (1, 1, 2))
    assert len(one) == 20
    assert one == same != other
    values = [next(iter(p.values())) for p in one]
    assert all(1 <= v <= 9 for v in values)


def test_a_sobol_sequence_fills_every_eighth_of_a_range(scenario):
    section = scenario("sweep.method=sobol", "sweep.points=8", vary=ANY).section("sweep")
    values = [next(iter(p.values())) for p in make_method(section, 5).ask()]
    assert sorted(int(v) for v in values) == list(range(1, 9))


@pytest.mark.parametrize("name", ["tpe", "nsga2"])
def test_a_search_keeps_to_what_is_expected_and_names_its_sampler(scenario, name):
    pytest.importorskip("optuna")
    s = scenario(
        f"sweep.method={name}", "sweep.points=30", "expect=[{that: iteration_time.p50 >= 3 ms}]",
        vary=ANY,
    )  # fmt: skip
    one, again = swept(s), swept(s, out="again")
    assert sweep_summary(one) == sweep_summary(again)
    assert one.sampler.startswith("optuna ")
    assert one.sampler.endswith({"tpe": "TPESampler", "nsga2": "NSGAIISampler"}[name])
    best = [p for p in sweep_summary(one)["points"] if p["front"]]
    assert best
    assert min(p["values"]["iteration_time.p50"] for p in best) < 3.3e-3


def test_a_search_without_optuna_says_how_to_get_it(scenario, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ScenarioError, match=r"pip install optuna"):
        swept(scenario("sweep.method=tpe"))


def test_a_search_needs_something_to_search_for(scenario):
    pytest.importorskip("optuna")
    with pytest.raises(ScenarioError, match=r"sweep\.optimize: 'tpe' needs an objective"):
        swept(scenario("sweep.method=tpe", "sweep.optimize=[]"))


# Workers.


DEADLY = """\
import os, signal
from functools import partial
from pathlib import Path
from foretrace.scenarios.studies.sweep.task import evaluate_point

def dies(point):
    'Killed by the points of one setting, and by those of another once.'
    marker = Path(point["scenario"]["workload"]["trace"]).parent / "died"
    slow = point["set"].get("cluster.override.node0.gpu0.slowdown")
    if slow == 2 or (slow == 1.5 and not marker.exists()):
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate_point(point)
"""


@pytest.fixture
def dies(tmp_path, monkeypatch):
    (tmp_path / "deadly_work.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("deadly_work").dies


def in_process(scenario, work, count=2):
    pool = ProcessPool(count)
    shared = shared_task_part(scenario())
    tasks = [make_task(shared, {SLOWDOWN: x}) for x in (1, 1.5, 2, 3)]
    try:
        found = {point_key(t): outcome or poison_outcome(t) for t, outcome in pool.run(work, tasks)}
    finally:
        pool.close()
    return [found[point_key(t)] for t in tasks]


def test_a_point_whose_worker_is_killed_is_tried_again_and_a_poisonous_one_is_told(scenario, dies):
    found = in_process(scenario, dies)
    assert ["error" in outcome for outcome in found] == [False, False, True, False]
    assert found[2]["error"]["kind"] == "Poisonous"
    expected = evaluate_point(make_task(shared_task_part(scenario()), {SLOWDOWN: 1.5}))
    assert found[1]["values"] == expected["values"]


def test_a_point_that_killed_its_workers_is_a_trial_with_an_error(scenario):
    class Deadly(Here):
        def run(self, work, tasks):
            for one in tasks:
                yield one, None if one["set"] else work(one)

    found = swept(scenario(), Deadly())
    assert found.base.error is None
    assert {t.error["kind"] for t in found.trials} == {"Poisonous"}
    assert all("killed 3 workers" in t.error["message"] for t in found.failed)


def test_processes_say_what_one_process_says(scenario):
    pool = ProcessPool(2)
    try:
        done = swept(scenario(), pool, out="processes")
    finally:
        pool.close()
    folders = [
        save_sweep(d, outcome_store(Path(out), scenario()), Path(out), {}, 0.0)
        for d, out in ((done, "processes"), (swept(scenario(), out="here"), "here"))
    ]
    one, other = ((f / "summary.json").read_bytes() for f in folders)
    assert one == other
    assert table(folders[0]) == table(folders[1])


def test_both_engines_say_the_same(scenario):
    told = []
    for engine in ("core", "reference"):
        s = scenario(f"run.engine={engine}", "run.replicas=5")
        folder = save_sweep(
            swept(s, out=engine), outcome_store(Path(engine), s), Path(engine), {}, 0.0
        )
        told.append(((folder / "summary.json").read_bytes(), table(folder)))
    assert told[0] == told[1]


def table(folder):
    import duckdb

    with duckdb.connect() as db:
        return db.execute(f"SELECT * FROM '{folder}/points.parquet'").fetchall()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ray://x:1", "no workers 'ray://x:1'"),
        ("local:0", "no workers"),
        ("dask://x", "no workers"),
    ],
)
def test_what_is_no_description_of_workers_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        check_workers_text(text)


def test_the_option_wins_over_the_environment_and_that_over_the_scenario(monkeypatch):
    assert workers_option(None, "local:3") == "local:3"
    monkeypatch.setenv("FORETRACE_WORKERS", "local:4")
    assert workers_option(None, "local:3") == "local:4"
    assert workers_option("local:5", "local:3") == "local:5"
    with pytest.raises(ScenarioError, match="--workers: no workers 'none'"):
        workers_option("none", "local")


def test_workers_of_dask_without_dask_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ScenarioError, match="pip install distributed"):
        make_workers("dask://local:1")


# The command.

SWEEP = ["sweep", "tiny.yaml", "--workers", "local:2", "-q", "--out"]
COMMAND = [sys.executable, "-m", "foretrace", *SWEEP]
KILLED = """\
import os, signal, sys
from foretrace.__main__ import main
from foretrace.scenarios.studies.workers.process_pool import ProcessPool

ProcessPool.run = lambda self, work, tasks: ((one, work(one)) for one in tasks)
synced = os.fsync

def killed(after):
    "The command in a process that is killed while so many outcomes are on their way to the disk."
    if os.fork():
        return os.waitstatus_to_exitcode(os.wait()[1])
    def fsync(file):
        nonlocal after
        after -= 1
        if not after:
            os.kill(os.getpid(), signal.SIGKILL)
        synced(file)
    os.fsync = fsync
    main()

print(killed(2), killed(3))
"""


def summary_of(out):
    (file,) = Path(out).glob("tiny/sweep-*/summary.json")
    return file.read_bytes()


def test_a_sweep_that_is_killed_loses_nothing_that_was_reported(scenario, cli, monkeypatch):
    """Killed, begun again and killed again, then left alone: the same bytes as if never.

    Points are evaluated in the process that is killed; by night there are workers, too.
    """
    monkeypatch.setattr(ProcessPool, "run", Here.run)
    s = scenario()
    assert cli(*SWEEP, "whole")[0] == 0
    words = [sys.executable, "-c", KILLED, *SWEEP, "killed"]
    assert subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout == "-9 -9\n"
    kept = list(outcome_store(Path("killed"), s).outcomes())
    assert len(kept) == len({o["key"] for o in kept}) == 2 + 3  # nothing was run again
    assert outcomes("killed", s).items() <= outcomes("whole", s).items()
    assert cli(*SWEEP, "killed")[0] == 0
    assert summary_of("killed") == summary_of("whole")


def test_a_sweep_says_that_points_of_another_state_are_run_again(scenario, cli):
    """Of another release, say: its sources are part of what an outcome depends on."""
    kept = outcome_store(Path("runs"), scenario()).folder
    kept.parent.mkdir(parents=True)
    other = kept.parent / "0123456789ab"
    other.mkdir()
    (other / "a.jsonl").write_text("{}\n")
    words = ["sweep", "tiny.yaml", "--workers", "local:1", "--shard", "1/2"]
    assert f"points in {other} belong to another version" in cli(*words)[2]
    assert "belong to another version" not in cli(*words)[2]  # its own points are there now
    assert "belong to another version" not in cli(*words, "-q", "--no-resume")[2]


@pytest.mark.nightly
def test_a_sweep_that_is_killed_at_any_time_loses_nothing_that_was_reported(scenario):
    """Killed at random instants until it is whole, again and again."""
    s = scenario(vary=MANY)
    began = time.monotonic()
    assert subprocess.run([*COMMAND, "whole"], check=False).returncode in (0, 5)
    took = time.monotonic() - began
    every = outcomes("whole", s)
    draw, known, early = random.Random(1), {}, 0
    for _ in range(100):
        with subprocess.Popen(
            [*COMMAND, "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(draw.uniform(0.1, 1.0) * took)
            process.kill()
        left = outcomes("killed", s)
        assert known.items() <= left.items() <= every.items()
        known, early = left, early + (len(left) < len(every))
        if left == every:
            assert finished() == summary_of("whole")
            shutil.rmtree("killed")
            known = {}
    assert early, "no kill fell into a sweep"
    assert finished() == summary_of("whole")


def outcomes(out, scenario):
    """Every outcome that is kept, by the key of its point, but for how long it took."""
    kept = outcome_store(Path(out), scenario).outcomes()
    return {o["key"]: json.dumps({k: v for k, v in o.items() if k != "seconds"}) for o in kept}


def finished():
    """The summary of the killed sweep once it is left alone."""
    assert subprocess.run([*COMMAND, "killed"], check=False).returncode in (0, 5)
    return summary_of("killed")


@pytest.fixture
def interruptible():
    """An interrupt is an exception, whoever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_exit_130_and_the_same_command_goes_on(
    scenario, cli, monkeypatch, interruptible
):
    def interrupted(self, outcome):
        write(self, outcome)
        signal.raise_signal(signal.SIGINT)

    s, write = scenario(), OutcomeStore.write
    with monkeypatch.context() as patch:
        patch.setattr(OutcomeStore, "write", interrupted)
        code, _, said = cli(*SWEEP, "interrupted")
    assert code == 130
    assert "run the same command again to continue" in said
    (first,) = outcomes("interrupted", s)
    assert cli(*SWEEP, "interrupted")[0] == 0
    kept = [o["key"] for o in outcome_store(Path("interrupted"), s).outcomes()]
    assert kept.count(first) == 1
    assert len(kept) == len(set(kept)) == 9  # the base and eight points


@pytest.mark.nightly
def test_an_interrupt_from_outside_ends_every_process_of_a_sweep(scenario):
    s = scenario(vary=LONG)
    words = [word for word in COMMAND if word != "-q"]
    with subprocess.Popen([*words, "interrupted"], stderr=subprocess.PIPE, text=True) as process:
        kept = outcome_store(Path("interrupted"), s)
        while process.poll() is None and not any(True for _ in kept.outcomes()):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert "run the same command again to continue" in said
    assert "Traceback" not in said
    assert list(kept.outcomes())
