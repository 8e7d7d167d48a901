"""A driver inside a machine of the lab: the machine is the agent's process."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ..agent.client import Remote
from ..agent.transport import LIMIT, child
from .build_cache import versions

MADE_OF = {"uml": ("uml", "root/"), "qemu": ("qemu", "disk/"), "host": ()}
"""Whose versions matter, by how their names begin."""


class Booted(Remote):
    """A driver in a machine that was started for it; what the machine is made of is provenance."""

    machine = ""
    patience = 240.0  # s for a machine to start where every instruction is emulated

    def describe(self) -> dict[str, str]:
        """Of the driver, and of every package that the machine was built from."""
        parts = {k: v for k, v in versions().items() if k.startswith(MADE_OF[self.machine])}
        return {**parts, **super().describe()}


def booted(machine: str, driver: str, settings: Mapping[str, str] = {},
           limit: float = LIMIT) -> Booted:  # fmt: skip
    """Start a machine, and open its agent.

    Parameters
    ----------
    machine : ``uml``, ``qemu``, or ``host`` for namespaces of the kernel that runs
    driver : its name
    settings : of the machine: ``ends``, ``mtu``
    limit : s for one question

    Raises
    ------
    HardwareUnavailable
        The lab is not built.
    """
    words = [f"{key}={value}" for key, value in settings.items()]
    line = [sys.executable, "-P", "-m", __package__, machine, *words]
    made = Booted(child(line), driver, limit)
    made.machine = machine
    return made
