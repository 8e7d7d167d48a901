"""Families of ops fitted to the bundled recordings: shapes that were never measured.

The whole fit takes minutes of a core (`docs/accuracy.md` has its figures) and is for the night.
"""

import numpy as np
import pytest
from foretrace.scenarios.fitting import measured
from foretrace.scenarios.fitting_families import families

FILES = [f"foretrace:torch-{name}-epyc" for name in ("gpt", "resnet50", "shapes")]


def test_batch_norms_that_were_not_measured_are_told_better_than_by_interpolation():
    found = families(measured(FILES, "aten::native_batch_norm "), "shapes", draws=2)
    norm = found["batch norm"].calibration
    assert norm.held.median < 0.10 < norm.interpolated.median
    assert "ragged_rate" in norm.values  # images of 2 x 2 fill no vector


def test_memory_has_one_bend_and_held_out_sizes_lie_on_the_line():
    data = measured(["foretrace:host-epyc"], "^(copy:h2h|host:(read|fill)) ")
    found = families(data, "shapes", draws=2)["memory"].calibration
    assert found.held.median < 0.10
    assert 8e6 < found.values["cache"] < 20e6
    assert found.final is not None
    assert found.final.median < 0.10


@pytest.mark.nightly
def test_all_families_of_a_training_step_together():
    found = families(measured(FILES), "shapes", draws=2)
    fits = [one.calibration for one in found.values() if not isinstance(one, str)]
    for errors in ([f.judged for f in fits], [f.once for f in fits]):
        assert np.median(np.abs(np.concatenate(errors))) < 0.15
    told = found["im2col convolution"].calibration
    assert told.held.median < 0.10
    assert told.values["ragged_rate"] < told.values["flop_rate"] / 5
