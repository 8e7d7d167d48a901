"""Connecting to a driver: in an agent of the user's list, or in a machine of the lab."""

from __future__ import annotations

from .agent.address import Address, addresses
from .agent.client import Remote
from .agent.transport import LIMIT


def connect(driver: str, agent: str = "", limit: float = LIMIT) -> Remote:
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
    address = addresses()[agent] if agent else Address()
    if address.lab:
        from .lab.booted_agent import booted

        machine, *words = address.lab.split()
        return booted(machine, driver, dict(word.split("=", 1) for word in words), limit)
    return Remote(address.open(), driver, limit)
