"""Random factors of one replica, drawn inside kernels; they equal those of ``sampling.py``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...facts.backend import Spread
from ...facts.sampling import (
    GOLDEN,
    fixed_point_spread_tables,
    mix_bits,
    random_bits,
    scaled_duration,
)
from ...kernel.jit import jit_without_refcounts

Array = NDArray[Any]
Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class ReplicaDraws:
    """Distributions of durations in one replica, as integer tables for kernels.

    Parameters
    ----------
    prefix : (2,) uint64 common hash prefix of the draws per rank and iteration, and of the draws
        per op
    at : (2 x spreads + 1,) offset of each distribution's quantiles: per iteration, then per op
    quantiles : factors as int64 in units of 2^-20
    """

    prefix: NDArray[np.uint64]
    at: NDArray[np.int64]
    quantiles: NDArray[np.int64]

    @classmethod
    def of(cls, spreads: Sequence[Spread], name: str, seed: int, replica: int) -> ReplicaDraws:
        """Tables of the distributions for one replica of a named graph."""
        graph = zlib.crc32(name.encode())
        prefix = np.concatenate(
            [random_bits(seed, replica, 1), random_bits(seed, replica, 2, graph)]
        )
        found = [t for s in spreads for t in fixed_point_spread_tables(s, seed, replica)]
        at = np.cumsum([0, *map(len, found)])
        return cls(prefix, at, np.concatenate([np.empty(0, np.int64), *found]))

    @classmethod
    def none(cls) -> ReplicaDraws:
        """Tables without distributions: every op takes its typical duration."""
        empty = np.empty(0, np.int64)
        return cls(np.zeros(2, np.uint64), np.zeros(1, np.int64), empty)

    @property
    def tables(self) -> Arrays:
        """Arrays of the draws, in the order that kernels expect."""
        return self.prefix, self.at, self.quantiles


_mix, _scaled = (
    jit_without_refcounts(mix_bits),
    jit_without_refcounts(scaled_duration),
)  # the very functions that the other engines call


@jit_without_refcounts
def _draw(prefix: Any, key: Any) -> Any:
    return _mix((prefix ^ np.uint64(key)) + np.uint64(GOLDEN))


@jit_without_refcounts
def _factor(table: Array, first: Any, q: Any, random: Any) -> Any:
    """Factor from a table of ``q`` quantiles and a random number.

    Scalar form of `sampling.factors_from_quantiles`.
    """
    if q == 1:
        return table[first]
    at = np.int64(random >> np.uint64(32)) * q - (1 << 31)
    at = min(max(at, 0), (q - 1) << 32)
    low = min(at >> 32, q - 2)
    part = (at - (low << 32)) >> 12
    below = table[first + low]
    return below + (((table[first + low + 1] - below) * part) >> 20)


@jit_without_refcounts
def draw_ticks(base: Any, spread: Any, row: Any, rank: Any, step: Any, draws: Arrays) -> Any:
    """Random duration of one op in this replica, in ticks; ``spread`` 0 means no randomness."""
    prefix, at, table = draws
    if spread:
        k = 2 * spread - 2
        if at[k] < at[k + 1]:
            random = _draw(_draw(prefix[0], rank), step)
            base = _scaled(base, _factor(table, at[k], at[k + 1] - at[k], random))
        base = draw_ticks_of_op(base, spread, row, draws)
    return base


@jit_without_refcounts
def draw_ticks_of_op(base: Any, spread: Any, row: Any, draws: Arrays) -> Any:
    """Apply only the random factor of the op itself to a duration; ``spread`` must not be 0."""
    prefix, at, table = draws
    k = 2 * spread - 1
    if at[k] < at[k + 1]:
        random = _draw(prefix[1], row)
        base = _scaled(base, _factor(table, at[k], at[k + 1] - at[k], random))
    return base
