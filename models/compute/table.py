"""Ops that were measured at some sizes: exact there, interpolated between, refused outside.

Interpolation is linear in the logarithms of all sizes and of time, over the simplices of the
measured points, so a power law of the sizes is reproduced exactly.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, backend
from ...sim.errors import BackendError
from ...sim.ops import Ops
from ...sim.signature import Signature, parse
from ...sim.system import System

log = logging.getLogger(__name__)

Family = tuple[object, ...]  # ops that differ only in sizes
Matrix = NDArray[np.float64]
SLACK = 1e-9  # of a logarithm, for points on the border of the hull


@backend("table")
class Table(Backend):
    """Measured durations by signature.

    Parameters
    ----------
    file : str
        CSV with the columns ``signature`` and ``seconds``; a signature that occurs several
        times counts with its median.
    outside : str
        ``refuse``, or ``warn``: the nearest measured size, with time in proportion to size where
        the op is larger and unchanged where it is smaller.

    Examples
    --------
    >>> table = Table.of(["compute:mm fp32[8x8]", "compute:mm fp32[32x32]"], [1e-6, 4e-6])
    >>> texts = ("compute:mm fp32[8x8]", "compute:mm fp32[16x16]")
    >>> ops = Ops.of(signature=[0, 1], signatures=texts)
    >>> table.timing(ops).fixed.round(9).tolist()
    [1e-06, 2e-06]
    """

    def __init__(self, *, file: str, outside: str = "refuse"):
        if outside not in ("refuse", "warn"):
            raise BackendError(f"table: outside {outside!r} is unknown; take 'refuse' or 'warn'")
        self.file, self.outside = file, outside
        self.source = f"table:{Path(file).name}"
        self._measured: dict[str, float] = {}
        self._families: dict[Family, _Family] = {}
        self._far: dict[str, float] = {}

    @classmethod
    def of(
        cls, signatures: Sequence[str], seconds: Iterable[float], outside: str = "refuse"
    ) -> Table:
        """From measurements at hand."""
        made = cls(file="<memory>", outside=outside)
        made._fill(list(signatures), list(seconds))
        return made

    def open(self, system: System) -> None:
        """Read the file."""
        if self._measured:
            return
        with open(self.file, newline="") as lines:
            rows = list(csv.DictReader(lines))
        if not rows or not {"signature", "seconds"} <= rows[0].keys():
            raise BackendError(f"{self.file}: no columns 'signature' and 'seconds'; add them")
        self._fill([r["signature"] for r in rows], [float(r["seconds"]) for r in rows])

    def _fill(self, signatures: list[str], seconds: list[float]) -> None:
        found: dict[str, list[float]] = {}
        for text, s in zip(signatures, seconds, strict=True):
            found.setdefault(text, []).append(s)
        self._measured = {t: float(np.median(s)) for t, s in found.items()}
        families: dict[Family, list[tuple[list[int], float]]] = {}
        for text, s in self._measured.items():
            families.setdefault(_family(parse(text)), []).append((_sizes(parse(text)), s))
        self._families = {f: _Family(rows) for f, rows in families.items()}

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Each distinct signature is looked up once."""
        used = np.unique(ops.signature)
        if len(used) and used[0] < 0:
            row = int(np.argmin(ops.signature))
            raise BackendError(
                f"op {row} ({ops.kind_names[row]}): has no signature to look up; bind 'recorded'"
            )
        seconds = np.full(len(ops.signatures), np.nan)
        texts = [ops.signatures[s] for s in used.tolist()]
        seconds[used] = self.seconds(texts)
        far = {t: self._far[t] for t in texts if t in self._far}
        if not far:
            return Timing.of(seconds[ops.signature])
        text = max(far, key=lambda t: far[t])
        told = f"{len(far)} of {len(used)} signatures extrapolated, up to {far[text]:.3g}-fold"
        log.warning("%s: %s (%s); measure those", self.source, told, text)
        return Timing.of(seconds[ops.signature], source=f"{self.source}, {told}")

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """How long ops of these signatures take.

        Raises
        ------
        BackendError
            Nothing like one of them was measured, or only at other sizes.

        Examples
        --------
        >>> table = Table.of(["compute:mm fp32[8]", "compute:mm fp32[16]"], [1e-6, 2e-6])
        >>> table.seconds(["compute:mm fp32[16]", "compute:mm fp32[32]"])
        Traceback (most recent call last):
        ...
        foretrace.sim.errors.BackendError: table:<memory>: 'compute:mm fp32[32]' lies outside \
the measured sizes ([8] to [16]); measure it, or set outside: warn
        """
        found = np.array([self._measured.get(t, np.nan) for t in texts])
        asked: dict[Family, list[int]] = {}
        for i in np.flatnonzero(np.isnan(found)).tolist():
            asked.setdefault(_family(parse(texts[i])), []).append(i)
        for family, rows in asked.items():
            found[rows] = self._between(family, [texts[i] for i in rows])
        return found

    def _between(self, name: Family, texts: list[str]) -> NDArray[np.float64]:
        """Sizes that were not measured, of one family."""
        family = self._families.get(name)
        if family is None:
            raise BackendError(
                f"{self.source}: nothing like {texts[0]!r} was measured; measure it, or bind "
                "'roofline'"
            )
        sizes = _logs([_sizes(parse(t)) for t in texts])
        found = family.inside(sizes)
        for i in np.flatnonzero(np.isnan(found)).tolist():
            if self.outside == "refuse":
                raise BackendError(
                    f"{self.source}: {texts[i]!r} lies outside the measured sizes "
                    f"({family.range}); measure it, or set outside: warn"
                )
            found[i], self._far[texts[i]] = family.nearest(sizes[i])
        return found


