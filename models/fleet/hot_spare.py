"""Hot spares: a watchdog that moves the work of a dead GPU to one that stands by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import SimulationError
from ...sim.graph import Graph
from ...sim.process import Running, Steps, process
from ...sim.units import Duration


class HotSpare:
    """Runs a graph; asks its components for a sign of life, and replaces those that give none.

    Parameters
    ----------
    graph : Graph
        Placed: who runs what is what changes.
    spares : names of components
        Idle until needed, taken in this order; when none is left, nothing is moved.
    period : Duration
        Between two questions, so a failure is noticed up to this much later.
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
        self.slot, self.left = graph.explicit.slot, self.spares  # of each run, as it goes on
        if period <= 0:
            raise SimulationError("action", f"hot-spare: period is {period}; give one above 0")
        unknown = set(self.spares) - set(graph.system.index)
        if unknown:
            raise SimulationError("action", f"hot-spare: no component is named {min(unknown)!r}")

    def __call__(self, sim: Running) -> Steps:
        """Submit the graph and watch over it until it ends."""
        running = sim.submit(self.graph)
        yield from self.watch(sim, running.first, lambda: not running.done.triggered)

    def watch(self, sim: Running, first: int, going: Callable[[], bool]) -> Steps:
        """Ask the components that have work, and move that of the dead.

        Parameters
        ----------
        first : number of the graph's first op
        going : is any of it left to do
        """
        names = [c.name for c in sim.system.components]
        slot, self.left = self.slot.copy(), list(self.spares)
        while self.left and going():
            yield sim.wait(self.period)
            for c in np.unique(slot[slot >= 0]).tolist():
                if self.left and sim.failed(names[c]):
                    yield sim.wait(self.swap)
                    self._replace(sim, first, slot, c, names.index(self.left.pop(0)))

    def _replace(
        self, sim: Running, first: int, slot: NDArray[np.int32], dead: int, spare: int
    ) -> None:
        """Ops that ended stay as they are; the others queue on the spare, from zero."""
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

    What a dead GPU was to do begins anew on the spare; data cross the NICs that they crossed
    before, since what an op takes of the network is asked when its graph is submitted.  So the
    spare stands where the dead one stood: right where machines are alike.  Where the NIC has
    failed too, the run ends and says so.  Give the cluster more machines than there are ranks:
    the last ones can be spares.
    """

    def __call__(self, sim: Running) -> Steps:
        """Watch over the run's own graph, which is under way already."""
        yield from self.watch(sim, 0, sim.open)
