"""Layer profiles: exact at measured sizes, interpolated between, refused elsewhere."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from foretrace.plugins.layer_profile.backend import LayerProfile
from foretrace.plugins.layer_profile.profile_rows import ProfileKey, read_profile
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.system import System

DENSE = ProfileKey("forward", "dense")
SYSTEM = System((), ())
DATA = Path(os.environ.get("FORETRACE_DATA", "/nowhere")) / "sailor-training"


def layer(batch, tensor=1, phase="forward", of="dense", sequence=8, hidden=4):
    return f"compute:layer::{phase} of={of} tensor={tensor} fp32[{batch}x{sequence}x{hidden}]"


def profile(times):
    return LayerProfile.of({DENSE: times}, hidden=4, sequence=8)


def told(backend, *texts):
    ops = Ops.of(signature=list(range(len(texts))), signatures=texts)
    return backend.timing(ops)


def test_a_measured_layer_is_exact_and_one_between_is_interpolated():
    backend = profile({(1, 1): 1e-3, (4, 1): 4e-3})
    said = told(backend, layer(4), layer(2))
    assert said.fixed.tolist() == pytest.approx([4e-3, 2e-3])
    assert "interpolated" not in said.source[0]
    assert "interpolated" in said.source[1]


def test_a_smaller_micro_batch_takes_no_longer_than_a_larger_one():
    backend = profile({(1, 2): 3e-3, (2, 2): 2e-3, (4, 2): 4e-3})
    said = told(backend, layer(1, 2), layer(2, 2), layer(4, 2))
    assert said.fixed.tolist() == [2e-3, 2e-3, 4e-3]
    assert said.source[0].endswith("as of micro-batch 2")


def test_an_optimizer_update_counts_every_layer():
    read = {"1": {"2": {str(n): [1, 1, 5e-4] for n in range(4)}}}
    backend = LayerProfile.of(read_profile(read), hidden=4, sequence=8)
    said = told(backend, "compute:layer::update tensor=2 fp32[12x4]")
    assert said.fixed.tolist() == pytest.approx([6e-3])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (layer(8), "was not measured"),
        (layer(1, hidden=5), "hidden 4, fp32"),
        (layer(1, sequence=16), "8 tokens"),
        (layer(1).replace("fp32", "bf16"), "fp32, 8 tokens"),
        (layer(1, of="expert"), "measure it, or use sizes"),
        (
            "compute:aten::mm fp32[4x4] fp32[4x4]",
            "not an op of a complete layer.* set workload.execution.detail: layers",
        ),
    ],
)
def test_layers_outside_the_measured_range_are_refused(text, why):
    backend = profile({(1, 1): 1e-3, (4, 1): 4e-3})
    ops = Ops.of(signature=[0], signatures=(text,))
    assert not backend.knows(ops).any()
    with pytest.raises(BackendError, match=why):
        backend.timing(ops)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"1": 3}', '{"1": {"1": {"0": [1, 1, 1]}}}', '{"1": {"1": {"0": [1, -1]}}}']
)
def test_a_file_that_is_no_profile_is_refused(tmp_path, text):
    file = tmp_path / "profile.json"
    file.write_text(text)
    backend = LayerProfile(file=str(file), hidden=4, sequence=8)
    with pytest.raises(BackendError, match="not a layer profile"):
        backend.open(SYSTEM)


@pytest.mark.skipif(not DATA.exists(), reason="FORETRACE_DATA has no sailor-training")
def test_every_published_profile_is_read():
    files = sorted(DATA.glob("profiles/*/*/profile.json"))
    assert len(files) == 13
    for file in files:
        found = read_profile(json.loads(file.read_text()))
        assert all(np.isfinite(list(times.values())).all() for times in found.values())
