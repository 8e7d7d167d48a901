"""Cost of cache misses that occur because other ops ran in between.

A cache line with a reuse distance of ``d`` bytes costs as much as a dependent load in a working set
of ``d`` bytes, as measured by pointer chasing. This applies to an op's start (code and tables) and
to its operands. At a full miss, the start takes its measured cold-cache time, and operands are
loaded at memory rate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.signature import Operand, parse_signature
from .demand import demand, family, op_name

OWN = 256 << 10  # B that a core's own caches hold, so that an op alone hits them
LONG_AGO = 1e15  # B
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Caches:
    """Cache-miss costs of a processor.

    Parameters
    ----------
    latency : pairs (working set in B, time per dependent load in s), by ascending working set
    begin : cold-cache penalty at the start of an op in s, without the time of its operands, by
        kernel family
    other : cold-cache penalty at the start of an op in s, for kernel families that are not in
        ``begin``
    rate : memory rate in B/s for operands that miss
    """

    latency: Sequence[tuple[float, float]]
    begin: Mapping[str, float]
    other: float
    rate: float

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Caches:
        """Build from plain data, as ``foretrace fit --caches`` writes it."""
        begin = {str(k): float(v) for k, v in data["begin"].items()}
        latency = [(float(size), float(s)) for size, s in data["latency"]]
        return cls(latency, begin, float(data["other"]), float(data["rate"]))

    def miss_fraction(self, distance: float) -> float:
        """Fraction of cache lines that miss, by reuse distance in B: 0 in caches, 1 in memory.

        >>> near = Caches([(2**18, 4e-9), (2**20, 4e-9), (2**22, 24e-9)], {}, 0.0, 1e9)
        >>> [near.miss_fraction(d) for d in (2**10, 2**19, 2**21, 2**30)]
        [0.0, 0.0, 0.5, 1.0]
        """
        sizes, shares = self._miss_curve
        at = math.log2(max(distance, 1.0))
        k = bisect_right(sizes, at)
        if k in (0, len(sizes)):
            return shares[min(k, len(sizes) - 1)]
        part = (at - sizes[k - 1]) / (sizes[k] - sizes[k - 1])
        return shares[k - 1] + part * (shares[k] - shares[k - 1])

    @cached_property
    def _miss_curve(self) -> tuple[list[float], list[float]]:
        """Base-2 logarithms of working-set sizes, and the miss fraction at each."""
        sizes, seconds = np.log2([s for s, _ in self.latency]), [t for _, t in self.latency]
        own = float(np.interp(np.log2(OWN), sizes, seconds))
        far = max(seconds[-1] - own, 1e-30)
        return sizes.tolist(), [max(0.0, (s - own) / far) for s in seconds]

    def miss_seconds(self, signatures: Sequence[str]) -> Floats:
        """Time in s that cache misses add to each op of a repeated sequence, shape (n,).

        Operands of equal type and shape count as the same memory.

        >>> cpu = Caches([(2**18, 0.0), (2**22, 1e-8)], {"memory": 5e-6}, 9e-6, 1e9)
        >>> small, large = "host:read uint8[1000]", "copy:h2h uint8[100000000]"
        >>> (1e6 * cpu.miss_seconds([small, small, large])).round(3).tolist()  # us
        [6.0, 0.0, 0.0]
        """
        clock, last_begin, last_use = 0.0, dict[str, float](), dict[Operand, float]()
        seconds_on_top = np.zeros(len(signatures))
        known = {text: self._cache_needs(text) for text in set(signatures)}
        for row, text in [*enumerate(signatures), *enumerate(signatures)]:
            op, start, touched, operands = known[text]
            seconds_on_top[row] = start * self.miss_fraction(clock - last_begin.get(op, -LONG_AGO))
            for operand, seconds in operands.items():
                seconds_on_top[row] += seconds * self.miss_fraction(
                    clock - last_use.get(operand, -LONG_AGO)
                )
            clock += touched
            last_begin[op] = clock
            last_use |= dict.fromkeys(operands, clock)
        return seconds_on_top

    def _cache_needs(self, text: str) -> tuple[str, float, float, dict[Operand, float]]:
        """Op name, cold-start time in s, bytes touched, and miss time in s of each operand.

        An operand's miss time is the time added if all of it must be loaded from memory again.
        """
        touched = demand(text).footprint
        fits = min(1.0, self.capacity / max(touched, 1.0))  # the rest also misses in an op alone
        operands = {o: o.bytes * fits / self.rate for o in parse_signature(text).operands}
        return op_name(text), self.begin.get(family(text), self.other), touched, operands

    @property
    def capacity(self) -> float:
        """Capacity of the caches in B: the working set at which half of the lines miss."""
        sizes = [size for size, _ in self.latency]
        return next((s for s in sizes if self.miss_fraction(s) >= 0.5), sizes[-1])
