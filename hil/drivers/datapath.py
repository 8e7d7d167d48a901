"""Open vSwitch's datapath of the kernel in the place of a bridge: ports and flows, no daemon."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .netns import call

NAME = "foretrace"


def put(where: str, behind: Mapping[str, str]) -> None:
    """Join ports of a namespace by a datapath that forwards by address.

    Parameters
    ----------
    where : the namespace
    behind : by port, the hardware address that is reached there

    Raises
    ------
    DriverFault
        No ovs-dpctl, or a kernel without this datapath.
    """
    _tell(where, "add-dp", NAME)
    for port in behind:
        call("ip", "-n", where, "link", "set", port, "nomaster")
        _tell(where, "add-if", NAME, port)
    number = numbers(_tell(where, "show", NAME))
    for target, address in behind.items():
        for source in behind:
            if source != target:
                flow = f"in_port({number[source]}),eth(dst={address}),eth_type(0x0800),ipv4()"
                _tell(where, "add-flow", NAME, flow, str(number[target]))


def numbers(shown: str) -> dict[str, int]:
    r"""Ports of a datapath by name.

    >>> numbers("system@foretrace:\n  port 0: foretrace (internal)\n  port 1: port1\n")
    {'foretrace': 0, 'port1': 1}
    """
    return {name: int(n) for n, name in re.findall(r"port (\d+): (\S+)", shown)}


def remove(where: str) -> None:
    """Take it away; its ports stay, joined by nothing."""
    _tell(where, "del-dp", NAME)


def back(where: str, behind: Mapping[str, str], bridge: str) -> None:
    """Remove it, and join the ports by their bridge again."""
    remove(where)
    for port, address in behind.items():
        call("ip", "-n", where, "link", "set", port, "master", bridge)
        call("bridge", "-n", where, "fdb", "replace", address, "dev", port, "master", "static")


def _tell(where: str, *words: str) -> str:
    return call("ip", "netns", "exec", where, "ovs-dpctl", *words)
