"""Random factors of op durations: an integer hash looks up a table of measured quantiles.

A draw is keyed by its purpose: replica, rank and iteration, or graph and row, and the number of
the submission. It never depends on the order of draws in a run, so variants of a scenario share
their draws. There is no stored state and no transcendental function, so every engine, worker
and machine draws the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .backend import Spread

MAIN = "main"  # the job of a run without named jobs
FRACTION = 20  # factors are integers in units of 2^-20
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit integers so that every input bit affects every output bit.

    The mapping is bijective: the finaliser of SplitMix64 (Steele, Lea, Flood 2014,
    doi:10.1145/2660193.2660195).
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def random_bits(*keys: ArrayLike) -> NDArray[np.uint64]:
    """64 random bits for each combination of keys.

    >>> a, b = random_bits(7, 0, [1, 2]), random_bits(7, 0, [2, 1])
    >>> bool(a[0] == b[1]), bool(a[0] == a[1])
    (True, False)
    """
    with np.errstate(over="ignore"):
        found = np.zeros(1, np.uint64)
        for key in keys:
            found = mix_bits((found ^ np.asarray(key).astype(np.uint64)) + GOLDEN)
    return found


def factors_from_quantiles(
    quantiles: NDArray[np.float64], random: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Random factors in 2^-20, interpolated between the quantiles at (i + 1/2) / q.

    >>> table = np.array([0.5, 1.0, 1.5])
    >>> drawn = factors_from_quantiles(table, random_bits(0, np.arange(1000))) / 2**20
    >>> bool((drawn >= 0.5).all() and (drawn <= 1.5).all()), round(float(drawn.mean()), 1)
    (True, 1.0)
    """
    return interpolated_factors(fixed_point_factors(quantiles), random)


def fixed_point_factors(quantiles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Factors as integers in units of 2^-20."""
    return np.rint(quantiles * 2.0**FRACTION).astype(np.int64)


def interpolated_factors(table: NDArray[np.int64], random: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Random factors, as :func:`factors_from_quantiles`, from a table that is already in 2^-20."""
    if len(table) == 1:
        return np.full(random.shape, table[0])
    last = len(table) - 1
    at = (random >> np.uint64(32)).astype(np.int64) * len(table) - (1 << 31)
    at = np.clip(at, 0, last << 32)
    low = np.minimum(at >> 32, last - 1)
    part = (at - (low << 32)) >> 12  # 20 bits
    found: NDArray[np.int64] = table[low] + (((table[low + 1] - table[low]) * part) >> 20)
    return found


def scaled_duration(duration: NDArray[np.int64], by: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute ``duration * by / 2^20`` in integers, rounded down, without overflow.

    >>> scaled_duration(np.array([10**15]), np.array([1 << 19])).tolist()
    [500000000000000]
    """
    high, low = duration >> FRACTION, duration & ((1 << FRACTION) - 1)
    return high * by + ((low * by) >> FRACTION)


def product_may_overflow(of: NDArray[np.int64], by: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True if ``of * by / 2^20`` may exceed 63 bits; checked with a margin.

    >>> product_may_overflow(np.array([2**62, 2**62]), np.array([3 << 20, 1 << 20])).tolist()
    [True, False]
    """
    return np.asarray(of.astype(np.float64) * by >= 2.0 ** (63 + FRACTION) * (1 - 1e-12))


def scaled_int128(
    hi: NDArray[np.int64], lo: NDArray[np.uint64], by: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Compute ``number * by / 2^20`` for 128-bit numbers (high, low words), rounded down.

    >>> high, low = scaled_int128(np.array([5]), np.array([3], np.uint64), np.array([3 << 19]))
    >>> int(high[0]), int(low[0])
    (7, 9223372036854775812)
    """
    half, rest = np.uint64(32), np.uint64((1 << 32) - 1)
    upper, carry = hi.astype(np.uint64), np.zeros(len(hi), np.uint64)
    limbs = []
    for limb in (lo & rest, lo >> half, upper & rest, upper >> half):
        found = limb * by.astype(np.uint64) + carry
        limbs.append(found & rest)
        carry = found >> half
    limbs.append(carry)
    down, up = np.uint64(FRACTION), np.uint64(32 - FRACTION)
    a, b, c, d = (x >> down | y << up & rest for x, y in pairwise(limbs))
    return (d << half | c).astype(np.int64), b << half | a


def fixed_point_spread_tables(
    spread: Spread, seed: int, replica: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Quantile tables of one replica in 2^-20: of the factor per rank and iteration, and per op.

    The first table includes the factor of the process start, one for the whole replica. Replicas
    step through the start distribution by the golden ratio from a random offset (Cranley and
    Patterson 1976, doi:10.1137/0713071). Each replica is random, and a few replicas already cover
    the distribution evenly, which independent draws would not.

    Examples
    --------
    >>> thirds = Spread(np.empty(0), np.empty(0), np.array([0.7, 1.0, 1.3]))
    >>> tables = [fixed_point_spread_tables(thirds, 5, k)[0] for k in range(5)]
    >>> sorted(round(table.item() / 2**20, 1) for table in tables)
    [0.7, 0.8, 0.9, 1.1, 1.3]
    """
    step, op = fixed_point_factors(spread.step), fixed_point_factors(spread.op)
    if not len(spread.start):
        return step, op
    with np.errstate(over="ignore"):
        random = random_bits(seed, 3) + np.uint64(replica) * GOLDEN
    start = factors_from_quantiles(spread.start, random)
    return scaled_duration(step if len(step) else fixed_point_factors(np.ones(1)), start), op


def random_factors(
    spread: Spread,
    *,
    name: str,
    row: NDArray[np.int64],
    rank: NDArray[np.int32],
    period: NDArray[np.integer],
    seed: int,
    replica: int,
    draw_key: tuple[int, ...] = (),
) -> Iterator[NDArray[np.int64]]:
    """Random factors of op durations in 2^-20: at most two arrays, to apply one after the other.

    The first holds the factor of each op's rank and period, with the replica's start factor
    included; the second the factor of each op. A factor without quantiles is left out.

    Parameters
    ----------
    rank : (n,) rank of each op, numbered within its job
    draw_key : additional key of both factors, see :func:`submission_key`
    """
    step, op = fixed_point_spread_tables(spread, seed, replica)
    if len(step):
        yield interpolated_factors(step, random_bits(seed, replica, 1, rank, period, *draw_key))
    if len(op):
        graph = zlib.crc32(name.encode())
        yield interpolated_factors(op, random_bits(seed, replica, 2, graph, row, *draw_key))


def submission_key(job: str, number: int) -> tuple[int, ...]:
    """Key of the random draws of one submission: the ``draw_key`` of :func:`random_factors`.

    Parameters
    ----------
    number : number of earlier submissions of a graph of the same name by the job

    Examples
    --------
    >>> submission_key("main", 0), submission_key("main", 1) == submission_key("other", 1)
    ((), False)
    """
    return () if job == MAIN and number == 0 else (zlib.crc32(job.encode()), number)
