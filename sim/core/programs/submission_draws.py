"""Compiled random factors for submissions of a prepared graph, equal to ``sampling.py``."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import Numbers
from ...facts.backend import Spread
from ...facts.sampling import FRACTION, fixed_point_spread_tables, random_bits
from ...kernel.jit import INTERPRETED, compiled_for_argument_types, jit, jit_without_refcounts
from .replica_draws import Arrays, _draw, _factor, _scaled

Array = NDArray[Any]

_REST = np.uint64((1 << 32) - 1)
MOST = 2.0 ** (63 + FRACTION) * (1 - 1e-12)
_HALF, _DOWN, _UP = np.uint64(32), np.uint64(FRACTION), np.uint64(32 - FRACTION)


class SubmissionDraws:
    """Random factors of the durations of one prepared graph in one replica.

    Parameters
    ----------
    name : name of the graph
    spreads : (rows, distribution) for each group of rows with a common distribution
    flows : (f,) row of each flow, ascending
    rank, period : (n,) rank and period of each row, counted within the job
    seed, replica : seed and replica of the run

    Examples
    --------
    >>> twice = Spread(np.empty(0), np.array([2.0]), np.empty(0))
    >>> none, one = np.empty(0, np.int64), np.zeros(1, np.int32)
    >>> draws = SubmissionDraws("g", [(np.array([0]), twice)], none, one, one, seed=0, replica=0)
    >>> typical = Numbers(np.array([7]), none, none.astype(np.uint64), none, none)
    >>> draws.draw(typical, ()).fixed.tolist()
    [14]
    """

    def __init__(
        self,
        name: str,
        spreads: Sequence[tuple[NDArray[np.int64], Spread]],
        flows: NDArray[np.int32],
        rank: NDArray[np.int32],
        period: NDArray[np.integer],
        *,
        seed: int,
        replica: int,
    ):
        n = len(rank)
        made = [
            t for _, spread in spreads for t in fixed_point_spread_tables(spread, seed, replica)
        ]
        self._at = np.cumsum([0, *map(len, made)])
        self._table = np.concatenate([np.empty(0, np.int64), *made])
        self._spread = np.full(n, -1, np.int64)
        for k, (rows, _) in enumerate(spreads):
            self._spread[rows] = k
        graph = zlib.crc32(name.encode())
        self._prefix = np.stack(
            [
                np.broadcast_to(random_bits(seed, replica, 1, rank, period), n),
                np.broadcast_to(random_bits(seed, replica, 2, graph, np.arange(n)), n),
            ]
        )
        self._flow = np.full(n, -1, np.int64)
        self._flow[flows] = np.arange(len(flows))
        self._kernel: Callable[..., Any] | None = None

    def draw(self, numbers: Numbers, which: tuple[int, ...]) -> Numbers | None:
        """Multiply the durations and work of one submission by random factors, keyed by ``which``.

        None if a result exceeds its integer range.
        """
        fixed, hi, lo = numbers.fixed.copy(), numbers.work_hi.copy(), numbers.work_lo.copy()
        keys = np.array(which, np.int64).astype(np.uint64)
        tables = self._spread, self._flow, self._at, self._table
        what = tables, self._prefix, keys, fixed, (hi, lo)
        if self._kernel is None:
            self._kernel = compiled_for_argument_types(apply_random_factors, *what)
        if INTERPRETED:
            with np.errstate(over="ignore"):
                fit = self._kernel(*what)
        else:
            fit = self._kernel(*what)
        if not fit:
            return None
        return numbers._replace(fixed=fixed, work_hi=hi, work_lo=lo)


@jit
def apply_random_factors(
    tables: tuple[Array, ...], prefix: Array, keys: Array, fixed: Array, work: tuple[Array, Array]
) -> Any:
    """Multiply durations and work in place by the random factors of rank, period and op.

    True if all results are within the integer range.
    """
    spread, flow, at, table = tables
    hi, lo = work
    for i in range(len(fixed)):
        if spread[i] < 0:
            continue
        for part in range(2):
            k = 2 * spread[i] + part
            if at[k] < at[k + 1]:
                random = prefix[part, i]
                for j in range(len(keys)):
                    random = _draw(random, keys[j])
                by = _factor(table, at[k], at[k + 1] - at[k], random)
                if product_overflows(fixed[i], by):
                    return False
                fixed[i] = _scaled(fixed[i], by)
                f = flow[i]
                if f >= 0:
                    if product_overflows(hi[f], by):
                        return False
                    hi[f], lo[f] = scale_int128(hi[f], lo[f], by)
    return True


@jit_without_refcounts
def draw_ticks_and_work(
    fixed: Any, hi: Any, lo: Any, spread: Any, row: Any, rank: Any, step: Any, draws: Arrays
) -> Any:
    """Random duration (ticks) and work of one op in this replica; without a spread, unchanged.

    Like `draw_ticks`, but also for work.
    """
    prefix, at, table = draws
    if spread:
        k = 2 * spread - 2
        if at[k] < at[k + 1]:
            random = _draw(_draw(prefix[0], rank), step)
            by = _factor(table, at[k], at[k + 1] - at[k], random)
            fixed = _scaled(fixed, by)
            hi, lo = scale_int128(hi, lo, by)
        if at[k + 1] < at[k + 2]:
            random = _draw(prefix[1], row)
            by = _factor(table, at[k + 1], at[k + 2] - at[k + 1], random)
            fixed = _scaled(fixed, by)
            hi, lo = scale_int128(hi, lo, by)
    return fixed, hi, lo


@jit_without_refcounts
def product_overflows(of: Any, by: Any) -> Any:
    """True if a product may overflow; scalar form of `sampling.product_may_overflow`."""
    return np.float64(of) * np.float64(by) >= MOST


@jit_without_refcounts
def scale_int128(hi: Any, lo: Any, by: Any) -> Any:
    """128-bit integer times a fixed-point factor; scalar form of `sampling.scaled_int128`."""
    factor, upper = np.uint64(by), np.uint64(hi)
    a = (lo & _REST) * factor
    b = (lo >> _HALF) * factor + (a >> _HALF)
    c = (upper & _REST) * factor + (b >> _HALF)
    d = (upper >> _HALF) * factor + (c >> _HALF)
    e = d >> _HALF
    a, b, c, d = a & _REST, b & _REST, c & _REST, d & _REST
    a = a >> _DOWN | b << _UP & _REST
    b = b >> _DOWN | c << _UP & _REST
    c = c >> _DOWN | d << _UP & _REST
    d = d >> _DOWN | e << _UP & _REST
    return np.int64(d << _HALF | c), b << _HALF | a
