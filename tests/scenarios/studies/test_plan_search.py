"""Search over parallel plans: every plan is simulated, refusals say what works, places are sure."""

import io
import json

import pytest
from foretrace.models.training.description.description import Experts, Transformer
from foretrace.models.training.plan.memory_fit import peak_memory
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.plan.plan_choices import allowed_plans
from foretrace.reports.sweep.points import FAILED_ROWS, MOST_ROWS, SweepShown, points_table
from foretrace.reports.sweep.ranking import ranked_points_table
from foretrace.reports.sweep.sweep_answer import answer_sentences, refusal_counts
from foretrace.reports.sweep.sweep_page import sweep_page
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.cli.terminal.common import terminal_table
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.sweep.plan_points import plan_points, wanted_points
from foretrace.scenarios.studies.sweep.sweep_folder import outcome_store
from foretrace.scenarios.studies.sweep.sweep_summary import sweep_summary
from foretrace.scenarios.studies.sweep.sweeping import SweepInProgress
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ScenarioError
from rich.console import Console
from typer.testing import CliRunner

TEXT = """
foretrace: 1
name: plans
workload: {type: training, model: gpt2, batch: 32, sequence: 1024}
cluster:
  nodes: 2
  node:
    gpu: {model: h100-sxm5-80g, count: 4}
    nic: {model: connectx-7, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
cost: {items: [{what: node, each: 12 USD/hour}]}
run: {keep: ranks}
sweep:
  method: plans
  vary: {workload.parallel.micro_batch: [1, 4], workload.memory.recompute: [none]}
  optimize: [{minimize: cost_per_million_tokens}]
"""
TINY = Transformer(hidden=64, layers=8, heads=8, vocabulary=128, inner=256)


class Here:
    """Workers that are this process."""

    name = "here"

    def run(self, work, tasks):
        for one in tasks:
            yield one, work(one)

    def close(self, *, kill=False):
        pass


def searched(folder, *set):
    scenario = loads(TEXT, set=set)
    kept = outcome_store(folder, scenario)
    with kept:
        return SweepInProgress(scenario, kept, Here()).try_all_points()


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return searched(tmp_path_factory.mktemp("plans"))


def test_every_plan_keeps_the_rules_and_fills_the_gpus():
    start = ParallelPlan(batch=16, sequence=32)
    plans = list(allowed_plans(TINY, start, 8, 4))
    assert len(plans) == len(set(plans)) > 100
    assert all(p.ranks == 8 and p.is_allowed(TINY) for p in plans)
    assert {p.tensor for p in plans} == {1, 2, 4}  # within a machine


def test_experts_are_shared_in_every_way_that_their_number_allows():
    mixed = Transformer(
        hidden=64, layers=8, heads=8, vocabulary=128, inner=256, experts=Experts(4, 2, 64)
    )
    plans = allowed_plans(mixed, ParallelPlan(batch=16, sequence=32), 8, 4)
    assert {p.expert for p in plans} == {1, 2, 4}


def test_what_varies_is_taken_from_there_and_the_rest_is_chosen():
    points = plan_points(loads(TEXT))
    assert {p["workload.parallel.micro_batch"] for p in points} == {1, 4}
    assert {p["workload.memory.recompute"] for p in points} == {"none"}
    assert {p["workload.parallel.tensor"] for p in points} == {1, 2, 4}


def test_copies_that_are_said_stay_as_they_are():
    points = plan_points(loads(TEXT, set=["workload.parallel={data: 4}"]))
    assert {p["workload.parallel.tensor"] * p["workload.parallel.pipeline"] for p in points} == {2}


def test_the_best_plans_are_what_a_run_of_each_says_to_the_tick(done):
    for trial, _ in done.ranking:
        words = [f"{k}={json.dumps(v)}" for k, v in trial.settings.items()]
        (point,) = build_variants(loads(TEXT, set=words))
        samples = samples_of(point, point.run())
        assert samples["iteration_time"][0] == trial.values["iteration_time.p50"]
        assert samples["makespan"][0] == trial.values["makespan"]


def test_the_best_are_in_order_and_each_says_how_far_it_is_behind(done):
    costs = [trial.values["cost_per_million_tokens"] for trial, _ in done.ranking]
    assert len(costs) == 10
    assert costs == sorted(costs)
    for (before, _), (one, found) in zip(done.ranking, done.ranking[1:], strict=False):
        a, b = (t.values["cost_per_million_tokens"] for t in (before, one))
        assert found["behind"]["change"] == pytest.approx(b / a - 1, abs=1e-12)
        low, high = found["behind"]["interval"]
        assert low <= found["behind"]["change"] <= high
        assert found["behind"]["sure"] == (low > 0 or high < 0)


def test_a_difference_that_errors_could_turn_round_is_one_that_nobody_can_tell(done):
    summary = sweep_summary(done)
    told = summary["ranking"][1]["behind"]
    told |= {"change": 0.01, "interval": [-0.02, 0.03], "sure": False}
    (_, said, *_) = answer_sentences(summary)
    assert said.startswith("The next, with ")
    assert said.endswith(
        "has +1.0 % cost per million tokens, -2.0 % to +3.0 % (90 % interval): cannot tell."
    )


