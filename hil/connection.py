"""Connect to a driver in an agent from the user's list or in a virtual machine of the lab."""

from __future__ import annotations

from .agent.address import Address, listed_agents
from .agent.client import RemoteDriver
from .agent.transport import LIMIT


def connect_driver(driver: str, agent: str = "", limit: float = LIMIT) -> RemoteDriver:
    """Connect to a driver in an agent process, which is started if it does not run yet.

    Parameters
    ----------
    driver : registered name of the driver
    agent : name in the user's list of agents; "" for this machine and this Python
    limit : time limit of one request, in s

    Raises
    ------
    DriverFault
        ``missing``: no agent has that name, or it cannot be started.
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
