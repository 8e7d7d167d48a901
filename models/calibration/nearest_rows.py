"""Baselines without a model: interpolation between measured rows, and the nearest row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.ops import Ops
from ..compute.table import MeasuredTable
from .held_out_rows import CalibrationRows

Floats = NDArray[np.float64]


def model_free_predictions(near: CalibrationRows, ops: Ops) -> tuple[Floats, Floats]:
    """Op times in s by interpolation between measured rows, and by the nearest row.

    Outside the measured sizes, interpolation falls back to the nearest row. The distance is in the
    logarithms of flop and bytes, among ops of the same name if there are any.

    Examples
    --------
    >>> texts = ("copy:h2h uint8[10]", "copy:h2h uint8[1000]")
    >>> ops = Ops.of(bytes=[10, 1000], signature=[0, 1], signatures=texts)
    >>> rows = CalibrationRows(ops, np.array([1.0, 100.0]), ("a", "b"))
    >>> asked = Ops.of(bytes=[90], signature=0, signatures=("copy:h2h uint8[90]",))
    >>> [x.round(2).tolist() for x in model_free_predictions(rows, asked)]
    [[9.0], [1.0]]
    """
    texts = [near.ops.signature_text(i) for i in range(len(near.ops))]
    table = MeasuredTable.of(texts, near.seconds.tolist())
    here, there = _log_flop_and_bytes(near.ops), _log_flop_and_bytes(ops)
    names = np.array([t.partition(" ")[0] for t in texts])
    closest, between = np.empty(len(ops)), np.empty(len(ops))
    for i in range(len(ops)):
        text = ops.signature_text(i)
        far = np.abs(here - there[i]).sum(axis=1)
        same = names == text.partition(" ")[0]
        closest[i] = near.seconds[np.argmin(np.where(same, far, np.inf) if same.any() else far)]
        try:
            between[i] = table.seconds([text])[0]
        except BackendError:  # outside the measured range
            between[i] = closest[i]
    return between, closest


def _log_flop_and_bytes(ops: Ops) -> Floats:
    """Logarithms of flop and bytes, shape (n, 2); unknown values count as 1."""
    both = np.stack([np.nan_to_num(ops.flop, nan=1.0), np.nan_to_num(ops.bytes, nan=1.0)], axis=1)
    return np.asarray(np.log(np.maximum(both, 1.0)))
