"""Descriptions of models: the sizes from which every op, parameter and byte of them follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Biases = Literal["none", "query-key-value", "all"]
Adapted = Literal["query-key-value", "attention-output", "feed-forward-in", "feed-forward-out"]
Chooser = Literal["tokens", "experts"]


@dataclass(frozen=True)
class Experts:
    """Experts of a mixture, in place of the feed-forward network of most layers.

    Parameters
    ----------
    count : of each layer
    chosen : by each token
    inner : width of one
    shared : experts that every token visits, of the same width
    dense_layers : layers at the start that have no experts
    chosen_by : who chooses: each token its experts, or each expert as many tokens as all take, so
        that a token has ``chosen`` in the mean (expert choice, Zhou et al. 2022, 2202.09368); then
        as torch writes it
    """

    count: int
    chosen: int
    inner: int
    shared: int = 0
    dense_layers: int = 0
    selection_bias: bool = False
    chosen_by: Chooser = "tokens"


@dataclass(frozen=True)
class LatentAttention:
    """Attention whose keys and values are made of one short vector (DeepSeek-V2, 2405.04434).

    Parameters
    ----------
    query_rank, key_rank : widths of the short vectors of queries, and of keys and values
    plain, rotary : widths of the two parts of a query's or key's head
    value : width of a value's head
    """

    query_rank: int
    key_rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True)
class Adapters:
    """Two thin products beside some of each layer's, trained in their place (LoRA, 2106.09685).

    Every other weight is frozen.  Queries, keys and values are one product here, and so are a gate
    and what it gates: each has one pair, as in Megatron-LM.

    Parameters
    ----------
    rank : width between the two
    of : products of a layer that have such a pair

    Examples
    --------
    >>> Adapters(rank=16, of=("query-key-value", "attention-output")).rank
    16
    """

    rank: int
    of: tuple[Adapted, ...]


@dataclass(frozen=True)
class Encoder:
    """What an encoder (BERT) has beside its layers.

    Parameters
    ----------
    token_types : kinds of segments, each with an embedding
    pooler : whether the first token goes through a layer of its own
    """

    token_types: int = 2
    pooler: bool = True


@dataclass(frozen=True)
class Patches:
    """Square images that a transformer reads as patches (ViT, Dosovitskiy et al. 2020, 2010.11929).

    Parameters
    ----------
    image, patch : side in pixels
    channels : of a pixel

    Examples
    --------
    >>> Patches(image=224, patch=16).tokens
    197
    """

    image: int
    patch: int
    channels: int = 3

    @property
    def tokens(self) -> int:
        """Patches of an image, and the token that stands for its class."""
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True)
class Transformer:
    """A dense or mixture-of-experts transformer.

    Parameters
    ----------
    hidden : width of the residual stream
    layers, heads, vocabulary : counts
    inner : width of the feed-forward network
    key_heads : heads of keys and values; as many as of queries unless said
    head : width of a head; hidden / heads unless said
    gated : whether a gate stands beside the feed-forward network's first product (SwiGLU)
    norm : ``rms`` or ``layer``
    biases : of which products
    positions : learned positions; 0 where they are rotations of queries and keys
    tied : whether the output layer is the embedding
    causal : whether tokens see only those before them
    dropout : whether activations are dropped
    predicted : further tokens that are predicted, each by a layer of its own (multi-token
        prediction; DeepSeek-V3, 2412.19437, section 2.2)
    experts, latent, encoder, patches : what the model has of these; None for nothing.  Of patches,
        ``vocabulary`` counts the classes of images
    adapters : what alone is trained of it; None where every weight is
    source : where these facts are published

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=100, inner=32)
    >>> tiny.head_width, tiny.query_width, tiny.key_width
    (4, 8, 8)
    """

    hidden: int
    layers: int
    heads: int
    vocabulary: int
    inner: int
    key_heads: int = 0
    head: int = 0
    gated: bool = False
    norm: Literal["rms", "layer"] = "layer"
    biases: Biases = "all"
    positions: int = 0
    tied: bool = True
    causal: bool = True
    dropout: bool = False
    predicted: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    encoder: Encoder | None = None
    patches: Patches | None = None
    adapters: Adapters | None = None
    source: str = ""

    @property
    def own_sequence(self) -> int | None:
        """Tokens of a sequence, where the model itself says it."""
        return None if self.patches is None else self.patches.tokens

    @property
    def head_width(self) -> int:
        """Width of a head of queries and keys."""
        if self.latent is not None:
            return self.latent.plain + self.latent.rotary
        return self.head or self.hidden // self.heads

    @property
    def value_width(self) -> int:
        """Width of a head of values."""
        return self.head_width if self.latent is None else self.latent.value

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values."""
        return self.key_heads or self.heads

    @property
    def query_width(self) -> int:
        """Width of all heads of queries."""
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        """Width of all heads of keys."""
        return self.key_value_heads * self.head_width

    @property
    def dense_layers(self) -> int:
        """Layers without experts."""
        return self.layers if self.experts is None else self.experts.dense_layers


@dataclass(frozen=True)
class Repeated:
    """Parts of a network, several times one after another."""

    times: int
    of: tuple[Part, ...]


@dataclass(frozen=True)
class Branches:
    """Parts that take the same input, beside each other; none for the input itself.

    Parameters
    ----------
    ways : of each, its parts
    summed : whether their results are summed, and what is less than 0 made 0; else they are joined
        channel by channel
    """

    ways: tuple[tuple[Part, ...], ...]
    summed: bool


Part = str | Repeated | Branches


@dataclass(frozen=True)
class ImageNetwork:
    """A convolutional network for square images.

    Parameters
    ----------
    image : side in pixels
    parts : in order.  ``conv 64 7 stride=2 norm relu`` is a convolution of 64 channels by 7 x 7,
        and what follows it; ``docs/training/model.md`` has the words
    channels : of a pixel
    source : where these facts are published
    """

    image: int
    parts: tuple[Part, ...]
    channels: int = 3
    source: str = ""
    own_sequence: ClassVar[int] = 1


@dataclass(frozen=True)
class Recommender:
    """A recommendation model: tables of embeddings, their products, and two networks.

    DLRM (Naumov et al. 2019, 1906.00091).

    Parameters
    ----------
    dense : numbers of a sample that are no category
    tables : rows of each table
    width : of an embedding
    bottom, top : widths of the layers before and after the products
    lookups : rows of each table that a sample names
    source : where these facts are published
    """

    dense: int
    tables: tuple[int, ...]
    width: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    lookups: int = 1
    source: str = ""
    own_sequence: ClassVar[int] = 1


Model = Transformer | ImageNetwork | Recommender
