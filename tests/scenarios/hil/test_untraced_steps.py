"""Step times beside a trace: used by a run, said by `trace info`, `plan` and the run's sources."""

import json

import pytest

SCENARIO = """
foretrace: 1
name: mine
workload: {trace: 'run/rank0.json.gz', recorded_on: {device: a100-sxm4-80g}}
cluster: {nodes: 1, node: {gpu: {model: a100-sxm4-80g, count: 1}, host: {cores: 8}}}
"""
HEAD = "step,phase,start_ns,duration_ns,cpu_ns\n"
TRACED, UNTRACED = 1000, 800  # us


@pytest.fixture
def recording(script, tmp_path, monkeypatch):
    """Folder in which a trace of three equal steps lies, and a scenario that runs it."""
    monkeypatch.chdir(tmp_path)
    s, folder = script(), tmp_path / "run"
    folder.mkdir()
    for n in range(3):
        s.step(n, TRACED * n, TRACED)
        s.op(f"step{n}", TRACED * n, TRACED)
    s.write(folder)
    (tmp_path / "a.yaml").write_text(SCENARIO)
    return folder


def leave_table(folder, name="rank0.steps.csv", traced=TRACED, untraced=UNTRACED):
    steps = [("untraced", untraced)] * bool(untraced) * 3 + [("traced", traced)] * bool(traced) * 3
    rows = [f"{i},{phase},0,{us * 1000},0\n" for i, (phase, us) in enumerate(steps)]
    (folder / name).write_text(HEAD + "".join(rows))


def point_of(cli, *more):
    code, out, err = cli("run", "a.yaml", "--json", *more)
    assert code == 0, err
    return json.loads(out)["points"]["base"]


def test_a_step_takes_what_it_took_untraced(recording, cli):
    assert point_of(cli)["metrics"]["iteration_time.p50"]["value"] == pytest.approx(1000e-6)
    leave_table(recording)
    found = point_of(cli)
    assert found["metrics"]["iteration_time.p50"]["value"] == pytest.approx(800e-6)
    assert found["facts"]["times_multiplied_by"] == 0.8
    assert found["facts"]["untraced_steps"] == "run/rank0.steps.csv"
    told = "recorded: trace, times 0.8: untraced steps of run/rank0.steps.csv"
    assert told in found["sources"]


def test_a_missing_table_is_not_spoken_of(recording, cli):
    point = point_of(cli)
    assert not {"untraced_steps", "times_multiplied_by"} & point["facts"].keys()
    assert "recorded: trace" in point["sources"]
    assert "untraced" not in cli("trace", "info", "run/rank0.json.gz")[1]
    assert "untraced" not in cli("plan", "a.yaml")[1]


def test_trace_info_and_plan_say_it(recording, cli):
    leave_table(recording)
    said = cli("trace", "info", "run/rank0.json.gz")[1]
    wanted = "a step of 1 process start takes 800 µs untraced (run/rank0.steps.csv)"
    assert f"recorded times are multiplied by 0.8: {wanted}" in said
    code, said, err = cli("plan", "a.yaml")
    assert code == 0, err
    assert f"recorded times become those of untraced steps: {wanted}" in said
    told = json.loads(cli("plan", "a.yaml", "--json")[1])["untraced"]["main"]
    assert told["process_starts"] == 1


def test_starts_that_are_named_go_before_what_lies_beside(recording, cli):
    leave_table(recording)
    (recording.parent / "other").mkdir()
    leave_table(recording.parent / "other", traced=0, untraced=900)
    point = point_of(cli, "--set", "workload.starts=other")
    assert point["facts"]["times_multiplied_by"] == 0.9


def test_only_the_table_of_the_ranks_that_are_run_counts(recording, cli):
    leave_table(recording)
    leave_table(recording, "rank1.steps.csv", untraced=400)
    assert point_of(cli)["facts"]["times_multiplied_by"] == 0.8


def test_a_table_without_untraced_steps_changes_nothing_and_is_said(recording, cli):
    leave_table(recording, untraced=0)
    assert "times_multiplied_by" not in point_of(cli)["facts"]
    said = cli("trace", "info", "run/rank0.json.gz")[1]
    assert "not used: no step in it is untraced (run/rank0.steps.csv)" in said


def test_the_table_of_another_recording_is_named(recording, cli):
    leave_table(recording, traced=3000)
    code, _, err = cli("run", "a.yaml")
    assert code != 0
    assert "run/rank0.steps.csv: belongs to another recording" in err
    assert "its traced steps take 3 ms, those of the trace 1 ms" in " ".join(err.split())
    assert "belongs to another recording" in cli("trace", "info", "run/rank0.json.gz")[1]


def test_a_table_that_cannot_be_read_is_named(recording, cli):
    (recording / "rank0.steps.csv").write_text(HEAD + "0,untraced,0,soon,0\n")
    code, _, err = cli("run", "a.yaml")
    assert code != 0
    assert "rank0.steps.csv: is not a table of steps" in " ".join(err.split())
    assert "not used: " in cli("trace", "info", "run/rank0.json.gz")[1]


def test_an_imported_trace_keeps_its_untraced_steps(recording, cli):
    leave_table(recording)
    cli("trace", "import", "run/rank0.json.gz", "--out", "native")
    point = point_of(cli, "--set", "workload.trace=native")
    assert point["facts"]["untraced_steps"] == "native/rank0.steps.csv"
    assert point["metrics"]["iteration_time.p50"]["value"] == pytest.approx(800e-6)


def test_another_table_beside_is_another_scenario(recording):
    from foretrace.scenarios.config.loader import load

    without = load("a.yaml").digest()
    leave_table(recording)
    one = load("a.yaml").digest()
    leave_table(recording, untraced=700)
    assert len({without, one, load("a.yaml").digest()}) == 3
