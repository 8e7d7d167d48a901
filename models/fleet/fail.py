"""A part that goes out of order at one time: a GPU that falls off its bus, a link that is cut."""

from __future__ import annotations

from ...sim.process import Running, Steps, process
from ...sim.units import Duration


@process("fail")
class Fail:
    """A part that is out of order from one time on.

    What it was doing is lost, and nobody takes over unless another process does (``hot-spare``).

    Parameters
    ----------
    component : str
        A GPU (``node0.gpu0``), a host, a direction of a NIC, a link.
    at : Duration
        When, in simulated time.

    Examples
    --------
    >>> Fail(component="node0.gpu0", at=0.5).touches
    ('node0.gpu0',)
    """

    def __init__(self, *, component: str, at: Duration):
        self.component, self.at = component, at
        self.touches = (component,)

    def __call__(self, sim: Running) -> Steps:
        """Wait, and stop it for good."""
        yield sim.wait(self.at)
        sim.fail(self.component)
