"""Reader of Hugging Face ``config.json`` files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....sim.errors import ScenarioError
from .description import (
    AttentionOptions,
    Biases,
    BlockOptions,
    Encoder,
    Experts,
    LatentAttention,
    TokenOptions,
    Transformer,
)

Config = Mapping[str, Any]
LLAMAS = ("llama", "mistral", "mixtral", "qwen2", "deepseek_v2", "deepseek_v3")
GPTS = ("gpt2",)
ENCODERS = ("bert",)
FAMILIES = (*LLAMAS, *GPTS, *ENCODERS)


def read_config(config: Config, where: str = "config.json") -> Transformer:
    """Model description from a Hugging Face config.

    Parameters
    ----------
    where : location of the config, for error messages

    Raises
    ------
    ScenarioError
        The model family is unknown, or a size is missing.

    Examples
    --------
    >>> gpt2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
    ...     "n_positions": 1024, "vocab_size": 50257}
    >>> read_config(gpt2).inner
    3072
    """
    family = str(config.get("model_type", ""))
    try:
        if family in LLAMAS:
            return _llama(config, family)
        if family in GPTS:
            return _gpt(config)
        if family in ENCODERS:
            return _encoder(config)
    except KeyError as error:
        raise ScenarioError(
            f"{where}: a config of {family!r} has no {error}; add it, or write the sizes of the "
            "model yourself"
        ) from error
    raise ScenarioError(
        f"{where}: model_type {family!r} is not known; take one of {', '.join(FAMILIES)}, or write "
        "the sizes of the model yourself"
    )


def _llama(config: Config, family: str) -> Transformer:
    """Llama-like model: rotary embeddings, RMS norms, gated feed-forward networks."""
    bias: Biases = "query-key-value" if family == "qwen2" else "none"
    return Transformer(
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        vocabulary=config["vocab_size"],
        inner=config["intermediate_size"],
        attention=AttentionOptions(
            config.get("num_key_value_heads") or 0,
            config.get("head_dim") or 0,
            latent=_latent(config) if "kv_lora_rank" in config else None,
        ),
        block=BlockOptions("rms", bias, gated=True),
        tokens=TokenOptions(
            tied=bool(config.get("tie_word_embeddings", False)),
            predicted=config.get("num_nextn_predict_layers") or 0,
        ),
        experts=_experts(config),
    )


def _experts(config: Config) -> Experts | None:
    if "num_local_experts" in config:  # Mixtral
        return Experts(
            config["num_local_experts"], config["num_experts_per_tok"], config["intermediate_size"]
        )
    if "n_routed_experts" in config:  # DeepSeek
        return Experts(
            config["n_routed_experts"],
            config["num_experts_per_tok"],
            config["moe_intermediate_size"],
            config.get("n_shared_experts") or 0,
            config.get("first_k_dense_replace", 0),
            config.get("topk_method") == "noaux_tc",
        )
    return None


def _latent(config: Config) -> LatentAttention:
    return LatentAttention(
        config.get("q_lora_rank") or 0,
        config["kv_lora_rank"],
        config["qk_nope_head_dim"],
        config["qk_rope_head_dim"],
        config["v_head_dim"],
    )


def _gpt(config: Config) -> Transformer:
    """GPT-2-like model: learned positions, layer norms, biases, dropout, tied embeddings."""
    return Transformer(
        hidden=config["n_embd"],
        layers=config["n_layer"],
        heads=config["n_head"],
        vocabulary=config["vocab_size"],
        inner=config.get("n_inner") or 4 * config["n_embd"],
        tokens=TokenOptions(config["n_positions"]),
        block=BlockOptions(dropout=config.get("resid_pdrop", 0.1) > 0),
    )


def _encoder(config: Config) -> Transformer:
    return Transformer(
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        vocabulary=config["vocab_size"],
        inner=config["intermediate_size"],
        tokens=TokenOptions(config["max_position_embeddings"]),
        attention=AttentionOptions(causal=False),
        block=BlockOptions(dropout=config.get("hidden_dropout_prob", 0.1) > 0),
        encoder=Encoder(config.get("type_vocab_size", 2)),
    )
