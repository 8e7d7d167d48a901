"""What the errors of the parts do to the headline: those that were used, around the run varied."""

import json

import pytest
from foretrace.models.compute.families import FORM
from foretrace.models.value_doubts import range_from_median_error
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.confidence.uncertainty import (
    COST,
    relative_error_by_kind,
    widen_interval,
)
from foretrace.scenarios.studies.run.run import study


def test_the_library_of_the_fabric_has_an_error_like_any_part():
    scenario = load("first")
    source = scenario.origins["cluster.fabric.library.simple.step"].source
    assert source.error == f"{100 * relative_error_by_kind([scenario])['fabric']:g} %"


@pytest.mark.nightly
def test_the_interval_holds_the_errors_of_what_was_predicted_not_of_what_was_recorded():
    scenario = load("first", set=["run.replicas=1"])
    value = study(scenario).summary.value("base", "iteration_time.p50")
    low, high = value.interval
    assert value.interval_of == ("model",)
    assert low < value.value < high
    _, gpu = range_from_median_error(
        relative_error_by_kind([scenario])["gpu"]
    )  # which nobody predicts
    assert (high - low) / 2 / value.value < gpu / 2


def test_what_a_token_costs_is_as_unsure_as_the_time_that_is_paid_for():
    asked = ["run.replicas=1", "workload.tokens_per_iteration=100", "what_if=[]",
             "cost={items: [{what: node, each: 1 USD/hour}]}"]  # fmt: skip
    told = study(load("first", set=asked)).summary
    cost, time = (told.value("base", name) for name in (COST, "iteration_time.p50"))
    assert cost.interval_of == ("model",)
    own, paid = ([b - v.value for b in v.interval] for v in (time, cost))
    ratio = cost.value / told.value("base", "iteration_time.mean").value
    assert paid == pytest.approx([b * ratio for b in own], rel=0.05)


@pytest.mark.nightly
def test_errors_that_move_both_alike_do_not_widen_a_change():
    """The pairs are the same runs wrong in the same way, so most of their error cancels."""
    done = study(load("first", set=["run.replicas=1"]))
    told = done.summary.points["network-4x"]["change"]
    low, high = told["interval"]
    assert told["interval_of"] == ["model"]
    assert low < told["value"] < high
    value = done.summary.value("base", "iteration_time.p50")
    assert high - low < (value.interval[1] - value.interval[0]) / value.value


BESIDE = """
foretrace: 1
name: beside
question: q?
workload:
  type: training
  model: {hidden: 4096, layers: 4, heads: 32, vocabulary: 32000, inner: 16384}
  batch: 16
  sequence: 2048
  parallel: {zero: 3}
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 8, core: true}
    links: [{from: gpu, to: gpu, via: nvlink4}]
  fabric: {library: nccl-nvlink4, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
"""


def effects(*set_):
    """Answer, and how far each source of error moves it."""
    told = study(loads(BESIDE, set=set_)).summary
    moved = {one["source"]: one for one in told.points["base"]["errors"]}
    return told.value("base", "iteration_time.p50").value, moved


def test_what_collectives_take_of_gpus_is_doubted_where_they_share_them():
    source = "kernels beside collectives"
    both, doubts = effects()
    assert doubts[source]["low"] < -0.02 < 0.02 < doubts[source]["high"]
    alone, none = effects("cluster.node.gpu.core=false")
    assert alone < 0.97 * both
    assert source not in none
    own = "cluster.fabric.library={model: nccl-nvlink4, cores: {share: 0.74, rate: 525 GB/s}}"
    assert source not in effects(own)[1]


def test_the_share_of_a_gpu_is_no_error_of_the_network():
    ampere = BESIDE.replace("h100-sxm5-80g", "a100-sxm4-80g").replace("link4", "link3")
    assert relative_error_by_kind([loads(ampere)])["fabric"] < 0.2  # its core_share errs by 33 %


def test_deviations_are_added_as_squares_each_side_for_itself():
    assert widen_interval(10.0, None, [(3.0, -4.0), (4.0, -3.0)]) == (5.0, 15.0)
    assert widen_interval(10.0, (9.0, 10.0), []) == (9.0, 10.0)
    assert widen_interval(10.0, None, [(1.0, 2.0)]) == (10.0, 12.0)


FITTED = """
foretrace: 1
name: fitted
workload: {{trace: "foretrace:gpt", recorded_on: {{device: epyc-zen4-core, nodes: 1}}}}
cluster: {{nodes: 1, node: {{gpu: {{model: epyc-zen4-core, count: 1}}, host: epyc-zen4-vm}}}}
backends: {{"node*.gpu*": {{use: families, file: {file}, others: recorded}}}}
run: {{replicas: 1}}
"""


def test_the_interval_holds_what_the_fit_of_each_family_missed(tmp_path):
    """Products half as wrong, an interval half as wide."""

    def bounds(wrong):
        file = tmp_path / f"{wrong}.json"
        lines = {"gemm": {"flop_rate": 5e10, "wrong": wrong}}
        file.write_text(json.dumps({"form": FORM, "source": "a test", "families": lines}))
        value = study(loads(FITTED.format(file=file))).summary.value("base", "iteration_time.p50")
        assert value.interval_of == ("model",)
        return [abs(b - value.value) for b in value.interval]

    (low, high), (low_half, high_half) = bounds(0.2), bounds(0.1)
    assert high_half / high == pytest.approx(0.5)
    assert 0.5 < low_half / low < 0.7
