"""Rows of recordings for a fit, and the groups in which they are held out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....hil.bundled_recordings import recording_path
from ....hil.measuring.spread import samples_by_key, start_medians
from ....hil.recording import Recording, read
from ....hil.sample import WARM
from ....models.calibration.held_out_rows import CalibrationRows
from ....models.compute.demand import demand
from ....sim.errors import ScenarioError
from ....sim.facts.ops import Ops
from ....sim.facts.signature import parse_signature
from .bench import Bench, RecordedOp

NANOSECOND = 1e-9
STREAM = re.compile(r"\b(?:depth|qps)=\d+\b")
RATES = ("message_rate", "bandwidth")  # metrics of streams: ns a message


@dataclass(frozen=True)
class MeasuredRows:
    """Measured times of recordings, one row per op and process start.

    Parameters
    ----------
    ops : ops table with signatures, flop and bytes
    seconds : median time of the start in s, shape (n,)
    start : process start and recording of each row, length n
    day : date of each row, length n
    where : one-line description of the recordings, with their date
    clock : clock of all rows
    ranks : number of ranks of a collective, length n; 0 for other ops or if unknown
    metric : metric of all rows
    """

    ops: Ops
    seconds: NDArray[np.float64]
    start: tuple[str, ...]
    day: tuple[str, ...]
    where: str
    clock: str
    ranks: tuple[int, ...]
    metric: str = "completion"

    @property
    def bench_ops(self) -> tuple[RecordedOp, ...]:
        """Op of each row, length n."""
        return tuple(RecordedOp(t, r) for t, r in zip(self.texts, self.ranks, strict=True))

    def on(self, bench: Bench, ops: Sequence[RecordedOp], part: Mapping[str, Any]) -> MeasuredRows:
        """Copy of the rows whose ops are placed on a test bench.

        Parameters
        ----------
        ops : distinct ops, in any order
        part : settings of the part before the fit, in SI
        """
        number = {one: i for i, one in enumerate(ops)}
        table = bench.placed_ops(ops, part)
        return replace(self, ops=table.take_with_placement([number[one] for one in self.bench_ops]))

    def medians(self, ops: Sequence[RecordedOp]) -> NDArray[np.float64]:
        """Time of each given op in s, shape (n,): the median over process starts."""
        found: dict[RecordedOp, list[float]] = {}
        for one, spent in zip(self.bench_ops, self.seconds.tolist(), strict=True):
            found.setdefault(one, []).append(spent)
        return np.array([float(np.median(found[one])) for one in ops])

    @property
    def texts(self) -> list[str]:
        """Signature of each row, length n."""
        return [self.ops.signature_text(i) for i in range(len(self.ops))]

    def rows(self, holdout: str) -> CalibrationRows:
        """Rows for a fit, each with the group (size, shape, start …) in which it is held out.

        Parameters
        ----------
        holdout : one of ``HOLDOUTS``
        """
        texts = self.texts
        groups: dict[str, Callable[[], list[str]]] = {
            "sizes": lambda: [f"{b:.0f} B" for b in self.ops.bytes],
            "shapes": lambda: texts,
            "depths": lambda: [" ".join(STREAM.findall(t)) for t in texts],
            "starts": lambda: list(self.start),
            "days": lambda: list(self.day),
        }
        largest = self.ops.bytes if holdout in ("sizes", "shapes") else np.empty(0)
        return CalibrationRows(self.ops, self.seconds, tuple(groups[holdout]()), largest)

    def only(self, keep: Sequence[bool]) -> MeasuredRows:
        """Selected rows."""
        at = np.flatnonzero(np.asarray(keep, bool))
        start, day = (tuple(x[i] for i in at.tolist()) for x in (self.start, self.day))
        ranks = tuple(self.ranks[i] for i in at.tolist())
        return replace(
            self,
            ops=self.ops.take_with_placement(at),
            seconds=self.seconds[at],
            start=start,
            day=day,
            ranks=ranks,
        )


HOLDOUTS = ("sizes", "shapes", "depths", "starts", "days")


def measured_rows(files: Sequence[str], only: str = "") -> MeasuredRows:
    """Rows of recordings: warm ops, without flagged batches.

    Parameters
    ----------
    files : paths, or ``foretrace:NAME``
    only : regular expression that selects signatures

    Raises
    ------
    ScenarioError
        Recordings have several clocks or metrics, or no usable samples.
    """
    kept = [read(recording_path(f)) for f in files]
    for what in ("clock", "metric"):
        kinds = sorted({getattr(s, what) for r in kept for s in r.samples})
        if len(kinds) != 1:
            raise ScenarioError(
                f"fit: the recordings mix {what}s ({', '.join(kinds) or 'none'}); fit those of "
                f"each {what} separately"
            )
    rows = [row for number, r in enumerate(kept) for row in _rows_of_recording(r, number, only)]
    if not rows:
        raise ScenarioError(
            f"fit: no usable samples{f' match {only!r}' if only else ''}; give another recording"
        )
    texts = tuple(dict.fromkeys(row[0] for row in rows))
    asked = np.array([demand(row[0]) for row in rows])
    ops = Ops.of(
        signature=[texts.index(row[0]) for row in rows],
        signatures=texts,
        flop=asked[:, 0],
        bytes=asked[:, 1],
    )
    where = "; ".join(r.source.removeprefix("recording:") for r in kept)
    return MeasuredRows(
        ops, np.array([row[1] for row in rows]), tuple(row[2] for row in rows),
        tuple(row[3] for row in rows), where, kept[0].samples[0].clock,
        tuple(row[4] for row in rows), kept[0].samples[0].metric,
    )  # fmt: skip


def _rows_of_recording(
    recording: Recording, number: int, only: str
) -> list[tuple[str, float, str, str, int]]:
    found = []
    strides = recording.spec.get("strides", {})
    for (signature, context), group in samples_by_key(recording.samples).items():
        if context != WARM or (only and not re.search(only, signature)):
            continue
        for start in sorted({s.start for s in group if s.good}):
            median = start_medians([s for s in group if s.start == start])[0] * NANOSECOND
            told = with_convolution_stride(signature, strides.get(signature, 1))
            ranks = int(recording.spec.get("ranks", 2)) if told.startswith("collective:") else 0
            found.append((told, median, f"{number}:{start}", recording.date[:10], ranks))
    return found


def with_convolution_stride(signature: str, stride: int) -> str:
    """Signature of a convolution with its stride added; unchanged for a stride of 1.

    >>> with_convolution_stride("compute:aten::convolution fp32[1x1x2x2] fp32[1x1x1x1]", 2)
    'compute:aten::convolution stride=2 fp32[1x1x2x2] fp32[1x1x1x1]'
    """
    parts = parse_signature(signature)
    if stride == 1:
        return signature
    return str(replace(parts, name=f"{parts.name} stride={stride}"))
