"""Descriptions as plain data: what is read, and what is refused with its place and cure."""

import logging
from dataclasses import replace

import pytest
from foretrace.models.training.description.description import (
    BlockOptions,
    Experts,
    Patches,
    Transformer,
)
from foretrace.models.training.description.description_reader import read_description
from foretrace.models.training.description.model_zoo import model
from foretrace.models.training.layer.image_network import image_layers
from foretrace.models.training.layer.operations import Split
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.plan.stages import stage_weights
from foretrace.sim.errors import ScenarioError

SIZES = {"hidden": 8, "layers": 2, "heads": 2, "vocabulary": 10, "inner": 32}


def test_a_transformer_is_read_with_what_it_has():
    data = {
        **SIZES,
        "block": {"gated": True, "norm": "rms"},
        "experts": {"count": 4, "chosen": 2, "inner": 16},
    }
    read = read_description(data)
    assert read == Transformer(
        hidden=8, layers=2, heads=2, vocabulary=10, inner=32,
        block=BlockOptions("rms", gated=True), experts=Experts(4, 2, 16),
    )  # fmt: skip
    images = {"tokens": {"patches": {"image": 8, "patch": 4}}}
    assert read_description({**SIZES, **images}).tokens.patches == Patches(8, 4)


def test_a_description_equals_the_model_that_it_describes():
    sizes = {"hidden": 768, "layers": 12, "heads": 12, "vocabulary": 50257, "inner": 3072}
    own = read_description({**sizes, "tokens": {"positions": 1024}, "block": {"dropout": True}})
    assert own == replace(model("gpt2"), source="")


def test_old_names_of_a_description_are_read_with_a_message(caplog):
    old = {**SIZES, "gated": True, "key_heads": 1, "tied": False, "block": {"norm": "rms"}}
    new = {**SIZES, "attention": {"key_heads": 1}, "tokens": {"tied": False}}
    with caplog.at_level(logging.WARNING):
        told = read_description(old, "my.json")
    assert told == read_description({**new, "block": {"norm": "rms", "gated": True}})
    assert "my.json.gated: is now block.gated; rename it" in caplog.text


REFUSED = [
    ({**SIZES, "layrs": 3}, "workload.model.layrs: is not known; did you mean 'layers'?"),
    ({"hidden": 8}, "workload.model: has no layers; add it"),
    ({**SIZES, "heads": 2.5}, "workload.model.heads: is 2.5; write a whole number"),
    ({**SIZES, "heads": 0}, "workload.model.heads: is 0; write a whole number above 0"),
    ({**SIZES, "block": {"norm": "batch"}},
     "workload.model.block.norm: is 'batch'; take one of rms, layer"),
    ({**SIZES, "tokens": {"tied": "no"}},
     "workload.model.tokens.tied: is 'no'; write true or false"),
    ({**SIZES, "experts": 8}, "workload.model.experts: is 8; write its keys below it"),
    ({**SIZES, "experts": {"number": 8}}, "workload.model.experts.number: is not known; there are"),
    ({**SIZES, "heads": 3}, "workload.model.heads: width 8 is not divisible by 3 heads; use 2"),
    ({**SIZES, "heads": 4, "attention": {"key_heads": 3}},
     "workload.model.attention.key_heads: 4 query heads .* 3 key heads; use 2"),
    ({**SIZES, "experts": {"count": 4, "chosen": 5, "inner": 8}},
     "workload.model.experts.chosen: a token chooses 5 of 4 experts; take 4"),
    ({**SIZES, "experts": {"count": 4, "chosen": 1, "inner": 8, "dense_layers": 3}},
     "workload.model.experts.dense_layers: is 3 of 2 layers; take 2"),
    ({**SIZES, "tokens": {"patches": {"image": 9, "patch": 4}}},
     "workload.model.tokens.patches.patch: patches of 4 pixels do not tile an image of 9; take 3"),
    ({"dense": 1, "width": 4, "bottom": [4], "top": [1], "tables": 9},
     "workload.model.tables: is 9; write a list"),
    ({"parts": ["conv 8 3"]}, "workload.model: has no image; add it"),
    ({"image": 8, "parts": "conv 8 3"}, "workload.model.parts: is 'conv 8 3'; write a list"),
    ({"image": 8, "parts": [{"mean": []}]}, r"workload.model.parts\[0\]: is {'mean': \[\]}; wr"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "told"), REFUSED)
def test_what_cannot_be_read_is_told_with_its_place_and_cure(data, told):
    with pytest.raises(ScenarioError, match=told):
        read_description(data)


BROKEN = [
    (["cnv 8 3"], "part 'cnv 8 3' has the unknown word 'cnv'; take one of conv, max-pool"),
    (["conv 8 3 relux"], "'conv 8 3 relux' has the unknown word 'relux'; take one of norm, relu"),
    (["conv 8 3 step=2"], "has the unknown word 'step'; take one of stride, pad, groups"),
    (["conv"], "part 'conv' has no number 1; write it like 'conv 64 3 stride=2'"),
    (["conv 8 3 groups=2"], "2 groups, which must divide its 3 input and 8 output channels"),
    (["conv 8 9 pad=0"], "has a window that is larger than its images of 8x8; use larger images"),
    ([{"sum": [["conv 4 3"], []]}], "summed or joined end with images of 4x8x8, 3x8x8; make their"),
]


@pytest.mark.parametrize(("parts", "told"), BROKEN)
def test_a_part_of_a_network_that_cannot_be_is_told_with_a_cure(parts, told):
    network = read_description({"image": 8, "parts": parts})
    with pytest.raises(ScenarioError, match=told):
        image_layers(network, Split(batch=1, sequence=1))


def test_a_convolution_is_an_op_with_its_shapes_arithmetic_and_bytes():
    network = read_description({"image": 8, "parts": ["conv 4 3 stride=2 norm relu", "linear 10"]})
    first = image_layers(network, Split(batch=2, sequence=1))[0]
    work = first.operations[0].forward[0]
    told = "compute:aten::convolution stride=2 bf16[2x3x8x8] bf16[4x3x3x3]"
    assert work.signature == told
    assert work.flop == 2 * (2 * 4 * 4 * 4) * 3 * 9
    assert work.bytes == 2 * (2 * 3 * 64 + 2 * 4 * 16 + 4 * 27)
    assert first.operations[0].backward[0].flop == work.flop  # nobody wants that of the images
    assert first.entering == first.operations[0].kept == 2 * 2 * 3 * 64


def test_a_network_of_images_is_copied_whole():
    plan = ParallelPlan(batch=8, sequence=1, tensor=2)
    told = "a network of images cannot be divided among 2 tensor-parallel ranks; take 1"
    with pytest.raises(ScenarioError, match=told):
        plan.check(model("resnet-50"))


def test_tables_are_shared_and_take_no_optimizer():
    dlrm = model("dlrm")
    plan = ParallelPlan(batch=64, sequence=1, data=8, expert=8)
    plan.check(dlrm)
    assert stage_weights(dlrm, plan, 0) == (2_368_897, 0)
    told = r"tables are divided among all 8 data-parallel ranks, not .* 8$"
    with pytest.raises(ScenarioError, match=told):
        replace(plan, expert=4).check(dlrm)
