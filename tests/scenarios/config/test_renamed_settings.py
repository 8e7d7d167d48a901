"""Old names of a workload's settings: understood for one release, wherever they are written."""

import inspect
import logging

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import load, loads, with_overrides
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.building.jobs import workloads_of
from foretrace.scenarios.studies.sweep.plan_points import plan_points
from foretrace.scenarios.workloads.training import TrainingWorkload

HEAD = "foretrace: 1\nname: t\n"
CLUSTER = """
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}]
  fabric: {library: nccl-nvlink4, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
"""
MIXTURE = "{hidden: 64, layers: 8, heads: 8, vocabulary: 99, inner: 64, EXPERTS}"
MIXTURE = MIXTURE.replace("EXPERTS", "experts: {count: 8, chosen: 2, inner: 64}")
OLD = f"""workload:
  {{type: training, model: {MIXTURE}, batch: 16, sequence: 64, micro_batch: 2, document: 32,
   zero: 1, recompute: full, recompute_layers: 3, offload: optimizer, precision: fp8,
   adapters: {{rank: 4, of: [query-key-value]}}, types: {{dispatch: fp8}}, scales: {{block: 128}},
   attention: written, loss: written, detail: ops, routing: {{zipf: 0.5}}, bucket: 1000,
   exchange: low-latency, reducer: megatron, overlap: false, gather_ahead: false, reserve: 1 GiB,
   must_fit: false, when_full: refuse, hosts: threads, parallel: {{expert: 4}}}}"""
NEW = f"""workload:
  {{type: training, model: {MIXTURE}, batch: 16, sequence: 64, precision: fp8,
   parallel: {{expert: 4, micro_batch: 2, zero: 1}},
   memory: {{recompute: full, recompute_layers: 3, offload: optimizer, reserve: 1 GiB,
             must_fit: false, when_full: refuse}},
   types: {{dispatch: fp8, scales: {{block: 128}}}},
   optimizer: {{adapters: {{rank: 4, of: [query-key-value]}}, bucket: 1000, reducer: megatron,
                overlap: false, gather_ahead: false}},
   execution: {{attention: written, loss: written, document: 32, detail: ops, hosts: threads,
                experts: {{zipf: 0.5, exchange: low-latency}}}}}}"""


def trained(text, *set):
    (one,) = workloads_of(loads(text + CLUSTER, set=set)).values()
    return one.plan, one.model, one.reserve, one.must_fit, one.waits


def test_a_file_of_old_names_is_what_it_was():
    assert trained(HEAD + OLD) == trained(HEAD + NEW)
    assert loads(HEAD + OLD + CLUSTER).digest() == loads(HEAD + NEW + CLUSTER).digest()


def test_every_renamed_setting_leads_to_one_of_today():
    every = TrainingWorkload.renamed_settings
    own = set(inspect.signature(TrainingWorkload).parameters)
    for old, new in every.items():
        assert old not in own
        assert explain(f"workload.{new}").name == f"workload.{new}"


def test_old_names_of_a_description_are_read_in_a_scenario():
    old = NEW.replace("inner: 64, exp", "inner: 64, gated: true, key_heads: 2, tied: false, exp")
    new = NEW.replace(
        "inner: 64, exp",
        "inner: 64, block: {gated: true}, attention: {key_heads: 2}, tokens: {tied: false}, exp",
    )
    assert old != NEW
    assert trained(HEAD + old) == trained(HEAD + new)
    assert trained(HEAD + new, "workload.model.norm=rms")[1].block.norm == "rms"


def test_a_message_names_the_line_and_both_names(caplog):
    text = f"{HEAD}workload:\n  type: training\n  model: gpt2\n  batch: 16\n  sequence: 64\n"
    with caplog.at_level(logging.WARNING):
        loads(f"{text}  zero: 1\n{CLUSTER}", file="a.yaml")
    (told,) = caplog.messages
    assert told.startswith("a.yaml:8:3: 'workload.zero' is now 'workload.parallel.zero'; rename it")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        loads(f"{text}  parallel: {{zero: 1}}\n{CLUSTER}", file="a.yaml")
    assert not caplog.messages


def test_a_setting_under_both_names_is_refused():
    with pytest.raises(
        InvalidScenarioError,
        match=r"'zero' is the old name of 'parallel\.zero', "
        r"and both are given",
    ):
        loads(HEAD + OLD.replace("expert: 4", "expert: 4, zero: 3") + CLUSTER)


def test_set_what_if_jobs_and_points_of_a_sweep_know_both_names():
    old, new = "workload.imbalance=1.5", "workload.execution.experts.imbalance=1.5"
    plain = HEAD + NEW.replace("zipf: 0.5, ", "")
    assert trained(plain, old) == trained(plain, new)
    assert trained(plain, "workload.types={scales: {block: 64}}") == trained(
        plain, "workload.scales.block=64"
    )
    base = loads(plain + CLUSTER).resolved()
    settings = {"workload.zero": 3, "workload.scales": {"block": 32}}
    (one,) = workloads_of(with_overrides(base, settings)).values()
    assert (one.plan.zero, one.plan.precision.scales.block) == (3, 32)
    whole = {"workload.optimizer": {"overlap": True}, "workload.gather_ahead": True}
    (one,) = workloads_of(with_overrides(base, whole)).values()
    assert (one.plan.overlap, one.plan.gather_ahead, one.plan.bucket) == (True, True, 1000)
    variants = "what_if: [{name: a, set: {workload.zero: 3, workload.recompute: none}}]\n"
    (other,) = loads(plain + CLUSTER + variants).others
    assert other.resolved()["workload"]["parallel"]["zero"] == 3
    text = f"{HEAD}jobs:\n  a:\n    {NEW.replace(chr(10), chr(10) + '    ')}\n{CLUSTER}"
    job = workloads_of(loads(text, set=["jobs.a.workload.zero=0"]))["a"]
    assert job.plan.zero == 0


def test_what_extends_a_scenario_says_by_its_old_name_what_that_says_by_its_new_one(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + NEW + CLUSTER)
    child = tmp_path / "child.yaml"
    child.write_text(
        "foretrace: 1\nname: c\nextends: base.yaml\nworkload: {zero: 3, overlap: true}"
    )
    (one,) = workloads_of(load(child)).values()
    assert (one.plan.zero, one.plan.overlap, one.plan.bucket) == (3, True, 1000)


def test_a_search_over_plans_keeps_what_is_varied_by_its_old_name():
    text = HEAD + "workload: {type: training, model: gpt2, batch: 16, sequence: 1024}" + CLUSTER
    vary = "\nsweep: {{method: plans, vary: {{{}: [1]}}}}\n"
    old, new = (
        plan_points(loads(text + vary.format(f"workload.{name}")))
        for name in ("zero", "parallel.zero")
    )
    assert old == new
    assert {point["workload.parallel.zero"] for point in new} == {1}


def test_explain_knows_an_old_name():
    told = explain("workload.zero")
    assert (told.name, told.facts["was"]) == ("workload.parallel.zero", "workload.zero")
    assert explain("training.overlap").name == "training.optimizer.overlap"
