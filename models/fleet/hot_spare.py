"""Hot spares: a watchdog that moves the work of a failed GPU to a spare GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...sim.errors import SimulationError
from ...sim.facts.graph import Graph
from ...sim.facts.place import place
from ...sim.facts.roles import NETWORK
from ...sim.run.process import Running, Steps, process
from ...sim.units import Duration


class HotSpare:
    """Process that runs a graph, checks its GPUs periodically, and replaces failed ones.

    Parameters
    ----------
    graph : Graph
        Placed graph; failed GPUs are replaced in its placement.
    spares : names of GPUs
        Idle GPUs, used in this order; without a remaining spare nothing is moved.
    period : Duration
        Time between two checks, and so the longest time until a failure is detected.
    swap : Duration
        Time from the detection of a failure until the spare is ready (connection, loading of
        state).

    Examples
    --------
    >>> policy = HotSpare(graph, ["node9.gpu0"], period=1.0, swap=30.0)  # doctest: +SKIP
    >>> Simulation(system, backends).run(None, policy)  # doctest: +SKIP
    """

    def __init__(self, graph: Graph, spares: Sequence[str], *, period: Duration, swap: Duration):
        self.graph, self.spares, self.period, self.swap = graph, list(spares), period, swap
        if graph.system is None or graph.explicit.slot is None:
            raise ValueError(f"graph {graph.name!r} is not placed on a system; call place() first")
        self.unused = self.spares  # placement of each run, updated during the run
        if period <= 0:
            raise SimulationError("action", f"hot-spare: period is {period}; give one above 0")
        unknown = set(self.spares) - set(graph.system.index)
        if unknown:
            raise SimulationError(
                "action",
                f"hot-spare: no component is named {min(unknown)!r}; write the name of a GPU in "
                "spares",
            )

    def __call__(self, sim: Running) -> Steps:
        """Submit the graph and watch it until it ends."""
        running = sim.submit(self.graph)
        yield from self.watch(sim, running.first, lambda: not running.done.triggered)

    def watch(self, sim: Running, first: int, unfinished: Callable[[], bool]) -> Steps:
        """Check the GPUs that have work, and move the ranks of failed GPUs to spares.

        A rank moves completely: its compute, host and copy ops, and its routes.

        Parameters
        ----------
        first : index of the graph's first op
        unfinished : function that is True while any op of the graph has not ended
        """
        placed, self.unused = self.graph, list(self.spares)
        while self.unused and unfinished():
            yield sim.wait(self.period)
            for gpu in dict.fromkeys(_gpus_of_ranks(placed)):
                if self.unused and sim.failed(gpu):
                    yield sim.wait(self.swap)
                    placed = self._move_to_spare(sim, first, placed, gpu, self.unused.pop(0))

    def _move_to_spare(
        self, sim: Running, first: int, placed: Graph, dead: str, spare: str
    ) -> Graph:
        """Move the rank of a failed GPU to a spare, where its unfinished work starts over."""
        gpus = _gpus_of_ranks(placed)
        to = place(placed, sim.system, [spare if name == dead else name for name in gpus])
        was, now = placed.explicit, to.explicit
        assert was.slot is not None  # noqa: S101  both are placed
        members = now.members
        own = np.array([name == dead for name in gpus])[members.values]
        routed = members.owner[own & np.isin(now.ops.kind[members.owner], NETWORK)]
        moved = np.union1d(now.op_of_place[was.slot != now.slot], routed)
        ops = (first + moved).tolist()
        for op in ops:
            sim.stop(op)
        sim.resume(ops, keep=False, instead={dead: spare})
        return to


def _gpus_of_ranks(graph: Graph) -> list[str]:
    """Names of the GPUs of the ranks of a placed graph."""
    assert graph.system is not None  # noqa: S101
    assert graph.gpus is not None  # noqa: S101
    return [graph.system.components[c].name for c in graph.gpus.tolist()]


@process("hot-spare")
class Standby(HotSpare):
    """Spare GPUs that take over from failed ones, in the run of a scenario.

    The work of the rank starts over on the spare, with the timing of the spare's backend and
    routes. Give the cluster more machines than the ranks need; the last ones can be spares.
    """

    def __call__(self, sim: Running) -> Steps:
        """Watch the run's own graph, which is already submitted."""
        yield from self.watch(sim, 0, sim.open)
