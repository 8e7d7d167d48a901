"""Doing a work list of the lab: every start of the measurement is a boot of the machine."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..measure import measure
from ..recording import Recording
from .boot import booted
from .works import Planned

log = logging.getLogger(__name__)


def record(planned: Planned, tell: Callable[[str], None] = log.info) -> Recording:
    """Boot, measure, and say what it was measured on.

    Raises
    ------
    DriverFault
        The machine or its driver failed before anything was measured.
    """
    work = planned.work
    return measure(work, lambda: booted(planned.machine, work.driver, planned.settings), tell)
