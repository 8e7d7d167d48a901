"""Recommendation models: sharded embedding tables, dot products, and replicated networks."""

from __future__ import annotations

from itertools import pairwise

from ..description.description import Recommender
from .operations import (
    EXPERT,
    Operation,
    Split,
    Work,
    collective_work,
    compute_signature,
    gemm_work,
    linear,
    memory_op,
)


def recommender_operations(model: Recommender, split: Split) -> dict[str, tuple[Operation, ...]]:
    """Operations of the tables, of the networks before and after, and of the dot products.

    ``split.expert`` ranks divide the tables evenly, and exchange the embeddings of each other's
    samples (Naumov et al. 2019, arXiv:1906.00091, section 4).

    Examples
    --------
    >>> tiny = Recommender(dense=2, tables=(10, 20), width=4, bottom=(8, 4), top=(8, 1))
    >>> parts = recommender_operations(tiny, Split(batch=16, sequence=1))
    >>> {name: sum(o.weights + o.tables for o in of) for name, of in parts.items()}
    {'tables': 120, 'bottom': 60, 'products': 0, 'top': 73}
    """
    vectors = len(model.tables) + 1
    pairs = vectors * (vectors - 1) // 2
    bottom = _network("bottom", (model.dense, *model.bottom), split)
    top = _network("top", (model.width + pairs, *model.top), split)
    return {
        "tables": _tables(model, split),
        "bottom": bottom,
        "products": (_products(model, split, vectors, pairs),),
        "top": top,
    }


def _tables(model: Recommender, split: Split) -> tuple[Operation, ...]:
    """Table lookups; backward, rows are updated in place once their gradient is known."""
    dtype, ranks = split.precision.activations, split.expert
    rows, looked = sum(model.tables) // ranks, split.batch * len(model.tables) * model.lookups
    size = float(split.width * looked * model.width)
    table, index = (dtype, (rows, model.width)), ("int64", (looked,))
    gradient = (dtype, (looked, model.width))
    lookup = Operation(
        (Work("lookup", compute_signature("aten::embedding", table, index), 0.0, 2 * size),),
        (Work("lookup update",
              compute_signature("aten::embedding_dense_backward", gradient, index), 0.0,
              3 * size),),
        8.0 * looked,
        tables=rows * model.width,
    )  # fmt: skip
    if ranks == 1:
        return (lookup,)
    numbers = split.batch * len(model.tables) * model.width
    there = collective_work("embeddings all-to-all", "all-to-all", EXPERT, dtype, numbers)
    back = there._replace(label="embeddings all-to-all backward")
    return lookup, Operation((there,), (back,))


def _network(name: str, widths: tuple[int, ...], split: Split) -> tuple[Operation, ...]:
    found = []
    dtype = split.precision.activations
    for place, (inputs, outputs) in enumerate(pairwise(widths)):
        shape, size = (split.batch, outputs), float(split.width * split.batch * outputs)
        found += [
            linear(name, split.batch, inputs, outputs, split, bias=True,
                   is_sample=name == "bottom" and not place),
            Operation(
                (memory_op("relu", "aten::relu", dtype, [shape], size),),
                (memory_op("relu backward", "aten::threshold_backward", dtype, [shape, shape],
                          size),),
            ),
        ]  # fmt: skip
    return tuple(found)


def _products(model: Recommender, split: Split, vectors: int, pairs: int) -> Operation:
    """Dot products of every two vectors of a sample, including the dense one."""
    dtype, width = split.precision.activations, split.width
    every = gemm_work("products", vectors, model.width, vectors, dtype, width, split.batch)
    back = gemm_work("products backward", vectors, vectors, model.width, dtype, width, split.batch)
    out = (split.batch, pairs + model.width)
    size = float(width * split.batch * (pairs + model.width))
    return Operation(
        (every, memory_op("join", "aten::cat", dtype, [out], size)),
        (back, back._replace(label="products backward, other side")),
        float(width * split.batch * vectors * model.width),
    )
