"""Calibration: it finds what made the data, keeps what it cannot tell, and refuses too little."""

import numpy as np
import pytest
from foretrace.models.calibration.calibrate import calibrate
from foretrace.models.calibration.held_out_errors import HeldOutErrors, start_spread
from foretrace.models.calibration.held_out_rows import CalibrationRows
from foretrace.models.calibration.identifiability import Parameter
from foretrace.models.calibration.nearest_rows import model_free_predictions
from foretrace.models.compute.demand import demand, family
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops

SIZES = np.array([2.0 ** (6 + k / 2) for k in range(40)]).round()


def copies(seconds, sizes=SIZES, per_size=3, noise=0.02):
    """Copies of each size, several times, with noise of each row."""
    size = np.repeat(sizes, per_size)
    texts = tuple(f"copy:h2h uint8[{s:.0f}]" for s in sizes)
    ops = Ops.of(bytes=size, signature=np.repeat(np.arange(len(sizes)), per_size), signatures=texts)
    random = np.random.default_rng(5)
    made = seconds(size) * random.normal(1, noise, len(size))
    return CalibrationRows(ops, made, tuple(f"{s:.0f}" for s in size), size)


def line(p, ops):
    return p["latency"] + ops.bytes / p["bandwidth"]


def test_a_fit_finds_the_line_and_its_intervals():
    rows = copies(lambda s: 2e-6 + s / 5e9)
    found = calibrate(line, [Parameter("latency", 1e-7), Parameter("bandwidth", 2e10)], rows)
    by = {p.name: p for p in found.parameters}
    assert by["latency"].value == pytest.approx(2e-6, rel=0.03)
    assert by["bandwidth"].value == pytest.approx(5e9, rel=0.03)
    for p, truth in ((by["latency"], 2e-6), (by["bandwidth"], 5e9)):
        low, high = p.interval
        assert low < truth < high
        assert high / low < 1.1
    assert found.held.median < 0.03 < found.blind.median
    assert found.final is not None
    assert found.final.median < 0.03
    assert found.kept == ()


def test_the_largest_size_is_held_out_and_nothing_is_in_two_parts():
    rows = copies(lambda s: s / 1e9)
    aside, final = rows.held_out_masks()
    assert aside[rows.size == rows.size.max()].all()
    assert not (aside & final).any()
    for chosen in (aside, final):
        inside = {g for g, c in zip(rows.groups, chosen, strict=True) if c}
        outside = {g for g, c in zip(rows.groups, chosen, strict=True) if not c}
        assert inside
        assert not inside & outside


def test_undetermined_parameters_keep_their_value_and_are_named():
    large = np.array([2.0 ** (24 + k / 8) for k in range(40)]).round()
    rows = copies(lambda s: 1e-7 + s / 5e9, large)  # a start of 0.1 us in copies of milliseconds
    found = calibrate(line, [Parameter("latency", 3e-7), Parameter("bandwidth", 2e10)], rows)
    assert found.kept == ("latency",)
    assert found.values["latency"] == 3e-7
    assert found.values["bandwidth"] == pytest.approx(5e9, rel=0.02)


def test_two_parameters_that_only_matter_as_a_sum_are_not_both_fitted():
    rows = copies(lambda s: 3e-6 + s / 5e9)

    def sums(p, ops):
        return p["a"] + p["b"] + ops.bytes / 5e9

    found = calibrate(sums, [Parameter("a", 1e-6), Parameter("b", 1e-6)], rows)
    assert len(found.kept) >= 1
    assert found.values["a"] + found.values["b"] == pytest.approx(3e-6, rel=0.05)


def test_fewer_than_five_groups_a_parameter_are_refused():
    rows = copies(lambda s: s / 1e9, SIZES[:8])
    with pytest.raises(BackendError, match="2 parameters need 10 fitted groups"):
        calibrate(line, [Parameter("latency", 1e-6), Parameter("bandwidth", 1e9)], rows)


def test_without_a_model_there_are_neighbours():
    rows = copies(lambda s: s / 1e9, noise=0.0)
    asked = Ops.of(bytes=[100.0], signature=0, signatures=("copy:h2h uint8[100]",))
    between, closest = model_free_predictions(rows, asked)
    assert between[0] == pytest.approx(1e-7, rel=0.01)
    assert closest[0] in (91e-9, 128e-9)
    far = Ops.of(bytes=[1e12], signature=0, signatures=("copy:h2h uint8[1000000000000]",))
    assert model_free_predictions(rows, far)[0][0] == pytest.approx(SIZES.max() / 1e9)


