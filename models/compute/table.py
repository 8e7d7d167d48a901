"""Table of measured ops: exact at measured sizes, interpolated between, an error outside."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.coded import Coded
from ...sim.facts.ops import Ops
from ...sim.facts.system import System
from .interpolation import log_sizes
from .measured_ops import MeasuredOps, signature_grid_point
from .op_database import OpDatabase

log = logging.getLogger(__name__)

MEMORY = "<memory>"


@backend("table")
class MeasuredTable(Backend):
    """Backend that looks up measured durations, in a file of signatures or a published op database.

    Parameters
    ----------
    file : str
        CSV file with the columns ``signature`` and ``seconds``; the median counts if a signature
        repeats. Ops are looked up by name, types and shapes.
    folder : str
        Database of measured ops of one GPU, from AIConfigurator (parquet) or Vidur (CSV):
        ``…/op/h100_sxm``, ``…/compute/a100``, or any folder or file inside. Ops are looked up by
        what they compute, not by name. Give either ``file`` or ``folder``.
    engine : str
        Engine that measured the ops of ``folder``: ``vllm/0.14.0``, ``sglang``, ``vidur``; "" for
        the median over all engines.
    outside : str
        Handling of sizes outside the measured range: ``refuse``, or ``warn``, which extrapolates
        from the nearest size: in proportion for larger ops, unchanged for smaller ones.

    Examples
    --------
    >>> table = MeasuredTable.of(["compute:mm fp32[8x8]", "compute:mm fp32[32x32]"], [1e-6, 4e-6])
    >>> texts = ("compute:mm fp32[8x8]", "compute:mm fp32[16x16]")
    >>> ops = Ops.of(signature=[0, 1], signatures=texts)
    >>> table.timing(ops).fixed.round(9).tolist()
    [1e-06, 2e-06]
    """

    uniform = True

    def __init__(
        self, *, file: str = "", folder: str = "", engine: str = "", outside: str = "refuse"
    ):
        if outside not in ("refuse", "warn"):
            raise BackendError(f"table: outside {outside!r} is unknown; take 'refuse' or 'warn'")
        if bool(file) == bool(folder) or (file and engine):
            raise BackendError(
                "table: give 'file' (a CSV of signatures), or 'folder' (measured ops of one GPU) "
                "with or without 'engine'"
            )
        self.file, self.outside = file, outside
        source = f"table:{Path(file).name}"
        self._ops = OpDatabase(folder, engine) if folder else MeasuredOps(source)
        self.source = self._ops.source

    @classmethod
    def of(
        cls, signatures: Sequence[str], seconds: Iterable[float], outside: str = "refuse"
    ) -> MeasuredTable:
        """Table of measurements in memory."""
        table = cls(file=MEMORY, outside=outside)
        table._add_signatures(signatures, seconds)
        return table

    def open(self, system: System) -> None:
        """Read the file; files of a folder are read on the first lookup of one of their ops."""
        if isinstance(self._ops, OpDatabase):
            self._ops.require_files()
        elif self.file != MEMORY:
            self._read()

    def _read(self) -> None:
        try:
            with open(self.file, newline="") as lines:
                rows = list(csv.DictReader(lines))
            if not rows or not {"signature", "seconds"} <= rows[0].keys():
                raise BackendError(f"{self.file}: no columns 'signature' and 'seconds'; add them")
            seconds = [float(r["seconds"]) for r in rows]
            if not all(0 <= s < np.inf for s in seconds):
                raise ValueError("a time is negative or not finite")
            self._add_signatures([r["signature"] for r in rows], seconds)
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise BackendError(
                f"{self.file}: holds no measured times ({error}); give a CSV file with a signature "
                "and its seconds in each row"
            ) from error

    def _add_signatures(self, signatures: Iterable[str], seconds: Iterable[float]) -> None:
        pairs = zip(signatures, seconds, strict=True)
        self._ops.add((text, signature_grid_point(text), s) for text, s in pairs)

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops whose size was measured or lies between measured sizes, shape (n,)."""
        known = np.zeros(len(ops.signatures) + 1, bool)  # the last: no signature
        for i in np.unique(ops.signature[ops.signature >= 0]).tolist():
            known[i] = self._has_size(ops.signatures[i])
        return known[ops.signature]

    def _has_size(self, text: str) -> bool:
        if np.isfinite(self._ops.seconds([text])[0]):
            return True
        return self.outside == "warn" and self._ops.points(self._ops.grid_point(text)) is not None

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Time of each op; each distinct signature is looked up once."""
        used, at = np.unique(ops.signature, return_inverse=True)
        if len(used) and used[0] < 0:
            row = int(np.argmin(ops.signature))
            raise BackendError(
                f"op {row} ({ops.kind_names[row]}) has no signature to look up in the table; bind "
                "a backend for such ops ({use: [table, recorded]})"
            )
        texts = [ops.signatures[s] for s in used.tolist()]
        seconds, far = self._lookup(texts)
        source = self.source + self._extrapolated(far, len(used))
        if not isinstance(self._ops, OpDatabase):
            return Timing.of(seconds[at], source=source if far else "")
        doubts = [self._ops.doubt(text) for text in texts]
        notes = [f"{source}, interpolated" if doubt else source for doubt in doubts]
        told, doubt = (Coded.of([some[i] for i in at.tolist()]) for some in (notes, doubts))
        return Timing.of(seconds[at], source=told, doubt=doubt)

    def _extrapolated(self, far: Mapping[str, float], asked: int) -> str:
        """Note for the source about extrapolated signatures, which is also logged as a warning."""
        if not far:
            return ""
        text = max(far, key=lambda t: far[t])
        note = f"{len(far)} of {asked} signatures extrapolated, up to {far[text]:.3g}-fold"
        log.warning("%s: %s (%s); measure those", self.source, note, text)
        return f", {note}"

    def seconds(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Measured or interpolated time in s of ops with these signatures, shape (n,).

        Raises
        ------
        BackendError
            No op like one of them was measured, or only at other sizes.

        Examples
        --------
        >>> table = MeasuredTable.of(["compute:mm fp32[8]", "compute:mm fp32[16]"], [1e-6, 2e-6])
        >>> table.seconds(["compute:mm fp32[16]", "compute:mm fp32[32]"])
        Traceback (most recent call last):
        ...
        foretrace.sim.errors.BackendError: table:<memory>: 'compute:mm fp32[32]' lies outside \
the measured sizes ([8] to [16]); measure it, or set outside: warn
        """
        return self._lookup(texts)[0]

    def _lookup(self, texts: Sequence[str]) -> tuple[NDArray[np.float64], dict[str, float]]:
        """Time of each op in s, shape (n,), and the largest size ratio of each extrapolated op."""
        found, far = self._ops.seconds(texts), {}
        for i in np.flatnonzero(np.isnan(found)).tolist():
            found[i], far[texts[i]] = self._extrapolate(texts[i])
        return found, far

    def _extrapolate(self, text: str) -> tuple[float, float]:
        grid_point = self._ops.grid_point(text)
        points = self._ops.points(grid_point)
        if grid_point is None or points is None:
            raise BackendError(
                f"{self.source}: no op like {text!r} was measured; measure it, or use a "
                "chain: [table, roofline]"
            )
        if self.outside == "refuse":
            raise BackendError(
                f"{self.source}: {text!r} lies outside the measured sizes ({points.range}); "
                "measure it, or set outside: warn"
            )
        return points.extrapolate_nearest(log_sizes([[*grid_point.sizes]])[0])
