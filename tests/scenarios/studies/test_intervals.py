"""Do 90 % intervals hold 80 to 97 % of the steps of process starts that they know nothing of?

Every start but the one whose trace is bundled is held out in turn, so nobody chooses; its
untraced steps are compared with those drawn by the engine from the other starts. Durations and
collectives are as recorded: this is the jitter alone, no model's error is in it.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.compute.jitter import BAR, interval_coverage, jitter_spread, typical_durations
from foretrace.models.compute.recorded import Recorded
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.summaries.start_variation import check_jitter_interval
from foretrace.scenarios.studies.variants.variants import build_variant
from foretrace.scenarios.workloads.trace_files import DATA
from foretrace.sim.analysis.metrics import measure
from foretrace.sim.facts.ops import Kind
from foretrace.traces.step_times import read, with_untraced_times

SCENARIO = """
foretrace: 1
name: replay
workload: {{trace: foretrace:{name}, recorded_on: {{device: epyc-zen4-core, nodes: {ranks}}}}}
cluster:
  nodes: {ranks}
  node: {{gpu: {{model: epyc-zen4-core, count: 1}}, host: epyc-zen4-vm, nic: loopback-tcp}}
  fabric: {{library: gloo}}
backends: {{"*": recorded}}
"""
REPLICAS = 20
BUNDLED = {"resnet50": 1, "gpt": 3, "ddp-resnet50": 7, "ddp-gpt": 1}


def drawn(made, starts):
    """Steps of replicas that know these starts."""
    graph = with_untraced_times(made.graph, starts)
    known = Recorded()
    known.spread = jitter_spread(graph.ops, starts.steps)
    usual = graph.with_ops(graph.ops.replace(duration=typical_durations(graph.ops)))
    simulation = replace(made.simulation, backends={"*": known})
    found = [measure(simulation.run(usual, replica=k))["iteration_time"] for k in range(REPLICAS)]
    return np.concatenate(found)


LONG = [
    pytest.param(name, marks=pytest.mark.nightly)
    for name in ("ddp-gpt", "resnet50", "ddp-resnet50")
]


@pytest.mark.parametrize("name", ["gpt", *LONG])
def test_intervals_hold_steps_of_starts_that_were_held_out(name):
    made = build_variant(loads(SCENARIO.format(name=name, ranks=1 + name.startswith("ddp"))))
    starts = read([DATA / name])
    held = []
    for k, steps in enumerate(starts.steps):
        if k != BUNDLED[name]:
            low, high = np.quantile(drawn(made, starts.without_starts(k)), [0.05, 0.95])
            held += [low <= step <= high for step in steps]
    assert len(held) == 540
    assert BAR[0] <= np.mean(held) <= BAR[1]


@pytest.mark.parametrize("name", BUNDLED)
def test_the_profile_alone_says_the_same(name):
    found = interval_coverage(read([DATA / name]).steps)
    assert (found.starts, found.steps) == (19, 570)
    assert found.resolved


@pytest.mark.parametrize("name", BUNDLED)
def test_without_what_starts_differ_by_the_intervals_hold_too_little(name):
    """As if all steps came from one start: why the third factor is there."""
    starts = read([DATA / name]).steps
    held = []
    for k, steps in enumerate(starts):
        others = np.concatenate([s / np.median(s) for i, s in enumerate(starts) if i != k])
        typical_ = np.exp(np.mean([np.log(np.median(s)) for i, s in enumerate(starts) if i != k]))
        low, high = typical_ * np.quantile(others, [0.05, 0.95])
        held += [low <= step <= high for step in steps]
    assert np.mean(held) < interval_coverage(starts).held - 0.05


def test_the_report_says_how_its_jitter_was_checked(tmp_path):
    told = check_jitter_interval(load("first"))
    assert (told["state"], told["starts"], told["steps"]) == ("held", 19, 570)
    few = load("first", set=["run.replicas=9"])
    assert check_jitter_interval(few)["state"] == "not drawn"
    shutil.copytree(DATA / "ddp-gpt", tmp_path / "alone", ignore=lambda *_: ["steps.csv"])
    unsaid = f"workload.trace={tmp_path / 'alone'}", "workload.starts=null"
    alone = load("first", set=list(unsaid))
    assert check_jitter_interval(alone)["state"] == "unchecked"


def test_a_slower_part_varies_as_the_others_do():
    slow = "cluster.override={node3.gpu0: {slowdown: 1.3}}"
    made = build_variant(load("first", set=[slow, "what_if=[]"]))
    ops = made.graph.ops
    one = (ops.rank == 3) & (ops.kind == Kind.COMPUTE) & (ops.period == 0)
    took = [made.run(k) for k in range(2)]
    first, second = ((r.end - r.start)[one] for r in took)
    assert not np.allclose(first, second, rtol=1e-3)
    assert first.sum() > made.built.variations["main"].typical[one].sum()
