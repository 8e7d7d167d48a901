"""Operators of a recorded step that compute on numbers, in order; resizing a step must follow them.

Operators nested inside another are its implementation and not listed. Views, and operators that
only call others, are not listed either. ``dispatched.py`` finds the same operators by asking torch;
here they are found by name, without torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..event_columns import Event
from ..infer.events.rank_trace import RankTrace
from ..infer.events.steps import Steps
from ..infer.ranks.gradients import GRADIENT
from ..infer.ranks.rank_analysis import QUICK

Shape = tuple[int, ...]
CALLS_OTHERS = frozenset(
    """linear matmul reshape contiguous to _to_copy layer_norm group_norm rms_norm dropout
    scaled_dot_product_attention cross_entropy_loss nll_loss_nd nll_loss log_softmax softmax einsum
    flatten unflatten type_as one_hot conv1d conv2d conv3d batch_norm _batch_norm_impl_index
    adaptive_avg_pool2d max_pool2d chunk split split_with_sizes tensor_split expand_as view_as item
    _local_scalar_dense detach_ zeros zeros_like ones requires_grad_ set_data mT""".split()  # noqa: SIM905  one word a name
)
"""Operators that only call others (CompositeImplicitAutograd), or make or look at tensors."""


class Operator(NamedTuple):
    """Operator that computed on numbers.

    Parameters
    ----------
    row : row of the event in the rank's events
    name : name without ``aten::`` and without the mark of an in-place operator
    shapes : shape of each argument; for a list of tensors, a tuple of shapes
    types : type of each argument, as the profiler writes it
    inner : rows of the operators nested inside it
    gradient : True if it is not an operator but the mark that a gradient is complete
    on_gradient : True if autograd or DDP apply it to a complete gradient
    """

    row: int
    name: str
    shapes: tuple[Any, ...]
    types: tuple[str, ...]
    inner: tuple[int, ...] = ()
    gradient: bool = False
    on_gradient: bool = False

    @property
    def tensors(self) -> Iterator[Shape]:
        """Yield the shapes of its tensors with more than one element, including those in lists."""
        return (s for _, s in tensor_shapes(self.shapes) if np.prod(s) > 1)

    def __str__(self) -> str:
        sizes = " ".join(f"[{'x'.join(map(str, s))}]" for s in self.tensors)
        return f"{self.name} {sizes}".strip()


def tensor_shapes(shapes: tuple[Any, ...]) -> Iterator[tuple[int, Shape]]:
    """Yield (argument index, shape) of each tensor among an operator's arguments, including lists.

    >>> list(tensor_shapes(((4, 8), (), ((4, 2), (4, 6)))))
    [(0, (4, 8)), (2, (4, 2)), (2, (4, 6))]
    """
    for i, shape in enumerate(shapes):
        if shape and isinstance(shape[0], tuple):
            yield from ((i, one) for one in shape)
        elif shape:
            yield i, shape


def step_operators(events: RankTrace, steps: Steps) -> list[list[Operator]]:
    """Operators of each step that computed on numbers, in order, including marks of gradients."""
    rows = np.flatnonzero((events.kind == Event.OP) & (events.table["name"] >= 0))
    strings, name = events.trace.strings, events.name
    # A mark that takes no time (of a step that was not run) lies before what begins with it.
    mark = np.array([s == GRADIENT for s in strings])[name[rows]] & (events.dur[rows] == 0)
    rows = rows[np.lexsort((-events.dur[rows], ~mark, events.start[rows]))]
    position = steps.position_at(events.start[rows])
    found: list[list[Operator]] = [[] for _ in steps.number]
    until, last, owned = -1, -1, -1
    inside: dict[int, list[int]] = {}
    for row, step in zip(rows.tolist(), position.tolist(), strict=True):
        if step < 0:
            continue
        text = strings[int(name[row])]
        if int(events.start[row]) < until:
            inside[last].append(row)
            continue
        if ON_GRADIENT.search(text):
            owned = int(events.end[row])
        if text == GRADIENT:
            found[step].append(_operator(events, row, "gradient")._replace(gradient=True))
        elif is_computing_operator(text):
            until, last, inside[row] = int(events.end[row]), row, []
            operator = _operator(events, row, _short(text))
            owns = int(events.start[row]) < owned
            found[step].append(operator._replace(on_gradient=owns))
    return [[o._replace(inner=tuple(inside.get(o.row, ()))) for o in step] for step in found]


ON_GRADIENT = re.compile(r"AccumulateGrad|torch(::|\.)distributed(::|\.)")
"""Marks around what is done to a gradient: autograd's, and DDP's."""
ATEN = re.compile(r"(aten|mkldnn|quantized|prims)::\w+$")
OWN = re.compile(
    r"(torch::|autograd::|c10d|gloo:|nccl|record_param_comms|detach$|Optimizer\.|enumerate\("
    r"|DistributedDataParallel|torch\.distributed|ProfilerStep|\[)|.*Backward\d*$|[^:]*$"
)


def is_computing_operator(name: str) -> bool:
    """True if an operator computes on numbers, judged by its name; unknown ones are assumed to.

    >>> [is_computing_operator(f"aten::{n}") for n in ("mm", "t", "linear")]
    [True, False, False]
    >>> is_computing_operator("flash_attn::_flash_attn_forward")
    True
    >>> is_computing_operator("AddmmBackward0")
    False
    """
    if ATEN.match(name):
        return name not in QUICK and name.partition("::")[2] not in CALLS_OTHERS
    return not OWN.match(name)


def _short(name: str) -> str:
    return name.removeprefix("aten::").removesuffix("_")


def _operator(events: RankTrace, row: int, name: str) -> Operator:
    return Operator(row, name, *recorded_arguments(events, row))


def recorded_arguments(events: RankTrace, row: int) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Shapes and types of an operator's arguments; both () if not recorded."""
    strings = (*events.trace.strings, "")
    shapes, types = (strings[int(events.table[c][row])] for c in ("shapes", "dtypes"))
    if not shapes or not types:
        return (), ()
    return tuple(map(_as_tuple, json.loads(shapes))), tuple(map(str, json.loads(types)))


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
