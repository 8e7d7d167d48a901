"""Parameters and arithmetic of public models, against what their publishers and papers say."""

from dataclasses import replace

import pytest
from foretrace.models.training.description.description import AttentionOptions, Transformer
from foretrace.models.training.description.model_zoo import known_models, model
from foretrace.models.training.layer.model_size import model_flop, parameters
from foretrace.sim.errors import ScenarioError

# The sum of the tensors in each repository's model.safetensors.index.json or weights; of GPT-3 the
# formula of Narayanan et al. 2021, arXiv:2104.04473, eq. 2: 12 l h^2 (1 + 13/12h + (V + s)/12lh).
PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-7b": 7_615_616_512,
    "deepseek-v3": 671_026_419_200,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bert-large": 335_141_888,
}


def without_prediction(model):
    return replace(model, tokens=replace(model.tokens, predicted=0))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_has_as_many_parameters_as_published(name):
    assert parameters(without_prediction(model(name))) == PUBLISHED[name]


def test_the_layer_that_predicts_one_more_token_has_as_many_as_published():
    """685 B with the model's 671 B, its own embedding and output layer written once more: README
    of huggingface.co/deepseek-ai/DeepSeek-V3, "Model Downloads"."""
    shared = 2 * 129280 * 7168
    assert parameters(model("deepseek-v3")) + shared == pytest.approx(685e9, rel=5e-3)


def test_predicting_one_more_token_costs_a_layer_and_an_output():
    plain = model("deepseek-v3")
    more = model_flop(plain, 4096) - model_flop(without_prediction(plain), 4096)
    layer = model_flop(replace(without_prediction(plain), layers=62), 4096) - model_flop(
        without_prediction(plain), 4096
    )
    joined = 6 * 4096 * (2 * 7168**2 + 7168 * 129280)
    assert more == pytest.approx(layer + joined, rel=1e-12)


# num_params and GFLOPS (products of one image, a sum with each) of the tables in torchvision's
# documentation, "Models and pre-trained weights"; of Inception-v3 without the 3,326,696 of its
# auxiliary classifier.
OF_IMAGES = {
    "alexnet": (61_100_840, 0.714),
    "vgg-16": (138_357_544, 15.47),
    "resnet-50": (25_557_032, 4.089),
    "resnet-152": (60_192_808, 11.514),
    "inception-v3": (27_161_264 - 3_326_696, 5.713),
    "vit-b-16": (86_567_656, 17.564),
    "vit-l-16": (304_326_632, 61.555),
}


@pytest.mark.parametrize("name", OF_IMAGES)
def test_a_network_of_images_has_the_parameters_and_arithmetic_that_torchvision_counts(name):
    count, billions = OF_IMAGES[name]
    network = model(name)
    assert parameters(network) == count
    assert model_flop(network, network.own_sequence) == pytest.approx(6e9 * billions, rel=5e-3)


def test_a_recommender_has_as_many_parameters_as_its_tables_and_networks():
    """Rows of 128 numbers, and products with biases between the widths that the benchmark names:
    mlcommons/inference, recommendation/dlrm (479 inputs of the top: 128 + 27 x 26 / 2)."""
    networks = [(13, 512), (512, 256), (256, 128)]
    networks += [(479, 1024), (1024, 1024), (1024, 512), (512, 256), (256, 1)]
    dense = sum((i + 1) * o for i, o in networks)
    dlrm = model("dlrm")
    assert parameters(dlrm) == 128 * sum(dlrm.tables) + dense
    products = 27 * 27 * 128
    assert model_flop(dlrm, 1) == 6 * (sum(i * o for i, o in networks) + products)


def test_every_model_of_the_zoo_is_counted():
    assert set(known_models()) == {*PUBLISHED, *OF_IMAGES, "dlrm", "gpt3-13b", "gpt3-175b"}
    assert all(model(name).source for name in known_models())


def all_scores(name, change=lambda model: model):
    """A model as papers count it: scores that a mask hides too."""
    one = change(model(name))
    return replace(one, attention=replace(one.attention, causal=False))


def narayanan_parameters(layers, h, vocabulary, sequence):
    """Eq. 2 of arXiv:2104.04473."""
    return 12 * layers * h**2 * (1 + 13 / (12 * h) + (vocabulary + sequence) / (12 * layers * h))


def narayanan_flop(batch, layers, h, vocabulary, sequence):
    """Eq. 3 of arXiv:2104.04473 without recomputation: 72, where that has 96."""
    more = sequence / (6 * h) + vocabulary / (12 * layers * h)
    return 72 * batch * sequence * layers * h**2 * (1 + more)


@pytest.mark.parametrize(
    ("name", "layers", "h"), [("gpt3-175b", 96, 12288), ("gpt3-13b", 40, 5120)]
)
def test_gpt_3_is_as_large_as_the_formula_of_megatron_says(name, layers, h):
    size = narayanan_parameters(layers, h, 50257, 2048)
    assert parameters(model(name)) == pytest.approx(size, rel=1e-5)
    flop = narayanan_flop(1, layers, h, 50257, 2048)
    assert model_flop(all_scores(name), 2048) == pytest.approx(flop, rel=1e-12)


# 6 flop a parameter that is used, and 12 l h s of attention a token (Chowdhery et al. 2022,
# arXiv:2204.02311, appendix B); Mixtral's 12.9e9 active parameters: Jiang et al. 2024,
# arXiv:2401.04088, 2.1; DeepSeek-V3's 37e9: arXiv:2412.19437, abstract.
ACTIVE = {
    "llama3-8b": (8_030_261_248 - 128256 * 4096, 32, 32 * 128),
    "llama3-70b": (70_553_706_496 - 128256 * 8192, 80, 64 * 128),
    "mixtral-8x7b": (12.88e9 - 32000 * 4096, 32, 32 * 128),
    "deepseek-v3": (37.55e9 - 129280 * 7168, 61, 128 * (192 + 128) / 2),
}


@pytest.mark.parametrize("name", ACTIVE)
def test_flop_are_six_a_parameter_that_a_token_uses_and_those_of_attention(name):
    active, layers, width = ACTIVE[name]
    told = 4096 * (6 * active + 12 * layers * width * 4096)
    assert model_flop(all_scores(name, without_prediction), 4096) == pytest.approx(told, rel=5e-3)


def test_a_causal_mask_leaves_half_of_the_scores():
    """12 l h s a token, half of them: what MFU counts, whatever the kernel runs."""
    _, layers, width = ACTIVE["llama3-8b"]
    more = model_flop(all_scores("llama3-8b"), 8192) - model_flop(model("llama3-8b"), 8192)
    assert more == 12 * layers * width * 8192 * 8192 / 2


def test_a_model_that_is_not_known_is_named_with_the_nearest():
    with pytest.raises(ScenarioError, match="no model 'llama3-80b'; did you mean 'llama3-8b'"):
        model("llama3-80b")


def test_a_config_of_an_unknown_family_is_refused(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "mamba"}')
    with pytest.raises(ScenarioError, match="model_type 'mamba' is not known; take one of llama"):
        model(str(file))


def test_a_config_without_a_size_is_refused(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "hidden_size": 8}')
    with pytest.raises(ScenarioError, match="has no 'num_hidden_layers'"):
        model(str(file))


def test_heads_of_queries_share_keys():
    grouped = Transformer(hidden=64, layers=1, heads=8, vocabulary=9, inner=64,
                          attention=AttentionOptions(key_heads=2))  # fmt: skip
    assert (grouped.query_width, grouped.key_width) == (64, 16)