def test_a_difference_too_small_to_show_is_the_same_cost(done):
    """It said that the next "has no change cost per million tokens"."""
    summary = sweep_summary(done)
    told = summary["ranking"][1]["behind"]
    told |= {"change": 0.0001, "interval": [-0.002, 0.001], "sure": False}
    (_, said, *_) = answer_sentences(summary)
    assert said.endswith(
        "has the same cost per million tokens, -0.2 % to +0.1 % (90 % interval): cannot tell."
    )


@pytest.mark.nightly
def test_what_does_not_fit_is_refused_with_what_would_and_is_no_failure(tmp_path):
    done = searched(
        tmp_path, "workload.model=llama2-7b", "sweep.vary.workload.parallel.micro_batch=[4]"
    )
    summary = sweep_summary(done)
    refused = [t for t in done.trials if t.refused]
    assert refused
    assert not done.failed
    assert all("does not fit" in t.error["message"] for t in refused)
    assert all("; it fits with " in t.error["message"] or "take more GPUs" in t.error["message"]
               for t in refused)  # fmt: skip
    assert summary["counts"]["refused"] == len(refused)
    (line,) = [line for line in answer_sentences(summary) if "refused" in line]
    assert sum(refusal_counts(summary).values()) == len(refused)
    assert "do not fit (most of it " in line
    page = sweep_page(summary, {"resolved": "", "command": "", "run": "x", "file": "plans.yaml"})
    assert "How certain the ranking is" in page
    assert "it fits with" in page


def test_a_page_of_more_points_than_it_shows_has_refused_ones_too(done):
    """It said that it told of each, and showed 500 that fit."""
    summary = sweep_summary(done)
    message = "workload: does not fit: a rank of stage 0 needs 90 GiB (optimizer 60); it fits with"
    lost = {"set": {}, "error": {"kind": "PlanError", "message": message}}
    summary["points"] = [*summary["points"], *[summary["points"][0]] * MOST_ROWS, *[lost] * 200]
    blocks = points_table(SweepShown(summary, {}))
    assert [len(b.rows) for b in blocks if hasattr(b, "rows")] == [
        MOST_ROWS - FAILED_ROWS,
        FAILED_ROWS,
    ]


@pytest.mark.nightly
def test_a_quick_search_says_that_it_did_not_ask_how_sure_it_is(tmp_path):
    summary = sweep_summary(searched(tmp_path, "run.quick=true"))
    assert any(
        "the interval of that difference is unknown in a quick sweep" in t
        for t in answer_sentences(summary)
    )


def test_a_search_may_begin_with_a_plan_that_does_not_fit(tmp_path):
    """The command ended with that plan's refusal: somebody who knows no plan got none."""
    file = tmp_path / "plans.yaml"
    file.write_text(TEXT.replace("micro_batch: [1, 4]", "micro_batch: [4]"))
    words = ["sweep", str(file), "--set", "workload.model=llama2-7b", "--out", str(tmp_path),
             "--workers", "local:1", "--quiet", "--set", "run.quick=true"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "The smallest cost per million tokens" in done.output


def test_the_count_of_points_is_that_of_the_plans():
    scenario = loads(TEXT)
    assert wanted_points(scenario) == len(plan_points(scenario))


@pytest.mark.parametrize(
    ("set", "told"),
    [
        (["sweep.points=3"], "sweep.points: there are .* plans, more than 3"),
        (["workload.batch=1"], "no parallel plan of a training workload fits"),
    ],
)
def test_a_search_without_plans_or_with_too_many_is_refused(set, told):
    with pytest.raises(ScenarioError, match=told):
        plan_points(loads(TEXT, set=set))


def test_a_workload_without_plans_says_so():
    with pytest.raises(ScenarioError, match="no parallel plan of a trace workload"):
        plan_points(_first_with_plans())


def _first_with_plans():
    from foretrace.scenarios.config.loader import load

    return load("first", set=["what_if=[]", "sweep.method=plans"])


def test_the_memory_of_a_plan_is_counted_once():
    plan = ParallelPlan(batch=16, sequence=32)
    assert peak_memory(TINY, plan) is peak_memory(TINY, plan)


def test_points_on_more_machines_have_more_copies(tmp_path):
    done = searched(tmp_path, "sweep.method=grid", "sweep.vary={cluster.nodes: [1, 2]}",
                    "sweep.vary.workload.parallel.micro_batch=[1]")  # fmt: skip
    one, two = (t.values["tokens_per_second.p50"] for t in done.trials)
    assert two > 1.5 * one


def test_a_terminal_shows_the_ranks_and_what_tells_them_apart(done):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal_table(ranked_points_table(sweep_summary(done))))
    head, first, second, *rest = console.export_text().splitlines()
    assert "tensor" in head
    assert "recompute" not in head  # the same in all
    assert first.split()[0] == "1"
    assert "no change" not in first
    assert second.split()[0] == "2"
    assert len(rest) == 8
