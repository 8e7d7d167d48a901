"""Recorded times scaled to another GPU, with the scaling method that was most accurate.

No method is best for every op. For GEMMs the best scale is the ratio of the models of both GPUs.
Attention takes the same time on H100 and H200, because it is not memory-bound there.
``carried.json`` holds the accuracy of each method by pair of GPUs, family and regime
(``calibration/judge/carried.py``). Other ops are scaled only if the scenario names a method, for
example for a GPU without measurements. Families and regimes are those of kernels (``op_shape``,
``kernels``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.backend import Backend, Timing, backend, uncontended_seconds
from ...sim.facts.coded import Coded
from ...sim.facts.doubt import Doubt
from ...sim.facts.ops import Ops
from ...sim.facts.system import System
from ...sim.setting_groups import construct_with_groups
from .kernels import REGIMES
from .op_shape import op_shape
from .roofline import Roofline, compute_element_type

JUDGED = Path(__file__).with_name("carried.json")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GpuModel:
    """One GPU: its datasheet, and a model that times its kernels.

    Parameters
    ----------
    name : name of its catalog entry
    model : backend that times its kernels
    bandwidth : memory bandwidth in B/s
    peaks : peak flop/s by element type
    """

    name: str
    model: Roofline
    bandwidth: float
    peaks: Mapping[str, float]

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any]) -> GpuModel:
        """GPU whose model is a roofline with these settings."""
        model = construct_with_groups(Roofline, settings)
        return cls(name, model, settings["bandwidth"], model.stated_peaks)

    def roofs(self, ops: Ops) -> tuple[Floats, Floats]:
        """Compute and memory time of each op at datasheet peaks in s, each (n,); NaN if unknown.

        >>> gpu = GpuModel.of("mine", {"bandwidth": 1e9, "peaks": {"bf16": 1e12}})
        >>> text = "compute:mm bf16[8]"
        >>> [r.tolist() for r in gpu.roofs(Ops.of(flop=2e12, bytes=1e9, signature=0,
        ...     signatures=(text,)))]
        [[2.0], [1.0]]
        """
        known = [self.peaks.get(compute_element_type(text), np.nan) for text in ops.signatures]
        peak = np.array([*known, np.nan])[ops.signature]
        flop, moved = self.model.demand(ops)
        idle = flop == 0
        return np.where(idle, 0.0, flop / np.where(idle, 1.0, peak)), moved / self.bandwidth


class ScalingAccuracy(NamedTuple):
    """Accuracy of the best scaling method between two GPUs, for one family in one regime.

    Parameters
    ----------
    way : method in ``WAYS`` with the smallest median error
    error : its median relative error
    quantiles : quantiles of ln(measured / scaled), as in ``Doubt``
    """

    way: str
    error: float
    quantiles: tuple[float, ...]


Cell = tuple[str, str]  # family, regime
Key = tuple[str, str, str, str]  # here, there, family, regime
Way = Literal["judged", "by roofline", "by peaks", "unchanged"]
JUDGED_BEST: Way = "judged"


@backend("carried")
class CrossGpuScaling(Backend):
    """Backend that scales durations recorded on one GPU to another GPU.

    Methods: multiply by the ratio of both rooflines (losses that a roofline omits are assumed to be
    the same on both), multiply by the ratio of datasheet peaks, or keep the duration. The backend
    times ops that have a recorded duration, that both GPU models can time, and whose family and
    regime have a measured accuracy between these GPUs. That accuracy is the error interval.

    Parameters
    ----------
    here : GpuModel
        GPU on which the ops were recorded.
    there : GpuModel
        GPU to predict.
    recorded_on : str
        In a scenario: catalog name of the GPU of the recording. Default: that of the workload.
    way : Way
        Scaling method for every op that both models can time. Default: the most accurate method of
        each family and regime. If the method has no measured accuracy for an op, the op gets the
        error interval of an assumed time.

    Examples
    --------
    >>> slow = GpuModel.of("slow", {"bandwidth": 1e9, "peaks": {"bf16": 1e12}})
    >>> quick = GpuModel.of("quick", {"bandwidth": 4e9, "peaks": {"bf16": 2e12}})
    >>> well = ScalingAccuracy("by roofline", 0.05, (-0.1, 0.1))
    >>> accuracies = {("slow", "quick", "product", "arithmetic"): well}
    >>> carried = CrossGpuScaling.of(slow, quick, accuracies)
    >>> ops = Ops.of(flop=[4e12, 0], bytes=[1, 1], duration=8.0, signature=[0, 1],
    ...     signatures=("compute:mm bf16[2x2] bf16[2x2]", "compute:norm bf16[2]"))
    >>> carried.knows(ops).tolist(), carried.timing(ops.take([0])).fixed.tolist()
    ([True, False], [4.0])
    """

    uniform = True

    def __init__(
        self,
        *,
        here: GpuModel,
        there: GpuModel,
        recorded_on: str = "",
        way: Way = JUDGED_BEST,
    ):
        self.here, self.there, self.way = here, there, way
        self.source = f"carried: from {here.name or recorded_on} to {there.name}"
        self._judged: Mapping[Key, ScalingAccuracy] | None = None

    @classmethod
    def of(
        cls, here: GpuModel, there: GpuModel, judged: Mapping[Key, ScalingAccuracy]
    ) -> CrossGpuScaling:
        """Backend with these accuracies in place of the bundled ones."""
        made = cls(here=here, there=there)
        made._judged = judged
        return made

    def open(self, system: System) -> None:
        """Open both GPU models and look up the accuracies between them."""
        self.here.model.open(system)
        self.there.model.open(system)
        if self._judged is None:
            self._judged = bundled_accuracies()

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops with a recorded duration and a known scaling accuracy, shape (n,)."""
        known = (ops.duration >= 0) & self.here.model.knows(ops) & self.there.model.knows(ops)
        if self.way != JUDGED_BEST:
            return known
        rows = np.flatnonzero(known)
        judged = [
            cell in self._accuracies_between
            for cell in self._cells_of_ops(ops.take_with_placement(rows))
        ]
        known[rows] = np.array(judged, np.bool_)
        return known

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Scaled durations; the source names the method."""
        cells = self._cells_of_ops(ops)
        judged = {cell: self._accuracy_of(cell) for cell in set(cells)}
        ways = np.array([judged[cell].way for cell in cells], object)
        ratio = np.ones(len(ops))
        for way in set(ways.tolist()):
            rows = np.flatnonzero(ways == way)
            ratio[rows] = WAYS[way](self.here, self.there, ops.take_with_placement(rows))
        doubts = {cell: Doubt(*cell, one.quantiles) for cell, one in judged.items()}
        return Timing.of(
            ops.duration * ratio,
            source=Coded.of([f"{self.source}, {way}" for way in ways.tolist()]),
            doubt=Coded.of([doubts[cell] for cell in cells]),
        )

    def _accuracy_of(self, cell: Cell) -> ScalingAccuracy:
        """Method and accuracy for a family and regime; no quantiles if it was not measured."""
        found = self._accuracies_between.get(cell)
        if self.way == JUDGED_BEST or (found is not None and found.way == self.way):
            return self._accuracies_between[cell]
        return ScalingAccuracy(self.way, np.nan, ())

    @property
    def _accuracies_between(self) -> Mapping[Cell, ScalingAccuracy]:
        """Scaling accuracies between these two GPUs, by family and regime."""
        told = self._judged or {}
        pair = self.here.name, self.there.name
        return {key[2:]: one for key, one in told.items() if key[:2] == pair}

    def _cells_of_ops(self, ops: Ops) -> list[Cell]:
        """Family and regime of each op, n entries."""
        families = [*(family_of(text) for text in ops.signatures), ""]
        regimes = self.there.model.parts(ops).argmax(axis=0).tolist()
        where = zip(ops.signature.tolist(), regimes, strict=True)
        return [(families[signature], REGIMES[regime]) for signature, regime in where]


def roofline_time_ratio(here: GpuModel, there: GpuModel, ops: Ops) -> Floats:
    """Time ratio ``there`` / ``here`` of each op from both GPU models, shape (n,)."""
    a, b = (uncontended_seconds(gpu.model.timing(ops), ops) for gpu in (here, there))
    return np.divide(b, a, out=np.ones(len(ops)), where=a > 0)


def peak_rate_time_ratio(here: GpuModel, there: GpuModel, ops: Ops) -> Floats:
    """Time ratio ``there`` / ``here`` of each op at datasheet peaks, shape (n,)."""
    a, b = (np.maximum(*gpu.roofs(ops)) for gpu in (here, there))
    return np.divide(b, a, out=np.ones(len(ops)), where=a > 0)


def equal_time_ratio(here: GpuModel, there: GpuModel, ops: Ops) -> Floats:
    """Time ratio 1 for each op, shape (n,): each op takes as long on both GPUs."""
    return np.ones(len(ops))


WAYS = {
    "by roofline": roofline_time_ratio,
    "by peaks": peak_rate_time_ratio,
    "unchanged": equal_time_ratio,
}


def family_of(signature: str) -> str:
    """Kernel family of an op, from its signature; "" if the operands do not determine it.

    >>> family_of("compute:mm fp8[2x2] fp8[2x2]"), family_of("compute:aten::mul_ bf16[8]")
    ('product', 'elementwise')
    """
    shape = op_shape(signature)
    return "" if shape is None else shape.family


@cache
def bundled_accuracies() -> Mapping[Key, ScalingAccuracy]:
    """Bundled scaling accuracies: the most accurate method by (GPUs, family, regime)."""
    told: list[dict[str, Any]] = json.loads(JUDGED.read_text())["judged"]
    return {
        (one["here"], one["there"], one["family"], one["regime"]): ScalingAccuracy(
            one["way"], one["errors"][one["way"]], tuple(one["quantiles"])
        )
        for one in told
    }
