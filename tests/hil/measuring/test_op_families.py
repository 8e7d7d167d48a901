"""Families of ops fitted to the bundled recordings: shapes that were never measured.

The whole fit takes minutes of a core (`docs/accuracy.md` has its figures) and is for the night.
"""

import numpy as np
import pytest
from foretrace.hil.bundled_recordings import recording_path
from foretrace.hil.measuring.spread import samples_by_key, start_medians
from foretrace.hil.recording import read
from foretrace.hil.sample import WARM
from foretrace.models.calibration.held_out_errors import HeldOutErrors
from foretrace.scenarios.studies.fitting.caches import fit_cache_model
from foretrace.scenarios.studies.fitting.families import fit_families
from foretrace.scenarios.studies.fitting.recording_rows import measured_rows

FILES = [f"foretrace:torch-{name}-epyc" for name in ("gpt", "resnet50", "shapes", "rare")]


def test_unmeasured_batch_norms_are_predicted_better_than_by_interpolation():
    found = fit_families(measured_rows(FILES, "aten::native_batch_norm "), "shapes", draws=2)
    norm = found["batch norm"].calibration
    assert norm.held.median < 0.10 < norm.interpolated.median
    assert "ragged_rate" in norm.values  # images of 2 x 2 fill no vector


def test_memory_ops_have_one_bend_and_held_out_sizes_fit_the_line():
    files = ["foretrace:host-epyc", "foretrace:host-sizes-epyc"]
    data = measured_rows(files, "^(copy:h2h|host:(read|fill)) ")
    found = fit_families(data, "shapes", draws=2)["memory"].calibration
    assert 8e6 < found.values["cache"] < 20e6
    low, high = found.judged.interval
    assert low < found.held.median < high < 0.10
    assert found.final is not None
    assert found.final.median < 0.10


@pytest.mark.parametrize(("name", "found"), [("gpt", (0.7, 1.2)), ("resnet50", (0.5, 1.0))])
def test_in_context_slowdown_is_predicted_from_shapes_of_no_known_model(name, found):
    """What ops one by one, warm, lack beside the whole step; nothing is fitted to it."""
    costs = fit_cache_model(["foretrace:torch-cold-epyc", "foretrace:host-epyc"])
    recording = read(recording_path(f"foretrace:torch-{name}-epyc"))
    seen = {k[0]: np.median(start_medians(g)) for k, g in samples_by_key(recording.samples).items()
            if k[1] == WARM}  # fmt: skip
    graph = recording.spec["graphs"][name]
    missing = 1e-9 * (seen[f"compute:step {name}"] - sum(seen[s] for s in graph))
    low, high = found
    assert low * missing < costs.miss_seconds(graph).sum() < high * missing


@pytest.mark.nightly
def test_unmeasured_thin_gemms_are_predicted_within_the_required_error():
    """Fitted on few pixels of other shapes; the interval of whole shapes drawn again is below."""
    data = measured_rows(["foretrace:torch-rare-epyc"], "slow_conv2d_forward")
    found = fit_families(data, "shapes", draws=2)["im2col convolution"].calibration
    assert "ragged_rate" in found.values
    low, high = found.judged.interval
    assert low < found.held.median < high < 0.15


@pytest.mark.nightly
def test_all_families_of_a_training_step_together():
    found = fit_families(measured_rows(FILES), "shapes", draws=2)
    fits = [one.calibration for one in found.values() if not isinstance(one, str)]
    for parts in ([f.judged for f in fits], [f.once for f in fits]):
        assert HeldOutErrors.pooled(parts).interval[1] < 0.15
    for name in ("im2col convolution", "im2col convolution backward"):
        told = found[name].calibration
        assert told.held.median < 0.12
        assert told.values["ragged_rate"] < told.values["flop_rate"]
    assert "clash_rate" in told.values
