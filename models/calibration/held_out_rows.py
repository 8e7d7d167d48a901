"""Measured rows, divided into fitted, held-out and final test groups by a hash."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.ops import Ops
from .parameter_search import SEED, SHARE, held_out_mask

FINAL = 0.15  # fraction of the groups in the final test, which
MANY = 20

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class CalibrationRows:
    """Measured rows with their groups.

    Parameters
    ----------
    ops : Ops
        Measured ops, with signatures.
    seconds : (n,) measured time in s
    groups : (n,) name of each row's group; groups are held out as a whole
    size : (n,) size of each row; the group of the largest row is always held out. Empty: no group
        is always held out
    """

    ops: Ops
    seconds: Floats
    groups: tuple[str, ...]
    size: Floats = field(default_factory=lambda: np.empty(0))

    def take(self, rows: NDArray[np.int64]) -> CalibrationRows:
        """Rows at these indices."""
        groups = tuple(self.groups[i] for i in rows.tolist())
        return CalibrationRows(self.ops.take_with_placement(rows), self.seconds[rows], groups)

    def rows_to_fit(self, share: float = SHARE, seed: str = SEED) -> CalibrationRows:
        """Rows for the fit: neither held out nor in the final test."""
        aside, final = self.held_out_masks(share, seed)
        return self.take(np.flatnonzero(~aside & ~final))

    def held_out_masks(self, share: float = SHARE, seed: str = SEED) -> tuple[Bools, Bools]:
        """Masks of the held-out rows and of the final test rows, by hashes of group names.

        Examples
        --------
        >>> groups = tuple(map(str, range(40)))
        >>> rows = CalibrationRows(
        ...     Ops.of(bytes=range(1, 41)), np.ones(40), groups, np.arange(40.0))
        >>> aside, final = rows.held_out_masks()
        >>> int(aside.sum()), int(final.sum()), bool(aside[39]), bool((aside & final).any())
        (13, 7, True, False)
        """
        last = np.zeros(len(self.groups), bool)
        if len(self.size):
            largest = self.groups[int(np.argmax(self.size))]
            last = np.array([g == largest for g in self.groups])
        share_once = FINAL if len(set(self.groups)) >= MANY else 0.0
        final = held_out_mask(self.groups, share=share_once, seed=f"{seed}:final") & ~last
        return (held_out_mask(self.groups, share=share, seed=seed) | last) & ~final, final
