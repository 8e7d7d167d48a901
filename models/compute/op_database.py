"""Published databases of measured ops of one GPU, looked up by what an op computes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.doubt import Doubt
from .measured_ops import GridPoint, MeasuredOps
from .op_database_rows import database_files, engine_and_version, measured_rows
from .op_shape import OpShape, op_shape

log = logging.getLogger(__name__)

TRIANGULATED = 3  # with more axes, only complete boxes of measured points are used
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


class OpDatabase(MeasuredOps):
    """Measured ops of one GPU from a database of AIConfigurator (parquet) or Vidur (CSV).

    Ops are matched by what they compute, not by name: any GEMM of m, n and k matches. Times are
    interpolated along the axes that vary continuously (rows and widths; batch, heads, queries and
    keys; tokens of experts). Other properties must have been measured exactly (head width, query
    heads per key head, expert sizes). The files of a family are read on the first lookup of one of
    its ops.

    Examples
    --------
    >>> made = OpDatabase.of({op_shape("compute:aten::mm bf16[8x8] bf16[8x8]"): 1e-6})
    >>> made.seconds(["compute:aten::linear bf16[8x8] bf16[8x8]"]).tolist()
    [1e-06]
    """

    def __init__(self, folder: str, engine: str = ""):
        super().__init__(f"measured:{Path(folder).name}" + (f" {engine}" if engine else ""))
        self.folder, self.engine = folder, engine
        self._asked: dict[str, float] = {}
        self._read: set[str] = set()

    @classmethod
    def of(cls, measured: dict[OpShape, float]) -> OpDatabase:
        """Database in memory, from times in s by shape."""
        made = cls("<memory>")
        made.add(
            (one := _rounded_shape(s), shape_grid_point(one), sec) for s, sec in measured.items()
        )
        made._read.update(shape.family for shape in measured)
        return made

    def require_files(self) -> None:
        """Raise an error if the folder has no measured ops.

        Raises
        ------
        BackendError
            The folder has no measured ops of this engine.
        """
        if not Path(self.folder).exists() or not self._family_files(""):
            raise BackendError(
                f"{self.folder}: holds no measured ops of {self.engine or 'any engine'}; give the "
                "folder of one GPU of an AIConfigurator or Vidur database"
            )

    def grid_point(self, text: str) -> GridPoint | None:
        """Coordinates of an op among the measured ops that compute the same, or None."""
        shape = _shape(text)
        return shape_grid_point(shape) if shape else None

    def exact_seconds(self, text: str) -> float:
        """Time of an op in s at a measured size; NaN at other sizes."""
        if shape := _shape(text):
            self._load_family(shape.family)
        return self._seconds.get(shape, np.nan)

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Time in s of ops with these signatures, shape (n,); NaN if unknown."""
        for text in {*texts} - self._asked.keys():
            self._asked[text] = float(super().seconds([text])[0])
        return np.array([self._asked[text] for text in texts])

    def doubt(self, text: str) -> Doubt | None:
        """Error interval of an interpolated op; None for a measured one."""
        shape = _shape(text)
        if shape is None or shape in self._seconds:
            return None
        return Doubt(shape.family, "interpolated", BETWEEN.get(shape.family, ()))

    def _family_files(self, family: str) -> list[Path]:
        folder = Path(self.folder)
        some = [folder] if folder.is_file() else database_files(folder, family)
        return [f for f in some if engine_and_version(f).startswith(self.engine)]

    def _load_family(self, family: str) -> None:
        """Read the files that contain ops of a family, once."""
        if family in self._read:
            return
        self._read.add(family)
        rows = [
            (one := _rounded_shape(row.shape), shape_grid_point(one), row.seconds)
            for file in self._family_files(family)
            for row in measured_rows(file)
            if row.shape.family == family
        ]
        log.info("%s: %d measured ops of %s", self.folder, len({r[0] for r in rows}), family)
        self.add(rows)


@cache
def _shape(text: str) -> OpShape | None:
    found = op_shape(text)
    return _rounded_shape(found) if found else None


def shape_grid_point(shape: OpShape) -> GridPoint:
    """Grid point of a shape whose axes are integers."""
    sizes = tuple(int(v) for v in shape.axes)
    return GridPoint(shape[:3], sizes, len(sizes) <= TRIANGULATED)


def _rounded_shape(shape: OpShape) -> OpShape:
    """Shape with integer axes; fp16 and bf16 count as one type, since they run the same kernels."""
    dtype = "bf16" if shape.dtype == "fp16" else shape.dtype
    return OpShape(shape.family, dtype, shape.exact, tuple(float(round(v)) for v in shape.axes))
