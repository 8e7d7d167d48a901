"""Cache misses of an op after other ops ran in between.

A line that was last used when ``d`` bytes ago is found as a load within a set of ``d`` bytes finds
it, which a chase of dependent loads measures.  What an op needs to begin (its code and tables)
and its operands are looked for so; from nowhere near, the beginning takes as long as it was
measured to with caches emptied, and operands come at the rate of memory.
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

from ...sim.signature import Operand, parse
from .demand import demand, family, op_name

OWN = 256 << 10  # B that the caches of any core hold by themselves: an op alone finds these
LONG_AGO = 1e15  # B
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Caches:
    """Cost of a processor's caches: load latency by size, and that of emptied caches.

    Parameters
    ----------
    latency : (size in B, s of a load) ascending
    begin : s on top for an op of a family with caches emptied, its operands aside
    other : s, the same of other families
    rate : B/s of memory, on top
    """

    latency: Sequence[tuple[float, float]]
    begin: Mapping[str, float]
    other: float
    rate: float

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Caches:
        """From plain data."""
        begin = {str(k): float(v) for k, v in told["begin"].items()}
        latency = [(float(size), float(s)) for size, s in told["latency"]]
        return cls(latency, begin, float(told["other"]), float(told["rate"]))

    def missed(self, distance: float) -> float:
        """Fraction of lines that miss, by reuse distance in bytes: 0 in a near cache, 1 in memory.

        >>> near = Caches([(2**18, 4e-9), (2**20, 4e-9), (2**22, 24e-9)], {}, 0.0, 1e9)
        >>> [near.missed(d) for d in (2**10, 2**19, 2**21, 2**30)]
        [0.0, 0.0, 0.5, 1.0]
        """
        sizes, shares = self._curve
        at = math.log2(max(distance, 1.0))
        k = bisect_right(sizes, at)
        if k in (0, len(sizes)):
            return shares[min(k, len(sizes) - 1)]
        part = (at - sizes[k - 1]) / (sizes[k] - sizes[k - 1])
        return shares[k - 1] + part * (shares[k] - shares[k - 1])

    @cached_property
    def _curve(self) -> tuple[list[float], list[float]]:
        """Logarithms of sizes, and how far from the core what is found in each is."""
        sizes, seconds = np.log2([s for s, _ in self.latency]), [t for _, t in self.latency]
        own = float(np.interp(np.log2(OWN), sizes, seconds))
        far = max(seconds[-1] - own, 1e-30)
        return sizes.tolist(), [max(0.0, (s - own) / far) for s in seconds]

    def extra(self, signatures: Sequence[str]) -> Floats:
        """(n,) s on top of each op alone, done in this order again and again.

        Operands of the same type and shape count as the same ones.

        >>> cpu = Caches([(2**18, 0.0), (2**22, 1e-8)], {"memory": 5e-6}, 9e-6, 1e9)
        >>> small, large = "host:read uint8[1000]", "copy:h2h uint8[100000000]"
        >>> (1e6 * cpu.extra([small, small, large])).round(3).tolist()  # us
        [6.0, 0.0, 0.0]
        """
        clock, begun, used = 0.0, dict[str, float](), dict[Operand, float]()
        found = np.zeros(len(signatures))
        known = {text: self._needs(text) for text in set(signatures)}
        for row, text in [*enumerate(signatures), *enumerate(signatures)]:
            op, start, touched, operands = known[text]
            found[row] = start * self.missed(clock - begun.get(op, -LONG_AGO))
            for operand, seconds in operands.items():
                found[row] += seconds * self.missed(clock - used.get(operand, -LONG_AGO))
            clock += touched
            begun[op] = clock
            used |= dict.fromkeys(operands, clock)
        return found

    def _needs(self, text: str) -> tuple[str, float, float, dict[Operand, float]]:
        """Name, s of its beginning, B that it touches, and s of each operand from memory."""
        touched = demand(text).footprint
        fits = min(1.0, self.last / max(touched, 1.0))  # the rest misses alone, too
        operands = {o: o.bytes * fits / self.rate for o in parse(text).operands}
        return op_name(text), self.begin.get(family(text), self.other), touched, operands

    @property
    def last(self) -> float:
        """B that the caches hold: where half of the way to memory is."""
        sizes = [size for size, _ in self.latency]
        return next((s for s in sizes if self.missed(s) >= 0.5), sizes[-1])
