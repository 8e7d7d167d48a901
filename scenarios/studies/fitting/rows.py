"""From recordings to parameters: rows, what is held out with what, and the models to fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....hil.bundled_recordings import recording_path
from ....hil.measuring.spread import samples_by_key, start_medians
from ....hil.recording import Recording, read
from ....hil.sample import WARM
from ....models.calibration.calibrate import Calibration, calibrate
from ....models.calibration.held_out_rows import CalibrationRows
from ....models.calibration.identifiability import Model, Parameter
from ....models.compute.demand import demand
from ....sim.errors import ScenarioError
from ....sim.ops import Ops
from ....sim.signature import parse_signature

NANOSECOND = 1e-9
DEPTH = re.compile(r"\bqd=(\d+)\b")


@dataclass(frozen=True)
class MeasuredRows:
    """Measured times of recordings, one row per op and process start.

    Parameters
    ----------
    ops : with signatures, flop and bytes
    seconds : (n,) s, median of the start
    start : (n,) text: which start of which recording
    day : (n,) text
    where : one line: what was recorded, when
    clock : of all of them
    """

    ops: Ops
    seconds: NDArray[np.float64]
    start: tuple[str, ...]
    day: tuple[str, ...]
    where: str
    clock: str

    @property
    def texts(self) -> list[str]:
        """(n,) signatures."""
        return [self.ops.signature_text(i) for i in range(len(self.ops))]

    def rows(self, holdout: str) -> CalibrationRows:
        """The rows for a fit, each with the group (size, shape, start …) it is held out with.

        Parameters
        ----------
        holdout : one of ``HOLDOUTS``
        """
        texts = self.texts
        groups: dict[str, Callable[[], list[str]]] = {
            "sizes": lambda: [f"{b:.0f} B" for b in self.ops.bytes],
            "shapes": lambda: texts,
            "depths": lambda: [DEPTH.search(t)[0] if DEPTH.search(t) else "qd=1" for t in texts],  # type: ignore[index]
            "starts": lambda: list(self.start),
            "days": lambda: list(self.day),
        }
        largest = self.ops.bytes if holdout in ("sizes", "shapes") else np.empty(0)
        return CalibrationRows(self.ops, self.seconds, tuple(groups[holdout]()), largest)

    def only(self, kept: Sequence[bool]) -> MeasuredRows:
        """Those rows."""
        at = np.flatnonzero(np.asarray(kept, bool))
        start, day = (tuple(x[i] for i in at.tolist()) for x in (self.start, self.day))
        return MeasuredRows(self.ops.take(at), self.seconds[at], start, day, self.where, self.clock)


HOLDOUTS = ("sizes", "shapes", "depths", "starts", "days")


def measured_rows(files: Sequence[str], only: str = "") -> MeasuredRows:
    """The rows of recordings: warm ops; batches that are flagged are left out.

    Parameters
    ----------
    files : paths, or ``foretrace:NAME``
    only : a regular expression of signatures

    Raises
    ------
    ScenarioError
        Recordings of several clocks or metrics, or nothing that may be fitted.
    """
    kept = [read(recording_path(f)) for f in files]
    for what in ("clock", "metric"):
        kinds = sorted({getattr(s, what) for r in kept for s in r.samples})
        if len(kinds) != 1:
            raise ScenarioError(
                f"fit: the recordings mix {what}s ({', '.join(kinds) or 'none'}); one figure has "
                "one: fit them apart"
            )
    rows = [row for number, r in enumerate(kept) for row in _rows_of_recording(r, number, only)]
    if not rows:
        raise ScenarioError(f"fit: no sample may be fitted{f' that fits {only!r}' if only else ''}")
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
    )  # fmt: skip


def _rows_of_recording(
    recording: Recording, number: int, only: str
) -> list[tuple[str, float, str, str]]:
    found = []
    strides = recording.spec.get("strides", {})
    for (signature, context), group in samples_by_key(recording.samples).items():
        if context != WARM or (only and not re.search(only, signature)):
            continue
        for start in sorted({s.start for s in group if s.good}):
            median = start_medians([s for s in group if s.start == start])[0] * NANOSECOND
            told = with_convolution_stride(signature, strides.get(signature, 1))
            found.append((told, median, f"{number}:{start}", recording.date[:10]))
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


# Models of catalog parts.


@dataclass(frozen=True)
class ModelForm:
    """Model of a part to fit: its parameters, and the time that they predict of an op alone.

    Parameters
    ----------
    names : of the parameters, with where the search starts if nobody stated a cost
    model : s, given all settings of the part
    """

    names: Mapping[str, float]
    model: Model


def _memory_seconds(p: dict[str, float], ops: Ops) -> NDArray[np.float64]:
    return np.asarray(p["latency"] + ops.bytes / (p["bandwidth"] * p.get("efficiency", 1.0)))


def _nic_seconds(p: dict[str, float], ops: Ops) -> NDArray[np.float64]:
    payload = p.get("mtu", 4096.0) / (p.get("mtu", 4096.0) + p.get("header", 82.0))
    fixed = p["overhead"] + 2 * p["latency"]
    return np.asarray(fixed + _wire_bytes(ops) / (p["bandwidth"] * payload))


def _link_seconds(p: dict[str, float], ops: Ops) -> NDArray[np.float64]:
    return np.asarray(p["latency"] + _wire_bytes(ops) / (p["bandwidth"] * p.get("efficiency", 1.0)))


def _wire_bytes(ops: Ops) -> NDArray[np.float64]:
    """(n,) B that cross: the operands, once."""
    each = np.array(
        [float(sum(o.bytes for o in parse_signature(s).operands)) for s in ops.signatures]
    )
    return np.asarray(each[ops.signature])


FORMS = {
    "memory": ModelForm({"latency": 1e-7, "bandwidth": 1e10}, _memory_seconds),
    "cxl": ModelForm({"latency": 3e-7, "bandwidth": 1e10}, _memory_seconds),
    "link": ModelForm({"latency": 1e-6, "bandwidth": 1e10}, _link_seconds),
    "nic": ModelForm({"overhead": 1e-6, "latency": 1e-6, "bandwidth": 1e10}, _nic_seconds),
}


def fit_part(
    kind: str, known: Mapping[str, float], rows: CalibrationRows, names: Sequence[str] = ()
) -> Calibration:
    """Calibration of the parameters of one kind of part (``link``, ``nic``) to measured rows.

    Parameters
    ----------
    kind : of the part
    known : its settings before the fit, SI
    names : parameters that may change; all that its model has, if empty

    Raises
    ------
    ScenarioError
        A parameter that its model lacks, or a setting that is not in ``known``.
    """
    form = FORMS[kind]
    chosen = names or tuple(form.names)
    strange = sorted(set(chosen) - set(form.names))
    if strange:
        raise ScenarioError(
            f"fit: {kind} has no parameter {', '.join(strange)}; it has {', '.join(form.names)}"
        )
    fixed = {k: v for k, v in known.items() if k not in chosen}
    missing = sorted(set(form.names) - set(known))
    if missing:
        raise ScenarioError(
            f"fit: {', '.join(missing)} of the {kind} is not known before; name a catalog entry "
            "with --start, or give it with --know NAME=VALUE"
        )
    parameters = [Parameter(n, known[n], form.names[n]) for n in chosen]
    return calibrate(lambda p, ops: form.model({**fixed, **p}, ops), parameters, rows)
