"""One's own measured step calibrates a training job: one constant, blind and calibrated told."""

import json

import pytest
from foretrace.reports.texts.answer import answer_sentences
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.samples import headline_value
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ForetraceError

TINY = """
foretrace: 1
name: tiny
workload: {type: training, model: gpt2, batch: 64, sequence: 1024}
cluster:
  nodes: 4
  node:
    gpu: {model: h100-sxm5-80g, count: 4}
    nic: {model: connectx-7, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks, quick: true}
"""
MEASURED = "workload.measured={iteration_time: 120 ms, on: {nodes: 1}}"


def points(*set, text=TINY):
    return build_variants(loads(text, set=set))


def time_of(point):
    return headline_value(point, point.run())


def refused(*set, text=TINY):
    with pytest.raises(ForetraceError) as caught:
        points(*set, text=text)
    return str(caught.value)


def test_the_measured_run_takes_what_was_measured():
    (one,) = points(MEASURED, "cluster.nodes=1")
    assert time_of(one) == pytest.approx(0.120, rel=2e-4)


def test_the_rest_is_slower_by_the_gpus_alone():
    (blind,) = points()
    (calibrated,) = points(MEASURED)
    factor = calibrated.calibration.factor
    assert factor > 1
    assert time_of(blind) < time_of(calibrated) < factor * time_of(blind)


def test_the_factor_is_on_kernels_where_gpus_share_their_multiprocessors_too():
    shares = "cluster.node.gpu.core=true"
    nothing = "cluster.fabric.library={model: nccl-nvlink4, cores: {rate: null, share: null}}"
    (plain,), (shared,) = points(MEASURED), points(MEASURED, shares, nothing)
    assert shared.calibration.factor == pytest.approx(plain.calibration.factor, rel=1e-3)


def test_every_variant_has_the_factor_of_the_base():
    more = TINY + "what_if: [{name: half, set: {workload.batch: 32}}]\n"
    whole, half = points(MEASURED, text=more)
    assert half.calibration is whole.calibration
    assert time_of(half) < time_of(whole)


def test_what_it_was_measured_on_may_be_another_plan():
    on = "workload.measured={iteration_time: 120 ms, on: {nodes: 1, parallel: {tensor: 2}}}"
    (one,) = points(on)
    assert one.calibration.reference.workloads["main"].plan.tensor == 2
    assert one.workloads["main"].plan.tensor == 1


def test_blind_and_calibrated_stand_side_by_side():
    found = study(loads(TINY, set=[MEASURED])).summary.to_dict()
    told = found["points"]["base"]["calibration"]
    value = found["points"]["base"]["metrics"]["iteration_time.p50"]["value"]
    (blind,) = points()
    assert told["blind"] == pytest.approx(time_of(blind))
    assert told["blind"] < value
    assert (
        "one constant, from one measured step (0.12 s, nodes: 1"
        in found["provenance"]["calibration"]
    )
    assert any(text.startswith("Calibrated on a measured step") for text in answer_sentences(found))
    json.dumps(told)


def test_a_run_without_a_measured_step_says_nothing_of_it():
    found = study(loads(TINY)).summary.to_dict()
    assert "calibration" not in found["points"]["base"]
    assert found["provenance"]["calibration"].startswith("blind")


def test_a_step_that_no_gpu_can_give_is_refused_with_the_cure():
    quick = "workload.measured={iteration_time: 1 us, on: {nodes: 1}}"
    assert "no factor on GPU times gives 1e-06 s: without them the step takes" in refused(quick)


def test_other_gpus_than_those_measured_are_refused():
    more = TINY + "what_if: [{name: h200, set: {cluster.node.gpu.model: h200-sxm-141g}}]\n"
    assert "workload.measured: h200 has other GPUs than the measured step" in refused(
        MEASURED, text=more
    )


def test_a_variant_without_the_measured_step_is_blind():
    more = TINY + "what_if: [{name: blind, set: {workload.measured: null}}]\n"
    calibrated, blind = points(MEASURED, text=more)
    assert blind.calibration is None
    assert time_of(blind) < time_of(calibrated)


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("{nodes: 1, tensr: 2}", "workload.measured.on: .*tensr"),
        ("{parallel: {tensor: 5}}", "workload.measured.on: .*not a multiple of tensor 5"),
    ],
)
def test_settings_that_cannot_be_are_refused(on, told):
    with pytest.raises(ForetraceError, match=told):
        points(f"workload.measured={{iteration_time: 120 ms, on: {on}}}")


def test_an_error_that_the_measured_step_shows_too_is_out_of_the_interval():
    slow = TINY.replace(", quick: true", "")
    blind = study(loads(slow)).summary.value("base", "iteration_time.p50")
    told = study(loads(slow, set=[MEASURED])).summary.value("base", "iteration_time.p50")
    wide, narrow = ((high - low) / v.value for v in (blind, told) for low, high in [v.interval])
    assert narrow < wide / 2


def test_what_widens_the_interval_of_a_training_answer_is_named():
    found = study(loads(TINY.replace(", quick: true", ""))).summary.points["base"]["errors"]
    sources = [one["source"] for one in found]
    assert "family product" in sources
    assert "family of every op that is predicted" not in sources
