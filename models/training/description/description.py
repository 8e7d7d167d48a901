"""Descriptions of models: the sizes from which every op, parameter and byte of them follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Tag

from .described import Count, Described, Flag, Size, Text

Biases = Literal["none", "query-key-value", "all"]
Adapted = Literal["query-key-value", "attention-output", "feed-forward-in", "feed-forward-out"]
Chooser = Literal["tokens", "experts"]


@dataclass(frozen=True)
class Experts(Described):
    """Experts of a mixture, in place of the feed-forward network of most layers.

    Parameters
    ----------
    count : of each layer
    chosen : by each token
    inner : width of one
    shared : experts that every token visits, of the same width
    dense_layers : layers at the start that have no experts
    selection_bias : whether each expert has a bias in the choice (DeepSeek-V3, 2412.19437, 2.1.2)
    chosen_by : who chooses: each token its experts, or each expert as many tokens as all take, so
        that a token has ``chosen`` in the mean (expert choice, Zhou et al. 2022, 2202.09368); then
        as torch writes it
    """

    count: Size
    chosen: Size
    inner: Size
    shared: Count = 0
    dense_layers: Count = 0
    selection_bias: Flag = False
    chosen_by: Chooser = "tokens"


@dataclass(frozen=True)
class LatentAttention(Described):
    """Attention whose keys and values are made of one short vector (DeepSeek-V2, 2405.04434).

    Parameters
    ----------
    query_rank, key_rank : widths of the short vectors of queries, and of keys and values
    plain, rotary : widths of the two parts of a query's or key's head
    value : width of a value's head
    """

    query_rank: Size
    key_rank: Size
    plain: Size
    rotary: Size
    value: Size


@dataclass(frozen=True)
class Adapters(Described):
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

    rank: Size
    of: tuple[Adapted, ...]


@dataclass(frozen=True)
class Encoder(Described):
    """What an encoder (BERT) has beside its layers.

    Parameters
    ----------
    token_types : kinds of segments, each with an embedding
    pooler : whether the first token goes through a layer of its own
    """

    token_types: Count = 2
    pooler: Flag = True


@dataclass(frozen=True)
class Patches(Described):
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

    image: Size
    patch: Size
    channels: Count = 3

    @property
    def tokens(self) -> int:
        """Patches of an image, and the token that stands for its class."""
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True)
class AttentionOptions(Described):
    """How tokens of a transformer attend to each other.

    Parameters
    ----------
    key_heads : heads of keys and values; as many as of queries unless said
    head : width of a head; hidden / heads unless said
    causal : whether tokens see only those before them
    latent : short vectors of which keys and values are made; None for none
    """

    key_heads: Count = 0
    head: Count = 0
    causal: Flag = True
    latent: LatentAttention | None = None


@dataclass(frozen=True)
class BlockOptions(Described):
    """What every layer of a transformer has beside its products.

    Parameters
    ----------
    norm : ``rms`` or ``layer``
    biases : of which products
    gated : whether a gate stands beside the feed-forward network's first product (SwiGLU)
    dropout : whether activations are dropped
    """

    norm: Literal["rms", "layer"] = "layer"
    biases: Biases = "all"
    gated: Flag = False
    dropout: Flag = False


@dataclass(frozen=True)
class TokenOptions(Described):
    """How tokens enter a transformer and leave it.

    Parameters
    ----------
    positions : learned positions; 0 where they are rotations of queries and keys
    tied : whether the output layer is the embedding
    predicted : further tokens that are predicted, each by a layer of its own (multi-token
        prediction; DeepSeek-V3, 2412.19437, section 2.2)
    patches : images that are read as tokens; None for text.  ``vocabulary`` then counts the
        classes of images
    """

    positions: Count = 0
    tied: Flag = True
    predicted: Count = 0
    patches: Patches | None = None


@dataclass(frozen=True)
class Transformer(Described):
    """A dense or mixture-of-experts transformer.

    Parameters
    ----------
    hidden : width of the residual stream
    layers, heads, vocabulary : counts
    inner : width of the feed-forward network
    attention : how tokens attend to each other
    block : what every layer has beside its products
    tokens : how tokens enter and leave
    experts, encoder : what the model has of these; None for nothing
    adapters : what alone is trained of it; None where every weight is
    source : where these facts are published

    Examples
    --------
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=100, inner=32)
    >>> tiny.head_width, tiny.query_width, tiny.key_width
    (4, 8, 8)
    """

    hidden: Size
    layers: Size
    heads: Size
    vocabulary: Size
    inner: Size
    attention: AttentionOptions = AttentionOptions()
    block: BlockOptions = BlockOptions()
    tokens: TokenOptions = TokenOptions()
    experts: Experts | None = None
    encoder: Encoder | None = None
    adapters: Adapters | None = None
    source: Text = ""
    renamed_settings: ClassVar[Mapping[str, str]] = {
        key: f"{group}.{key}"
        for group, options in (
            ("attention", AttentionOptions),
            ("block", BlockOptions),
            ("tokens", TokenOptions),
        )
        for key in options.__dataclass_fields__
    }

    @property
    def own_sequence(self) -> int | None:
        """Tokens of a sequence, where the model itself says it."""
        return None if self.tokens.patches is None else self.tokens.patches.tokens

    @property
    def head_width(self) -> int:
        """Width of a head of queries and keys."""
        if self.attention.latent is not None:
            return self.attention.latent.plain + self.attention.latent.rotary
        return self.attention.head or self.hidden // self.heads

    @property
    def value_width(self) -> int:
        """Width of a head of values."""
        return self.head_width if self.attention.latent is None else self.attention.latent.value

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values."""
        return self.attention.key_heads or self.heads

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
class Repeated(Described):
    """Parts of a network, several times one after another.

    Parameters
    ----------
    times : repetitions
    of : parts that are repeated, in order
    """

    times: Count
    of: tuple[Part, ...]


