"""Operators of a recorded step on one of several tensor-parallel ranks.

Each rank holds some columns of the first layer of a pair (``linear_pairs.py``) and the
corresponding rows of the second. Its GEMMs, gradients, biases, and all operators between the layers
shrink accordingly, and so do the operators of DDP and of the optimizer on these weights.
All-reduced among the ranks are the output of the second layer and the gradient of the first layer's
input (f and g of Megatron-LM, arXiv:1909.08053, figure 3). The bias of the second layer is added
after the all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from .computing_operators import Operator, Shape, tensor_shapes
from .linear_layers import PRODUCTS, LinearLayer
from .linear_pairs import (
    POINTWISE,
    LinearPair,
    is_input_sum,
    is_weight_cast,
    parameter_shapes,
    require_split,
)

OF_WEIGHTS = POINTWISE | {
    "lerp", "addcmul", "maximum", "sign", "_fused_adam", "_fused_adamw", "_fused_sgd",
    "_fused_adagrad",
}  # fmt: skip
"""Operators on weights, gradients and an optimizer's states that treat each number by itself."""


class ShardedOperator(NamedTuple):
    """Operator after splitting: its arguments on one of the tensor-parallel ranks.

    Parameters
    ----------
    shapes, types : shapes and types of the operator's arguments on one rank
    share : function from a tensor's shape to its shape on one rank, None if not split; used for
        operators nested inside this one
    element : element type of tensors in lists, which profilers omit; "" if unknown
    name : new name; "" if it stays as recorded
    """

    shapes: tuple[Any, ...]
    types: tuple[str, ...]
    share: Callable[[Shape], Shape | None]
    element: str = ""
    name: str = ""


class TensorAllReduce(NamedTuple):
    """All-reduce among the tensor-parallel ranks, and the bias added after it.

    Parameters
    ----------
    position : index of an operator; the all-reduce is inserted after it in the forward pass, before
        it in the backward pass
    forward : True in the forward pass
    type : element type, as the profiler writes it
    shape : shape of the tensor that is reduced
    bias : shape of the bias that is added; () if there is none
    """

    position: int
    forward: bool
    type: str
    shape: Shape
    bias: Shape = ()


class ShardedStep(NamedTuple):
    """One training step after splitting: what changes on one of the tensor-parallel ranks.

    Parameters
    ----------
    operators : changed operators, by index in the step
    reduced : all-reduces that the tensor-parallel ranks need, in order
    gradients : shape on one rank of each gradient that is split, by index of its mark
    """

    operators: dict[int, ShardedOperator]
    reduced: list[TensorAllReduce]
    gradients: dict[int, Shape]


def tensor_shards(
    operators: Sequence[Operator], pairs: Sequence[LinearPair], degree: int
) -> ShardedStep:
    """Compute the part of a step that one of ``degree`` tensor-parallel ranks executes.

    Raises
    ------
    ValueError
        It is unknown what an operator would become; with the operator and the reason.
    """
    return _Sharder(operators, pairs, degree).shares()


