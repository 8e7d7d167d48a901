"""Size of a model: its parameters, and the flop of training it."""

from __future__ import annotations

from ..description.description import Model
from .layers import Layer, all_layers
from .operations import Split

BACKWARD = 2  # GEMMs backward per GEMM forward; one for frozen weights


def parameters(model: Model) -> int:
    """Number of parameters of a model, including all experts and adapters.

    >>> from ..description.model_zoo import model as named
    >>> f"{parameters(named('llama3-8b')):,}"
    '8,030,261,248'
    """
    one = Split(batch=1, sequence=1)
    return trained_parameters(model) + sum(
        n * (layer.frozen + layer.frozen_experts) for layer, n in all_layers(model, one)
    )


def trained_parameters(model: Model) -> int:
    """Number of trained parameters; with adapters, only those of the adapters.

    >>> from dataclasses import replace
    >>> from ..description.description import Adapters
    >>> from ..description.model_zoo import model as named
    >>> lora = Adapters(rank=16, of=("query-key-value", "attention-output"))
    >>> f"{trained_parameters(replace(named('llama2-70b'), adapters=lora)):,}"
    '44,564,480'
    """
    one = Split(batch=1, sequence=1)
    return sum(
        n * (layer.weights + layer.expert_weights + layer.tables)
        for layer, n in all_layers(model, one)
    )


def model_flop(model: Model, sequence: int, document: int = 0) -> float:
    """Flop of one sequence, forward and backward, without recomputation: the basis of MFU.

    It counts GEMMs, and attention scores within the mask: half of ``s x s`` for a causal model.
    Megatron-LM and PaLM count all scores, as here for a non-causal model (Narayanan et al. 2021,
    arXiv:2104.04473, eq. 3; Chowdhery et al. 2022, arXiv:2204.02311, appendix B). Frozen weights
    have no gradients, so their GEMMs count twice, and all others three times.

    Parameters
    ----------
    document : tokens per document in a packed sequence; 0 for one document

    Examples
    --------
    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32)
    >>> model_flop(tiny, 4), round(72 * 4 * 8**2 * (1 + 4 / (12 * 8) + 10 / (12 * 8)))
    (21120.0, 21120)
    """
    split = Split(batch=1, sequence=sequence, document=document)
    return sum(n * _flop(layer) for layer, n in all_layers(model, split))


def _flop(layer: Layer) -> float:
    """Flop of a layer, forward and backward."""
    return sum(
        work.flop * (1 + (BACKWARD if operation.trained else 1))
        for operation in layer.operations
        for work in operation.forward
    )
