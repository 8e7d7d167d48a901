"""Sums of a stream: waiting, service and drops by class and pool, and latencies by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..facts.items.layout import ARRIVED, CLASS, NOW
from ..kernel.jit import Int, jit_without_refcounts
from .item_arrays import (
    DROPS,
    IS_EXACT,
    LATENCIES,
    LATENCY,
    LEFT,
    LONGEST,
    LOST,
    SHORTEST,
    WORD,
    ItemArrays,
)

FINE = 7  # a power of two has 2^7 buckets, so a bucket is at most 1/128 of its latencies wide
BUCKETS = (62 - FINE + 1) << FINE
RELATIVE_ERROR = 2.0 ** -(FINE + 1)  # of the middle of a bucket


@jit_without_refcounts
def count_ticks(sums: Any, row: Int, column: Int, ticks: Int) -> Int:
    """Add ticks to a sum of two words."""
    sums[row, column] += ticks
    if sums[row, column] >= WORD:
        sums[row, column] -= WORD
        sums[row, column + 1] += 1
    return 0


@jit_without_refcounts
def sums_row(w: ItemArrays, item: Int, pool: Int) -> Int:
    """Row of the sums for the class of an item in a pool."""
    return w.items[item, CLASS] * (len(w.turn.pools) + 1) + pool


@jit_without_refcounts
def count_drop(w: ItemArrays, item: Int, pool: Int) -> Int:
    """Count an item that is dropped at a pool, or (after the last pool) outside."""
    w.sums[sums_row(w, item, pool), DROPS] += 1
    w.totals[w.items[item, CLASS], LOST] += 1
    return 0


@jit_without_refcounts
def count_latency(w: ItemArrays, item: Int) -> Int:
    """Count an item that leaves, with its latency."""
    of, latency = w.items[item, CLASS], w.turn.head[NOW] - w.items[item, ARRIVED]
    total = w.totals
    if total[of, LEFT] == 0 or latency < total[of, SHORTEST]:
        total[of, SHORTEST] = latency
    total[of, LONGEST] = max(total[of, LONGEST], latency)
    total[of, LEFT] += 1
    count_ticks(total, of, LATENCY, latency)
    if w.clock[IS_EXACT]:
        at = w.clock[LATENCIES]
        w.latencies[at, 0], w.latencies[at, 1] = of, latency
        w.clock[LATENCIES] += 1
    else:
        w.histogram[of, bucket_of(latency)] += 1
    return 0


@jit_without_refcounts
def bucket_of(latency: Int) -> Int:
    """Bucket of a latency: its leading bits."""
    above, shift, step = latency >> (FINE + 1), 0, 32
    while step:
        if above >> step:
            above >>= step
            shift += step
        step >>= 1
    shift += above  # above is 0 or 1
    return (shift << FINE) + (latency >> shift)


@jit_without_refcounts
def fill_histogram(histogram: Any, latencies: Any) -> Int:
    """Count latencies that were kept one by one in their buckets."""
    for row in range(len(latencies)):
        histogram[latencies[row, 0], bucket_of(latencies[row, 1])] += 1
    return 0


def bucket_middles() -> NDArray[np.float64]:
    """Latency in the middle of each bucket, in ticks.

    >>> bucket_middles()[[0, 255, 256]].tolist()
    [0.0, 255.0, 256.5]
    """
    bucket = np.arange(BUCKETS + (1 << FINE))[: BUCKETS + (1 << FINE)]
    shift = np.maximum((bucket >> FINE) - 1, 0)
    low = (bucket - (shift << FINE)).astype(np.float64)
    width = 2.0**shift
    middles: NDArray[np.float64] = low * width + (width - 1) / 2
    return middles
