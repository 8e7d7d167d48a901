"""Operators of a captured trace that reached a backend, outermost first: what a step is made of.

An operator inside another is how that one does its work.  Needs torch, which knows its operators.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import torch

from ..sim.facts.signature import Operand
from .capture.meta_hook import is_work
from .event_columns import Event
from .infer.events.operands import parse_operands
from .infer.op_work import OpWork, op_work
from .trace import Trace


class DispatchedOp(NamedTuple):
    """An operator that reached a backend.

    Parameters
    ----------
    name : without the mark of an operator that works in place, which is as much work
    operands : tensors that it reads, in call order; not where it puts its result (``out=``)
    lists : shapes of each list of tensors, whose types the profiler leaves out
    work : flop and bytes; None of an operator with such a list
    seconds : that it lasted, what it called included
    """

    name: str
    operands: tuple[Operand, ...]
    lists: tuple[tuple[tuple[int, ...], ...], ...]
    work: OpWork | None
    seconds: float

    @property
    def text_without_time(self) -> str:
        """All but its time, as text, so that what is unknown (nan) of two is equal."""
        return repr(self[:-1])


def dispatched_ops(trace: Trace) -> list[DispatchedOp]:
    """Operators of a trace of one rank, in order; views and allocations are none."""
    columns = ("name", "shapes", "dtypes", "scalars")
    name, *texts = (trace.text(c) for c in columns)
    ts, dur = trace.events["ts"], trace.events["dur"]
    rows = np.flatnonzero(trace.events["kind"] == Event.OP)
    found, until = [], -1
    for i in rows[np.lexsort((-dur[rows], ts[rows]))].tolist():
        func = overload(name[i], texts[1][i]) if ts[i] >= until else None
        if func is None or _is_composite(func):
            continue
        until = int(ts[i] + dur[i])
        if is_work(func):
            said = [text[i] for text in texts]
            found.append(_dispatched(func, name[i], said, float(dur[i]) / trace.resolution))
    return found


def _dispatched(func: Any, name: str, said: list[str], seconds: float) -> DispatchedOp:
    shapes, dtypes, _ = said
    kinds = [str(argument.type) for argument in func._schema.arguments]
    words = ["" if w.startswith("TensorList") else w for w in json.loads(dtypes)]
    operands = parse_operands(shapes, json.dumps(words))
    places = sum(argument.is_out for argument in func._schema.arguments)  # the last ones
    operands = operands[: len(operands) - places]
    pairs = zip(kinds, json.loads(shapes), strict=True)
    lists = tuple(tuple(map(tuple, dims)) for kind, dims in pairs if kind == "List[Tensor]")
    listed = any("List[" in kind and "Tensor" in kind for kind in kinds)
    return DispatchedOp(
        name.removesuffix("_"),
        tuple(o for o in operands if not _is_workspace(name, o)),
        lists,
        None if listed else op_work(name, *said),
        seconds,
    )


def overload(name: str, types: str) -> Any:
    """Overload that a recorded operator is, by its arguments; None of what is no operator.

    >>> overload("aten::mm", '["float", "float"]').name(), overload("my step", "")
    ('aten::mm', None)
    """
    words = json.loads(types) if types else []
    return next((f for f in _overloads(name) if _fits(f._schema.arguments, words)), None)


def _overloads(name: str) -> list[Any]:
    """Overloads of an operator that the dispatcher knows."""
    space, _, op = name.partition("::")
    packet: Any = getattr(getattr(torch.ops, space), op, None) if op.isidentifier() else None
    names = packet.overloads() if hasattr(packet, "overloads") else []
    found = [getattr(packet, name) for name in names]
    return [func for func in found if torch._C._dispatch_has_kernel(func.name())]


def _fits(wanted: list[Any], words: list[str]) -> bool:
    """Whether recorded types are those of an overload: tensors and scalars in the same places."""
    pairs = zip((str(argument.type) for argument in wanted), words, strict=False)
    return len(wanted) == len(words) and all(
        ("Tensor" in kind) == (word not in ("Scalar", "ScalarList")) for kind, word in pairs if word
    )


def _is_composite(func: Any) -> bool:
    """Whether an operator only calls others, and has no kernel of its own."""
    has, keys = func.has_kernel_for_dispatch_key, torch._C.DispatchKey
    return has(keys.CompositeImplicitAutograd) and not has(keys.CPU)


def _is_workspace(name: str, operand: Operand) -> bool:
    """Bytes that oneDNN keeps for itself, as many as only running it tells."""
    return "mkldnn_rnn" in name and operand.dtype == "uint8"
