"""Kernel families of a GPU: time as a sum of start, step and byte costs.

Constants are in cycles or relative to datasheet values, so that constants of one GPU apply to
another. ``calibration/fit/kernels.py`` fits them to measured ops. ``models/catalog/kernels`` holds
them, with quantiles of their held-out errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.setting_groups import (
    construct_with_groups,
    merge_settings,
    with_current_names,
)
from .kernel_work import FULL

FORM = "foretrace-kernels"
OURS = Path(__file__).parents[1] / "catalog" / "kernels"
REGIMES = ("launch", "latency", "memory", "arithmetic")
Floats = NDArray[np.float64]
Beside = Literal["nothing", "step", "call"]


class GpuDatasheet(NamedTuple):
    """Datasheet values of a GPU.

    Parameters
    ----------
    processors : number of multiprocessors or compute units
    clock : clock in Hz
    bandwidth : memory bandwidth in B/s
    cache : size in B of the cache that all processors share
    """

    processors: float
    clock: float
    bandwidth: float
    cache: float


@dataclass(frozen=True)
class Evidence:
    """What the constants of a family were fitted on, and the errors on rows that no fit saw.

    Parameters
    ----------
    source : data of the fit; "" for constants that are assumed
    error : median relative error of held-out rows; NaN if none were held out
    quantiles : quantiles of ln(measured / predicted) of held-out rows, as in ``Doubt``, by regime;
        key "" for the other regimes
    """

    source: str = ""
    error: float = float("nan")
    quantiles: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelFamily:
    """Constants of one family; 0 for what costs nothing.

    Parameters
    ----------
    launch : cycles, of any kernel
    first : cycles of a step, of the first block (of steps on tensor cores: times the peak's)
    again : cycles of a step, of each round of blocks after the first
    near : seconds of a byte, over those of memory
    memory : seconds of a byte that the caches do not hold, on top
    arithmetic : seconds of a flop, over those at the peak
    cache : share of the cache that what is touched may fill
    cold : cycles that a start takes longer where other kernels ran since its like, as in a step
    call : cycles beside the kernel in a measured call: other kernels of an engine's operator, gaps
        of a loop.  Only what was measured so holds it, no answer does
    level : factor on the whole time, where recorded traces of the GPU show only that; 1 otherwise
    evidence : what the constants were fitted on, and their errors
    """

    launch: float = 0.0
    first: float = 0.0
    again: float = 0.0
    near: float = 0.0
    memory: float = 0.0
    arithmetic: float = 0.0
    cache: float = 1.0
    cold: float = 0.0
    call: float = 0.0
    level: float = 1.0
    evidence: Evidence = Evidence()

    renamed_settings: ClassVar[Mapping[str, str]] = {
        name: f"evidence.{name}" for name in ("source", "error", "quantiles")
    }

    def time_parts(
        self, work: Floats, chip: GpuDatasheet, peak: Floats, beside: Beside = "nothing"
    ) -> Floats:
        """(4, n) s of launch, latency, memory and arithmetic; their sum is the time.

        Parameters
        ----------
        work : (n, 7) one ``KernelWork`` per row
        peak : (n,) flop/s
        beside : what runs beside the kernel: ``nothing``, when it is timed alone again and again;
            ``step``, whose other kernels ran before; ``call``, what a table of whole calls holds

        Examples
        --------
        >>> from .kernel_work import KernelWork
        >>> one = np.array([KernelWork(bytes=1e6, far=0.0)])
        >>> chip = GpuDatasheet(100, 1e9, 1e12, 1e7)
        >>> KernelFamily(launch=2e3, near=1.0).time_parts(one, chip, np.ones(1)).T.round(9).tolist()
        [[2e-06, 0.0, 1e-06, 0.0]]
        """
        blocks, threads, depth, step, flop, moved, far = work.T
        each = np.where(step > 0, step * chip.processors / peak, 1.0 / chip.clock)
        chain = (
            depth * each * (self.first + self.again * (_block_rounds(blocks, threads, chip) - 1))
        )
        missed = np.maximum(1.0 - self.cache * chip.cache / np.maximum(moved, 1.0), 0.0)
        moving = (moved * self.near + missed * far * self.memory) / chip.bandwidth
        start = self.launch + {"nothing": 0.0, "step": self.cold, "call": self.call}[beside]
        starts = np.full(len(work), start / chip.clock)
        steps = step > 0
        arithmetic = flop * self.arithmetic / peak + np.where(steps, chain, 0.0)
        return np.stack([starts, np.where(steps, 0.0, chain), moving, arithmetic])

    def as_plain_data(self) -> dict[str, Any]:
        """Constants that differ from the defaults, as a file holds them."""
        usual = asdict(KernelFamily())
        evidence = {k: v for k, v in asdict(self.evidence).items() if v and v == v}
        own = {k: v for k, v in asdict(self).items() if v != usual[k]}
        return {**own, "evidence": evidence} if evidence else own


def _block_rounds(blocks: Floats, threads: Floats, chip: GpuDatasheet) -> Floats:
    """Number of rounds of the blocks, shape (n,): full rounds of the GPU, then of a processor.

    A round with few blocks is faster than a full one, which a count of full rounds would miss.
    """
    held = np.maximum(np.floor(FULL / threads), 1.0)
    whole = np.ceil(blocks / (chip.processors * held))
    own = np.ceil(blocks / chip.processors) / held
    return np.maximum((np.maximum(whole, 1.0) + np.maximum(own, 1.0)) / 2, 1.0)


def load_families(name: str) -> dict[str, KernelFamily]:
    """Load kernel families by name, from ``models/catalog/kernels`` or a user's file.

    A file that is ``like`` another one only changes constants of some families, such as those of
    another implementation (``h100-sxm5-80g-flash-1``: attention as MPT used it in 2023).

    Raises
    ------
    BackendError
        The file does not exist, or has other contents.

    Examples
    --------
    >>> sorted(load_families("h100-sxm5-80g"))[:2]
    ['activation', 'attention']
    """
    file = Path(name) if name.endswith(".json") else OURS / f"{name}.json"
    try:
        return dict(_read_families(file, file.stat().st_mtime_ns))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        ours = ", ".join(sorted(f.stem for f in OURS.glob("*.json")))
        raise BackendError(
            f"{file}: holds no families of kernels ({error}); take one of {ours}, or a file that "
            "calibration/fit/kernels.py wrote"
        ) from error


@cache
def _read_families(file: Path, written: int) -> dict[str, KernelFamily]:
    """Families in a file last written at a time in ns, so that a file is read once."""
    data = json.loads(file.read_text())
    if data["form"] != FORM:
        raise ValueError(f"its form is {data['form']!r}")
    known = load_families(data["like"]) if "like" in data else {}
    own = {n: _changed(known.get(n), one, f"{file}: {n}") for n, one in data["families"].items()}
    return _with_attention_backward({**known, **own})


def _changed(known: KernelFamily | None, data: Mapping[str, Any], where: str) -> KernelFamily:
    """Family with the constants that a file gives, the others as in the family that it is like."""
    given = with_current_names(KernelFamily, data, where)
    return construct_with_groups(
        KernelFamily, merge_settings(known.as_plain_data() if known else {}, given)
    )


SLOWER = 1.15
"""Seconds of a flop of fused attention backward over forward: assumed for every GPU, as Shah et al.
2024, arXiv:2407.08608, figures 5 and 6, measured on an H100 (0.85 to 0.9 of the forward rate)."""


def _with_attention_backward(known: dict[str, KernelFamily]) -> dict[str, KernelFamily]:
    """Families extended by attention backward, derived from forward if it was not measured."""
    own = known.get("attention")
    if own is None or "attention backward" in known:
        return known
    back = replace(own, first=SLOWER * own.first, again=SLOWER * own.again)
    back = replace(back, evidence=replace(own.evidence, source=""))
    return {**known, "attention backward": back}
