"""Memory under load: latency by bandwidth, and bandwidth by threads, in a mix of reads and writes.

Two laws and one curve.  What threads have outstanding, over the latency, is their bandwidth (Little
1961, doi:10.1287/opre.9.3.383); the latency grows as the bandwidth nears what the memory can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
HALVINGS = 36  # bisections of the interval that contains the bandwidth
ALMOST = 1 - 1e-9  # largest used fraction of the peak


@dataclass(frozen=True)
class LoadedMemory:
    """One memory, or one node of it.

    Parameters
    ----------
    latency : s
        Of one access when idle.
    read, write : B/s
        Peak of reads alone and of writes alone.  A mix has the time of both, which is less than
        either where the memory has one bus.
    turnaround : ratio
        By how much longer a mix of one half takes than both its halves: a bus changes direction.
    in_flight : B
        That one thread has outstanding.
    queueing : s
        Slope of the latency by load where there is little.
    sharpness : number
        Of the bend before the peak: 0 for a latency that grows with the logarithm of what is left,
        1 for one queue with one server, as M/M/1.

    Examples
    --------
    >>> dram = LoadedMemory(latency=1e-7, read=40e9, write=30e9, in_flight=1000, queueing=1e-8)
    >>> dram.bandwidth([1, 4, 64], 1.0).round(-8).tolist()
    [9700000000.0, 33700000000.0, 40000000000.0]
    >>> dram.latency_at([0, 20e9, 38e9], 1.0).round(10).tolist()
    [1e-07, 1.069e-07, 1.3e-07]
    """

    latency: float
    read: float
    write: float
    in_flight: float
    queueing: float = 0.0
    turnaround: float = 0.0
    sharpness: float = 0.0

    def peak(self, reads: ArrayLike) -> Floats:
        """(n,) B/s that it can do at most, of which ``reads`` is the share of bytes read."""
        share = np.asarray(reads, float)
        mixed = 1 + 4 * self.turnaround * share * (1 - share)
        return np.asarray(1 / ((share / self.read + (1 - share) / self.write) * mixed))

    def latency_at(self, bandwidth: ArrayLike, reads: ArrayLike) -> Floats:
        """(n,) s of an access while others draw ``bandwidth``."""
        return self._latency_when_used(np.asarray(bandwidth, float) / self.peak(reads))

    def _latency_when_used(self, used: Floats) -> Floats:
        """(n,) s of an access by the share of the peak that is drawn."""
        left = 1 - np.minimum(used, ALMOST)
        if abs(self.sharpness) < 1e-6:
            return np.asarray(self.latency - self.queueing * np.log(left))
        bend = (left**-self.sharpness - 1) / self.sharpness
        return np.asarray(self.latency + self.queueing * bend)

    def bandwidth(self, threads: ArrayLike, reads: ArrayLike) -> Floats:
        """(n,) B/s that so many threads draw, each with ``in_flight`` outstanding."""
        threads, reads = np.broadcast_arrays(np.asarray(threads, float), np.asarray(reads, float))
        peak = self.peak(reads)
        return _agreed_bandwidth(
            threads * self.in_flight, peak, lambda drawn: self._latency_when_used(drawn / peak)
        )

    def loaded_latency(self, threads: ArrayLike, reads: ArrayLike) -> Floats:
        """(n,) s of an access while so many threads stream; none leave it idle."""
        return self.latency_at(self.bandwidth(threads, reads), reads)


def _agreed_bandwidth(
    outstanding: Floats, peak: Floats, latency: Callable[[Floats], Floats]
) -> Floats:
    """(n,) B/s at which what is outstanding, over the latency at that bandwidth, is just that."""
    low, high = np.zeros(outstanding.shape), np.asarray(peak, float)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        more = middle * latency(middle) < outstanding
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray((low + high) / 2)
