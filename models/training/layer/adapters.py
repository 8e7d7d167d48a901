"""LoRA adapters (Hu et al. 2021, arXiv:2106.09685): thin trained GEMMs next to frozen weights.

A GEMM with frozen weights computes no weight gradient, so it does not save its input.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..description.description import Adapted, Adapters, Transformer
from .operations import (
    TENSOR,
    Operation,
    Split,
    Work,
    collective_work,
    linear,
    memory_op,
    select_works,
)

PRODUCTS: dict[str, Adapted] = {
    "query, key, value": "query-key-value",
    "attention output": "attention-output",
    "feed-forward in": "feed-forward-in",
    "feed-forward out": "feed-forward-out",
}
"""Name of each GEMM that may have an adapter, by the label of its op."""


def with_adapters(
    operations: tuple[Operation, ...], model: Transformer, split: Split
) -> tuple[Operation, ...]:
    """Operations of a layer with the model's adapters added and other weights frozen.

    Without adapters in the model, the operations are returned unchanged.

    >>> from ..description.description import BlockOptions
    >>> tiny = Transformer(hidden=8, layers=1, heads=2, vocabulary=10, inner=32,
    ...     block=BlockOptions(biases="none"),
    ...     adapters=Adapters(rank=2, of=("attention-output",)))
    >>> split = Split(batch=1, sequence=4)
    >>> one, two = with_adapters((linear("attention output", 4, 8, 8, split),), tiny, split)
    >>> [work.label for work in one.backward], one.trained, two.weights
    (['attention output dgrad'], False, 32)
    """
    if model.adapters is None:
        return operations
    return tuple(_each_adapted(operations, model, model.adapters, split))


def _each_adapted(
    operations: tuple[Operation, ...], model: Transformer, adapters: Adapters, split: Split
) -> Iterator[Operation]:
    for operation in operations:
        name = next((PRODUCTS[w.label] for w in operation.forward if w.label in PRODUCTS), None)
        one = freeze(operation)
        if name in adapters.of:
            yield one
            yield _adapter(name, model, adapters.rank, split)
        elif name == "attention-output" and split.fused_attention:
            # fused attention needs its own output in the backward pass
            yield one._replace(kept=float(split.width * _rows_and_inputs(model, split)))
        else:
            yield one


def _rows_and_inputs(model: Transformer, split: Split) -> int:
    return split.tokens * model.heads * model.value_width // split.tensor


def freeze(operation: Operation) -> Operation:
    """Copy of an operation with frozen weights.

    >>> from .operations import norm
    >>> split = Split(batch=1, sequence=4)
    >>> freeze(linear("in", 4, 8, 8, split)).kept, freeze(norm("norm", "rms", 4, 8, split)).kept
    (0.0, 64.0)
    """
    of_weights = [work.of_weights for work in operation.backward]
    if not (operation.weights or any(of_weights)):
        return operation
    return operation._replace(
        backward=select_works(operation.backward, [not each for each in of_weights]),
        kept=0.0 if any(of_weights) else operation.kept,  # a norm's input gradient needs its input
        kept_for_weights=0.0,
        trained=False,
    )


def _adapter(name: Adapted, model: Transformer, rank: int, split: Split) -> Operation:
    """Adapter of a GEMM of a layer, as one rank computes it."""
    t = split.tensor
    qkv = model.query_width + 2 * max(model.key_value_heads, t) * model.head_width
    heads, inside = model.heads * model.value_width, model.inner
    columns, rows = partial(_column_adapter, split=split), partial(_row_adapter, split=split)
    return {
        "query-key-value": lambda: columns(name, model.hidden, rank, qkv),
        "attention-output": lambda: rows(name, heads, rank, model.hidden),
        "feed-forward-in": lambda: columns(
            name, model.hidden, rank, (2 if model.block.gated else 1) * inside
        ),
        "feed-forward-out": lambda: rows(name, inside, rank, model.hidden),
    }[name]()


def _column_adapter(name: str, inputs: int, rank: int, outputs: int, split: Split) -> Operation:
    """Adapter of a column-parallel GEMM, whose outputs are divided among tensor-parallel ranks.

    Both adapter GEMMs are divided in the same way. The input is that of the GEMM, gathered if the
    GEMM's input is gathered.
    """
    t, tokens = split.tensor, split.tokens
    down = _adapter_gemm(f"{name} adapter down", tokens, inputs, rank // t, split)
    up = _adapter_gemm(f"{name} adapter up", tokens, rank, outputs // t, split)
    inner = _joined(name, "all-gather", tokens * rank, split)
    return Operation(
        (*down.forward, *inner, *up.forward, _sum(name, tokens, outputs // t, split)),
        (*up.backward, *_joined(name, "all-reduce", tokens * rank, split, " backward"),
         *down.backward, _sum(name, tokens, inputs, split, " backward")),
        down.kept + up.kept, (*up.parameters, *down.parameters),
        kept_for_weights=down.kept_for_weights + up.kept_for_weights,
    )  # fmt: skip


def _row_adapter(name: str, inputs: int, rank: int, outputs: int, split: Split) -> Operation:
    """Adapter of a row-parallel GEMM, whose inputs are divided among tensor-parallel ranks.

    The inputs of its first GEMM and the outputs of its second are divided. With sequence
    parallelism, an all-to-all then gives each rank complete rows of its own tokens (NeMo's
    ``a2a_experimental``).
    """
    t, tokens = split.tensor, split.tokens
    down = _adapter_gemm(f"{name} adapter down", tokens, inputs // t, rank, split)
    up = _adapter_gemm(f"{name} adapter up", tokens, rank, outputs // t, split)
    inner, numbers = tokens * rank, tokens * outputs
    if split.sequence_parallel:
        leave = _joined(name, "all-to-all", numbers // t, split)
        enter = _joined(name, "all-to-all", numbers // t, split, " backward")
    else:
        leave, enter = _joined(name, "all-gather", numbers, split), ()
    return Operation(
        (*down.forward, *_joined(name, "all-reduce", inner, split), *up.forward, *leave,
         _sum(name, split.own_tokens, outputs, split)),
        (*enter, *up.backward, *_joined(name, "all-reduce", inner, split, " backward"),
         *down.backward, _sum(name, tokens, inputs // t, split, " backward")),
        down.kept + up.kept, (*up.parameters, *down.parameters),
        kept_for_weights=down.kept_for_weights + up.kept_for_weights,
    )  # fmt: skip


def _adapter_gemm(label: str, rows: int, inputs: int, outputs: int, split: Split) -> Operation:
    """One GEMM of an adapter, always in the element type of activations."""
    return linear(label, rows, inputs, outputs, split, dtype=split.precision.activations)


def _joined(name: str, what: str, numbers: int, split: Split, then: str = "") -> tuple[Work, ...]:
    """Collective that combines adapter results of tensor-parallel ranks; none for a single rank."""
    if split.tensor == 1:
        return ()
    label = f"{name} adapter {what}{then}"
    return (collective_work(label, what, TENSOR, split.precision.activations, numbers),)


def _sum(name: str, rows: int, width: int, split: Split, then: str = "") -> Work:
    """Sum of the results of a GEMM and its adapter; backward, of their input gradients."""
    dtype, one = split.precision.activations, (rows, width)
    size = float(split.width * rows * width)
    return memory_op(f"{name} adapter sum{then}", "aten::add", dtype, [one, one], size)
