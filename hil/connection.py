"""Connecting to a driver: in an agent of the user's list, or in a machine of the lab."""

from __future__ import annotations

from .agent.address import Address, listed_agents
from .agent.client import RemoteDriver
from .agent.transport import LIMIT


def connect_driver(driver: str, agent: str = "", limit: float = LIMIT) -> RemoteDriver:
    """Driver in an agent process that is started or connected to.

    Parameters
    ----------
    driver : its registered name
    agent : a name of the user's list of agents; "" for this machine and this Python
    limit : s that one request may take

    Raises
    ------
    DriverFault
        ``missing``: no agent of that name, or it cannot be started.
    """

    def connect_peer(name: str) -> RemoteDriver:
        return connect_driver(driver, name, limit)

    address = listed_agents()[agent] if agent else Address()
    if address.lab:
        from .lab.booted_agent import boot_driver

        machine, *words = address.lab.split()
        settings = dict(word.split("=", 1) for word in words)
        return boot_driver(machine, driver, settings, limit, connect_peer)
    return RemoteDriver(address.open(), driver, limit, connect_peer)
