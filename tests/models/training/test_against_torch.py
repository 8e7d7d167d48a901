"""Descriptions beside what torch does of the same model here.  Needs torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "judge_descriptions.py"
MODELS = ("gpt", "resnet", "moe")
pytestmark = pytest.mark.nightly


def judged(*what: str) -> dict[str, dict]:
    """What the tool says of each model."""
    pytest.importorskip("torch", reason="descriptions are compared with torch, which is an extra")
    ended = subprocess.run([sys.executable, TOOL, *what], stdout=subprocess.PIPE, check=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(b"{")]
    assert tuple(line["model"] for line in lines) == MODELS
    return {line["model"]: line for line in lines}


@pytest.fixture(scope="module")
def ops() -> dict[str, dict]:
    return judged("ops")


def test_every_op_of_a_described_gpt_is_captured_with_its_shape(ops):
    assert ops["gpt"]["described_only"] == []


def test_a_described_resnet_lacks_none_of_the_captured_convolutions_and_norms(ops):
    only = [line.split()[1] for line in ops["resnet"]["described_only"]]
    assert not [name for name in only if "conv" in name or "norm" in name or "product" in name]


def test_products_of_a_described_mixture_are_those_captured(ops):
    only = ops["moe"]["described_only"] + ops["moe"]["captured_only"]
    assert not [line for line in only if " product " in line]


@pytest.mark.parametrize("model", MODELS)
def test_flop_of_products_are_those_captured_exactly(ops, model):
    assert "product" not in ops[model]["flop_off"]
    assert "convolution" not in ops[model]["flop_off"]


def test_peak_memory_is_within_a_tenth_of_what_torch_reports():
    off = {model: line["off"] for model, line in judged("memory").items()}
    assert all(abs(one) <= 0.1 for told in off.values() for one in told.values()), off


def test_two_ranks_over_gloo_reduce_as_many_bytes_as_described_and_a_gpt_in_the_same_buckets():
    told = judged("exchanged", "--ranks", "2")
    for line in told.values():
        assert sum(line["described"]) == sum(line["captured"]), line
    assert told["gpt"]["described"] == told["gpt"]["captured"]
