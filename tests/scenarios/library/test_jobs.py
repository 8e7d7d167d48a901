"""Several jobs in a scenario: named numbers, places, waiting in order, prices, refusals."""

import json

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.variants import (
    build_variant,
    build_variants,
    run_with_replicas,
)
from foretrace.sim.errors import ScenarioError

HEAD = """\
foretrace: 1
name: two
cluster: {nodes: 4, node: {gpu: {model: h100-sxm5-80g, count: 1}, nic: connectx-7},
  fabric: {library: nccl-nvlink4, switch: tomahawk-5}}
backends: {"node*.gpu*": {use: roofline}}
"""
SEND = "{type: transfers, ops: [{op: 'send:write', bytes: 100 MB, from: [0], to: 1, count: 4}]}"
ALONE = HEAD + f"workload: {SEND}\n"
TWO = (
    HEAD
    + f"""\
jobs:
  a: {{workload: {SEND}, on: {{gpu: "node[01].gpu0"}}}}
  b: {{workload: {SEND}, on: {{gpu: [node2.gpu0, node3.gpu0]}}}}
"""
)


def values(text):
    done = study(loads(text))
    return done.summary.to_dict()


def test_each_of_two_jobs_apart_takes_as_long_as_alone():
    alone = values(ALONE)["points"]["base"]["metrics"]
    told = values(TWO)
    both = told["points"]["base"]["metrics"]
    for job in "ab":
        for metric in ("iteration_time.p50", "makespan"):
            assert both[f"{job}.{metric}"]["value"] == alone[metric]["value"]
        assert both[f"{job}.completion_time"]["value"] == alone["makespan"]["value"]
    assert told["answer"] == {
        "job": "a", "metric": "a.iteration_time.p50", "unit": "s", "better": "lower",
        "period": "iteration",
    }  # fmt: skip


def test_one_job_named_main_says_the_same_as_the_short_form():
    short, long = values(ALONE), values(HEAD + f"jobs: {{main: {{workload: {SEND}}}}}\n")
    assert long["answer"] == short["answer"]
    assert long["points"]["base"]["metrics"] == short["points"]["base"]["metrics"]


def test_jobs_on_the_same_wire_slow_each_other_and_it_is_said_by_whom():
    text = TWO.replace("[node2.gpu0, node3.gpu0]", '"node[01].gpu0"')
    found = values(text)["points"]["base"]
    assert found["jobs"]["a"]["slowed_by"]["b"] > 0
    apart = values(TWO)["points"]["base"]["metrics"]["a.makespan"]["value"]
    assert found["metrics"]["a.makespan"]["value"] == pytest.approx(2 * apart, rel=0.05)


def test_a_count_that_does_not_fit_waits_in_order():
    text = (
        HEAD
        + f"""\
jobs:
  a: {{workload: {SEND}, on: {{gpu: 3}}}}
  b: {{workload: {SEND}, on: {{gpu: 2}}}}
  c: {{workload: {SEND}, on: {{gpu: 1}}, arrives: 1 us}}
"""
    )
    text = text.replace("from: [0], to: 1, count: 4}]}, on: {gpu: 1}",
                        "from: [0], to: 1}]}, on: {gpu: 2}")  # fmt: skip
    found = run_with_replicas(build_variant(loads(text))).samples
    done = {job: found[f"{job}.completion_time"].item() for job in "abc"}
    own = {job: found[f"{job}.makespan"].item() for job in "abc"}
    assert done["a"] == own["a"]
    assert done["b"] == pytest.approx(own["a"] + own["b"])
    assert done["c"] == pytest.approx(own["a"] + own["c"], rel=1e-3)  # beside b: four are free