class _Sharder:
    """Builder of a sharded step: first the pairs of layers, then the operators on their weights."""

    def __init__(self, operators: Sequence[Operator], pairs: Sequence[LinearPair], degree: int):
        self.operators, self.pairs, self.degree = operators, pairs, degree
        self.parameters = parameter_shapes(operators)
        self.found: dict[int, ShardedOperator] = {}
        self.gradients: dict[int, Shape] = {}

    def shares(self) -> ShardedStep:
        reduced: list[TensorAllReduce] = []
        for pair in self.pairs:
            for layer in pair.columns:
                self._rewrite_gemms(layer, layer.outputs // self.degree, layer.inputs)
                self._claim_gradients(layer, columns=True)
            self._rewrite_gemms(pair.row, pair.row.outputs, pair.row.inputs // self.degree)
            self._claim_gradients(pair.row, columns=False)
            self._rewrite_forward(pair)
            self._rewrite_backward(pair)
            reduced += self._reductions(pair)
        self._rewrite_weight_operators()
        return ShardedStep(self.found, reduced, self.gradients)

    def _rewrite_gemms(self, layer: LinearLayer, outputs: int, inputs: int) -> None:
        """Rewrite the GEMMs of a layer to the given numbers of outputs and inputs."""
        rows = layer.rows
        forward = ((rows, inputs), (inputs, outputs))
        if not layer.biased:
            self._rewrite(layer.forward, forward, (rows, outputs))
        elif outputs != layer.outputs:
            self._rewrite(layer.forward, ((outputs,), *forward), (rows, outputs))
        else:  # the second of a pair: its bias is added behind what is reduced
            types = self.operators[layer.forward].types[1:3]
            self.found[layer.forward] = ShardedOperator(
                forward, types, _stays_whole, name="aten::mm"
            )
        if layer.input_gradient >= 0:
            backward = ((rows, outputs), (outputs, inputs))
            self._rewrite(layer.input_gradient, backward, (rows, inputs))
        first, last = (inputs, outputs) if layer.transposed else (outputs, inputs)
        self._rewrite(layer.weight_gradient, ((first, rows), (rows, last)), (first, last))

    def _rewrite(self, at: int, tensors: tuple[Shape, ...], result: Shape = ()) -> None:
        """Rewrite an operator: shapes of its first arguments (all tensors), and of its result."""
        operator = self.operators[at]
        shapes = (*tensors, *operator.shapes[len(tensors) :])
        share = dict(zip(operator.shapes, tensors, strict=False))
        if result:
            *_, left, right = operator.shapes[: len(tensors)]
            share[left[0], right[1]] = result
        self.found[at] = ShardedOperator(shapes, operator.types, share.get)

    def _claim_gradients(self, layer: LinearLayer, columns: bool) -> None:
        """Find the marks of a layer's complete gradients, and store their shapes on one rank.

        These are the gradients of the weight and, if it is split, of the bias. `columns` is True if
        the layer is split by columns, False if it is split by rows.
        """
        outputs = layer.outputs // (self.degree if columns else 1)
        inputs = layer.inputs // (1 if columns else self.degree)
        share = (inputs, outputs) if layer.transposed else (outputs, inputs)
        self._claim(layer, layer.weight, share)
        if layer.biased and columns:
            self._claim(layer, (layer.outputs,), (outputs,))

    def _claim(self, layer: LinearLayer, shape: Shape, share: Shape) -> None:
        for at in range(layer.weight_gradient, len(self.operators)):
            operator = self.operators[at]
            if operator.gradient and operator.shapes[:1] == (shape,) and at not in self.gradients:
                self.gradients[at] = share
                return
        raise ValueError(f"the gradient of a weight of the linear layer {layer} is not recorded")

    def _rewrite_forward(self, pair: LinearPair) -> None:
        for at in range(pair.columns[0].forward + 1, pair.row.forward):
            operator = self.operators[at]
            weights = operator.gradient or is_weight_cast(operator, self.parameters)
            if operator.name not in PRODUCTS and not weights:
                self._rewrite_between_layers(pair, at)

    def _rewrite_backward(self, pair: LinearPair) -> None:
        """Rewrite the operators between the second layer's gradients and the first's."""
        first = min(c.backward[0] for c in pair.columns)
        last = max(c.backward[1] for c in pair.columns)
        for at in range(pair.row.backward[1] + 1, len(self.operators)):
            operator = self.operators[at]
            if at == pair.consumer:
                break
            if operator.gradient or operator.on_gradient or operator.name in PRODUCTS:
                continue
            if operator.name == "sum":
                self._rewrite_bias_gradient(pair, at, behind=at > first)
            elif at > first and is_input_sum(pair, operator):
                continue
            elif at > last:  # the gradient of the input is not computed
                break
            else:
                require_split(pair, operator, f"in the backward pass of {pair}")
                self._rewrite_between_layers(pair, at)

    def _rewrite_bias_gradient(self, pair: LinearPair, at: int, behind: bool) -> None:
        """Rewrite the operator that sums a bias gradient.

        `behind` is True if the bias belongs to the first layers of the pair, and is split. The bias
        of the last layer stays unchanged.
        """
        operator = self.operators[at]
        (shape,) = operator.tensors
        wide = {c.outputs for c in pair.columns} if behind else {pair.row.outputs}
        if shape[-1] not in wide or prod(shape[:-1]) != pair.tokens:
            raise ValueError(
                f"{operator} in the backward pass of {pair} may mix columns that would be on "
                "different ranks"
            )
        if behind:
            self._rewrite(at, ((*shape[:-1], shape[-1] // self.degree),))

    def _rewrite_between_layers(self, pair: LinearPair, at: int) -> None:
        """Give an operator between the two layers of a pair the shapes of one rank's part."""
        element = self.operators[pair.columns[0].forward].types[0]
        self._rewrite_shapes(at, lambda s: pair.split(s, self.degree), element)

    def _rewrite_shapes(
        self, at: int, share: Callable[[Shape], Shape | None], element: str
    ) -> None:
        """Rewrite an operator by applying `share` to the shape of each of its tensors."""
        shapes, types = self.operators[at].shapes, self.operators[at].types
        self.found[at] = ShardedOperator(
            shard_shapes(shapes, share), with_list_types(types, element), share, element
        )

    def _reductions(self, pair: LinearPair) -> Iterator[TensorAllReduce]:
        row, first = pair.row, pair.columns[0]
        element = self.operators[row.forward].types[0]
        wide = next(
            (
                s
                for s in self.operators[row.forward + 1].tensors
                if s[-1] == row.outputs and prod(s) == row.rows * row.outputs
            ),
            (row.rows, row.outputs),
        )
        bias = (row.outputs,) if row.biased else ()
        yield TensorAllReduce(row.forward, True, element, wide, bias)
        if pair.consumer >= 0:
            yield TensorAllReduce(pair.consumer, False, element, (first.rows, first.inputs))

    def _rewrite_weight_operators(self) -> None:
        """Rewrite the operators of DDP and of the optimizer on weights that are split."""
        share: dict[Shape, Shape] = {}
        for at, shape in self.gradients.items():
            share.setdefault(self.operators[at].shapes[0], shape)
        marks = {at for at, o in enumerate(self.operators) if o.gradient}
        whole = {self.operators[at].shapes[0] for at in marks - self.gradients.keys()}
        words = {self.operators[at].types[0] for at in marks}
        backward = min(p.row.backward[0] for p in self.pairs)
        for at, operator in enumerate(self.operators):
            touched = [s for s in operator.tensors if s in share]
            skip = operator.gradient or operator.name in PRODUCTS or at in self.found
            if skip or not touched:
                continue
            if not operator.on_gradient and not self._works_on_weights(at, operator, backward):
                continue
            if both := sorted(whole.intersection(touched)):
                raise ValueError(
                    f"{operator}: of the parameters of {_sized(both[0])} some would be split and "
                    "some not, and sizes do not show which"
                )
            if operator.name.removeprefix("_foreach_") not in OF_WEIGHTS:
                raise ValueError(
                    f"{operator} works on a weight that would be split, and may mix its parts (a "
                    "norm over all of it is a sum over all ranks)"
                )
            element = next(iter(words)) if len(words) == 1 else ""
            self._rewrite_shapes(at, share.get, element)

    def _works_on_weights(self, at: int, operator: Operator, backward: int) -> bool:
        """True if an operator works on weights, not on activations of the same shape."""
        first = self.pairs[0].columns[0].forward
        if first <= at < backward and operator.name not in ("copy", "clone"):
            raise ValueError(
                f"{operator} may work on a weight or on an activation of the same size"
            )
        return operator.name != "sum" and "backward" not in operator.name


def _stays_whole(shape: Shape) -> None:
    """Share function of a tensor that is not split: returns None."""


def _sized(shape: Shape) -> str:
    return f"[{'x'.join(map(str, shape))}]"


def shard_shapes(
    shapes: tuple[Any, ...], share: Callable[[Shape], Shape | None]
) -> tuple[Any, ...]:
    """Shapes of all arguments, with the shapes of split tensors replaced.

    >>> shard_shapes(((4, 8), (), ((8,), (3,))), {(4, 8): (4, 4), (8,): (4,)}.get)
    ((4, 4), (), ((4,), (3,)))
    """
    new = {s: share(s) or s for _, s in tensor_shapes(shapes) if prod(s) > 1}

    def one(shape: Any) -> Any:
        inside = shape and isinstance(shape[0], tuple)
        return tuple(map(one, shape)) if inside else new.get(shape, shape)

    return tuple(map(one, shapes))


def with_list_types(types: tuple[str, ...], element: str) -> tuple[str, ...]:
    """Types of arguments, with the given element type added to lists of tensors.

    Profilers omit the element type of lists.

    >>> with_list_types(("TensorList", "Scalar"), "float")
    ('TensorList[float]', 'Scalar')
    """
    return tuple(f"{t}[{element}]" if t == "TensorList" and element else t for t in types)
