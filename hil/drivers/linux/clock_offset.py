"""Offset between the clocks of two hosts, measured by round trips, with its uncertainty.

A message leaves at t1 by this clock. It is at the other host from t2 to t3 by that clock, and back
here at t4. Both ways together take t4 - t1 - (t3 - t2). How this time splits into the two ways is
unknown, so the uncertainty of the offset is half of it (as in NTP, RFC 5905, section 8).
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
    """Offset of another host's clock relative to this one, with its uncertainty.

    Parameters
    ----------
    ns : reading of the other host's clock minus that of this host's clock, in ns
    error_ns : uncertainty, plus or minus, in ns

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
        """True if the offset exceeds its uncertainty, so that the two clocks certainly differ."""
        return abs(self.ns) > self.error_ns

    def text(self, host: str) -> str:
        """One line of text that describes the offset."""
        what = (
            "a different clock" if self.is_other_clock else "the same clock within that uncertainty"
        )
        return f"{host} {self.ns / SECOND:.9f} s (+- {self.error_ns / 1e3:.3g} us): {what}"

    def facts(self) -> dict[str, Any]:
        """Offset and uncertainty as facts of a sample that was measured with them."""
        return {OFFSET: self.ns, OFFSET_ERROR: self.error_ns}


def offset_of_round_trips(
    here: Sequence[tuple[int, int]], there: Sequence[tuple[int, int]]
) -> ClockOffset:
    """Clock offset that is consistent with all round trips.

    Parameters
    ----------
    here : (departure, return) of each round trip, in ns by this clock
    there : (arrival, departure) of each message at the other host, in ns by the other host's clock

    Raises
    ------
    DriverFault
        ``clock``: no offset is consistent with all round trips, so a clock was set in between.

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
    """Clock offset over a period, from the offsets measured before and after it.

    The uncertainty includes the drift in between.

    >>> combine_offsets(ClockOffset(100.0, 10.0), ClockOffset(110.0, 20.0))
    ClockOffset(ns=110.0, error_ns=20.0)
    """
    low = min(before.ns - before.error_ns, after.ns - after.error_ns)
    high = max(before.ns + before.error_ns, after.ns + after.error_ns)
    return ClockOffset((low + high) / 2, (high - low) / 2)


def require_measured_offset(metric: str, clock_offset: str, two_hosts: bool) -> None:
    """Refuse a one-way time across two clocks unless the clock offset is measured.

    Raises
    ------
    DriverFault
        ``unsupported``: the offset is not measured, ``clock_offset`` has another value, or
        both ends are on one host.

    Examples
    --------
    >>> require_measured_offset("one_way", "", True)
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: one_way is read on two clocks; set ...
    """
    if clock_offset not in ("", MEASURED):
        raise DriverFault(
            "unsupported",
            f"clock_offset is {clock_offset!r}; write {MEASURED}, or leave it out",
        )
    if metric == ONE_WAY and not two_hosts:
        raise DriverFault("unsupported", "one_way needs a peer on another host; write "
                          "metric: completion for devices of one host")  # fmt: skip
    if metric == ONE_WAY and not clock_offset:
        raise DriverFault(
            "unsupported",
            f"one_way is read on two clocks; set clock_offset: {MEASURED}, which also gives its "
            "error, or metric: half_rtt",
        )
