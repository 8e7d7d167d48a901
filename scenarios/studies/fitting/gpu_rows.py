"""Rows of GPU recordings, one per op and context, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....hil.bundled_recordings import recording_path
from ....hil.measuring.spread import difference_between_starts, samples_by_key, start_medians
from ....hil.recording import Recording, read
from ....hil.sample import AFTER, WARM, Sample
from ....models.compute.op_shape import op_shape
from ....sim.errors import ScenarioError
from .gpu_shapes import held_out_signatures, is_held_out

Floats = NDArray[np.float64]
NANOSECOND = 1e-9
PRODUCT = "product"


@dataclass(frozen=True)
class GpuRows:
    """Measured op times of a GPU.

    Parameters
    ----------
    texts : signature of each op, length n
    seconds : measured time in s, shape (n,): the median over process starts
    after : True if other kernels ran before each repeat, as in a step; shape (n,)
    kept : True if the row is held out from every fit; shape (n,)
    facts : values that the GPU reported about itself
    where : one-line description of the recordings, with their date
    spread : median relative difference between two halves of the starts; NaN for one start
    left : recorded ops without a row, each with the reason
    """

    texts: tuple[str, ...]
    seconds: Floats
    after: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    facts: Mapping[str, str]
    where: str
    spread: float
    left: tuple[str, ...]

    def of(self, rows: NDArray[np.bool_]) -> NDArray[np.int_]:
        """Indices of the rows that a mask selects."""
        return np.flatnonzero(rows)

    @property
    def families(self) -> NDArray[np.str_]:
        """Kernel family of each op, shape (n,); "" for an op without a family."""
        return np.array([kernel_family(t) for t in self.texts], dtype=np.str_)


def kernel_family(text: str) -> str:
    """Kernel family of an op; "" for copies and ops without a family.

    >>> kernel_family("compute:aten::mm bf16[8x8] bf16[8x8]"), kernel_family("copy:h2d uint8[8]")
    ('product', '')
    """
    shape = op_shape(text)
    return "" if shape is None else shape.family


def has_kernel_families(files: Sequence[str]) -> bool:
    """True if recordings have GPU ops other than GEMMs, or ops measured after other kernels."""
    every = [s for f in files for s in read(recording_path(f)).samples]
    return any(
        s.context.startswith(AFTER) or kernel_family(s.signature) not in ("", PRODUCT)
        for s in every
    )


def gpu_rows(files: Sequence[str]) -> GpuRows:
    """Rows of recordings of one GPU.

    Raises
    ------
    ScenarioError
        The recordings are of several GPUs, or by a clock other than the GPU's.
    """
    kept = [read(recording_path(f)) for f in files]
    devices = sorted({r.device for r in kept})
    clocks = sorted({s.clock for r in kept for s in r.samples})
    if len(devices) != 1 or clocks != ["device"]:
        raise ScenarioError(
            f"fit gpu: the recordings have the devices {' and '.join(devices) or 'none'} and the "
            f"clocks {', '.join(clocks) or 'none'}; give recordings of one GPU by its own clock"
        )
    samples = [s for r in kept for s in r.samples]
    found, left = _medians(samples)
    if not found:
        raise ScenarioError(f"fit gpu: no usable samples; record again: {', '.join(left)}")
    keys = list(found)
    texts = tuple(text for text, _ in keys)
    held_out = held_out_signatures().__contains__ if _is_planned(kept) else is_held_out
    apart = [v for v in difference_between_starts(samples).values() if np.isfinite(v)]
    return GpuRows(
        texts,
        np.array(list(found.values())),
        np.array([context.startswith(AFTER) for _, context in keys], bool),
        np.array([held_out(t) for t in texts], bool),
        kept[0].versions,
        "; ".join(r.source.removeprefix("recording:") for r in kept),
        float(np.median(apart)) if apart else float("nan"),
        (*left, *(f"failed: {row.signature}: {row.fault}" for r in kept for row in r.failed)),
    )


def _is_planned(kept: Sequence[Recording]) -> bool:
    return all(r.note == "plan" for r in kept)


def _medians(samples: Sequence[Sample]) -> tuple[dict[tuple[str, str], float], list[str]]:
    """Median seconds by op and context, and text about what was left out."""
    found: dict[tuple[str, str], float] = {}
    slowed: list[str] = []
    late: list[str] = []
    for key, group in samples_by_key(samples).items():
        if key[1] != WARM and not key[1].startswith(AFTER):
            continue
        ahead = [s for s in group if s.facts.get("ahead", 1)]
        good = start_medians(ahead)
        if good:
            found[key] = float(np.median(good)) * NANOSECOND
        else:
            (slowed if ahead else late).append(key[0])
    flagged = sum(not s.good for s in samples)
    left = [f"{flagged} of {len(samples)} batches, in which the GPU was slowed"] if flagged else []
    left += [f"slowed in all batches: {text}" for text in slowed]
    left += [f"the host launched it too slowly to time it alone: {text}" for text in late]
    return found, left
