"""Model descriptions: the sizes that determine every op, parameter and byte of a model."""

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
    """Mixture of experts in place of the feed-forward network of most layers.

    Parameters
    ----------
    count : number of experts per layer
    chosen : number of experts that process each token
    inner : feed-forward width of one expert
    shared : number of shared experts, which process every token and have the same width
    dense_layers : number of first layers without experts
    selection_bias : True if each expert has a bias in the selection (DeepSeek-V3, 2412.19437,
        2.1.2)
    chosen_by : who selects: each token selects its experts, or each expert selects an equal number
        of tokens, with ``chosen`` experts per token on average (expert choice, Zhou et al. 2022,
        2202.09368), implemented with torch ops
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
    """Multi-head latent attention: keys and values computed from one short vector (DeepSeek-V2).

    arXiv:2405.04434.

    Parameters
    ----------
    query_rank, key_rank : widths of the latent vectors of queries, and of keys and values
    plain, rotary : widths of the two parts of a query or key head, without and with rotation
    value : width of a value head
    """

    query_rank: Size
    key_rank: Size
    plain: Size
    rotary: Size
    value: Size


@dataclass(frozen=True)
class Adapters(Described):
    """LoRA adapters: two thin GEMMs next to chosen GEMMs of each layer, trained in their place.

    All other weights are frozen (2106.09685). Queries, keys and values are one GEMM here, and so
    are the gate and the value of a gated network: each has one adapter, as in Megatron-LM.

    Parameters
    ----------
    rank : width between the two thin GEMMs
    of : GEMMs of a layer that have an adapter

    Examples
    --------
    >>> Adapters(rank=16, of=("query-key-value", "attention-output")).rank
    16
    """

    rank: Size
    of: tuple[Adapted, ...]


@dataclass(frozen=True)
class Encoder(Described):
    """Parts of an encoder (BERT) in addition to its layers.

    Parameters
    ----------
    token_types : number of segment types, each with an embedding
    pooler : True if the first token passes through a pooling layer
    """

    token_types: Count = 2
    pooler: Flag = True


@dataclass(frozen=True)
class Patches(Described):
    """Square images read as patches by a transformer (ViT, Dosovitskiy et al. 2020, 2010.11929).

    Parameters
    ----------
    image, patch : side length in pixels
    channels : channels per pixel

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
        """Number of tokens per image: its patches, and the class token."""
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True)
class AttentionOptions(Described):
    """Attention of a transformer.

    Parameters
    ----------
    key_heads : number of key and value heads; default: that of query heads
    head : width of a head; default: hidden / heads
    causal : True if tokens attend only to earlier tokens
    latent : latent vectors from which keys and values are computed; None for ordinary attention
    """

    key_heads: Count = 0
    head: Count = 0
    causal: Flag = True
    latent: LatentAttention | None = None


@dataclass(frozen=True)
class BlockOptions(Described):
    """Parts of every transformer layer other than its GEMMs.

    Parameters
    ----------
    norm : ``rms`` or ``layer``
    biases : GEMMs that have a bias
    gated : True if the feed-forward network has a gate (SwiGLU)
    dropout : True if activations have dropout
    """

    norm: Literal["rms", "layer"] = "layer"
    biases: Biases = "all"
    gated: Flag = False
    dropout: Flag = False


@dataclass(frozen=True)
class TokenOptions(Described):
    """Input and output tokens of a transformer.

    Parameters
    ----------
    positions : number of learned position embeddings; 0 for rotary embeddings
    tied : True if the output layer shares the weights of the embedding
    predicted : number of additional predicted tokens, each with a layer of its own (multi-token
        prediction; DeepSeek-V3, 2412.19437, section 2.2)
    patches : images read as tokens; None for text. With images, ``vocabulary`` is the number of
        image classes
    """

    positions: Count = 0
    tied: Flag = True
    predicted: Count = 0
    patches: Patches | None = None


@dataclass(frozen=True)
class Transformer(Described):
    """Dense or mixture-of-experts transformer.

    Parameters
    ----------
    hidden : width of the residual stream
    layers, heads, vocabulary : numbers of layers, of query heads, and of tokens in the vocabulary
    inner : width of the feed-forward network
    attention : attention options
    block : norm, biases, gate and dropout of every layer
    tokens : input and output tokens
    experts, encoder : mixture of experts, and encoder parts; None for none
    adapters : adapters, which are then the only trained weights; None to train all weights
    source : publication of these values

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
        """Tokens per sequence if the model fixes it (images); None otherwise."""
        return None if self.tokens.patches is None else self.tokens.patches.tokens

    @property
    def head_width(self) -> int:
        """Width of a query or key head."""
        if self.attention.latent is not None:
            return self.attention.latent.plain + self.attention.latent.rotary
        return self.attention.head or self.hidden // self.heads

    @property
    def value_width(self) -> int:
        """Width of a value head."""
        return self.head_width if self.attention.latent is None else self.attention.latent.value

    @property
    def key_value_heads(self) -> int:
        """Number of key and value heads."""
        return self.attention.key_heads or self.heads

    @property
    def query_width(self) -> int:
        """Total width of all query heads."""
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        """Total width of all key heads."""
        return self.key_value_heads * self.head_width

    @property
    def dense_layers(self) -> int:
        """Number of layers without experts."""
        return self.layers if self.experts is None else self.experts.dense_layers


@dataclass(frozen=True)
class Repeated(Described):
    """Network parts repeated several times in sequence.

    Parameters
    ----------
    times : number of repetitions
    of : parts that are repeated, in order
    """

    times: Count
    of: tuple[Part, ...]


@dataclass(frozen=True)
class SummedBranches(Described):
    """Branches with the same input whose results are summed and passed through ReLU.

    Parameters
    ----------
    sum : parts of each branch; an empty branch passes its input through
    """

    sum: tuple[tuple[Part, ...], ...]

    @property
    def ways(self) -> tuple[tuple[Part, ...], ...]:
        """Parts of each branch."""
        return self.sum


@dataclass(frozen=True)
class JoinedBranches(Described):
    """Branches with the same input whose results are concatenated along channels.

    Parameters
    ----------
    join : parts of each branch; an empty branch passes its input through
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
    """Convolutional network for square images.

    Parameters
    ----------
    image : side length in pixels
    parts : parts in order. ``conv 64 7 stride=2 norm relu`` is a 7 x 7 convolution with 64
        channels, followed by a norm and ReLU; ``docs/training/model.md`` lists the words
    channels : channels per pixel
    source : publication of these values
    """

    image: Size
    parts: tuple[Part, ...]
    channels: Count = 3
    source: Text = ""
    own_sequence: ClassVar[int] = 1


@dataclass(frozen=True)
class Recommender(Described):
    """Recommendation model: embedding tables, their dot products, and two networks.

    DLRM (Naumov et al. 2019, 1906.00091).

    Parameters
    ----------
    dense : number of dense (non-categorical) features of a sample
    tables : number of rows of each table
    width : width of an embedding
    bottom, top : layer widths of the networks before and after the dot products
    lookups : number of rows that a sample reads from each table
    source : publication of these values
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
