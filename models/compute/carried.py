"""Recorded times, carried to another GPU in the way that held best on measured ops.

No way is best everywhere: products go by what a roofline says of both GPUs, attention from H100 to
H200 does not reach the memory, so that it takes as long on both.  ``carried.json`` holds how each
way did, by pair of GPUs, family and regime (``tools/judge_carried.py``); nothing else is carried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, backend, uncontended_seconds
from ...sim.coded import Coded
from ...sim.doubt import Doubt
from ...sim.ops import Ops
from ...sim.signature import parse
from ...sim.system import System
from .matrix_product import product
from .roofline import COMPUTED_AS, Roofline

JUDGED = Path(__file__).with_name("carried.json")
ATTENTION, EXPERTS = re.compile(r"attention|attn|mha", re.I), re.compile(r"moe|expert", re.I)
FAMILIES = ("", "products", "products fp8", "attention", "experts")  # the first: of none of them
REGIMES = ("launch", "arithmetic", "memory")
START = 5e-6  # s: what both roofs of a datasheet say is below it is mostly launch
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GpuModel:
    """One GPU: what its datasheet says, and what times its kernels.

    Parameters
    ----------
    name : of its catalog entry
    model : times its kernels
    bandwidth : B/s, of its memory
    peaks : flop/s by element type
    """

    name: str
    model: Backend
    bandwidth: float
    peaks: Mapping[str, float]

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any]) -> GpuModel:
        """GPU with a roofline of these settings."""
        model = Roofline(**settings)
        peaks = {k.removeprefix("peak_"): v for k, v in settings.items() if k.startswith("peak_")}
        if settings.get("tf32"):
            peaks["fp32"] = peaks["tf32"]
        return cls(name, model, settings["bandwidth"], peaks)

    def roofs(self, ops: Ops) -> tuple[Floats, Floats]:
        """(n,) s of arithmetic and of memory, as the datasheet has them; NaN where unknown.

        >>> gpu = GpuModel.of("mine", {"bandwidth": 1e9, "peak_bf16": 1e12})
        >>> text = "compute:mm bf16[8]"
        >>> [r.tolist() for r in gpu.roofs(Ops.of(flop=2e12, bytes=1e9, signature=0,
        ...     signatures=(text,)))]
        [[2.0], [1.0]]
        """
        types = [parse(text).dtype for text in ops.signatures]
        known = [self.peaks.get(COMPUTED_AS.get(t, t), np.nan) for t in types]
        peak = np.array([*known, np.nan])[ops.signature]
        idle = ops.flop == 0
        return np.where(idle, 0.0, ops.flop / np.where(idle, 1.0, peak)), ops.bytes / self.bandwidth


class Judgement(NamedTuple):
    """How well one family in one regime was carried from one GPU to another.

    Parameters
    ----------
    way : in ``WAYS``: the one with the least median error
    error : its median relative error
    quantiles : of ln(measured / carried), as of a ``Doubt``
    """

    way: str
    error: float
    quantiles: tuple[float, ...]


Key = tuple[str, str, str, str]  # here, there, family, regime


@backend("carried")
class Carried(Backend):
    """What an op took on the GPU of the recording, carried in the way that was judged best.

    It is multiplied by the ratio of what the rooflines of both GPUs say, so that what a roofline
    leaves out is lost on both alike; or by the ratio of both datasheets; or taken unchanged.  It
    knows ops that were recorded, whose flop and bytes are known, and whose family was judged
    between these two GPUs in their regime.  The doubt of each answer is what was found there.

    Parameters
    ----------
    here : GpuModel
        The GPU that recorded the ops.
    there : GpuModel
        The GPU that is asked about.
    recorded_on : str
        In a scenario: catalog name of the GPU that recorded them; the workload's unless said.

    Examples
    --------
    >>> slow = GpuModel.of("slow", {"bandwidth": 1e9, "peak_bf16": 1e12})
    >>> quick = GpuModel.of("quick", {"bandwidth": 4e9, "peak_bf16": 2e12})
    >>> well = Judgement("by roofline", 0.05, (-0.1, 0.1))
    >>> carried = Carried.of(slow, quick, {("slow", "quick", "products", "arithmetic"): well})
    >>> ops = Ops.of(flop=[4e12, 0], bytes=[1, 1], duration=8.0, signature=[0, 1],
    ...     signatures=("compute:mm bf16[2x2] bf16[2x2]", "compute:norm bf16[2]"))
    >>> carried.knows(ops).tolist(), carried.timing(ops.take([0])).fixed.tolist()
    ([True, False], [4.0])
    """

    uniform = True

    def __init__(self, *, here: GpuModel, there: GpuModel, recorded_on: str = ""):
        self.here, self.there = here, there
        self.source = f"carried: from {here.name or recorded_on} to {there.name}"
        self._judged: Mapping[Key, Judgement] | None = None

    @classmethod
    def of(cls, here: GpuModel, there: GpuModel, judged: Mapping[Key, Judgement]) -> Carried:
        """Backend with other judgements than those that come with it."""
        made = cls(here=here, there=there)
        made._judged = judged
        return made

    def open(self, system: System) -> None:
        """Open both models, and read how it was judged."""
        self.here.model.open(system)
        self.there.model.open(system)
        if self._judged is None:
            self._judged = judgements()

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether it was recorded, and its family was judged between these GPUs."""
        judged = np.array([self._of(k) is not None for k in range(len(FAMILIES) * len(REGIMES))])
        modelled = self.here.model.knows(ops) & self.there.model.knows(ops)
        return np.asarray((ops.duration >= 0) & modelled & judged[self._cells(ops)])

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Recorded seconds, carried; the source says in which way."""
        cells = self._cells(ops)
        ratio = np.ones(len(ops))
        sources: list[str | None] = [None] * (len(FAMILIES) * len(REGIMES))
        doubts: list[Doubt | None] = list(sources)  # type: ignore[arg-type]
        for cell in np.unique(cells).tolist():
            judged = self._of(cell)
            if judged is None:
                continue
            rows = np.flatnonzero(cells == cell)
            ratio[rows] = self._ratio(judged.way, ops.part(rows))
            sources[cell] = f"{self.source}, {judged.way}"
            family, regime = divmod(cell, len(REGIMES))
            doubts[cell] = Doubt(FAMILIES[family], REGIMES[regime], judged.quantiles)
        return Timing.of(
            ops.duration * ratio,
            source=Coded.of([sources[c] for c in cells.tolist()]),
            doubt=Coded.of([doubts[c] for c in cells.tolist()]),
        )

    def _cells(self, ops: Ops) -> NDArray[np.int64]:
        """(n,) family and regime of each op, as one number."""
        family = np.array([*(FAMILIES.index(family_of(s)) for s in ops.signatures), 0])
        arithmetic, memory = self.there.roofs(ops)
        unknown = np.isnan(arithmetic + memory)
        family = np.where(unknown, 0, family[ops.signature])
        small = np.maximum(arithmetic, memory) < START
        regime = np.where(small, 0, np.where(arithmetic > memory, 1, 2))
        return np.asarray(family * len(REGIMES) + regime)

    def _of(self, cell: int) -> Judgement | None:
        family, regime = divmod(cell, len(REGIMES))
        key = (self.here.name, self.there.name, FAMILIES[family], REGIMES[regime])
        return (self._judged or {}).get(key)

    def _ratio(self, way: str, ops: Ops) -> Floats:
        return WAYS[way](self.here, self.there, ops)


def by_roofline(here: GpuModel, there: GpuModel, ops: Ops) -> Floats:
    """(n,) time of each op on ``there`` over ``here``, as the models of both GPUs predict it."""
    a, b = (uncontended_seconds(gpu.model.timing(ops), ops) for gpu in (here, there))
    return np.divide(b, a, out=np.ones(len(ops)), where=a > 0)


def by_peaks(here: GpuModel, there: GpuModel, ops: Ops) -> Floats:
    """(n,) time of each op on ``there`` over ``here``, at the peak rates of their datasheets."""
    a, b = (np.maximum(*gpu.roofs(ops)) for gpu in (here, there))
    return np.divide(b, a, out=np.ones(len(ops)), where=a > 0)


def unchanged(here: GpuModel, there: GpuModel, ops: Ops) -> Floats:
    """(n,) ones."""
    return np.ones(len(ops))


WAYS = {"by roofline": by_roofline, "by peaks": by_peaks, "unchanged": unchanged}


def family_of(signature: str) -> str:
    """Family that was judged together; "" for others.

    >>> family_of("compute:mm fp8[2x2] fp8[2x2]"), family_of("compute:my::attention bf16[8]")
    ('products fp8', 'attention')
    """
    parts = parse(signature)
    if product(parts) is not None:
        return "products fp8" if parts.dtype.startswith("fp8") else "products"
    if ATTENTION.search(parts.name):
        return "attention"
    return "experts" if EXPERTS.search(parts.name) else ""


@cache
def judgements() -> Mapping[Key, Judgement]:
    """Judgements from the bundled table: the method that erred least, by (GPUs, family, regime)."""
    told: list[dict[str, Any]] = json.loads(JUDGED.read_text())["judged"]
    return {
        (one["here"], one["there"], one["family"], one["regime"]): Judgement(
            one["way"], one["errors"][one["way"]], tuple(one["quantiles"])
        )
        for one in told
    }
