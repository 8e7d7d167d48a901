"""Record measuring campaigns of the lab; every process start is a boot of the machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..measuring.measurement import measure
from ..recording import SUFFIX, Recording, read
from .booted_agent import boot_driver
from .campaigns import Campaign

KEPT = Path(__file__).resolve().parents[1] / "recordings"
Key = tuple[str, str]
log = logging.getLogger(__name__)


def record_campaign(campaign: Campaign, on_progress: Callable[[str], None] = log.info) -> Recording:
    """Measure a campaign now and return its recording; each process start boots the machine.

    Raises
    ------
    DriverFault
        The machine or its driver failed before anything was measured.
    """
    work = campaign.work
    return measure(
        work, lambda: boot_driver(campaign.machine, work.driver, campaign.settings), on_progress
    )


def bundled_recording(name: str) -> Recording:
    """Recording of a campaign that is bundled with the package.

    >>> bundled_recording("timetravel-10gbit").driver
    'switch'
    """
    return read(KEPT / f"{name}{SUFFIX}")


def op_medians(recording: Recording) -> dict[Key, float]:
    """Median time of each op over all repeats of all starts, in ns."""
    times: dict[Key, list[float]] = {}
    for sample in recording.samples:
        times.setdefault(sample.key, []).extend(sample.ns.tolist())
    return {key: float(np.median(ns)) for key, ns in times.items()}


def comparison_lines(name: str, recording: Recording) -> Iterator[str]:
    """Lines of text: median of each op in us, and its change relative to the bundled recording."""
    before = op_medians(bundled_recording(name)) if (KEPT / f"{name}{SUFFIX}").exists() else {}
    for (signature, context), ns in sorted(op_medians(recording).items()):
        then = before.get((signature, context))
        change = "new" if then is None else f"{ns / then - 1:+.1%} of {then / 1e3:.2f}"
        yield f"{signature} {context}: {ns / 1e3:.2f} us, {change}"
