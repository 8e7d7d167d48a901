"""Layers of a model: named sequences of operations, and how often each is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..description.description import ImageNetwork, Model, Recommender, Transformer
from .adapters import with_adapters
from .attention import attention
from .embedding import embedding, output
from .feed_forward import feed_forward, mixture
from .image_network import image_layers
from .operations import Operation, Split, Work, linear, norm, residual
from .recommender import recommender_operations


@dataclass(frozen=True)
class Layer:
    """Named sequence of operations.

    Parameters
    ----------
    name : for a transformer ``embedding``, ``dense layer``, ``expert layer``, ``prediction layer``
        or ``output``; otherwise the kind of part
    operations : operations in forward order
    entering : size of the input in B, which is all that full recomputation saves
    never_recomputed : True if it is not recomputed even when other layers are
    """

    name: str
    operations: tuple[Operation, ...]
    entering: float
    never_recomputed: bool = False

    @cached_property
    def forward(self) -> tuple[Work, ...]:
        """Ops of the forward pass."""
        return tuple(w for o in self.operations for w in o.forward)

    @cached_property
    def backward(self) -> tuple[Work, ...]:
        """Ops of the backward pass."""
        return tuple(w for o in reversed(self.operations) for w in o.backward)

    @cached_property
    def weights(self) -> int:
        """Number of trained parameters on this rank, without those of experts."""
        return self._count(trained=True, expert=False)

    @cached_property
    def expert_weights(self) -> int:
        """Number of trained expert parameters on this rank."""
        return self._count(trained=True, expert=True)

    @property
    def frozen(self) -> int:
        """Number of frozen parameters on this rank, without those of experts."""
        return self._count(trained=False, expert=False)

    @property
    def frozen_experts(self) -> int:
        """Number of frozen expert parameters on this rank."""
        return self._count(trained=False, expert=True)

    def _count(self, trained: bool, expert: bool) -> int:
        """Number of parameters that are trained or frozen, and inside or outside experts."""
        return sum(o.weights for o in self.operations if (o.trained, o.expert) == (trained, expert))

    @property
    def tables(self) -> int:
        """Number of parameters in embedding tables on this rank; the backward pass updates them."""
        return sum(o.tables for o in self.operations)

    @property
    def kept(self) -> float:
        """Bytes saved from the forward to the backward pass."""
        return sum(o.kept for o in self.operations)

    @property
    def kept_for_weights(self) -> float:
        """Bytes saved for weight gradients that are computed later than input gradients."""
        return sum(o.kept_for_weights for o in self.operations)


@lru_cache(maxsize=256)
def dense_layer(model: Transformer, split: Split) -> Layer:
    """Transformer layer with a dense feed-forward network.

    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32)
    >>> dense_layer(tiny, Split(batch=1, sequence=4)).weights  # 12 h^2 + 13 h
    872
    """
    return _layer("dense layer", model, split, feed_forward(model, split))


@lru_cache(maxsize=256)
def expert_layer(model: Transformer, split: Split) -> Layer:
    """Transformer layer with a mixture of experts."""
    assert model.experts is not None  # noqa: S101  asked for where there are experts
    return _layer("expert layer", model, split, mixture(model, model.experts, split))


def _layer(name: str, model: Transformer, split: Split, network: tuple[Operation, ...]) -> Layer:
    """Transformer layer: attention and a feed-forward network, each after a norm.

    In an encoder the norm comes after them, at equal cost.
    """
    own, h = split.own_tokens, model.hidden
    operations = (
        norm("attention norm", model.block.norm, own, h, split),
        *attention(model, split),
        residual("attention residual", own, h, split, model.block.dropout),
        norm("feed-forward norm", model.block.norm, own, h, split),
        *network,
        residual("feed-forward residual", own, h, split, model.block.dropout),
    )
    return Layer(name, with_adapters(operations, model, split), float(split.width * own * h))


@lru_cache(maxsize=256)
def prediction_layer(model: Transformer, split: Split) -> Layer:
    """Multi-token prediction layer: predicts one more token from the last layer and the next token.

    It has a norm for each input, a GEMM that joins them, and a layer like the last one. It uses the
    embedding and the output layer again (DeepSeek-AI 2024, arXiv:2412.19437, section 2.2).

    >>> from ..description.description import BlockOptions
    >>> plain = BlockOptions(biases="none")
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32, block=plain)
    >>> prediction_layer(tiny, Split(batch=1, sequence=4)).weights  # a layer, 2 h^2, three norms
    976
    """
    own, h = split.own_tokens, model.hidden
    of = dense_layer if model.experts is None else expert_layer
    inside = of(model, split)
    again = (o._replace(parameters=()) for o in embedding(model, split))
    first, *rest = output(model, split)
    before = (
        *again,
        norm("state norm", model.block.norm, own, h, split),
        norm("token norm", model.block.norm, own, h, split),
        linear("state and token", own, 2 * h, h, split),
    )
    after = (first, *(o._replace(parameters=()) for o in rest))
    return Layer(
        "prediction layer",
        (
            *with_adapters(before, model, split),
            *inside.operations,
            *with_adapters(after, model, split),
        ),
        inside.entering,
    )


@lru_cache(maxsize=256)
def embedding_layer(model: Transformer, split: Split) -> Layer:
    """Embedding layer, before the first transformer layer."""
    return Layer("embedding", with_adapters(embedding(model, split), model, split), 0.0)


@lru_cache(maxsize=256)
def output_layer(model: Transformer, split: Split) -> Layer:
    """Output layer and loss, after the last transformer layer."""
    entering = float(split.width * split.own_tokens * model.hidden)
    return Layer("output", with_adapters(output(model, split), model, split), entering)


@lru_cache(maxsize=64)
def whole_network(model: ImageNetwork | Recommender, split: Split) -> tuple[Layer, ...]:
    """Layers of an image network or recommender, in order.

    >>> [layer.name for layer in whole_network(ImageNetwork(8, ("conv 4 3", "linear 10")),
    ...     Split(batch=1, sequence=1))]
    ['conv', 'linear', 'output']
    """
    if isinstance(model, ImageNetwork):
        return tuple(Layer(*part) for part in image_layers(model, split))
    parts = recommender_operations(model, split)
    return tuple(Layer(name, operations, 0.0) for name, operations in parts.items())


def all_layers(model: Model, split: Split) -> list[tuple[Layer, int]]:
    """Layers of the complete model in order, each with its number of repetitions.

    >>> tiny = Transformer(hidden=8, layers=3, heads=2, vocabulary=10, inner=32)
    >>> [(layer.name, n) for layer, n in all_layers(tiny, Split(batch=1, sequence=4))]
    [('embedding', 1), ('dense layer', 3), ('output', 1)]
    """
    if not isinstance(model, Transformer):
        return [(layer, 1) for layer in whole_network(model, split)]
    dense, predicted = model.dense_layers, model.tokens.predicted
    return [
        (embedding_layer(model, split), 1),
        *([(dense_layer(model, split), dense)] if dense else []),
        *([(expert_layer(model, split), model.layers - dense)] if dense < model.layers else []),
        *([(prediction_layer(model, split), predicted)] if predicted else []),
        (output_layer(model, split), 1),
    ]