def test_paths_of_jobs_work_in_set_sweep_and_expect(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        TWO
        + """\
expect: [{that: b.iteration_time.p50 <= 1 h}]
what_if: [{name: more, set: {jobs.a.workload.iterations: {measure: 3}, jobs.b.arrives: 1 ms}}]
sweep: {vary: {jobs.a.workload.iterations.measure: [1, 2]}, optimize: [{minimize: b.makespan}]}
answer: {minimize: b.makespan}
"""
    )
    (tmp_path / "two.yaml").write_text(text)
    code, out, err = cli("run", "two.yaml", "--set", "jobs.b.arrives=2 ms")
    assert code == 0, err
    assert "b makespan is" in out
    one, more = build_variants(load("two.yaml"))
    assert one.answer.metric == "b.makespan"
    assert (
        run_with_replicas(more).result.of("a").count
        == 3 * run_with_replicas(one).result.of("a").count
    )
    code, out, err = cli("sweep", "two.yaml", "--workers", "local:1")
    assert code == 0, err
    assert "b makespan" in out


def test_a_job_is_paid_for_by_its_share_of_the_machine_and_its_time():
    found = run_with_replicas(
        build_variant(loads(TWO + "cost: {items: [{what: gpu, each: 3600 USD/hour}]}\n"))
    )
    cost, time = (found.samples[f"a.{m}"].item() for m in ("cost", "makespan"))
    assert cost == pytest.approx(2 * 1.0 * time)  # two GPUs at a dollar a second


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD, "'workload' is missing"),
        (TWO + f"workload: {SEND}\n", "'workload' at the top is for a single job"),
        (TWO + "expect: [{that: iteration_time.p50 < 1 s}]\n",
         "'iteration_time' belongs to a job; name the job, such as a.iteration_time.p50"),
        (TWO.replace("arrives", "arives") + "expect: [{that: a.iteraton_time.p50 < 1 s}]\n",
         "no metric named 'a.iteraton_time.p50'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_jobs_is_told_when_they_are_read(text, said):
    with pytest.raises(InvalidScenarioError) as told:
        loads(text)
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("was", "is_", "said"),
    [
        ('"node[01].gpu0"', "node9.gpu0", "jobs.a.on.gpu: no gpu matches node9.gpu0"),
        ('"node[01].gpu0"', "9", "jobs.a.on.gpu: 9 gpu are requested, but the cluster has 4"),
        ('{gpu: "node[01]', '{gpus: "node[01]', "jobs.a.on: its workload has no pool 'gpus'"),
    ],
)
def test_places_that_are_not_there_are_named_with_a_cure(was, is_, said):
    with pytest.raises(ScenarioError, match=said.replace(".", r"\.")):
        build_variant(loads(TWO.replace(was, is_)))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{minimize: iteration_time.p50}", "name the job: a.iteration_time.p50"),
        ("{minimize: c.iteration_time.p50}", "answer: 'c.iteration_time.p50'"),
    ],
)
def test_an_answer_that_no_job_has_is_refused(answer, said):
    with pytest.raises(ScenarioError, match=said.replace(".", r"\.")):
        build_variant(loads(TWO + f"answer: {answer}\n"))


def test_the_schema_has_jobs_and_an_answer():
    from foretrace.scenarios.config.schema import json_schema

    assert {"jobs", "answer"} <= json_schema()["properties"].keys()
    assert "waits in order until so many are free" in explain("jobs.a.on").what
    assert "trace_workload" in json.dumps(json_schema())


def test_a_run_that_was_saved_before_there_were_jobs_is_shown(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(ALONE)
    code, out, err = cli("run", "one.yaml")
    assert code == 0, err
    file = next(tmp_path.glob("runs/two/*/summary.json"))
    told = json.loads(file.read_text())
    assert told.pop("answer")["metric"] == "iteration_time.p50"
    file.write_text(json.dumps(told))
    code, again, err = cli("show", str(file.parent))
    assert code == 0, err
    assert out.splitlines()[0] in again
    assert cli("compare", str(file.parent), str(file.parent))[0] == 0


def test_ranks_of_several_jobs_are_apart_in_timelines_and_tables(tmp_path):
    import duckdb
    from foretrace.reports.export.op_places import op_places
    from foretrace.reports.export.tables import write_ops

    result = build_variant(loads(TWO)).run()
    assert sorted(set(op_places(result).rank.tolist())) == [0, 2]  # who sends
    write_ops(tmp_path / "ops.parquet", result)
    rows = duckdb.sql(f"select job, count(*) from '{tmp_path}/ops.parquet' group by 1 order by 1")
    assert rows.fetchall() == [("a", 4), ("b", 4)]
