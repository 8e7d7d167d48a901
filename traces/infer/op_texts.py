"""Labels, signatures, flop and bytes of a rank's ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.graph import Label, OpTexts
from ...sim.facts.ops import Kind
from ...sim.facts.signature import Operand, Signature
from ..event_columns import Event
from .events.operands import kernel_element_type, parse_operands
from .op_work import (
    OpWork,
    is_gemm_kernel,
    is_index_kernel,
    kernel_share_of_work,
    multiplication_savings,
    op_work,
)
from .ranks.rank_graph import RankGraph

MOST = 2**63 - 1  # codes of distinct rows
DIRECTIONS = {"htod": "h2d", "dtoh": "d2h", "dtod": "d2d", "htoh": "h2h", "ptop": "d2d"}


def label_numbers(graph: RankGraph, texts: OpTexts) -> NDArray[np.int64]:
    """Index of each op's label, shape (n,); -1 where no event was recorded."""
    row = graph.event
    keys = [
        graph.events.name[row],
        graph.provenance.module[row],
        graph.provenance.source[row],
        graph.kind == Kind.DELAY,
    ]
    rows, inverse = distinct_rows([np.where(row < 0, np.int64(-1), k) for k in keys])
    return np.array([_add_label(graph, k, texts) for k in rows], np.int64)[inverse]


def distinct_rows(columns: list[NDArray[Any]]) -> tuple[list[list[int]], NDArray[np.int64]]:
    """Distinct rows of several integer columns, and for each row its index among them.

    >>> import numpy as np
    >>> rows, inverse = distinct_rows([np.array([5, 5, 7]), np.array([1, 1, 0])])
    >>> rows, inverse.tolist()
    ([[5, 1], [7, 0]], [0, 0, 1])
    """
    code, codes = np.zeros(len(columns[0]), np.int64), 1  # numbers of the rows so far, below codes
    for column in columns:
        least = int(column.min(initial=0))
        values = int(column.max(initial=0)) - least + 1
        if codes * values > MOST:
            distinct, code = np.unique(code, return_inverse=True)
            codes = len(distinct)
        code = code * values + (column - least)
        codes *= values
    _, code = np.unique(code, return_inverse=True)
    first = np.full(int(code.max(initial=-1)) + 1, 0)
    first[code] = np.arange(len(code))
    return np.stack([c[first].astype(np.int64) for c in columns], 1).tolist(), code


def _add_label(graph: RankGraph, key: list[int], texts: OpTexts) -> int:
    name, module, source, delay = key
    if name < 0:
        return -1
    strings = (*graph.events.trace.strings, "")
    text = f"launch of {strings[name]}" if delay else strings[name]
    return texts.label(
        Label(text, strings[module].removeprefix("nn.Module: "), _innermost_frame(strings[source]))
    )


def _innermost_frame(stack: str) -> str:
    """Innermost frame of a call stack that is not in PyTorch's own code."""
    frames = [f.strip() for f in stack.split(";") if f.strip()]
    own = [f for f in frames if "/torch/" not in f and not f.startswith("torch/")]
    return (own or frames or [""])[0]


def signature_numbers(graph: RankGraph, texts: OpTexts) -> NDArray[np.int64]:
    """Index of each op's signature, shape (n,); -1 for gaps and delays."""
    events = graph.events
    row = np.where(np.isin(graph.kind, (Kind.GAP, Kind.DELAY)), -1, graph.event)
    work = np.isin(events.kind[row], (Event.KERNEL,)) & (row >= 0)
    operator = np.where(work, graph.provenance.operator[row], -1)
    of = np.where(operator >= 0, operator, row)
    sole = np.where(operator >= 0, graph.provenance.sole[row], 1)
    shapes, dtypes = (events.table[c][of] for c in ("shapes", "dtypes"))
    keys = [graph.kind, events.name[row], events.name[of], sole, shapes, dtypes]
    rows, inverse = distinct_rows([np.where(row < 0, np.int64(-1), k) for k in keys])
    numbers = np.array([_add_signature(graph, k, texts) for k in rows], np.int64)[inverse]
    for c in graph.collectives:
        numbers[c.work] = texts.signature(c.signature)
    return numbers


def _add_signature(graph: RankGraph, key: list[int], texts: OpTexts) -> int:
    kind, own, operator, sole, shapes, dtypes = key
    if own < 0:
        return -1
    strings = (*graph.events.trace.strings, "")
    word = Kind(kind).name.lower()
    name = strings[operator]
    element = kernel_element_type(strings[own]) if own != operator else ""
    told = parse_operands(strings[shapes], strings[dtypes], element)
    if kind == Kind.COPY:
        name = _copy_direction(strings[own])
    elif kind == Kind.COMPUTE:
        name = name if sole else f"{name}/{strings[own]}"
        told = _operands_as_computed(told, strings[own])
    return texts.signature(str(Signature(word, name, told)))


TF32 = ("s1688gemm", "s1688fprop", "s1688dgrad", "s1688wgrad", "tf32")  # of cuBLAS, cuDNN


def _operands_as_computed(told: tuple[Operand, ...], kernel: str) -> tuple[Operand, ...]:
    """Operands as a kernel computes them: fp32 becomes tf32 if the kernel's name says so.

    >>> _operands_as_computed((Operand("fp32", (8, 8)),), "ampere_sgemm_32x128_tn")[0].dtype
    'fp32'
    >>> kernel = "cutlass_80_tensorop_s1688gemm_64x64"
    >>> _operands_as_computed((Operand("fp32", (8, 8)),), kernel)[0].dtype
    'tf32'
    """
    if not any(word in kernel for word in TF32):
        return told
    return tuple(o if o.dtype != "fp32" else Operand("tf32", o.shape) for o in told)


