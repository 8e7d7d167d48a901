"""Families of ops fitted to the bundled recordings: shapes that were never measured.

The whole fit takes minutes of a core (`docs/accuracy.md` has its figures); here the families that
say most, with few draws.
"""

import numpy as np
import pytest
from foretrace.scenarios.fitting import families, measured

FILES = [f"foretrace:torch-{name}-epyc" for name in ("gpt", "resnet50", "shapes")]
IM2COL = r"aten::(_slow_conv2d_forward|native_batch_norm) "


@pytest.fixture(scope="module")
def fitted():
    found = families(measured(FILES, IM2COL), "shapes", draws=2)
    return {name: one.calibration for name, one in found.items()}


@pytest.mark.parametrize("name", ["im2col convolution", "batch norm"])
def test_shapes_that_were_not_measured_are_told_better_than_by_interpolation(fitted, name):
    found = fitted[name]
    assert found.held.median < 0.10
    assert found.held.median < found.interpolated.median


def test_what_fills_no_vector_and_what_is_packed_again_are_told_by_the_data(fitted):
    told = fitted["im2col convolution"].values
    assert {"byte_rate", "ragged_rate"} <= set(told)
    assert told["ragged_rate"] < told["flop_rate"] / 5


def test_memory_has_one_bend_and_held_out_sizes_lie_on_the_line():
    data = measured(["foretrace:host-epyc"], "^(copy:h2h|host:(read|fill)) ")
    found = families(data, "shapes", draws=2)["memory"].calibration
    assert found.held.median < 0.10
    assert 8e6 < found.values["cache"] < 20e6
    assert found.final is not None
    assert found.final.median < 0.10


@pytest.mark.nightly
def test_all_families_of_a_training_step_together():
    found = families(measured(FILES), "shapes", draws=2).values()
    fits = [one.calibration for one in found if not isinstance(one, str)]
    for errors in ([f.judged for f in fits], [f.once for f in fits]):
        assert np.median(np.abs(np.concatenate(errors))) < 0.15
