"""``ops``: rules of a scenario that name ops, in every place where settings stand."""

import itertools
import json

import pytest
from foretrace import sweep
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.schema import scenario_model
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.variants import (
    build_variant,
    build_variants,
    run_with_replicas,
)
from foretrace.sim.errors import ScenarioError
from foretrace.sim.run.workload import WORKLOADS
from typer.testing import CliRunner

FIRST = """\
foretrace: 1
name: small
extends: foretrace:first
workload: {scale_to: {parallel: {data: 2}}, iterations: {measure: 1}}
cluster: {nodes: 2}
what_if: []
run: {replicas: 1}
"""
NUMBERS = itertools.count()
MM = "ops: [{where: {name: 'aten::mm'}, scale: 3}]\n"


def seconds(text):
    return run_with_replicas(build_variant(loads(text))).result.makespan


@pytest.fixture(scope="module")
def plain():
    return seconds(FIRST)


def test_a_rule_of_the_file_changes_the_run(plain):
    assert seconds(FIRST + MM) > 1.05 * plain
    assert seconds(FIRST + "ops: [{where: {kind: collective}, remove: true}]\n") < plain


def test_variants_add_rules_to_those_of_the_file(plain):
    more = """\
what_if:
  - name: quicker
    ops: [{where: {name: 'aten::mm'}, scale: 0.1}]
  - name: other
    set: {ops: [{where: {kind: collective}, time: 0 s}]}
"""
    found = {
        v.name: v for v in build_variants(loads(FIRST.replace("what_if: []\n", "") + MM + more))
    }
    rules = [len(one.scenario.jobs["main"].ops) for one in found.values()]
    assert rules == [1, 2, 1]
    base, quicker, other = (found[n].run().makespan for n in ("base", "quicker", "other"))
    assert quicker < plain < base
    assert other < plain


def test_a_sweep_varies_a_rule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = sweep(loads(FIRST + MM + "sweep: {vary: {ops.0.scale: [1, 2, 4]}}\n"), workers="local:1")
    times = [t.values["iteration_time.p50"] for t in done.trials]
    assert times == sorted(times)
    assert times[0] < times[-1]


def test_a_rule_can_be_set_at_the_command_line(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(FIRST)
    rule = "ops=[{where: {kind: collective}, remove: true}]"
    said = CliRunner().invoke(app, ["plan", str(file), "--set", rule, "--json"])
    (told,) = json.loads(said.stdout)["rules"]["base"]
    assert told["where"] == {"kind": "collective"}
    assert told["ops"] > 0
    assert 0 < told["share"] < 1
    said = CliRunner().invoke(app, ["plan", str(file), "--set", rule])
    assert "(kind 'collective') are left out; they were" in said.stdout


def test_plan_and_answer_say_how_many_ops_a_rule_changed_and_their_share():
    scenario = loads(FIRST + MM)
    (told,) = plan(scenario).rules["base"]
    found = study(scenario)
    assert found.summary.points["base"]["rules"] == [told]
    shown = found._repr_html_()
    assert f"{told['ops']:,} ops (name" in shown
    assert "of the recorded time" in shown


def test_without_rules_a_summary_is_what_it_was():
    assert "rules" not in study(loads(FIRST)).summary.points["base"]
    assert plan(loads(FIRST)).rules == {}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{where: {name: 'aten::m_m'}, time: 0 s}", r"ops\.0\.where: no op has name.*nearest is"),
        ("{where: {kind: collective}, rank: 0}", r"ops\.0\.rank: op \d+ .* involves several ranks"),
    ],
)
def test_a_rule_that_fits_nothing_or_cannot_be_is_an_error_with_its_place(tmp_path, rule, message):
    file = tmp_path / "s.yaml"
    file.write_text(FIRST + f"ops:\n  - {rule}\n")
    with pytest.raises(ScenarioError, match=r"s\.yaml:9:\d+: " + message):
        build_variant(load(file))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{where: {}, time: 0 s}", "'where' is empty; write one of name, module"),
        ("{where: {name: a}}", "the rule changes nothing; write one of time, scale"),
        ("{where: {name: a}, time: 0 s, scale: 2}", "'time' and 'scale' exclude each other"),
        ("{where: {name: a}, time: 0 s, remove: true}", "'remove' and 'time' exclude each other"),
        ("{where: {nme: a}, time: 0 s}", "nme"),
        ("{where: {name: a}, time: -1 s}", "'-1 s' is negative"),
    ],
)
def test_a_rule_that_says_too_little_or_too_much_is_refused(rule, message):
    with pytest.raises(InvalidScenarioError, match=message):
        loads(FIRST + f"ops: [{rule}]\n")


def test_a_job_of_several_has_rules_of_its_own():
    jobs = """\
foretrace: 1
name: two
extends: foretrace:first
workload: null
what_if: []
run: {replicas: 1}
cluster: {nodes: 2}
jobs:
  a: {workload: WORK, on: {gpu: node0.gpu0}OPS}
  b: {workload: WORK, on: {gpu: node1.gpu0}}
"""
    jobs = jobs.replace("WORK", "{trace: foretrace:gpt, recorded_on: {device: epyc-zen4-core}}")
    plain = run_with_replicas(build_variant(loads(jobs.replace("OPS", "")))).result
    rules = ", ops: [{where: {name: 'aten::mm'}, scale: 5}]"
    slower = run_with_replicas(build_variant(loads(jobs.replace("OPS", rules)))).result
    assert slower.of("a").makespan > plain.of("a").makespan
    assert slower.of("b").makespan == plain.of("b").makespan
    with pytest.raises(InvalidScenarioError, match="'ops' at the top is for a single job"):
        loads(jobs.replace("OPS", "") + MM)


SERVING = '''
from foretrace import Builder, Kind, Workload, workload

@workload("NAME")
class Serving(Workload):
    """Requests of two ops."""

    def start(self, job):
        def serve(sim):
            for k in range(3):
                build = Builder("request")
                load = build.op(Kind.COMPUTE, name="load", duration=1.0)
                build.op(Kind.COMPUTE, name=f"answer{k}", duration=2.0, after=[load])
                yield sim.submit(build.graph()).done
        return serve
'''


@pytest.fixture
def name():
    """Name of a workload that is known during one test only."""
    yield (made := f"serving{next(NUMBERS)}")
    WORKLOADS.pop(made, None)
    scenario_model.cache_clear()


def test_ops_that_a_process_submits_are_named_too(tmp_path, name):
    (tmp_path / "serving.py").write_text(SERVING.replace("NAME", name))
    text = f"""\
foretrace: 1
name: served
plugins: [{tmp_path / "serving.py"}]
workload: {{type: {name}}}
cluster: {{nodes: 1, node: {{gpu: h100-sxm5-80g}}}}
backends: {{node*.gpu*: {{use: recorded}}}}
"""
    assert seconds(text) == 9.0
    assert seconds(text + "ops: [{where: {name: load}, time: 0 s}]\n") == 6.0
    assert seconds(text + "ops: [{where: {name: answer1}, scale: 2}]\n") == 11.0
    with pytest.raises(ScenarioError, match=r"ops\.0\.where: no op has name 'lod'.*'load'"):
        seconds(text + "ops: [{where: {name: lod}, time: 0 s}]\n")
