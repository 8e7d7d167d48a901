"""A driver as a coupled run asks it: one op when its turn comes, every answer checked.

Equal ops are never merged: each is done again.  Only sets of ops in flight together are measured
once and remembered, since a set is asked again whenever another op joins or leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..driver import Driver
from ..sample import Request, Sample
from ..sample_checks import check

ROUNDS = 3  # of a set in flight; the median counts


class LiveDriver:
    """Asks a driver that is open.

    Parameters
    ----------
    driver : Driver
    source : what it is, for results

    Examples
    --------
    >>> class Steady(Driver):
    ...     name, ops = "steady", ("copy:h2h",)
    ...     def timing(self, requests):
    ...         return [Sample(r.signature, np.full(r.n, 7.0), self.clock) for r in requests]
    >>> LiveDriver(Steady(), "a test").alone(Request("copy:h2h uint8[64]"))
    7.0
    """

    def __init__(self, driver: Driver, source: str):
        self.driver, self.source, self.clock = driver, source, driver.clock

    def alone(self, request: Request) -> float:
        """Nanoseconds of one op, done once."""
        found = self.driver.timing([request])
        check([request], found, self.source, self.clock)
        return float(found[0].ns[-1])

    def together(self, requests: Sequence[Request]) -> list[float]:
        """Nanoseconds of each op while all of them are in flight: the median of three rounds."""
        often = [Request(r.signature, ROUNDS, r.context, r.preceding) for r in requests]
        found: list[Sample] = self.driver.together(often)
        check(often, found, self.source, self.clock)
        return [float(np.median(s.ns)) for s in found]
