"""Open vSwitch kernel datapath in place of a bridge: ports and flows, without a daemon."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..linux.netns import run_command

NAME = "foretrace"


def attach_ports(where: str, mac_by_port: Mapping[str, str]) -> None:
    """Move the ports of a namespace from their bridge to a datapath that forwards by MAC address.

    Parameters
    ----------
    where : name of the namespace
    mac_by_port : MAC address reached through each port

    Raises
    ------
    DriverFault
        ovs-dpctl is missing, or the kernel has no such datapath.
    """
    _dpctl(where, "add-dp", NAME)
    for port in mac_by_port:
        run_command("ip", "-n", where, "link", "set", port, "nomaster")
        _dpctl(where, "add-if", NAME, port)
    number = port_numbers(_dpctl(where, "show", NAME))
    for target, address in mac_by_port.items():
        for source in mac_by_port:
            if source != target:
                flow = f"in_port({number[source]}),eth(dst={address}),eth_type(0x0800),ipv4()"
                _dpctl(where, "add-flow", NAME, flow, str(number[target]))


def port_numbers(shown: str) -> dict[str, int]:
    r"""Port numbers of a datapath by port name, from ``ovs-dpctl show``.

    >>> port_numbers("system@foretrace:\n  port 0: foretrace (internal)\n  port 1: port1\n")
    {'foretrace': 0, 'port1': 1}
    """
    return {name: int(n) for n, name in re.findall(r"port (\d+): (\S+)", shown)}


def delete_datapath(where: str) -> None:
    """Delete the datapath; its ports stay, unconnected."""
    _dpctl(where, "del-dp", NAME)


def restore_bridge(where: str, mac_by_port: Mapping[str, str], bridge: str) -> None:
    """Delete the datapath and attach its ports to their bridge again."""
    delete_datapath(where)
    for port, address in mac_by_port.items():
        run_command("ip", "-n", where, "link", "set", port, "master", bridge)
        run_command(
            "bridge", "-n", where, "fdb", "replace", address, "dev", port, "master", "static"
        )


def _dpctl(where: str, *words: str) -> str:
    return run_command("ip", "netns", "exec", where, "ovs-dpctl", *words)