@dataclass(frozen=True)
class SummedBranches(Described):
    """Parts that take the same input, whose results are summed, and what is less than 0 made 0.

    Parameters
    ----------
    sum : of each branch, its parts; none for the input itself
    """

    sum: tuple[tuple[Part, ...], ...]

    @property
    def ways(self) -> tuple[tuple[Part, ...], ...]:
        """Parts of each branch."""
        return self.sum


@dataclass(frozen=True)
class JoinedBranches(Described):
    """Parts that take the same input, whose results are joined channel by channel.

    Parameters
    ----------
    join : of each branch, its parts; none for the input itself
    """

    join: tuple[tuple[Part, ...], ...]

    @property
    def ways(self) -> tuple[tuple[Part, ...], ...]:
        """Parts of each branch."""
        return self.join


KINDS_OF_PART = {("of", "times"): "[times]", ("sum",): "[sum]", ("join",): "[join]"}


def _kind_of_part(part: Any) -> str | None:
    if isinstance(part, Mapping):
        return KINDS_OF_PART.get(tuple(sorted(map(str, part))))
    return "[line]" if isinstance(part, str) else None


Part = Annotated[
    Annotated[str, Tag("[line]")]
    | Annotated[Repeated, Tag("[times]")]
    | Annotated[SummedBranches, Tag("[sum]")]
    | Annotated[JoinedBranches, Tag("[join]")],
    Discriminator(_kind_of_part, custom_error_type="part", custom_error_message="no part"),
]


@dataclass(frozen=True)
class ImageNetwork(Described):
    """A convolutional network for square images.

    Parameters
    ----------
    image : side in pixels
    parts : in order.  ``conv 64 7 stride=2 norm relu`` is a convolution of 64 channels by 7 x 7,
        and what follows it; ``docs/training/model.md`` has the words
    channels : of a pixel
    source : where these facts are published
    """

    image: Size
    parts: tuple[Part, ...]
    channels: Count = 3
    source: Text = ""
    own_sequence: ClassVar[int] = 1


@dataclass(frozen=True)
class Recommender(Described):
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

    dense: Size
    tables: tuple[Count, ...]
    width: Size
    bottom: tuple[Count, ...]
    top: tuple[Count, ...]
    lookups: Count = 1
    source: Text = ""
    own_sequence: ClassVar[int] = 1


Model = Transformer | ImageNetwork | Recommender
