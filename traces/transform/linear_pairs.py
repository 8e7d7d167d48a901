"""Pairs of linear layers that tensor-parallel ranks can split, found in a recorded step.

Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053, section 3) splits the first layer of a pair by
columns and the second by rows. Between them each rank holds its part of the columns. This is exact
if the operators between treat every column, or every attention head, independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

from .computing_operators import Operator, Shape
from .linear_layers import PRODUCTS, LinearLayer, linear_layers

POINTWISE = frozenset(
    """abs add addcdiv addcmul clamp clamp_min clone copy cos div elu erf exp gelu gelu_backward
    hardtanh hardtanh_backward leaky_relu leaky_relu_backward masked_fill mul native_dropout
    native_dropout_backward _fused_dropout neg pow relu rsqrt rsub sigmoid sigmoid_backward silu
    silu_backward sin sqrt sub tanh tanh_backward threshold_backward where bernoulli empty_like
    ones_like zero fill ne eq gt lt ge le""".split()  # noqa: SIM905  one word a name
)
"""Operators that treat each number by itself."""
JOINS = frozenset({"cat", "stack", "glu", "glu_backward"})
"""Operators that put columns or heads beside each other, or take two halves of them."""
ATTENTION = ("_scaled_dot_product", "_flash_attention", "_efficient_attention")


class AttentionHeads(NamedTuple):
    """Sizes of an attention: query heads, key heads, sequence length, and the widths of a head."""

    query: int
    key: int
    length: int
    widths: tuple[int, int]


class LinearPair(NamedTuple):
    """Pair of linear layers: one to three split by columns, then one split by rows.

    Parameters
    ----------
    columns : the one (fused), two (gated) or three (query, key, value) layers that are split by
        columns; all have the same input
    row : the second layer of the pair, split by rows
    heads : heads of the attention between the layers; None for an MLP
    consumer : index of the operator that uses the gradient of the pair's input; -1 if there is none
    """

    columns: tuple[LinearLayer, ...]
    row: LinearLayer
    heads: AttentionHeads | None
    consumer: int = -1

    @property
    def tokens(self) -> int:
        """Number of tokens in the input of the pair: the rows of each layer's input."""
        return self.row.rows

    @property
    def max_degree(self) -> int:
        """Maximum number of ranks that can split the pair."""
        return self.row.inputs if self.heads is None else gcd(self.heads.query, self.heads.key)

    @property
    def split_widths(self) -> set[int]:
        """Column counts of split tensors between the layers, without those of unsplit tensors."""
        wide = {c.outputs for c in self.columns} | {self.row.inputs}
        wide.add(sum(c.outputs for c in self.columns))
        return wide - {self.columns[0].inputs, self.row.outputs}

    def __str__(self) -> str:
        return f"{' and '.join(map(str, self.columns))}, then {self.row}"

    def split(self, shape: Shape, degree: int) -> Shape | None:
        """Shape of one rank's part of a tensor between the layers; None if the tensor is not split.

        Raises
        ------
        ValueError
            There are as many heads as tokens, so sizes do not distinguish the two.
        """
        if shape[-1] in self.split_widths and prod(shape[:-1]) == self.tokens:
            return (*shape[:-1], shape[-1] // degree)
        if len(shape) == 1 and shape[0] in {w * self.tokens for w in self.split_widths}:
            return (shape[0] // degree,)
        if self.heads is None or prod(shape) % self.tokens:
            return None
        inside = range(1, len(shape) - 1)
        at = [i for i in inside if shape[i] in (self.heads.query, self.heads.key)]
        if not at:
            return None
        if self.heads.length in (self.heads.query, self.heads.key):
            raise ValueError(
                f"its attention has as many heads as tokens ({self.heads.length}), so sizes do "
                "not distinguish them"
            )
        return (*shape[: at[-1]], shape[at[-1]] // degree, *shape[at[-1] + 1 :])


def linear_pairs(operators: Sequence[Operator]) -> list[LinearPair]:
    """Find the pairs of a step, in forward order.

    Only the first and the last linear layer may belong to no pair; these are not split.

    Raises
    ------
    ValueError
        There is no pair, or another layer belongs to none; with the layer and the reason.
    """
    for operator in operators:
        if "conv" in operator.name:
            raise ValueError(f"{operator} is a convolution; only linear layers are split, in pairs")
    if not parameter_shapes(operators):
        raise ValueError("it has no backward pass: it completes no gradient (AccumulateGrad)")
    layers = linear_layers(operators)
    pairs: list[LinearPair] = []
    alone: list[tuple[int, str]] = []
    at = 0
    while at < len(layers):
        pair, reason = _pair_at(operators, layers, at)
        if pair is None:
            alone.append((at, reason))
        else:
            pairs.append(pair)
        at += 1 if pair is None else len(pair.columns) + 1
    ends = (0, len(layers) - 1) if pairs else ()
    for at, reason in alone:
        if at not in ends:
            raise ValueError(
                f"the linear layer {layers[at]} (number {at + 1} of {len(layers)}) has no pair: "
                f"{reason}"
            )
    _refuse_use_outside(operators, pairs, [layers[at] for at, _ in alone])
    return pairs


def _refuse_use_outside(
    operators: Sequence[Operator], pairs: list[LinearPair], whole: list[LinearLayer]
) -> None:
    """Refuse operators outside of pairs that use tensors as wide as those inside a pair."""
    inside = {at for p in pairs for at in range(p.columns[0].forward, p.row.forward + 1)}
    backward = min(layer.backward[0] for layer in (*whole, *(p.row for p in pairs)))
    known = {n for layer in whole for n in (layer.inputs, layer.outputs)}
    for at, operator in enumerate(operators[:backward]):
        if at in inside or operator.gradient:
            continue
        for p in pairs:
            for s in operator.tensors:
                if s[-1] in p.split_widths - known and len(s) > 1 and prod(s[:-1]) == p.tokens:
                    raise ValueError(
                        f"{operator} is outside of the pair {p}, but uses a tensor that would be "
                        "split"
                    )


def _pair_at(
    operators: Sequence[Operator], layers: list[LinearLayer], at: int
) -> tuple[LinearPair | None, str]:
    """Pair that begins with the given layer, or None and the reason."""
    reasons: list[str] = []  # of layers whose sizes fit first
    for size in (1, 2, 3):
        columns, row = tuple(layers[at : at + size]), layers[at + size : at + size + 1]
        if not row:
            break
        try:
            return _checked_pair(operators, columns, row[0]), ""
        except _SizeMismatchError as error:
            reasons.append(str(error))
        except ValueError as error:
            reasons.insert(0, str(error))
    return None, (reasons or ["it is the last"])[0]


class _SizeMismatchError(ValueError):
    """Layers that cannot be a pair because of their own sizes."""


def _checked_pair(
    operators: Sequence[Operator], columns: tuple[LinearLayer, ...], row: LinearLayer
) -> LinearPair:
    """Build the pair of these layers.

    Raises
    ------
    ValueError
        They are not a pair, or it cannot be decided; with the reason.
    """
    first = columns[0]
    alike = {(c.rows, c.inputs) for c in columns} == {(row.rows, first.inputs)}
    if not alike:
        raise _SizeMismatchError(f"the next layer, {row}, has another number of rows (tokens)")
    parameters = parameter_shapes(operators)
    between = [
        o
        for o in operators[first.forward + 1 : row.forward]
        if not o.gradient and o.name not in PRODUCTS and not is_weight_cast(o, parameters)
    ]
    attention = [o for o in between if _is_attention(o)]
    heads = _heads(attention, columns, row) if attention else None
    pair = LinearPair(columns, row, heads)
    if heads is None:
        _require_width(columns, row)
    for operator in between:
        require_split(pair, operator, "between it and the next")
    return _with_consumer(operators, pair)


def _is_attention(operator: Operator) -> bool:
    return operator.name.startswith(ATTENTION) and not operator.name.endswith("backward")


def _heads(
    attention: list[Operator], columns: tuple[LinearLayer, ...], row: LinearLayer
) -> AttentionHeads:
    """Heads of the single attention between the layers; it must use all their columns."""
    if len(attention) > 1 or len(attention[0].shapes) < 3:
        raise ValueError(
            f"there are {len(attention)} attentions between it and the next layer; only one, with "
            "recorded query, key and value, can be split"
        )
    query, key, value = attention[0].shapes[:3]
    if not len(query) == len(key) == len(value) == 4:
        raise ValueError(
            f"operands of {attention[0]} are not of shape (samples, heads, tokens, width)"
        )
    samples, heads, length, width = query
    made = sum(c.outputs for c in columns)
    used = heads * width + key[1] * width + value[1] * value[3]
    whole = samples * length == row.rows and key[2] == value[2] == length
    if not whole or used != made or heads * value[3] != row.inputs or key[1] != value[1]:
        raise ValueError(
            f"{attention[0]} reads {used} columns and writes {heads * value[3]}, but the "
            f"layers before it write {made} and the layer after it reads {row.inputs}"
        )
    return AttentionHeads(heads, key[1], length, (width, value[3]))


def _require_width(columns: tuple[LinearLayer, ...], row: LinearLayer) -> None:
    """Require that the next layer takes exactly the columns that an MLP's first layers produce."""
    made = [c.outputs for c in columns]
    gated = made in ([2 * row.inputs], [row.inputs, row.inputs])
    if made != [row.inputs] and not gated:
        raise _SizeMismatchError(
            f"it makes {sum(made)} columns, and the next layer takes {row.inputs}"
        )
    if row.inputs in (columns[0].inputs, row.outputs):
        raise ValueError(
            f"tensors between it and the next have {row.inputs} columns, like those around them; "
            "sizes do not distinguish them"
        )


def require_split(pair: LinearPair, operator: Operator, where: str) -> None:
    """Require that an operator between the layers of a pair is exact on one rank's part.

    Raises
    ------
    ValueError
        The operator may mix the parts, or uses another tensor.
    """
    known = operator.name in POINTWISE | JOINS or operator.name.startswith(ATTENTION)
    if not known:
        raise ValueError(f"{operator} {where} may mix columns that would be on different ranks")
    if not operator.shapes:
        raise ValueError(f"{operator} {where} has no recorded shapes")
    tensors = list(operator.tensors)
    share = [pair.split(shape, 1) is not None for shape in tensors]
    whole = [s for s, mine in zip(tensors, share, strict=True) if not mine]
    large = [s for s in whole if prod(s) % pair.tokens == 0 or s[-1] in pair.split_widths]
    if operator.name.startswith(ATTENTION):
        large = []  # a mask is of no head
    if tensors and (not any(share) or large):
        raise ValueError(f"{operator} {where}: sizes do not show which part of it would be split")


def _with_consumer(operators: Sequence[Operator], pair: LinearPair) -> LinearPair:
    """Copy of the pair with the operator that uses the gradient of its input.

    Raises
    ------
    ValueError
        The backward pass does not fit the pair.
    """
    if pair.row.input_gradient < 0:
        raise ValueError("the gradient of the next layer's input is not computed")
    if not all(c.certain for c in pair.columns):
        raise ValueError(
            "sizes do not distinguish the gradient of its weight from that of its input"
        )
    made = [c.input_gradient >= 0 for c in pair.columns]
    if any(made) != all(made):
        raise ValueError("the input gradients of some of these layers are not computed")
    if not all(made):
        return pair
    added, consumer = 0, -1
    for at, operator in backward_operators(operators, pair):
        if is_input_sum(pair, operator) and added + 1 < len(pair.columns):
            added += 1
        elif at > max(c.backward[1] for c in pair.columns):
            consumer = at
            break
    if added + 1 < len(pair.columns):
        raise ValueError(
            f"the gradients of {len(pair.columns)} consecutive layers are not added up, so "
            "they do not share their input"
        )
    return pair._replace(consumer=consumer)


def is_input_sum(pair: LinearPair, operator: Operator) -> bool:
    """True if an operator adds gradients of the common input of a pair's layers."""
    shapes = list(operator.tensors)
    return operator.name == "add" and len(shapes) == 2 and all(
        s[-1] == pair.columns[0].inputs and prod(s[:-1]) == pair.tokens for s in shapes
    )  # fmt: skip


def backward_operators(
    operators: Sequence[Operator], pair: LinearPair
) -> Iterator[tuple[int, Operator]]:
    """Yield (index, operator) after the first gradient GEMM of a pair's column layers.

    GEMMs, sums and operators on weight gradients are left out.
    """
    first = min(c.backward[0] for c in pair.columns)
    for at, operator in enumerate(operators[first + 1 :], first + 1):
        weights = operator.gradient or operator.on_gradient
        if not weights and operator.name not in PRODUCTS and operator.name != "sum":
            yield at, operator


def is_weight_cast(operator: Operator, parameters: set[Shape]) -> bool:
    """True if an operator of the forward pass copies a weight, as autocast does."""
    return operator.name == "copy" and all(s in parameters for s in operator.tensors)


def parameter_shapes(operators: Sequence[Operator]) -> set[Shape]:
    """Shapes of all parameters, taken from their gradients."""
    return {s for o in operators if o.gradient for s in o.shapes if s}