class _Family:
    """Measured points of ops that differ in sizes only."""

    def __init__(self, rows: list[tuple[list[int], float]]):
        self._raw = np.array([sizes for sizes, _ in rows], float).reshape(len(rows), -1)
        self._points = _logs([sizes for sizes, _ in rows])
        self._seconds = np.log([s for _, s in rows])
        self._centre = self._points.mean(axis=0)
        self._axes = _independent(self._points - self._centre)
        kept = (self._points - self._centre)[:, self._axes]
        self._follow = np.linalg.pinv(kept) @ (self._points - self._centre)
        self._inside: Callable[[Matrix], Matrix] | None = None

    @property
    def range(self) -> str:
        """The measured sizes, for messages."""
        low, high = self._raw.min(axis=0), self._raw.max(axis=0)
        return f"{low.astype(int).tolist()} to {high.astype(int).tolist()}"

    def inside(self, sizes: Matrix) -> NDArray[np.float64]:
        """(n,) interpolated seconds; NaN outside the measured points."""
        x = (sizes - self._centre)[:, self._axes]
        off = np.abs(x @ self._follow - (sizes - self._centre)).max(axis=1, initial=0.0)
        if self._inside is None:
            self._inside = _interpolator(
                (self._points - self._centre)[:, self._axes], self._seconds
            )
        # a size that was the same, or tied to others, in all measurements must be so here
        return np.where(off <= SLACK, np.exp(self._inside(x)), np.nan)

    def nearest(self, sizes: Matrix) -> tuple[float, float]:
        """Seconds from the nearest point, and how many times larger (or smaller) the op is."""
        k = int(np.argmin(np.abs(self._points - sizes).sum(axis=1)))
        grown = float(np.max(np.abs(sizes - self._points[k]), initial=0.0))
        larger = float(np.maximum((sizes - self._points[k])[self._axes], 0).sum())
        return float(np.exp(self._seconds[k] + larger)), float(np.exp(grown))


def _interpolator(points: Matrix, seconds: Matrix) -> Callable[[Matrix], Matrix]:
    """Piecewise linear through the points, NaN outside of them."""
    dims = points.shape[1]
    if dims == 0:
        return lambda x: np.full(len(x), seconds.mean())
    if dims == 1:
        order = np.argsort(points[:, 0])
        xs, ys = points[order, 0], seconds[order]
        return lambda x: np.where(
            (x[:, 0] >= xs[0] - SLACK) & (x[:, 0] <= xs[-1] + SLACK),
            np.interp(x[:, 0], xs, ys),
            np.nan,
        )
    from scipy.interpolate import LinearNDInterpolator

    return LinearNDInterpolator(points, seconds)  # type: ignore[no-any-return]


def _independent(centred: Matrix) -> list[int]:
    """Columns, the first that will do, on which all others depend linearly."""
    kept: list[int] = []
    for c in range(centred.shape[1]):
        if np.linalg.matrix_rank(centred[:, [*kept, c]], tol=1e-9) > len(kept):
            kept.append(c)
    return kept


def _family(s: Signature) -> Family:
    return (s.kind, s.name, *((o.dtype, len(o.shape)) for o in s.operands))


def _sizes(s: Signature) -> list[int]:
    return [size for o in s.operands for size in o.shape]


def _logs(sizes: list[list[int]]) -> Matrix:
    """Logarithms; an empty tensor counts as one of size one half."""
    raw = np.array(sizes, float).reshape(len(sizes), -1)
    return np.asarray(np.log(np.maximum(raw, 0.5)))
