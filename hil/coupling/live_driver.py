"""Live driver in a coupled run: executes each op when it starts and checks every sample.

Equal ops are executed again each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...sim.errors import DriverFault
from ..driver import Driver
from ..sample import Request, Sample
from ..sample_checks import check_samples

ROUNDS = 3  # of a set in flight; the median counts


@contextmanager
def prefix_faults(where: str) -> Iterator[None]:
    """Context manager that adds a prefix to the messages of driver faults raised inside it.

    >>> with prefix_faults("hil.swap node0.gpu0: odd"):
    ...     raise DriverFault("negative", "odd: copy:h2h took -1 ns")
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: negative: hil.swap node0.gpu0: odd: copy:h2h took -1 ns
    """
    try:
        yield
    except DriverFault as fault:
        if not where or fault.message.startswith(where):
            raise
        driver = where.rpartition(": ")[2]
        told = fault.message.removeprefix(f"{driver}: ")
        raise DriverFault(fault.kind, f"{where}: {told}") from fault


class LiveDriver:
    """Op timer that executes ops on an open driver.

    Parameters
    ----------
    driver : Driver
    source : label of the source of timings, shown in results
    named : prefix of fault messages: the component and its driver

    Examples
    --------
    >>> class Steady(Driver):
    ...     name, ops = "steady", ("copy:h2h",)
    ...     def timing(self, requests):
    ...         return [Sample(r.signature, np.full(r.n, 7.0), self.clock) for r in requests]
    >>> LiveDriver(Steady(), "a test").alone(Request("copy:h2h uint8[64]"))
    7.0
    """

    def __init__(self, driver: Driver, source: str, named: str = ""):
        self.driver, self.source, self.clock, self.named = driver, source, driver.clock, named

    def alone(self, request: Request) -> float:
        """Execute one op once; returns its time in ns."""
        with prefix_faults(self.named):
            samples = self.driver.timing([request])
            check_samples([request], samples, self.source, self.clock)
        return float(samples[0].ns[-1])

    def together(self, requests: Sequence[Request]) -> list[float]:
        """Execute the ops concurrently in three rounds.

        Returns the median time of each op in ns.
        """
        repeated = [Request(r.signature, ROUNDS, r.context, r.preceding) for r in requests]
        with prefix_faults(self.named):
            samples: list[Sample] = self.driver.together(repeated)
            check_samples(repeated, samples, self.source, self.clock)
        return [float(np.median(s.ns)) for s in samples]