@pytest.mark.parametrize(
    ("signature", "flop"),
    [
        ("compute:aten::addmm fp32[1024] fp32[256x256] fp32[256x1024]", 2 * 256 * 256 * 1024),
        ("compute:aten::bmm fp32[4x8x16] fp32[4x16x8]", 2 * 32 * 16 * 8),
        ("compute:aten::mkldnn_convolution fp32[8x64x32x32] fp32[64x64x3x3]",
         2 * 8 * 32 * 32 * 64 * 64 * 9),
        ("compute:aten::mkldnn_convolution stride=2 fp32[8x64x32x32] fp32[64x64x3x3]",
         2 * 8 * 16 * 16 * 64 * 64 * 9),
        ("compute:aten::convolution_backward fp32[8x64x16x16] fp32[8x64x32x32] fp32[64x64x3x3]",
         2 * 2 * 8 * 16 * 16 * 64 * 64 * 9),
        ("compute:aten::add_ fp32[1000] fp32[1000]", 0),
    ],
)  # fmt: skip
def test_flop_of_an_op_from_its_signature(signature, flop):
    assert demand(signature)[0] == flop
    assert demand(signature)[1] > 0


def test_families_of_ops():
    assert family("compute:aten::mm fp32[2x2] fp32[2x2]") == "gemm"
    assert family("compute:aten::lerp_ fp32[2] fp32[2]") == "elementwise"
    assert family("compute:aten::native_layer_norm fp32[2x2]") == "layer norm"


def test_torch_multiplies_image_by_image_where_its_dispatch_says_so():
    """Convolution.cpp: one thread, few images and kernels of one point; or one small image."""
    points, corners = "fp32[64x64x1x1]", "fp32[64x64x3x3]"
    assert family(f"compute:aten::convolution fp32[8x64x7x7] {points}") == "im2col convolution"
    assert family(f"compute:aten::convolution fp32[16x64x7x7] {points}") == "convolution"
    assert family(f"compute:aten::convolution stride=2 fp32[8x64x8x8] {points}") == "convolution"
    assert family(f"compute:aten::convolution fp32[2x64x7x7] {corners}") == "convolution"
    small = f"compute:aten::convolution_backward fp32[1x64x7x7] fp32[1x64x7x7] {corners}"
    assert family(small) == "im2col convolution backward"
    assert family(f"compute:aten::mkldnn_convolution fp32[8x64x7x7] {points}") == "convolution"


def test_weights_are_packed_again_for_every_image():
    one, eight = (demand(f"compute:aten::_slow_conv2d_forward fp32[{n}x8x4x4] fp32[8x8x1x1]")
                  for n in (1, 8))  # fmt: skip
    weights = 4 * 8 * 8
    assert eight.bytes - eight.footprint == 7 * weights
    assert one.bytes == one.footprint
    assert (one.pieces, eight.pieces) == (1, 8)


def test_what_fills_no_vector_is_told_apart():
    rows = demand("compute:aten::native_batch_norm_backward fp32[8x64x2x2] fp32[8x64x2x2] fp32[64]")
    assert (rows.pieces, rows.ragged) == (8 * 64, 8 * 64 * 4)


@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        ("1x1", 0),
        ("2x2", 5),
        ("3x3", 5),
        ("3x4", 1),
        ("4x4", 0),
        ("2x7", 2),
        ("5x5", 1),
        ("7x7", 1),
    ],
)
def test_thin_products_load_each_weight_for_itself(size, pieces):
    """Fewer than ten points: packed by nobody; one point: a matrix times a vector."""
    asked = demand(f"compute:aten::_slow_conv2d_forward fp32[8x64x{size}] fp32[96x64x1x1]")
    assert asked.ragged == pieces * 8 * (8 * 96 * 64)
    assert asked.clash == 0


def test_columns_of_weights_whose_rows_share_sets_of_the_cache_clash_in_gradients_only():
    def clash(channels):
        x, y = f"fp32[1x{channels}x4x4]", "fp32[1x64x4x4]"
        weight = f"fp32[64x{channels}x1x1]"
        found = demand(f"compute:aten::_slow_conv2d_backward {y} {x} {weight}").clash
        return found / (64 * channels)

    assert [clash(n) for n in (1000, 1024, 512, 256, 2048)] == [0.0, 0.75, 0.5, 0.0, 0.75]


def test_lines_that_are_written_come_first_unless_they_were_read():
    assert demand("compute:aten::add_ fp32[8] fp32[8]").bytes == 3 * 32
    assert demand("compute:aten::add fp32[8] fp32[8]").bytes == 4 * 32
    assert demand("compute:aten::index_select fp32[9000x8] int64[4]").bytes < 9000


def test_the_interval_of_a_median_depends_on_group_agreement():
    same = HeldOutErrors(np.full(30, 0.1), tuple(f"{i // 3}" for i in range(30)))
    assert same.interval == (0.1, 0.1)
    errors = np.repeat([0.02, 0.3], 15)
    apart = HeldOutErrors(errors, tuple(f"{i // 3}" for i in range(30)))
    assert apart.interval == (0.02, 0.3)
    assert HeldOutErrors.pooled([same, apart]).interval[1] < 0.3


def test_starts_that_differ_are_the_floor_of_any_accuracy():
    texts = ("copy:h2h uint8[8]", "copy:h2h uint8[16]")
    ops = Ops.of(signature=[0, 0, 0, 0, 1], signatures=texts)
    rows = CalibrationRows(ops, np.array([1.0, 1.2, 1.0, 1.2, 7.0]), ("a", "a", "a", "a", "b"))
    assert start_spread(rows) == pytest.approx(0.2)
