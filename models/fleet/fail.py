"""Permanent failure of a component, such as a GPU that falls off the bus or a cut link."""

from __future__ import annotations

from ...sim.run.process import Running, Steps, process
from ...sim.units import Duration


@process("fail")
class Fail:
    """Process that makes a component fail permanently at one time.

    Its work is lost, unless another process moves it elsewhere (``hot-spare``).

    Parameters
    ----------
    component : str
        GPU (``node0.gpu0``), host, direction of a NIC, or link.
    at : Duration
        Simulated time of the failure.

    Examples
    --------
    >>> Fail(component="node0.gpu0", at=0.5).touches
    ('node0.gpu0',)
    """

    def __init__(self, *, component: str, at: Duration):
        self.component, self.at = component, at
        self.touches = (component,)

    def __call__(self, sim: Running) -> Steps:
        """Wait, then fail the component."""
        yield sim.wait(self.at)
        sim.fail(self.component)
