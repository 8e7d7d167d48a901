"""Live driver in a coupled run: each op executed when it starts, every sample checked.

Equal ops are executed again each time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..driver import Driver
from ..sample import Request, Sample
from ..sample_checks import check_samples

ROUNDS = 3  # of a set in flight; the median counts


class LiveDriver:
    """Timer that executes ops on an open driver.

    Parameters
    ----------
    driver : Driver
    source : label for results

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
        samples = self.driver.timing([request])
        check_samples([request], samples, self.source, self.clock)
        return float(samples[0].ns[-1])

    def together(self, requests: Sequence[Request]) -> list[float]:
        """Nanoseconds of each op while all of them are in flight: the median of three rounds."""
        repeated = [Request(r.signature, ROUNDS, r.context, r.preceding) for r in requests]
        samples: list[Sample] = self.driver.together(repeated)
        check_samples(repeated, samples, self.source, self.clock)
        return [float(np.median(s.ns)) for s in samples]