def flop_and_bytes(graph: RankGraph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Flop and bytes of each op, each of shape (n,); NaN if unknown.

    They are unknown for a host operator that became several ops, because its work cannot be divided
    among them. Kernels of one operator divide its work (``op_work.kernel_share_of_work``).
    """
    table, provenance = graph.events.table, graph.provenance
    row = np.where(graph.kind == Kind.COMPUTE, graph.event, -1)
    kernel = np.isin(graph.events.kind[row], (Event.KERNEL,)) & (row >= 0)
    own = np.where(kernel, table["name"][row], -1)
    row = np.where(kernel, provenance.operator[row], row)
    mine = _value_per_name(graph, own, is_gemm_kernel)
    idle = _value_per_name(graph, own, is_index_kernel)
    fewer = _value_per_name(graph, own, multiplication_savings, 1.0)
    held = row >= 0
    whole = np.bincount(row[held], minlength=len(table["name"]))
    several = np.bincount(row[held & mine], minlength=len(table["name"]))
    products = np.ones(len(table["name"]))
    np.maximum.at(products, row[held], fewer[held])
    row = np.where(held & ((whole[row] == 1) | kernel), row, -1)
    inner = _value_per_name(graph, np.where(row >= 0, table["name"][row], -1), INNER.__contains__)
    of = np.where(inner & (table["scalars"][row] < 0), provenance.outer[row], row)
    of = np.where(of < 0, row, of)
    columns = [
        *(np.where(row < 0, np.int64(-1), table[c][of if c in SHAPED else row]) for c in WORDS),
        np.where(row < 0, 0, mine), np.where(row < 0, 0, several[row]),
        np.where(row < 0, 1, whole[row]), idle,
    ]  # fmt: skip
    rows, inverse = distinct_rows(columns)
    strings = (*graph.events.trace.strings, "")
    known = _convolution_gradients(graph)
    works = np.array([_work_of_kernel(strings, key, known) for key in rows]).reshape(-1, 2)[inverse]
    copies = np.flatnonzero((graph.kind == Kind.COPY) & (graph.event >= 0))
    recorded = table["bytes"][graph.event[copies]]
    works[:, 0] /= np.where(row < 0, 1.0, products[row])
    works[copies, 1] = np.where(recorded > 0, recorded, np.nan)
    for c in graph.collectives:
        works[c.work, 1] = c.bytes
    return works[:, 0], works[:, 1]


def _value_per_name(
    graph: RankGraph, names: NDArray[Any], tell: Callable[[str], float], unnamed: float = False
) -> NDArray[Any]:
    """Apply a function to the name of each op, given by text number; shape (n,).

    `unnamed` is the value for ops without a name (text number -1).
    """
    strings = graph.events.trace.strings
    told = np.full(len(strings) + 1, unnamed)
    for number in np.unique(names[names >= 0]).tolist():
        told[number] = tell(strings[number])
    return np.asarray(told[names])


WORDS = ("name", "shapes", "dtypes", "scalars")
SHAPED = ("shapes", "dtypes")
FORWARD, BACKWARD = "aten::cudnn_convolution", "aten::cudnn_convolution_backward"
INNER = ("aten::cudnn_convolution_backward_weight",)
"""Operators whose own shapes lack what those of the operator around them have: the weight's."""
Operands = tuple[str, str]  # shapes, element types
Gradients = dict[tuple[tuple[int, ...], ...], Operands]


def _convolution_gradients(graph: RankGraph) -> Gradients:
    """Recorded operands of convolution gradients (texts), by the shapes of input and weight.

    They give the size of a convolution's result if a trace has no strides.
    """
    table, strings = graph.events.table, (*graph.events.trace.strings, "")
    rows = np.flatnonzero(np.array([s == BACKWARD for s in strings])[table["name"]])
    texts, _ = distinct_rows([table["shapes"][rows], table["dtypes"][rows]])
    found: Gradients = {}
    for shapes, dtypes in texts:
        told = [o.shape for o in parse_operands(strings[shapes], strings[dtypes])]
        if len(told) >= 3:
            found[told[0], told[2]] = strings[shapes], strings[dtypes]
    return found


def _work_of_kernel(strings: tuple[str, ...], key: list[int], known: Gradients) -> OpWork:
    """Flop and bytes of one kernel of an operator, or of an operator that is one op."""
    name, shapes, dtypes, scalars = (strings[i] for i in key[: len(WORDS)])
    two = tuple(o.shape for o in parse_operands(shapes, dtypes)[:2])
    if name == FORWARD and not scalars and two in known:  # as much as the weight's gradient
        name, (shapes, dtypes) = INNER[0], known[two]
    mine, several, kernels, idle = key[len(WORDS) :]
    work = op_work(name, shapes, dtypes, scalars)
    if idle:
        return OpWork(0.0, 0.0)
    if kernels == 1:
        return work
    tensors = sum(bool(o.shape) for o in parse_operands(shapes, dtypes)) + 1
    return kernel_share_of_work(work, tensors, bool(mine), several, kernels)


def _copy_direction(name: str) -> str:
    """Direction of a copy such as ``h2d``, from its name (``Memcpy HtoD (Pinned -> Device)``).

    It is ``fill`` if the name contains no direction.
    """
    low = name.lower().replace(" ", "")
    return next((to for word, to in DIRECTIONS.items() if word in low), "fill")
