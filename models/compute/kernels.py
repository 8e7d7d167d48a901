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
    """Data that the constants of a kernel family were fitted on, and errors on held-out rows.

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
    """Cost constants of one kernel family. The default 0 means that this part costs nothing.

    Parameters
    ----------
    launch : launch cost of every kernel, in clock cycles
    first : time per step of a block in the first round of blocks: in clock cycles, or for steps on
        tensor cores relative to the step's time at the peak rate
    again : time per step of a block in each later round of blocks, in the unit of ``first``
    near : time per byte moved, relative to its time at memory bandwidth
    memory : additional time per byte that misses the cache, relative to its time at memory
        bandwidth
    arithmetic : time per flop, relative to its time at the peak rate
    cache : fraction of the GPU's shared cache that can hold a kernel's data
    cold : cold-start penalty in clock cycles: added if other kernels ran since the last kernel of
        this family, as in a training step
    call : additional clock cycles in a table that times complete calls: other kernels of the
        operator, gaps of the loop. Used to fit such tables, never to predict
    level : factor on the complete time, if the recorded traces of the GPU determine only this
        factor; 1 otherwise
    evidence : data that the constants were fitted on, and their errors
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
        """Launch, latency, memory and arithmetic time in s, shape (4, n); their sum is the time.

        Parameters
        ----------
        work : (n, 7) one ``KernelWork`` per row
        peak : (n,) peak rate of each kernel in flop/s
        beside : context of the kernel. ``nothing``: it is timed alone, in a loop. ``step``: other
            kernels ran before it, so it starts cold. ``call``: the time is that of a complete
            operator call

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
        """Constants that differ from their defaults, as they are written to a file."""
        usual = asdict(KernelFamily())
        evidence = {k: v for k, v in asdict(self.evidence).items() if v and v == v}
        own = {k: v for k, v in asdict(self).items() if v != usual[k]}
        return {**own, "evidence": evidence} if evidence else own


def _block_rounds(blocks: Floats, threads: Floats, chip: GpuDatasheet) -> Floats:
    """Effective number of rounds in which a kernel's blocks run, shape (n,).

    It is the mean of the rounds of the complete GPU and of the busiest multiprocessor, since a
    round with few blocks is faster than a full one.
    """
    held = np.maximum(np.floor(FULL / threads), 1.0)
    whole = np.ceil(blocks / (chip.processors * held))
    own = np.ceil(blocks / chip.processors) / held
    return np.maximum((np.maximum(whole, 1.0) + np.maximum(own, 1.0)) / 2, 1.0)


def load_families(name: str) -> dict[str, KernelFamily]:
    """Load kernel families by name, from ``models/catalog/kernels`` or a user's file.

    A file with the key ``like`` names another file and only changes constants of some families. An
    example is another implementation of attention (``h100-sxm5-80g-flash-1``: as MPT used it in
    2023).

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
            f"{file}: has no kernel families ({error}); take one of {ours}, or a file that "
            "calibration/fit/kernels.py wrote"
        ) from error


@cache
def _read_families(file: Path, written: int) -> dict[str, KernelFamily]:
    """Kernel families of a file; cached until the file changes.

    ``written`` is the time of its last change, in ns.
    """
    data = json.loads(file.read_text())
    if data["form"] != FORM:
        raise ValueError(f"its form is {data['form']!r}, not {FORM!r}")
    known = load_families(data["like"]) if "like" in data else {}
    own = {
        n: _with_file_constants(known.get(n), one, f"{file}: {n}")
        for n, one in data["families"].items()
    }
    return _with_attention_backward({**known, **own})


def _with_file_constants(
    known: KernelFamily | None, data: Mapping[str, Any], where: str
) -> KernelFamily:
    """Kernel family with the constants of a file; all others are those of ``known``."""
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
