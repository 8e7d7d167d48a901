"""Recorded times, carried to another GPU."""

import numpy as np
import pytest
from foretrace.models.compute.cross_gpu_scaling import (
    WAYS,
    CrossGpuScaling,
    GpuModel,
    ScalingAccuracy,
    bundled_accuracies,
    family_of,
)
from foretrace.sim.facts.doubt import Doubt
from foretrace.sim.facts.ops import Ops

SLOW = GpuModel.of("slow", {"bandwidth": 1e9, "peaks": {"bf16": 1e12}, "efficiency": 0.5})
QUICK = GpuModel.of("quick", {"bandwidth": 4e9, "peaks": {"bf16": 4e12}})
TEXTS = ("compute:mm bf16[2x2] bf16[2x2]", "compute:attention bf16[8]", "compute:norm bf16[8]")
NAN = float("nan")


def judged(way, family="product", regime="arithmetic"):
    return {("slow", "quick", family, regime): ScalingAccuracy(way, 0.1, (-0.1, 0.1))}


def ops(**columns):
    told = dict(flop=4e12, bytes=1.0, duration=10.0, signature=0, signatures=TEXTS)
    return Ops.of(**told | columns)


@pytest.mark.parametrize(
    ("way", "seconds"), [("by roofline", 10 / 8), ("by peaks", 10 / 4), ("unchanged", 10.0)]
)
def test_an_op_is_scaled_with_the_most_accurate_method(way, seconds):
    carried = CrossGpuScaling.of(SLOW, QUICK, judged(way))
    timing = carried.timing(ops())
    assert timing.fixed.tolist() == [seconds]
    assert timing.source[0] == f"carried: from slow to quick, {way}"
    assert timing.doubt[0] == Doubt("product", "arithmetic", (-0.1, 0.1))


@pytest.mark.parametrize(
    ("why", "columns"),
    [
        ("another family", {"signature": 2}),
        ("another regime", {"flop": 1.0, "bytes": 4e9}),
        ("mostly launch", {"flop": 1.0}),
        ("not recorded", {"duration": NAN}),
        ("unknown work", {"flop": NAN}),
        ("no signature", {"signature": -1}),
    ],
)
def test_an_op_without_known_accuracy_is_not_scaled(why, columns):
    carried = CrossGpuScaling.of(SLOW, QUICK, judged("by roofline"))
    assert carried.knows(ops()).tolist() == [True]
    assert carried.knows(ops(**columns)).tolist() == [False], why
    assert CrossGpuScaling.of(QUICK, SLOW, judged("by roofline")).knows(ops()).tolist() == [False]


def test_families_are_those_of_kernels():
    assert [family_of(t) for t in TEXTS] == ["product", "stream", "reduction"]
    assert family_of("compute:vllm::rms_norm bf16[64x4096] bf16[4096]") == "norm"
    assert family_of("compute:my::kernel") == ""


def test_norms_and_elementwise_kernels_are_carried_between_gpus_that_have_tables():
    known = bundled_accuracies()
    for family in ("norm", "activation", "rope", "elementwise", "gather"):
        assert any(key[:3] == ("a100-sxm4-80g", "h100-sxm5-80g", family) for key in known), family


def test_bundled_methods_have_the_smallest_error():
    known = bundled_accuracies()
    assert {one.way for one in known.values()} == set(WAYS)
    assert all(np.all(np.diff(one.quantiles) >= 0) for one in known.values())
    products = known["h100-sxm5-80g", "h200-sxm-141g", "product", "memory"]
    assert products.way == "by roofline"  # copying missed a quarter there
    attention = known["h100-sxm5-80g", "h200-sxm-141g", "attention", "memory"]
    assert attention.way == "unchanged"  # it does not reach the memory
