"""Hot spares: a watchdog that moves the work of a dead GPU to one that stands by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...sim.graph import Graph
from ...sim.process import Running, Steps
from ...sim.units import Seconds


class HotSpare:
    """Runs a graph; asks its components for a sign of life, and replaces those that give none.

    Parameters
    ----------
    graph : Graph
        Placed: who runs what is what changes.
    spares : names of components
        Idle until needed, taken in this order; when none is left, nothing is moved.
    period : Seconds
        Between two questions, so a failure is noticed up to this much later.
    swap : Seconds
        From noticing it until the spare is ready: connecting it, loading the state.

    Examples
    --------
    >>> policy = HotSpare(graph, ["node9.gpu0"], period=1.0, swap=30.0)  # doctest: +SKIP
    >>> Simulation(system, backends).run(None, policy)  # doctest: +SKIP
    """

    def __init__(self, graph: Graph, spares: Sequence[str], *, period: Seconds, swap: Seconds):
        self.graph, self.spares, self.period, self.swap = graph, list(spares), period, swap
        if graph.system is None or graph.explicit.slot is None:
            raise ValueError(f"graph {graph.name!r} has no machine; call place() first")
        self.names = [c.name for c in graph.system.components]
        self.slot = graph.explicit.slot.copy()

    def __call__(self, sim: Running) -> Steps:
        """Submit the graph and watch over it until it ends."""
        running = sim.submit(self.graph)
        while self.spares and not running.done.triggered:
            yield sim.wait(self.period)
            for c in np.unique(self.slot[self.slot >= 0]).tolist():
                if self.spares and sim.failed(self.names[c]):
                    yield sim.wait(self.swap)
                    self._replace(sim, running.first, c)

    def _replace(self, sim: Running, first: int, dead: int) -> None:
        """Ops that ended stay as they are; the others queue on the spare, from zero."""
        op_of = self.graph.explicit.op_of_place
        moved = np.unique(op_of[self.slot == dead])
        self.slot[self.slot == dead] = self.names.index(self.spares.pop(0))
        for op in moved.tolist():
            sim.stop(first + op)
            slots = [self.names[c] for c in self.slot[op_of == op]]
            sim.resume(first + op, keep=False, slots=slots)
