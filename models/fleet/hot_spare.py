"""Hot spares: a watchdog that moves the work of a failed GPU to a spare one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import SimulationError
from ...sim.graph import Graph
from ...sim.process import Running, Steps, process
from ...sim.units import Duration


class HotSpare:
    """Process that runs a graph, checks its components periodically and replaces failed ones.

    Parameters
    ----------
    graph : Graph
        A placed graph; failed components are replaced in its placement.
    spares : names of components
        Idle until needed, taken in this order; when none is left, nothing is moved.
    period : Duration
        Between two checks, so a failure is noticed up to this much later.
    swap : Duration
        From noticing it until the spare is ready: connecting it, loading the state.

    Examples
    --------
    >>> policy = HotSpare(graph, ["node9.gpu0"], period=1.0, swap=30.0)  # doctest: +SKIP
    >>> Simulation(system, backends).run(None, policy)  # doctest: +SKIP
    """

    def __init__(self, graph: Graph, spares: Sequence[str], *, period: Duration, swap: Duration):
        self.graph, self.spares, self.period, self.swap = graph, list(spares), period, swap
        if graph.system is None or graph.explicit.slot is None:
            raise ValueError(f"graph {graph.name!r} has no machine; call place() first")
        self.slot, self.unused = graph.explicit.slot, self.spares  # of each run, as it goes on
        if period <= 0:
            raise SimulationError("action", f"hot-spare: period is {period}; give one above 0")
        unknown = set(self.spares) - set(graph.system.index)
        if unknown:
            raise SimulationError("action", f"hot-spare: no component is named {min(unknown)!r}")

    def __call__(self, sim: Running) -> Steps:
        """Submit the graph and watch it until it ends."""
        running = sim.submit(self.graph)
        yield from self.watch(sim, running.first, lambda: not running.done.triggered)

    def watch(self, sim: Running, first: int, unfinished: Callable[[], bool]) -> Steps:
        """Check the components that have work, and move the work of failed ones to spares.

        Parameters
        ----------
        first : number of the graph's first op
        unfinished : whether any op of the graph has not ended
        """
        names = [c.name for c in sim.system.components]
        slot, self.unused = self.slot.copy(), list(self.spares)
        while self.unused and unfinished():
            yield sim.wait(self.period)
            for c in np.unique(slot[slot >= 0]).tolist():
                if self.unused and sim.failed(names[c]):
                    yield sim.wait(self.swap)
                    self._move_to_spare(sim, first, slot, c, names.index(self.unused.pop(0)))

    def _move_to_spare(
        self, sim: Running, first: int, slot: NDArray[np.int32], dead: int, spare: int
    ) -> None:
        """Move the unfinished ops of a failed component to a spare, where they start over."""
        op_of = self.graph.explicit.op_of_place
        moved = np.unique(op_of[slot == dead])
        slot[slot == dead] = spare
        for op in moved.tolist():
            sim.stop(first + op)
            slots = [sim.system.components[c].name for c in slot[op_of == op]]
            sim.resume(first + op, keep=False, slots=slots)


@process("hot-spare")
class Standby(HotSpare):
    """Spare GPUs that take over from dead ones, in the run that a scenario describes.

    Unfinished ops start over on the spare.  Data still cross the failed GPU's NICs, since routes
    are fixed when a graph is submitted: correct where machines are alike.  If the NIC has failed
    too, the run ends with an error.  Give the cluster more machines than ranks: the last
    ones can be spares.
    """

    def __call__(self, sim: Running) -> Steps:
        """Watch the run's own graph, which is already running."""
        yield from self.watch(sim, 0, sim.open)
