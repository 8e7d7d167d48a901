"""Backend that times complete layers from a profile: measured sizes exactly, others interpolated.

It times the ops of ``workload: {type: training, detail: layers}``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.compute.interpolation import MeasuredPoints, log_sizes
from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.coded import Coded
from ...sim.facts.doubt import Doubt
from ...sim.facts.ops import Ops
from ...sim.facts.signature import parse_signature
from ...sim.facts.system import System
from .galvatron_rows import is_galvatron, read_galvatron
from .profile_rows import ANY, UPDATE, ProfileKey, Seconds, Sizes, read_profile

log = logging.getLogger(__name__)

PREFIX = "layer::"
LEAST = 1e-9  # s; what is interpolated in logarithms is not 0
STEPS = (-0.133, -0.036, 0.020, 0.036, 0.047, 0.049, 0.058, 0.128, 0.138, 0.148)
"""Quantiles of ln(measured / predicted) of whole steps: ten plans of OPT-350M on 1 to 32 nodes of
GH200, ``calibration/judge/profile.py``.  Layers are wrong together."""


@backend("layer-profile")
class LayerProfile(Backend):
    """Measured layer times of one model on one GPU, as written by Sailor or Galvatron.

    Sailor's ``profile.json`` contains, by micro-batch, number of tensor-parallel ranks and layer
    number, the seconds of a forward pass, of a backward pass and of the weight update. The first
    layer is the embedding, the last the output. Tensor-parallel communication is included. Times
    between measured micro-batches and ranks are interpolated in logarithms. If a time is longer
    than that of a larger micro-batch, the shorter time of the larger one is used.

    Galvatron's ``computation_profiling_*.json`` contains the forward time in ms of a layer, and of
    everything else, for one rank. A backward pass takes twice as long, as in Galvatron's cost
    model. Weight updates are not included; use a ``chain`` with ``roofline`` for them.

    Parameters
    ----------
    file : str
        Path of the profile.
    hidden, sequence : int
        Hidden size of the profiled model, and tokens per sequence, which the file does not contain.
        Layers of other sizes are not timed.
    dtype : str
        Element type of the model's activations.

    Examples
    --------
    >>> times = {(ProfileKey("forward", "dense")): {(1, 1): 1e-3, (4, 1): 4e-3}}
    >>> gpu = LayerProfile.of(times, hidden=1024, sequence=2048)
    >>> text = "compute:layer::forward of=dense tensor=1 fp32[{}x2048x1024]"
    >>> texts = (text.format(2), text.format(4))
    >>> gpu.timing(Ops.of(signature=[0, 1], signatures=texts)).fixed.round(9).tolist()
    [0.002, 0.004]
    """

    uniform = True

    def __init__(self, *, file: str, hidden: int, sequence: int, dtype: str = "fp32"):
        self.file, self.hidden, self.sequence, self.dtype = file, hidden, sequence, dtype
        path = Path(file)
        self.source = f"measured:{path.parent.name}/{path.stem}"
        self._times: dict[ProfileKey, Seconds] = {}
        self._held: dict[ProfileKey, dict[Sizes, Sizes]] = {}
        self._points: dict[ProfileKey, MeasuredPoints] = {}

    @classmethod
    def of(
        cls, times: Mapping[ProfileKey, Seconds], *, hidden: int, sequence: int, dtype: str = "fp32"
    ) -> LayerProfile:
        """Backend from times in memory: seconds by key, micro-batch and number of tensor ranks."""
        made = cls(file="<memory>", hidden=hidden, sequence=sequence, dtype=dtype)
        made._add(times)
        return made

    def open(self, system: System) -> None:
        """Read the profile from its file."""
        if self._times:
            return
        try:
            self._add(self._read(json.loads(Path(self.file).read_text())))
        except (OSError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            raise BackendError(
                f"{self.file}: not a layer profile ({error!r}); give Sailor's profile.json "
                "({micro-batch: {tensor: {layer: [forward, backward, update]}}}) or "
                "Galvatron's computation_profiling.json"
            ) from error

    def _read(self, content: Any) -> dict[ProfileKey, Seconds]:
        """Layer times in s from a parsed file of either format."""
        return (
            read_galvatron(content, self.sequence)
            if is_galvatron(content)
            else read_profile(content)
        )

    def _add(self, times: Mapping[ProfileKey, Seconds]) -> None:
        for key, found in times.items():
            self._held[key] = {} if key == UPDATE else _larger_batch_that_is_faster(found)
            self._times[key] = {s: found[self._held[key].get(s, s)] for s in found}
            rows = [(list(s), max(v, LEAST)) for s, v in self._times[key].items()]
            self._points[key] = MeasuredPoints(rows)
        count = sum(map(len, self._held.values()))
        if count:
            log.info(
                "%s: %d times are longer than with a larger micro-batch; they are lowered to it",
                self.source,
                count,
            )

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """True where an op is a layer within the measured range of sizes, shape (n,)."""
        found = [np.isfinite(self._seconds(text)[0]) for text in ops.signatures]
        known: NDArray[np.bool_] = np.array([*found, False])[ops.signature]
        return known

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Time of each layer; the source of the timing says if it was measured or interpolated."""
        told = [self._seconds(text) for text in ops.signatures]
        seconds = np.array([*(s for s, _ in told), np.nan])[ops.signature]
        if np.isnan(seconds).any():
            row = int(np.argmax(np.isnan(seconds)))
            what = ops.signature_text(row) or ops.kind_names[row]
            raise BackendError(f"op {row} ({what}): {self._why_unknown(what)}")
        notes = [self.source + told[s][1] for s in ops.signature.tolist()]
        doubt = Doubt("layer", "profiled", STEPS)
        return Timing.of(seconds, source=Coded.of(notes), doubt=doubt)

    def _why_unknown(self, text: str) -> str:
        if PREFIX not in text:
            return (
                f"not an op of a complete layer, which is what {self.file} contains; set "
                "workload.execution.detail: layers, or chain the backends [layer-profile, roofline]"
            )
        sizes = sorted({s for found in self._times.values() for s in found})
        return (
            f"was not measured and lies outside the measured range of {self.file} (hidden "
            f"{self.hidden}, {self.dtype}, {self.sequence} tokens, (micro-batch, tensor) {sizes}); "
            "measure it, or use sizes within this range"
        )

    def _seconds(self, text: str) -> tuple[float, str]:
        """Time of an op in s (NaN if unknown), and a note on how it was derived."""
        signature = parse_signature(text)
        phase = signature.op.removeprefix(PREFIX)
        if not signature.op.startswith(PREFIX) or not self._is_of_model(phase, text):
            return np.nan, ""
        tensor = int(signature.attributes["tensor"])
        (operand,) = signature.operands
        key = ProfileKey(phase, signature.attributes.get("of", ""))
        if phase == UPDATE.phase:
            one, note = self._look_up(UPDATE, (ANY, tensor))
            return one * operand.shape[0], note
        return self._look_up(key, (operand.shape[0], tensor))

    def _is_of_model(self, phase: str, text: str) -> bool:
        """True if an op is a layer with the profile's hidden size, dtype and sequence length."""
        (operand,) = parse_signature(text).operands
        tail = (self.hidden,) if phase == UPDATE.phase else (self.sequence, self.hidden)
        return operand.dtype == self.dtype and operand.shape[1:] == tail

    def _look_up(self, key: ProfileKey, sizes: Sizes) -> tuple[float, str]:
        if sizes in self._times.get(key, {}):
            held = self._held[key].get(sizes)
            return self._times[key][sizes], f", as of micro-batch {held[0]}" if held else ""
        points = self._points.get(key)
        if points is None:
            return np.nan, ""
        return float(points.interpolate_inside(log_sizes([list(sizes)]))[0]), ", interpolated"


def _larger_batch_that_is_faster(times: Seconds) -> dict[Sizes, Sizes]:
    """For each size slower than a larger micro-batch: the fastest of the larger sizes."""
    held = {}
    for (batch, tensor), took in times.items():
        larger = [s for s in times if s[1] == tensor and s[0] > batch and times[s] < took]
        if larger:
            held[batch, tensor] = min(larger, key=lambda s: times[s])
    return held
