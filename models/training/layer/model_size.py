"""Size of a model: its parameters, and the arithmetic that training it takes."""

from __future__ import annotations

from ..description.description import Model
from .layers import Layer, all_layers
from .operations import Split

BACKWARD = 2  # GEMMs backward per GEMM forward; one for frozen weights


def parameters(model: Model) -> int:
    """Parameters of a model, all experts, and adapters, included.

    >>> from ..description.model_zoo import model as named
    >>> f"{parameters(named('llama3-8b')):,}"
    '8,030,261,248'
    """
    one = Split(batch=1, sequence=1)
    return trained_parameters(model) + sum(
        n * (layer.frozen + layer.frozen_experts) for layer, n in all_layers(model, one)
    )


def trained_parameters(model: Model) -> int:
    """Parameters of a model that are trained: of one with adapters, theirs alone.

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
    """Flop of one sequence, forward and backward, nothing run twice: what MFU counts.

    Products, and the scores that the mask leaves: half of ``s x s`` of a causal model.  Megatron-LM
    and PaLM count all of them, which is this of a model that is not causal (Narayanan et al. 2021,
    arXiv:2104.04473, eq. 3; Chowdhery et al. 2022, arXiv:2204.02311, appendix B).  Weights that are
    frozen have no gradients: their products count twice, all others three times.

    Parameters
    ----------
    document : tokens of each document that a sequence is packed of; 0 for one

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
