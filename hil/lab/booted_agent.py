"""Drivers inside a virtual machine of the lab, which acts as the agent's process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from ..agent.client import RemoteDriver
from ..agent.transport import LIMIT, start_agent_process
from .build_cache import built_versions

VERSION_PREFIXES = {"uml": ("uml", "root/"), "qemu": ("qemu", "disk/"), "host": ()}
"""Prefixes of the names, in ``versions.json``, of what each machine was built from."""


class BootedDriver(RemoteDriver):
    """Driver in a virtual machine that was booted for it.

    Its provenance includes the machine's packages.
    """

    machine = ""
    patience = 240.0  # s for a machine to start where every instruction is emulated

    def describe(self) -> dict[str, str]:
        """Provenance of the driver, and versions of the packages in the machine."""
        parts = {
            k: v
            for k, v in built_versions().items()
            if k.startswith(VERSION_PREFIXES[self.machine])
        }
        return {**parts, **super().describe()}


def boot_driver(
    machine: str,
    driver: str,
    settings: Mapping[str, str] = {},
    limit: float = LIMIT,
    connect_peer: Callable[[str], RemoteDriver] | None = None,
) -> BootedDriver:
    """Boot a virtual machine of the lab and connect to a driver in it.

    Parameters
    ----------
    machine : ``uml``, ``qemu``, or ``host`` (network namespaces of the running kernel)
    driver : registered name of the driver
    settings : settings of the machine, such as ``ends`` and ``mtu``
    limit : time limit of one request, in s
    connect_peer : connects to the same driver in another agent, for a peer on another host

    Raises
    ------
    HardwareUnavailable
        The lab is not built.
    """
    words = [f"{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-P", "-m", __package__, machine, *words]
    agent = BootedDriver(start_agent_process(command), driver, limit, connect_peer)
    agent.machine = machine
    return agent
