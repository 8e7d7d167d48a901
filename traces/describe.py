"""Labels and signatures of a rank's ops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..sim.graph import Label
from ..sim.ops import Kind
from ..sim.signature import Signature
from .columns import Event
from .part import Part
from .signature import operands

DIRECTIONS = {"htod": "h2d", "dtoh": "d2h", "dtod": "d2d", "htoh": "h2h", "ptop": "d2d"}


class Texts:
    """Labels and signatures of a graph, each once."""

    def __init__(self) -> None:
        self._labels: dict[Label, int] = {}
        self._signatures: dict[str, int] = {}

    def label(self, label: Label) -> int:
        """Number of a label."""
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


def labels(p: Part, texts: Texts) -> NDArray[np.int64]:
    """(n,) Label of each op; -1 where nothing was recorded."""
    row = p.owner
    keys = np.stack(
        [p.view.name[row], p.names.module[row], _stack(p)[row], (p.kind == Kind.DELAY) * 1], 1
    )
    keys[row < 0] = -1
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    numbers = np.array([_label(p, k, texts) for k in distinct.tolist()], np.int64)
    return numbers[inverse.reshape(-1)]


def _stack(p: Part) -> NDArray[np.int64]:
    return p.names.source


def _label(p: Part, key: list[int], texts: Texts) -> int:
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


def signatures(p: Part, texts: Texts) -> NDArray[np.int64]:
    """(n,) Signature of each op; -1 of gaps and delays."""
    view = p.view
    events = view.events
    row = np.where(np.isin(p.kind, (Kind.GAP, Kind.DELAY)), -1, p.owner)
    work = np.isin(view.kind[row], (Event.KERNEL,)) & (row >= 0)
    operator = np.where(work, p.names.operator[row], -1)
    of = np.where(operator >= 0, operator, row)
    sole = np.where(operator >= 0, p.names.sole[row], 1)
    keys = np.stack(
        [p.kind, view.name[row], view.name[of], sole, events["shapes"][of], events["dtypes"][of]], 1
    ).astype(np.int64)
    keys[row < 0] = -1
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    numbers = np.array([_signature(p, k, texts) for k in distinct.tolist()], np.int64)
    found = numbers[inverse.reshape(-1)]
    for c in p.collectives:
        found[c.work] = texts.signature(c.signature)
    return found


def _signature(p: Part, key: list[int], texts: Texts) -> int:
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


def _direction(name: str) -> str:
    """Of ``Memcpy HtoD (Pinned -> Device)``; a fill is named as such."""
    low = name.lower().replace(" ", "")
    return next((to for word, to in DIRECTIONS.items() if word in low), "fill")
