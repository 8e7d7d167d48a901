"""Samples: measured times in ns, with their clock, metric and conditions.

A sample is one batch: repeats of one op in one process, one after the other. Two samples measure
the same thing only if signature, clock, metric and context are equal.
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
    """Op to be timed, with the number of repeats and the context to start from.

    Parameters
    ----------
    signature : str
        Signature of the op, in the grammar of ``docs/signatures.md``.
    n : int
        Number of repeats. A driver may return fewer only if it gives the reason in
        ``facts["partial"]``.
    context : str
        State restored before each repeat: ``warm`` (the op itself ran before), ``cold`` (caches are
        emptied) or ``after`` (the ops in ``preceding`` ran before).
    preceding : tuple of str
        Signatures of the ops that run before each repeat if the context is ``after``.

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
            raise ValueError(
                f"{self.signature}: preceding ops need context 'after', and it needs them; give "
                "both or neither"
            )

    @property
    def key(self) -> tuple[str, str]:
        """Signature and context. Requests with equal keys ask for the same measurement."""
        return self.signature, " ; ".join((self.context, *self.preceding))


@dataclass(frozen=True)
class Sample:
    """One batch of repeats of one op, with their measured times.

    Parameters
    ----------
    signature : str
        Signature of the op.
    ns : (n,) ns
        Time of each repeat, in the order they were measured.
    clock : str
        Clock that measured the times: ``wall cpu icount timetravel device``.
    metric : str
        Meaning of the times: ``completion half_rtt message_rate bandwidth one_way``. A message rate
        or a bandwidth is given as ns per message or per op. A one-way time is read on two clocks;
        their offset and its error are among the facts.
    context : str
        Context of the request, as in ``Request.key``.
    start : int
        Number of the start of the driver's process.
    flags : tuple of str
        Reasons not to fit a model to the sample: ``throttled``, ``noisy``, ``clock-jump``,
        ``emulated``; empty if there are none.
    facts : mapping
        Conditions and counters of this batch: load, clocks, temperature, power, ``memory_peak``
        (B).

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
        """True if a model may be fitted to the sample: no flag is set."""
        return not self.flags
