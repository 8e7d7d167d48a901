"""Layers as profiles of layers time them: one op forward, one backward, one update of all weights.

What tensor-parallel ranks exchange inside a layer is in the time of such an op, so that it is no op
of its own; so is what the layer computes again.
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
    """One op in place of those of a layer, and what others than tensor-parallel ranks exchange.

    Parameters
    ----------
    name : of the layer
    phase : ``forward``, or ``backward`` with what is computed again

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
    """Update of the weights of so many layers, embedding and output counted.

    Parameters
    ----------
    works : ops of the optimizer, in place of which it stands
    """
    operand = Operand(split.precision.weights, (layers, hidden))
    text = f"layer::update tensor={split.tensor}"
    return Work(
        "update", str(Signature("compute", text, (operand,))), 0.0, sum(w.bytes for w in works)
    )
