"""Plausibility checks of samples, made before samples from a driver are used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..sim.errors import DriverFault
from .sample import CLOCKS, METRICS, OFFSET, OFFSET_ERROR, ONE_WAY, Request, Sample

LONGEST = 3.6e12  # ns: no single op takes an hour


def check_samples(
    requests: Sequence[Request], samples: Sequence[Sample], who: str, clock: str = ""
) -> None:
    """Refuse samples that do not match their requests or hold impossible times.

    Parameters
    ----------
    requests : requests that were sent to the driver
    samples : samples that the driver returned
    who : driver and device, named in the error message
    clock : clock that the driver declared; "" accepts any

    Raises
    ------
    DriverFault
        Its kind is ``unrequested``, ``not-a-number``, ``negative``, ``absurd`` or
        ``clock``.

    Examples
    --------
    >>> ask = [Request("copy:h2h uint8[64]")]
    >>> check_samples(ask, [Sample("copy:h2h uint8[64]", np.array([-5.0]), "wall")], "host")
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: negative: host: copy:h2h uint8[64] took -5 ns; ...
    """
    if len(requests) != len(samples):
        raise DriverFault(
            "unrequested",
            f"{who}: {len(samples)} samples for {len(requests)} requests; fix the driver",
        )
    for request, sample in zip(requests, samples, strict=True):
        _check_request(request, sample, who)
        _check_times(sample, who)
        if sample.clock not in CLOCKS or (clock and sample.clock != clock):
            raise DriverFault(
                "clock",
                f"{who}: a sample has clock {sample.clock!r}, but the driver declares {clock!r}; "
                "fix the driver",
            )


def _check_request(request: Request, sample: Sample, who: str) -> None:
    """Check that a sample matches its request: key, metric and number of repeats."""
    if sample.key != request.key:
        raise DriverFault(
            "unrequested", f"{who}: asked for {request.key}, answered {sample.key}; fix the driver"
        )
    if sample.metric not in METRICS:
        raise DriverFault("unrequested", f"{who}: metric {sample.metric!r} is not one of {METRICS}")
    if sample.metric == ONE_WAY and not {OFFSET, OFFSET_ERROR} <= set(sample.facts):
        raise DriverFault(
            "clock", f"{who}: a one-way time of {request.signature} without the offset of the two "
            f"clocks; return {OFFSET} and {OFFSET_ERROR} in the facts of the sample"
        )  # fmt: skip
    count = len(sample.ns)
    if not count or count > request.n or (count < request.n and "partial" not in sample.facts):
        raise DriverFault(
            "unrequested",
            f"{who}: {count} repeats of {request.signature}, asked for {request.n}; return that "
            "many, or give the reason for fewer in facts['partial']",
        )


def _check_times(sample: Sample, who: str) -> None:
    """Check that every time is finite, positive and below an hour; 0 is allowed in time travel."""
    for kind, bad, why in (
        ("not-a-number", ~np.isfinite(sample.ns), "it is not a finite number; fix the driver"),
        ("negative", sample.ns < 0, "a time cannot be negative; fix the driver"),
        ("absurd", sample.ns > LONGEST, "longer than an hour is not plausible; fix the driver"),
        (
            "absurd",
            _zero_times(sample),
            "the clock did not move; repeat the op between two readings",
        ),
    ):
        if bad.any():
            value = sample.ns[bad][0]
            raise DriverFault(kind, f"{who}: {sample.signature} took {value:g} ns; {why}")


def _zero_times(sample: Sample) -> NDArray[np.bool_]:
    """(n,) True where a repeat took 0 ns.

    All False for the clock ``timetravel``, where 0 is possible.
    """
    free = sample.clock == "timetravel"
    return np.zeros(len(sample.ns), np.bool_) if free else sample.ns == 0
