"""Switch model: every output port has a shared rate, and crossing takes a forwarding latency."""

from __future__ import annotations

from dataclasses import replace

from ....sim.facts.backend import backend
from ....sim.facts.system import Component, Location, System
from ....sim.units import ByteRate, Ratio, Seconds
from .link import Link


@backend("switch")
class Switch(Link):
    """Non-blocking switch: flows share bandwidth only if they leave by the same port.

    Parameters
    ----------
    bandwidth : ByteRate
        Line rate of one port, one direction.
    latency : Seconds
        Time from the first bit in to the first bit out of an idle port.
    ports : int
        Number of ports; connecting more ends is an error.
    efficiency : Ratio
        Fraction of the line rate that is left for payload.

    Examples
    --------
    >>> switch = Switch(bandwidth=1e9, latency=1e-6, ports=4)
    >>> switch.port("leaf0", 3).name
    'leaf0.port3'
    """

    kind = "switch"

    def __init__(
        self, *, bandwidth: ByteRate, latency: Seconds, ports: int, efficiency: Ratio = 1.0
    ):
        super().__init__(bandwidth=bandwidth, latency=latency, efficiency=efficiency)
        self.ports = ports

    def port(self, name: str, number: int, part: str = "") -> Component:
        """Component of one output port.

        Raises
        ------
        ValueError
            The switch has no such port.
        """
        if not 0 <= number < self.ports:
            raise ValueError(
                f"{name}: has no port {number}, only {self.ports} ports; "
                "take a larger switch or add another"
            )
        return self.component(f"{name}.port{number}", part)


def star(n: int, link: Link, switch: Switch, *, slots: int = 1, part: str = "") -> System:
    """Build a node of ``n`` GPUs, each connected to one switch, as on an HGX board.

    Data leaves on the sender's link and enters the receiver on its port of the switch.

    Parameters
    ----------
    slots : int
        Number of streams that each GPU runs at the same time.

    Examples
    --------
    >>> link, switch = Link(bandwidth=2e9, latency=1e-6), Switch(bandwidth=1e9, latency=0, ports=8)
    >>> system = star(4, link, switch)
    >>> system.bandwidth(0, 1), system.latency(0, 1)
    (1000000000.0, 1e-06)
    """
    inside, sent = Location("node0"), Location("node0", role="tx")
    card = inside._replace(part=part)
    gpus = [Component(f"node0.gpu{i}", "gpu", slots=slots, location=card) for i in range(n)]
    up = [replace(link.component(f"node0.gpu{i}.tx"), location=sent) for i in range(n)]
    down = [replace(switch.port("node0.switch", i), location=inside) for i in range(n)]
    fabric = Component("fabric", "fabric")
    return System(
        (*gpus, *up, *down, fabric),
        tuple(g.name for g in gpus),
        router=lambda a, b: (n + a, 2 * n + b),
        fabric="fabric",
    )
