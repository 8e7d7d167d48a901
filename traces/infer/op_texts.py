"""What a rank's ops are called, which work they are, how much: labels, signatures, flop, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.graph import Label
from ...sim.ops import Kind
from ...sim.signature import Signature
from ..event_columns import Event
from .op_signature import operands
from .op_work import op_work
from .rank_graph import RankGraph

DIRECTIONS = {"htod": "h2d", "dtoh": "d2h", "dtod": "d2d", "htoh": "h2h", "ptop": "d2d"}


class OpTexts:
    """Labels and signatures of a graph, each once."""

    def __init__(self) -> None:
        self._labels: dict[Label, int] = {}
        self._signatures: dict[str, int] = {}

    def label(self, label: Label) -> int:
        """Number of a label, a new one where it was not seen."""
        return self._labels.setdefault(label, len(self._labels))

    def signature(self, text: str) -> int:
        """Number of a signature."""
        return self._signatures.setdefault(text, len(self._signatures))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels, by number."""
        return tuple(self._labels)

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures, by number."""
        return tuple(self._signatures)


def labels(p: RankGraph, texts: OpTexts) -> NDArray[np.int64]:
    """(n,) Label of each op; -1 where nothing was recorded."""
    row = p.owner
    keys = [p.view.name[row], p.origins.module[row], p.origins.source[row], p.kind == Kind.DELAY]
    rows, inverse = distinct([np.where(row < 0, np.int64(-1), k) for k in keys])
    return np.array([_label(p, k, texts) for k in rows], np.int64)[inverse]


def distinct(columns: list[NDArray[Any]]) -> tuple[list[list[int]], NDArray[np.int64]]:
    """Integers that occur in several columns of integers, and which of them each row is.

    >>> import numpy as np
    >>> rows, inverse = distinct([np.array([5, 5, 7]), np.array([1, 1, 0])])
    >>> rows, inverse.tolist()
    ([[5, 1], [7, 0]], [0, 0, 1])
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        _, code = np.unique(code * len(values) + inverse, return_inverse=True)
    first = np.full(int(code.max(initial=-1)) + 1, 0)
    first[code] = np.arange(len(code))
    return np.stack([c[first].astype(np.int64) for c in columns], 1).tolist(), code


def _label(p: RankGraph, key: list[int], texts: OpTexts) -> int:
    name, module, source, delay = key
    if name < 0:
        return -1
    strings = (*p.view.trace.strings, "")
    text = f"launch of {strings[name]}" if delay else strings[name]
    return texts.label(Label(text, _module(strings[module]), _source(strings[source])))


def _module(text: str) -> str:
    return text.removeprefix("nn.Module: ")


def _source(stack: str) -> str:
    """The innermost frame that is not the library's own."""
    frames = [f.strip() for f in stack.split(";") if f.strip()]
    own = [f for f in frames if "/torch/" not in f and not f.startswith("torch/")]
    return (own or frames or [""])[0]


def signatures(p: RankGraph, texts: OpTexts) -> NDArray[np.int64]:
    """(n,) Signature of each op; -1 of gaps and delays."""
    view = p.view
    events = view.events
    row = np.where(np.isin(p.kind, (Kind.GAP, Kind.DELAY)), -1, p.owner)
    work = np.isin(view.kind[row], (Event.KERNEL,)) & (row >= 0)
    operator = np.where(work, p.origins.operator[row], -1)
    of = np.where(operator >= 0, operator, row)
    sole = np.where(operator >= 0, p.origins.sole[row], 1)
    shapes, dtypes = events["shapes"][of], events["dtypes"][of]
    keys = [p.kind, view.name[row], view.name[of], sole, shapes, dtypes]
    rows, inverse = distinct([np.where(row < 0, np.int64(-1), k) for k in keys])
    found = np.array([_signature(p, k, texts) for k in rows], np.int64)[inverse]
    for c in p.collectives:
        found[c.work] = texts.signature(c.signature)
    return found


def _signature(p: RankGraph, key: list[int], texts: OpTexts) -> int:
    kind, own, operator, sole, shapes, dtypes = key
    if own < 0:
        return -1
    strings = (*p.view.trace.strings, "")
    word = Kind(kind).name.lower()
    name = strings[operator]
    if kind == Kind.COPY:
        name = _direction(strings[own])
    elif kind == Kind.COMPUTE and not sole:
        name = f"{name}/{strings[own]}"
    return texts.signature(str(Signature(word, name, operands(strings[shapes], strings[dtypes]))))


def works(p: RankGraph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) flop and (n,) bytes of each op; NaN where the trace does not tell.

    An operator that ran in several pieces, or launched several kernels, does not say which of them
    did what.
    """
    events, origins = p.view.events, p.origins
    row = np.where(p.kind == Kind.COMPUTE, p.owner, -1)
    kernel = np.isin(p.view.kind[row], (Event.KERNEL,)) & (row >= 0)
    row = np.where(kernel, np.where(origins.sole[row] > 0, origins.operator[row], -1), row)
    once = np.bincount(row[row >= 0], minlength=len(events["name"])) == 1
    row = np.where((row >= 0) & once[row], row, -1)
    columns = [events[c][row] for c in ("name", "shapes", "dtypes", "scalars")]
    rows, inverse = distinct([np.where(row < 0, np.int64(-1), c) for c in columns])
    strings = (*p.view.trace.strings, "")
    found = np.array([op_work(*(strings[i] for i in key)) for key in rows]).reshape(-1, 2)[inverse]
    moved = np.flatnonzero((p.kind == Kind.COPY) & (p.owner >= 0))
    recorded = events["bytes"][p.owner[moved]]
    found[moved, 1] = np.where(recorded > 0, recorded, np.nan)
    for c in p.collectives:
        found[c.work, 1] = c.bytes
    return found[:, 0], found[:, 1]


def _direction(name: str) -> str:
    """Of ``Memcpy HtoD (Pinned -> Device)``; a fill is named as such."""
    low = name.lower().replace(" ", "")
    return next((to for word, to in DIRECTIONS.items() if word in low), "fill")
