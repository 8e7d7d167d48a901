"""Table of measured ops: exact at measured sizes, interpolated between, refused outside."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.ops import Ops
from ...sim.facts.signature import Signature, parse_signature
from ...sim.facts.system import System
from .interpolation import MeasuredPoints, log_sizes

log = logging.getLogger(__name__)

Family = tuple[object, ...]  # ops that differ only in sizes


@backend("table")
class MeasuredTable(Backend):
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
    >>> table = MeasuredTable.of(["compute:mm fp32[8x8]", "compute:mm fp32[32x32]"], [1e-6, 4e-6])
    >>> texts = ("compute:mm fp32[8x8]", "compute:mm fp32[16x16]")
    >>> ops = Ops.of(signature=[0, 1], signatures=texts)
    >>> table.timing(ops).fixed.round(9).tolist()
    [1e-06, 2e-06]
    """

    uniform = True

    def __init__(self, *, file: str, outside: str = "refuse"):
        if outside not in ("refuse", "warn"):
            raise BackendError(f"table: outside {outside!r} is unknown; take 'refuse' or 'warn'")
        self.file, self.outside = file, outside
        self.source = f"table:{Path(file).name}"
        self._measured: dict[str, float] = {}
        self._families: dict[Family, MeasuredPoints] = {}
        self._extrapolated: dict[str, float] = {}

    @classmethod
    def of(
        cls, signatures: Sequence[str], seconds: Iterable[float], outside: str = "refuse"
    ) -> MeasuredTable:
        """Table from measurements in memory."""
        table = cls(file="<memory>", outside=outside)
        table._add_points(list(signatures), list(seconds))
        return table

    def open(self, system: System) -> None:
        """Read the measured points from their file."""
        if self._measured:
            return
        try:
            with open(self.file, newline="") as lines:
                rows = list(csv.DictReader(lines))
            if not rows or not {"signature", "seconds"} <= rows[0].keys():
                raise BackendError(f"{self.file}: no columns 'signature' and 'seconds'; add them")
            seconds = [float(r["seconds"]) for r in rows]
            if not all(0 <= s < np.inf for s in seconds):
                raise ValueError("a time that cannot be")
            self._add_points([r["signature"] for r in rows], seconds)
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise BackendError(
                f"{self.file}: holds no measured times ({error}); give a CSV file with a signature "
                "and its seconds in each row"
            ) from error

    def _add_points(self, signatures: list[str], seconds: list[float]) -> None:
        found: dict[str, list[float]] = {}
        for text, s in zip(signatures, seconds, strict=True):
            found.setdefault(text, []).append(s)
        self._measured = {t: float(np.median(s)) for t, s in found.items()}
        families: dict[Family, list[tuple[list[int], float]]] = {}
        for text, s in self._measured.items():
            families.setdefault(_family(parse_signature(text)), []).append(
                (_sizes(parse_signature(text)), s)
            )
        self._families = {f: MeasuredPoints(rows) for f, rows in families.items()}

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether its size was measured, or lies between those that were."""
        known = np.zeros(len(ops.signatures) + 1, bool)  # the last: no signature
        for i in np.unique(ops.signature[ops.signature >= 0]).tolist():
            known[i] = self._has_size(ops.signatures[i])
        return known[ops.signature]

    def _has_size(self, text: str) -> bool:
        if text in self._measured:
            return True
        parts = parse_signature(text)
        family = self._families.get(_family(parts))
        if family is None or self.outside == "warn":
            return family is not None
        return bool(np.isfinite(family.interpolate_inside(log_sizes([_sizes(parts)]))[0]))

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Seconds of each op, each distinct signature looked up once."""
        used = np.unique(ops.signature)
        if len(used) and used[0] < 0:
            row = int(np.argmin(ops.signature))
            raise BackendError(
                f"op {row} ({ops.kind_names[row]}): has no signature to look up; bind 'recorded'"
            )
        seconds = np.full(len(ops.signatures), np.nan)
        texts = [ops.signatures[s] for s in used.tolist()]
        seconds[used] = self.seconds(texts)
        far = {t: self._extrapolated[t] for t in texts if t in self._extrapolated}
        if not far:
            return Timing.of(seconds[ops.signature])
        text = max(far, key=lambda t: far[t])
        note = f"{len(far)} of {len(used)} signatures extrapolated, up to {far[text]:.3g}-fold"
        log.warning("%s: %s (%s); measure those", self.source, note, text)
        return Timing.of(seconds[ops.signature], source=f"{self.source}, {note}")

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n,) s of ops with these signatures, measured or interpolated.

        Raises
        ------
        BackendError
            Nothing like one of them was measured, or only at other sizes.

        Examples
        --------
        >>> table = MeasuredTable.of(["compute:mm fp32[8]", "compute:mm fp32[16]"], [1e-6, 2e-6])
        >>> table.seconds(["compute:mm fp32[16]", "compute:mm fp32[32]"])
        Traceback (most recent call last):
        ...
        foretrace.sim.errors.BackendError: table:<memory>: 'compute:mm fp32[32]' lies outside \
the measured sizes ([8] to [16]); measure it, or set outside: warn
        """
        found = np.array([self._measured.get(t, np.nan) for t in texts])
        missing: dict[Family, list[int]] = {}
        for i in np.flatnonzero(np.isnan(found)).tolist():
            missing.setdefault(_family(parse_signature(texts[i])), []).append(i)
        for family, rows in missing.items():
            found[rows] = self._interpolate(family, [texts[i] for i in rows])
        return found

    def _interpolate(self, name: Family, texts: list[str]) -> NDArray[np.float64]:
        """(n,) s of unmeasured sizes of one family, interpolated or extrapolated."""
        family = self._families.get(name)
        if family is None:
            raise BackendError(
                f"{self.source}: nothing like {texts[0]!r} was measured; measure it, or bind "
                "'roofline'"
            )
        sizes = log_sizes([_sizes(parse_signature(t)) for t in texts])
        found = family.interpolate_inside(sizes)
        for i in np.flatnonzero(np.isnan(found)).tolist():
            if self.outside == "refuse":
                raise BackendError(
                    f"{self.source}: {texts[i]!r} lies outside the measured sizes "
                    f"({family.range}); measure it, or set outside: warn"
                )
            found[i], self._extrapolated[texts[i]] = family.extrapolate_nearest(sizes[i])
        return found


def _family(s: Signature) -> Family:
    return (s.kind, s.name, *((o.dtype, len(o.shape)) for o in s.operands))


def _sizes(s: Signature) -> list[int]:
    return [size for o in s.operands for size in o.shape]
