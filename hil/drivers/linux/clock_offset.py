"""Offset of another host's clock from this one's, by round trips, with its uncertainty.

A message leaves at t1 by this clock, is there from t2 to t3 by that clock, and is back at t4.  The
way there and the way back take together t4 - t1 - (t3 - t2); how they share it nobody knows, so the
offset is known to half of that (the assumption of NTP, RFC 5905, section 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....sim.errors import DriverFault
from ...sample import OFFSET, OFFSET_ERROR, ONE_WAY

MEASURED = "measured"  # the only offset that a one-way time is taken with
EXCHANGES = 64  # of which the quickest tells most
SECOND = 1e9  # ns


@dataclass(frozen=True)
class ClockOffset:
    """What another host's clock shows more than this one's, and how surely.

    Parameters
    ----------
    ns : that clock minus this one
    error_ns : either way

    Examples
    --------
    >>> ClockOffset(86_400e9, 20_500.0).text("host3")
    'host3 86400.000000000 s (+- 20.5 us): a different clock'
    >>> ClockOffset(400.0, 20_500.0).text("host2")
    'host2 0.000000400 s (+- 20.5 us): the same clock within that uncertainty'
    """

    ns: float
    error_ns: float

    @property
    def is_other_clock(self) -> bool:
        """Whether it is surely another clock."""
        return abs(self.ns) > self.error_ns

    def text(self, host: str) -> str:
        """One line of it."""
        what = (
            "a different clock" if self.is_other_clock else "the same clock within that uncertainty"
        )
        return f"{host} {self.ns / SECOND:.9f} s (+- {self.error_ns / 1e3:.3g} us): {what}"

    def facts(self) -> dict[str, Any]:
        """Facts of a sample that was taken with it."""
        return {OFFSET: self.ns, OFFSET_ERROR: self.error_ns}


def offset_of_round_trips(
    here: Sequence[tuple[int, int]], there: Sequence[tuple[int, int]]
) -> ClockOffset:
    """Offset that all round trips agree with.

    Parameters
    ----------
    here : (leaving, coming back) of each, ns by this clock
    there : (coming, leaving again) of each, ns by that clock

    Raises
    ------
    DriverFault
        ``clock``: no offset agrees with all, so one of the clocks was set meanwhile.

    Examples
    --------
    >>> offset_of_round_trips([(0, 100), (200, 260)], [(1050, 1060), (1230, 1236)])
    ClockOffset(ns=1003.0, error_ns=27.0)
    """
    (t1, t4), (t2, t3) = np.array(here, np.int64).T, np.array(there, np.int64).T
    low, high = int((t3 - t4).max()), int((t2 - t1).min())
    if low > high:
        raise DriverFault("clock", "a clock was set while two were compared: the offset is between "
                          f"{low} and {high} ns; try again")  # fmt: skip
    return ClockOffset((low + high) / 2, (high - low) / 2)


def combine_offsets(before: ClockOffset, after: ClockOffset) -> ClockOffset:
    """Offset that holds from before to after, while clocks drift.

    >>> combine_offsets(ClockOffset(100.0, 10.0), ClockOffset(110.0, 20.0))
    ClockOffset(ns=110.0, error_ns=20.0)
    """
    low = min(before.ns - before.error_ns, after.ns - after.error_ns)
    high = max(before.ns + before.error_ns, after.ns + after.error_ns)
    return ClockOffset((low + high) / 2, (high - low) / 2)


def require_measured_offset(metric: str, clock_offset: str, two_hosts: bool) -> None:
    """Refuse a one-way time of two clocks whose offset was not asked for.

    Raises
    ------
    DriverFault
        ``unsupported``.

    Examples
    --------
    >>> require_measured_offset("one_way", "", True)
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: one_way is read on two clocks; set ...
    """
    if clock_offset not in ("", MEASURED):
        raise DriverFault(
            "unsupported", f"clock_offset {clock_offset!r}; {MEASURED}, or leave it out"
        )
    if metric == ONE_WAY and not two_hosts:
        raise DriverFault("unsupported", "one_way is for a peer on another host; here it is "
                          "completion")  # fmt: skip
    if metric == ONE_WAY and not clock_offset:
        raise DriverFault("unsupported", "one_way is read on two clocks; set clock_offset: "
                          f"{MEASURED}, which tells how surely, or take half_rtt")  # fmt: skip
