"""Linear layers of a recorded step: each matrix product of the forward pass, and its gradients.

A trace does not say which product is the gradient of which.  Sizes do: backward, layers come in
opposite order, and a layer of T rows from k to n has the gradient of its weight, a product over T
rows, and that of its input, one over n columns.  Only one way to read a step that way is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .computing_operators import Operator, Shape

Product = tuple[int, int, int]
"""Rows, contracted size, columns."""


class LinearLayer(NamedTuple):
    """A linear layer in one step.

    Parameters
    ----------
    rows, inputs, outputs : sizes: T, k, n
    forward : position of its product among the operators of the step
    weight_gradient, input_gradient : positions of its gradients; -1 where none is made of the input
    biased : whether a bias is added in its product
    weight : sizes of its weight as the optimizer has it, (n, k) or (k, n)
    certain : whether the sizes tell the two gradients apart
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
        """Whether its weight is kept as inputs by outputs."""
        return self.weight != (self.outputs, self.inputs)

    @property
    def backward(self) -> tuple[int, int]:
        """Positions of the first and the last of its gradients."""
        both = [p for p in (self.weight_gradient, self.input_gradient) if p >= 0]
        return min(both), max(both)

    def __str__(self) -> str:
        return f"{self.rows} x {self.inputs} by {self.inputs} x {self.outputs}"


PRODUCTS = ("mm", "addmm")


def linear_layers(operators: Sequence[Operator]) -> list[LinearLayer]:
    """Linear layers of a step, in forward order.

    Raises
    ------
    ValueError
        The products of the step are not one forward pass and its backward pass; says why not.

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
        raise ValueError("it has no matrix products with recorded shapes (mm, addmm)")
    read = [
        (n, found)
        for n in range(-(-total // 3), total // 2 + 1)
        if (found := _backward_positions(sizes, n)) is not None
    ]
    if len(read) != 1:
        raise ValueError(
            f"its {total} matrix products cannot be read as one forward pass and its backward pass"
            + (" in one way only" if read else "")
            + " (recomputation, frozen layers and several micro-batches per step are not supported)"
        )
    ((count, gradients),) = read
    return [
        _layer(operators[at[i]], sizes[i], at[i], gradients[i], sizes, at) for i in range(count)
    ]


def _product(operator: Operator) -> Product:
    """Sizes of a matrix product."""
    if len(operator.shapes) < 2:
        raise ValueError(f"{operator.name} has no recorded shapes (record_shapes=True)")
    (m, k), (_, n) = operator.shapes[1:3] if operator.name == "addmm" else operator.shapes[:2]
    return m, k, n


def _weight_gradients(of: Product) -> tuple[Product, Product]:
    """The two products that may be the gradient of a layer's weight, as it is or transposed."""
    rows, inputs, outputs = of
    return (outputs, rows, inputs), (inputs, rows, outputs)


def _backward_positions(sizes: list[Product], count: int) -> list[tuple[int, int]] | None:
    """Numbers of the (weight's, input's) gradient of each of the first products, if all fit."""
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
