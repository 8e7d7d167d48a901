"""Samples: measured nanoseconds with their clock, metric and conditions.

A sample is one batch: repeats of one op, in one process, one after the other.  Two samples are
of one thing only when signature, clock, metric and context are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Clock = Literal["wall", "cpu", "icount", "timetravel", "device"]
Metric = Literal["completion", "half_rtt", "message_rate", "bandwidth", "one_way"]
CLOCKS: tuple[str, ...] = get_args(Clock)
METRICS: tuple[str, ...] = get_args(Metric)
WARM, COLD, AFTER = "warm", "cold", "after"
CONTEXTS = (WARM, COLD, AFTER)
ONE_WAY = "one_way"  # a metric, of two clocks; facts that its samples have:
OFFSET, OFFSET_ERROR = "clock_offset_ns", "clock_offset_error_ns"
EMULATED = "emulated"  # flag of times that an emulator made up


@dataclass(frozen=True)
class Request:
    """Op to be timed, with repeats and context.

    Parameters
    ----------
    signature : str
        In the grammar of ``docs/signatures.md``.
    n : int
        How many repeats; a driver may return fewer only when it says why in ``facts["partial"]``.
    context : str
        What is restored before each repeat: ``warm`` (the op itself ran before), ``cold`` (caches
        were emptied), ``after`` (the ops in ``preceding`` ran).
    preceding : tuple of signatures

    Examples
    --------
    >>> Request("copy:h2h uint8[4096]", n=5).context
    'warm'
    """

    signature: str
    n: int = 1
    context: str = WARM
    preceding: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"{self.signature}: n is {self.n}; ask for at least 1")
        if self.context not in CONTEXTS:
            raise ValueError(f"{self.signature}: context {self.context!r} is not one of {CONTEXTS}")
        if bool(self.preceding) != (self.context == AFTER):
            raise ValueError(f"{self.signature}: context 'after', and only it, has preceding ops")

    @property
    def key(self) -> tuple[str, str]:
        """Signature and context: requests with equal keys ask for the same measurement."""
        return self.signature, " ; ".join((self.context, *self.preceding))


@dataclass(frozen=True)
class Sample:
    """One batch of repeats of one op.

    Parameters
    ----------
    signature : str
    ns : (n,) ns
        Time of each repeat, in the order they were taken.
    clock : str
        Clock that was read: ``wall cpu icount timetravel device``.
    metric : str
        What the times mean: ``completion half_rtt message_rate bandwidth one_way``.  A message rate
        or a bandwidth is told as ns per message or per op.  A one-way time is read on two clocks,
        whose offset and its error are among the facts.
    context : str
        As ``Request.key`` writes it.
    start : int
        Number of the start of the driver's process.
    flags : tuple of str
        Reasons not to fit it: ``throttled``, ``noisy``, ``clock-jump``, ``emulated``; or none.
    facts : mapping
        Of this batch: load, clocks, temperature, power, ``memory_peak`` (B), counters.

    Examples
    --------
    >>> sample = Sample("copy:h2h uint8[4096]", np.array([110.0, 100.0, 120.0]), "wall")
    >>> sample.median, sample.good
    (110.0, True)
    """

    signature: str
    ns: NDArray[np.float64]
    clock: str
    metric: str = "completion"
    context: str = WARM
    start: int = 0
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Signature and context, as in ``Request.key``."""
        return self.signature, self.context

    @property
    def median(self) -> float:
        """Median of ``ns``."""
        return float(np.median(self.ns))

    @property
    def good(self) -> bool:
        """Whether it may be fitted: no flag is set."""
        return not self.flags
