"""Published Galvatron layer profiles in the layer-profile backend."""

import json
import os
from pathlib import Path

import pytest
from foretrace.plugins.layer_profile.backend import LayerProfile
from foretrace.plugins.layer_profile.galvatron_rows import read_galvatron
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.system import System

DATA = Path(os.environ.get("FORETRACE_DATA", "/nowhere")) / "galvatron-profiles"
LLAMA = DATA / "computation_profiling_bf16_llama2-7b_all.json"
TEXT = "compute:layer::{} of={} tensor={} bf16[{}x2048x4096]"


def backend(file, sequence=2048):
    made = LayerProfile(file=str(file), hidden=4096, sequence=sequence, dtype="bf16")
    made.open(System((), ()))
    return made


def seconds(made, *ops):
    texts = tuple(TEXT.format(*op) for op in ops)
    return made.timing(Ops.of(signature=list(range(len(texts))), signatures=texts)).fixed.tolist()


@pytest.mark.skipif(not LLAMA.exists(), reason="FORETRACE_DATA has no galvatron-profiles")
@pytest.mark.parametrize("batch", range(1, 13))
def test_two_and_four_layers_match_their_measured_times(batch):
    """Rows ``layernum[n]`` are complete forward passes, from which layer times were derived."""
    rows = json.loads(LLAMA.read_text())
    dense, rest = seconds(
        backend(LLAMA), ("forward", "dense", 1, batch), ("forward", "output", 1, batch)
    )
    for layers in (2, 4):
        whole = rows[f"layernum[{layers}]_bsz{batch}_seq2048"] * 1e-3
        assert layers * dense + rest == pytest.approx(whole, rel=1e-6)


@pytest.mark.skipif(not LLAMA.exists(), reason="FORETRACE_DATA has no galvatron-profiles")
def test_sizes_that_galvatron_did_not_profile_are_refused():
    made = backend(LLAMA)
    for op in (
        ("forward", "dense", 2, 4),
        ("forward", "expert", 1, 4),
        ("forward", "dense", 1, 64),
    ):
        with pytest.raises(BackendError, match="was not measured"):
            seconds(made, op)


def test_a_backward_pass_takes_twice_a_forward_one(tmp_path):
    file = tmp_path / "computation.json"
    file.write_text(
        json.dumps({"layertype_0_bsz2_seq2048": 4.0, "layertype_other_bsz2_seq2048": 3.0})
    )
    made = backend(file)
    ops = [(p, k, 1, 2) for p in ("forward", "backward") for k in ("embedding", "dense", "output")]
    assert seconds(made, *ops) == pytest.approx([0.0, 8e-3, 6e-3, 0.0, 16e-3, 12e-3])


def test_sequences_of_another_length_are_refused_with_those_there_are(tmp_path):
    file = tmp_path / "computation.json"
    file.write_text(json.dumps({"layertype_0_bsz1_seq4096": 4.0}))
    with pytest.raises(
        BackendError, match=r"has layers with sequence lengths \[4096\]; set sequence: 4096"
    ):
        backend(file)


def test_a_time_below_zero_is_refused_with_its_name():
    with pytest.raises(ValueError, match=r"layertype_0_bsz1_seq8 is -1\.0; a time must be"):
        read_galvatron({"layertype_0_bsz1_seq8": -1.0}, 8)
