"""Layers as single ops, as layer profiles time them: forward, backward, and one update.

The time of such an op includes tensor-parallel collectives inside the layer and recomputation, so
these are not separate ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....sim.facts.signature import Operand, Signature
from ..layer.operations import TENSOR, Split, Work

KINDS = {
    "embedding": "embedding", "dense layer": "dense", "expert layer": "expert", "output": "output",
}  # fmt: skip
"""Name of each kind of layer in signatures."""


def whole_layer(
    name: str, phase: str, hidden: int, split: Split, works: Sequence[Work]
) -> list[Work]:
    """Single op in place of a layer's ops, plus collectives other than tensor-parallel ones.

    Parameters
    ----------
    name : name of the layer
    phase : ``forward``, or ``backward`` including recomputation

    Examples
    --------
    >>> split = Split(batch=8, sequence=2048, tensor=4)
    >>> works = [Work("a", "compute:a", 1.0, 2.0), Work("b", "compute:b", 3.0, 4.0)]
    >>> (one,) = whole_layer("dense layer", "forward", 1024, split, works)
    >>> one.signature, one.flop, one.bytes
    ('compute:layer::forward of=dense tensor=4 bf16[8x2048x1024]', 4.0, 6.0)
    """
    own = [w for w in works if not w.group]
    operand = Operand(split.precision.activations, (split.batch, split.sequence, hidden))
    text = f"layer::{phase} of={KINDS[name]} tensor={split.tensor}"
    one = Work(
        f"{name} {phase}", str(Signature("compute", text, (operand,))),
        sum(w.flop for w in own), sum(w.bytes for w in own),
    )  # fmt: skip
    return [one, *(w for w in works if w.group not in ("", TENSOR))]


def whole_update(works: Sequence[Work], layers: int, hidden: int, split: Split) -> Work:
    """Single op that updates the weights of ``layers`` layers, counting embedding and output.

    Parameters
    ----------
    works : optimizer ops that it replaces
    """
    operand = Operand(split.precision.weights, (layers, hidden))
    text = f"layer::update tensor={split.tensor}"
    return Work(
        "update", str(Signature("compute", text, (operand,))), 0.0, sum(w.bytes for w in works)
    )
