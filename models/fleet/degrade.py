"""Temporary slowdown of a component: a bad cable, a throttled NIC, a busy neighbour."""

from __future__ import annotations

from ...sim.errors import SimulationError
from ...sim.facts.system import System
from ...sim.run.process import Running, Steps, process
from ...sim.units import Duration


@process("degrade")
class Degrade:
    """Process that reduces the rate of a component at one time, and restores it later.

    Parameters
    ----------
    component : str
        Component with a rate: a direction of a NIC (``node0.nic0.tx``), a link, a port, or a
        memory.
    at : Duration
        Simulated time of the start.
    lasts : Duration
        Duration; by default until the end of the run.
    slowdown : float
        Factor by which the rate is divided.

    Examples
    --------
    >>> Degrade(component="node0.nic0.tx", at=0.5, lasts=1.0, slowdown=10.0).touches
    ('node0.nic0.tx',)
    """

    def __init__(
        self, *, component: str, at: Duration, lasts: Duration | None = None, slowdown: float = 10.0
    ):
        if slowdown <= 0:
            raise SimulationError("action", f"degrade: slowdown is {slowdown}; give one above 0")
        self.component, self.at, self.lasts, self.slowdown = component, at, lasts, slowdown
        self.touches = (component,)

    def check(self, system: System) -> None:
        """Raise an error, before a run, if the component has no rate.

        Raises
        ------
        SimulationError
            The component has slots or a capacity.
        """
        if system[self.component].rate is None:
            raise SimulationError(
                "action",
                f"degrade: {self.component} has no rate to lower; name a direction of a NIC, a "
                "link, a port or a memory, or slow it down by cluster.override",
            )

    def __call__(self, sim: Running) -> Steps:
        """Wait, reduce the rate, wait, restore it."""
        yield sim.wait(self.at)
        rate = sim.rate(self.component)
        sim.set_rate(self.component, rate / self.slowdown)
        if self.lasts is not None:
            yield sim.wait(self.lasts)
            sim.set_rate(self.component, rate)
