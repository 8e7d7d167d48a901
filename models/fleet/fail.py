"""Permanent failure of a component: a GPU that falls off its bus, a link that is cut."""

from __future__ import annotations

from ...sim.run.process import Running, Steps, process
from ...sim.units import Duration


@process("fail")
class Fail:
    """Process that fails a component at one time, for good.

    Its work is lost unless another process moves it elsewhere (``hot-spare``).

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
        """Wait, then fail the component."""
        yield sim.wait(self.at)
        sim.fail(self.component)
