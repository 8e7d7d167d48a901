"""Doing a work list of the lab: every start of the measurement is a boot of the machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..measuring.measurement import measure
from ..recording import SUFFIX, Recording, read
from .booted_agent import booted
from .campaigns import Campaign

KEPT = Path(__file__).resolve().parents[1] / "recordings"
Key = tuple[str, str]
log = logging.getLogger(__name__)


def record(planned: Campaign, tell: Callable[[str], None] = log.info) -> Recording:
    """Boot, measure, and say what it was measured on.

    Raises
    ------
    DriverFault
        The machine or its driver failed before anything was measured.
    """
    work = planned.work
    return measure(work, lambda: booted(planned.machine, work.driver, planned.settings), tell)


def kept(name: str) -> Recording:
    """What was recorded earlier and is part of foretrace.

    >>> kept("timetravel-10gbit").driver
    'switch'
    """
    return read(KEPT / f"{name}{SUFFIX}")


def medians(recording: Recording) -> dict[Key, float]:
    """The median of each op over all starts, ns."""
    found: dict[Key, list[float]] = {}
    for sample in recording.samples:
        found.setdefault(sample.key, []).extend(sample.ns.tolist())
    return {key: float(np.median(ns)) for key, ns in found.items()}


def compared(name: str, recording: Recording) -> Iterator[str]:
    """Each op in microseconds, beside what is kept under that name."""
    before = medians(kept(name)) if (KEPT / f"{name}{SUFFIX}").exists() else {}
    for (signature, context), ns in sorted(medians(recording).items()):
        then = before.get((signature, context))
        beside = "new" if then is None else f"{ns / then - 1:+.1%} of {then / 1e3:.2f}"
        yield f"{signature} {context}: {ns / 1e3:.2f} us, {beside}"
