"""Linear layers of a recorded step: the GEMM of each forward pass, and the GEMMs of its gradients.

A trace does not say which GEMM is the gradient of which. The sizes show it: the backward pass
visits layers in reverse order. A layer that maps T rows from k to n columns has a weight gradient,
a GEMM that sums over T, and an input gradient, a GEMM that sums over n. A step is accepted only if
there is exactly one such interpretation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .computing_operators import Operator, Shape

Product = tuple[int, int, int]
"""Rows, contracted size, columns."""


class LinearLayer(NamedTuple):
    """Linear layer in one step.

    Parameters
    ----------
    rows, inputs, outputs : number of rows T, of input columns k and of output columns n
    forward : index of the layer's forward GEMM among the operators of the step
    weight_gradient, input_gradient : indices of the GEMMs of its gradients; -1 if there is no input
        gradient
    biased : True if the forward GEMM also adds a bias
    weight : shape of its weight as the optimizer sees it, (n, k) or (k, n)
    certain : True if the sizes show which GEMM is the weight gradient and which the input gradient
    """

    rows: int
    inputs: int
    outputs: int
    forward: int
    weight_gradient: int
    input_gradient: int
    biased: bool
    weight: Shape
    certain: bool

    @property
    def transposed(self) -> bool:
        """True if the weight is stored as (inputs, outputs)."""
        return self.weight != (self.outputs, self.inputs)

    @property
    def backward(self) -> tuple[int, int]:
        """Indices of the first and the last of its gradient GEMMs."""
        both = [p for p in (self.weight_gradient, self.input_gradient) if p >= 0]
        return min(both), max(both)

    def __str__(self) -> str:
        return f"{self.rows} x {self.inputs} by {self.inputs} x {self.outputs}"


PRODUCTS = ("mm", "addmm")


def linear_layers(operators: Sequence[Operator]) -> list[LinearLayer]:
    """Find the linear layers of a step, in forward order.

    Raises
    ------
    ValueError
        The GEMMs of the step cannot be read as one forward pass and its backward pass; with the
        reason.

    Examples
    --------
    >>> def mm(m, k, n):
    ...     return Operator(0, "mm", ((m, k), (k, n)), ("float", "float"))
    >>> step = [mm(8, 4, 16), mm(8, 16, 4), mm(8, 4, 16), mm(4, 8, 16), mm(16, 8, 4)]
    >>> [(l.forward, l.input_gradient, l.weight_gradient) for l in linear_layers(step)]
    [(0, -1, 4), (1, 2, 3)]
    """
    at = [i for i, o in enumerate(operators) if o.name in PRODUCTS]
    sizes = [_product(operators[i]) for i in at]
    total = len(at)
    if not total:
        raise ValueError("it has no GEMMs with recorded shapes (mm, addmm)")
    read = [
        (n, found)
        for n in range(-(-total // 3), total // 2 + 1)
        if (found := _backward_positions(sizes, n)) is not None
    ]
    if len(read) != 1:
        raise ValueError(
            f"its {total} GEMMs cannot be read as one forward pass and its backward pass"
            + (" in one way only" if read else "")
            + " (recomputation, frozen layers and several micro-batches per step are not supported)"
        )
    ((count, gradients),) = read
    return [
        _layer(operators[at[i]], sizes[i], at[i], gradients[i], sizes, at) for i in range(count)
    ]


def _product(operator: Operator) -> Product:
    """Sizes (m, k, n) of a GEMM operator."""
    if len(operator.shapes) < 2:
        raise ValueError(f"{operator.name} has no recorded shapes (record_shapes=True)")
    (m, k), (_, n) = operator.shapes[1:3] if operator.name == "addmm" else operator.shapes[:2]
    return m, k, n


def _weight_gradients(of: Product) -> tuple[Product, Product]:
    """Sizes of the two GEMMs that can be the weight gradient of a layer: normal or transposed."""
    rows, inputs, outputs = of
    return (outputs, rows, inputs), (inputs, rows, outputs)


def _backward_positions(sizes: list[Product], count: int) -> list[tuple[int, int]] | None:
    """Indices (weight gradient, input gradient) for each of the first `count` GEMMs.

    None if they do not fit.
    """
    at, found = count, []
    for rows, inputs, outputs in reversed(sizes[:count]):
        weight, input_ = _weight_gradients((rows, inputs, outputs)), (rows, outputs, inputs)
        two = [*sizes[at : at + 2], None, None]
        if two[0] == input_ and two[1] in weight:
            found.append((at + 1, at))
            at += 2
        elif two[0] in weight and two[1] == input_:
            found.append((at, at + 1))
            at += 2
        elif two[0] in weight:
            found.append((at, -1))
            at += 1
        else:
            return None
    return found[::-1] if at == len(sizes) else None


def _layer(
    operator: Operator,
    of: Product,
    forward: int,
    gradients: tuple[int, int],
    sizes: list[Product],
    at: list[int],
) -> LinearLayer:
    weight, input_ = gradients
    made = sizes[weight]
    alike = input_ >= 0 and sizes[input_] in _weight_gradients(of) and made == sizes[input_]
    return LinearLayer(
        *of,
        forward=forward,
        weight_gradient=at[weight],
        input_gradient=at[input_] if input_ >= 0 else -1,
        biased=operator.name == "addmm",
        weight=(made[0], made[2]),
        certain=not alike or of[1] != of[2],
    )
