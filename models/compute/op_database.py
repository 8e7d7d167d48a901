"""Database of measured ops as a backend: exact where one was measured, else between neighbours."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, backend
from ...sim.coded import Coded
from ...sim.doubt import Doubt
from ...sim.errors import BackendError
from ...sim.ops import Ops
from ...sim.system import System
from .interpolation import MeasuredPoints, log_sizes
from .op_database_rows import database_files, engine_and_version, measured_rows
from .op_shape import OpShape, op_shape

log = logging.getLogger(__name__)

Key = tuple[str, str, tuple[float, ...]]
TRIANGULATED = 3  # axes beyond which only whole boxes of measured points are used
BETWEEN: dict[str, tuple[float, ...]] = {
    "attention": (  # 1.6% median
        -0.117, -0.055, -0.031, -0.022, -0.014, -0.008, -0.004, -0.001, 0.006, 0.023,
    ),
    "decode attention": (  # 2.2% median
        -0.158, -0.066, -0.039, -0.021, -0.012, -0.004, 0.001, 0.007, 0.025, 0.109,
    ),
    "product": (  # 1.6% median
        -0.082, -0.04, -0.021, -0.012, -0.008, -0.002, 0.003, 0.011, 0.021, 0.054,
    ),
    "experts": (  # 1.8% median
        -0.065, -0.031, -0.02, -0.013, -0.007, -0.001, 0.004, 0.012, 0.034, 0.13,
    ),
    "reduction": (  # 1.2% median
        -0.066, -0.029, -0.016, -0.005, -0.002, -0.0, 0.003, 0.008, 0.016, 0.043,
    ),
    "elementwise": (  # 0.4% median
        -0.02, -0.006, -0.002, -0.0, 0.0, 0.0, 0.002, 0.005, 0.013, 0.028,
    ),
    "gather": (  # 0.8% median
        -0.025, -0.013, -0.009, -0.005, -0.0, 0.0, 0.004, 0.008, 0.013, 0.026,
    ),
    "activation": (  # 0.8% median
        -0.021, -0.01, -0.007, -0.004, -0.0, 0.001, 0.005, 0.009, 0.015, 0.026,
    ),
    "norm": (  # 0.6% median
        -0.02, -0.011, -0.008, -0.004, -0.001, -0.0, 0.0, 0.003, 0.009, 0.016,
    ),
    "rope": (  # 0.8% median
        -0.033, -0.017, -0.008, -0.005, -0.0, -0.0, 0.0, 0.006, 0.015, 0.048,
    ),
    "gather of few": (  # 3.9% median
        -0.183, -0.091, -0.052, -0.045, -0.045, -0.0, -0.0, -0.0, 0.0, 0.015,
    ),
    "layer norm": (  # 0.0% median
        -0.015, -0.0, -0.0, -0.0, -0.0, 0.0, 0.0, 0.002, 0.02, 0.061,
    ),
}  # fmt: skip
"""Quantiles of ln(measured / interpolated) by family, of rows taken out of tables of A100 and H100:
``calibration/judge/database.py``."""


@backend("op-database")
class OpDatabase(Backend):
    """Measured ops of one GPU, in the form of AIConfigurator (parquet) or of Vidur (CSV).

    Operators are recognised by what they compute, not by name: any product of m, n and k is
    looked up as one.  Between measured sizes times are interpolated along the axes that matter
    (rows and widths; batch, heads, queries and keys; tokens of experts); what must not differ
    (width of a head, query heads to a key head, sizes of experts) must have been measured.

    Parameters
    ----------
    folder : str
        Of one GPU: ``…/op/h100_sxm``, ``…/compute/a100``, or any folder or file inside.
    engine : str
        What measured: ``vllm/0.14.0``, ``sglang``, ``vidur``; "" for all, whose median counts.

    Examples
    --------
    >>> shape = op_shape("compute:aten::mm bf16[8x8] bf16[8x8]")
    >>> table = OpDatabase.of({shape: 1e-6})
    >>> texts = ("compute:aten::linear bf16[8x8] bf16[8x8]", "compute:aten::add bf16[8] bf16[8]")
    >>> ops = Ops.of(signature=[0, 1], signatures=texts)
    >>> table.knows(ops).tolist(), table.timing(ops.part(np.array([0]))).fixed.tolist()
    ([True, False], [1e-06])
    """

    uniform = True

    def __init__(self, *, folder: str, engine: str = ""):
        self.folder, self.engine = folder, engine
        self.source = f"measured:{Path(folder).name}" + (f" {engine}" if engine else "")
        self._measured: dict[OpShape, float] = {}
        self._points: dict[Key, MeasuredPoints | None] = {}
        self._rows: dict[Key, list[tuple[list[int], float]]] = {}
        self._asked: dict[str, tuple[float, bool]] = {}
        self._read: set[str] = set()

    @classmethod
    def of(cls, measured: dict[OpShape, float]) -> OpDatabase:
        """Database in memory: seconds by shape."""
        made = cls(folder="<memory>")
        made._add_measured(measured)
        made._read.update(shape.family for shape in measured)
        return made

    def open(self, system: System) -> None:
        """See that the folder has measured ops; files are read when one of their ops is asked."""
        if self._measured:
            return
        folder = Path(self.folder)
        if not folder.exists() or not self._family_files(""):
            raise BackendError(
                f"{self.folder}: holds no measured ops of {self.engine or 'any engine'}; give the "
                "folder of one GPU of an AIConfigurator or Vidur database"
            )

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether it was measured, or lies between ops that were."""
        found = [self._seconds(text)[0] for text in ops.signatures]
        known: NDArray[np.bool_] = np.isfinite(np.array([*found, np.nan]))[ops.signature]
        return known

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Seconds of each op, measured or interpolated, which its source says."""
        found = [self._seconds(text) for text in ops.signatures]
        seconds = np.array([*(s for s, _ in found), np.nan])[ops.signature]
        if np.isnan(seconds).any():
            row = int(np.argmax(np.isnan(seconds)))
            what = ops.signature_text(row) or ops.kind_names[row]
            raise BackendError(
                f"op {row} ({what}): was not measured in {self.folder}, nor lies between ops that "
                "were; measure it, or take a chain: [op-database, roofline]"
            )
        between = np.array([*(b for _, b in found), False])[ops.signature].tolist()
        doubts = [
            self._doubt(ops.signatures[s], b) for s, b in zip(ops.signature, between, strict=True)
        ]
        notes = [f"{self.source}, interpolated" if b else self.source for b in between]
        return Timing.of(seconds, source=Coded.of(notes), doubt=Coded.of(doubts))

    def _doubt(self, text: str, between: bool) -> Doubt | None:
        """Doubt of an interpolated op; a measured one has the jitter of its table, untold."""
        shape = op_shape(text)
        if shape is None or not between:
            return None
        return Doubt(shape.family, "interpolated", BETWEEN.get(shape.family, ()))

    def _seconds(self, text: str) -> tuple[float, bool]:
        """Seconds of an op, NaN if unknown, and whether they are interpolated."""
        if text not in self._asked:
            shape = op_shape(text)
            self._asked[text] = (np.nan, False) if shape is None else self.lookup([shape])[0]
        return self._asked[text]

    def lookup(self, shapes: Sequence[OpShape]) -> list[tuple[float, bool]]:
        """Seconds of ops by shape, NaN where unknown, and whether each is interpolated."""
        return [self._look_up_shape(_rounded_shape(shape)) for shape in shapes]

    def _look_up_shape(self, shape: OpShape) -> tuple[float, bool]:
        self._load_family(shape.family)
        if shape in self._measured:
            return self._measured[shape], False
        points = self._measured_points_of(_key(shape))
        if points is None:
            return np.nan, True
        sizes = log_sizes([[int(v) for v in shape.axes]])
        return float(
            points.interpolate_inside(sizes, triangulate=len(shape.axes) <= TRIANGULATED)[0]
        ), True

    def _measured_points_of(self, key: Key) -> MeasuredPoints | None:
        if key not in self._points:
            some = self._rows.get(key)
            self._points[key] = MeasuredPoints(some) if some and len(some) > 1 else None
        return self._points[key]

    def _family_files(self, family: str) -> list[Path]:
        folder = Path(self.folder)
        some = [folder] if folder.is_file() else database_files(folder, family)
        return [f for f in some if engine_and_version(f).startswith(self.engine)]

    def _load_family(self, family: str) -> None:
        """Read the files that have ops of a family, once."""
        if family in self._read:
            return
        self._read.add(family)
        found: dict[OpShape, list[float]] = {}
        for file in self._family_files(family):
            for shape, seconds in measured_rows(file):
                if shape.family == family:
                    found.setdefault(_rounded_shape(shape), []).append(seconds)
        log.info("%s: %d measured ops of %s", self.folder, len(found), family)
        self._add_measured({shape: float(np.median(s)) for shape, s in found.items()})

    def _add_measured(self, measured: dict[OpShape, float]) -> None:
        for shape, seconds in measured.items():
            one = _rounded_shape(shape)
            self._measured[one] = seconds
            self._rows.setdefault(_key(one), []).append(([int(v) for v in one.axes], seconds))


def _key(shape: OpShape) -> Key:
    return shape.family, shape.dtype, shape.exact


def _rounded_shape(shape: OpShape) -> OpShape:
    """The shape with whole axes; half precisions of 16 bit are one: they run the same kernels."""
    dtype = "bf16" if shape.dtype == "fp16" else shape.dtype
    return OpShape(shape.family, dtype, shape.exact, tuple(float(round(v)) for v in shape.axes))
