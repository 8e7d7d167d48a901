"""Memory under load: latency by bandwidth, and bandwidth by threads, for a mix of reads and writes.

Two laws and one curve: the bandwidth of threads is their outstanding data divided by the latency
(Little 1961, doi:10.1287/opre.9.3.383), and the latency grows as the bandwidth nears its peak.
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
    """Loaded-latency model of a memory, or of one NUMA node of it.

    Parameters
    ----------
    latency : s
        Idle latency of one access.
    read, write : B/s
        Peak bandwidth of reads only, and of writes only. A mix takes the sum of both times, so its
        bandwidth is lower than either if the memory has one bus.
    turnaround : ratio
        Extra time of a mix of half reads and half writes, due to changes of the bus direction.
    in_flight : B
        Data that one thread has outstanding.
    queueing : s
        Slope of the latency with load, at low load.
    sharpness : number
        Sharpness of the bend before the peak: 0 for latency that grows with the logarithm of the
        remaining bandwidth, 1 for one queue with one server (M/M/1).

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
        """Peak bandwidth in B/s, shape (n,), for a fraction ``reads`` of the bytes read."""
        share = np.asarray(reads, float)
        mixed = 1 + 4 * self.turnaround * share * (1 - share)
        return np.asarray(1 / ((share / self.read + (1 - share) / self.write) * mixed))

    def latency_at(self, bandwidth: ArrayLike, reads: ArrayLike) -> Floats:
        """Latency of an access in s, shape (n,), while others use ``bandwidth``."""
        return self._latency_when_used(np.asarray(bandwidth, float) / self.peak(reads))

    def _latency_when_used(self, used: Floats) -> Floats:
        """Latency of an access in s, shape (n,), by the used fraction of the peak bandwidth."""
        left = 1 - np.minimum(used, ALMOST)
        if abs(self.sharpness) < 1e-6:
            return np.asarray(self.latency - self.queueing * np.log(left))
        bend = (left**-self.sharpness - 1) / self.sharpness
        return np.asarray(self.latency + self.queueing * bend)

    def bandwidth(self, threads: ArrayLike, reads: ArrayLike) -> Floats:
        """Bandwidth in B/s of this many threads, each with ``in_flight`` outstanding."""
        threads, reads = np.broadcast_arrays(np.asarray(threads, float), np.asarray(reads, float))
        peak = self.peak(reads)
        return _agreed_bandwidth(
            threads * self.in_flight, peak, lambda drawn: self._latency_when_used(drawn / peak)
        )

    def loaded_latency(self, threads: ArrayLike, reads: ArrayLike) -> Floats:
        """Latency of an access in s while this many threads stream, shape (n,)."""
        return self.latency_at(self.bandwidth(threads, reads), reads)


def _agreed_bandwidth(
    outstanding: Floats, peak: Floats, latency: Callable[[Floats], Floats]
) -> Floats:
    """Bandwidth in B/s, shape (n,), that equals outstanding data divided by the latency at it."""
    low, high = np.zeros(outstanding.shape), np.asarray(peak, float)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        more = middle * latency(middle) < outstanding
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray((low + high) / 2)
