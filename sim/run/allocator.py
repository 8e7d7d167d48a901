"""Allocation of components from a pool, first come, first served.

A request for more components than are free waits, and so do all requests after it. A failed
component is not handed out until it is restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import simpy

from ..argument import as_integer, as_names, shown
from ..errors import SimulationError
from .process_actions import ProcessActions


class Allocator:
    """Allocator that hands out components of a pool to processes, first come, first served.

    Parameters
    ----------
    sim : ProcessActions
        Interface of the process that creates the allocator; all processes of the run may use it.
    pool : names of the components

    Examples
    --------
    A process takes two GPUs, works on them and puts them back::

        gpus = Allocator(sim, sim.system.select(kind="gpu"))
        mine = yield gpus.request(2)
        yield sim.submit(place(graph, sim.system, mine)).done
        gpus.put(mine)
    """

    def __init__(self, sim: ProcessActions, pool: Sequence[str]):
        self.pool = as_names("pool", pool, self._refuse)
        for name in self.pool:
            sim.system.number(name)
        self._sim = sim
        self._taken: set[str] = set()
        self._waiting: list[tuple[simpy.Event, int]] = []
        sim.register_allocator(self)

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the free components, in the order of the pool."""
        return tuple(
            name for name in self.pool if name not in self._taken and not self._sim.failed(name)
        )

    def request(self, count: int) -> simpy.Event:
        """Event that fires with the names of ``count`` components once they are free.

        Raises
        ------
        SimulationError
            The pool has fewer components.
        """

        def refuse(_: str) -> SimulationError:
            most = len(self.pool)
            why = f"{shown(count)} components requested, but the pool has {most}; "
            return self._refuse(f"{why}request 1 to {most}")

        count = as_integer("count", count, refuse, 1, len(self.pool))
        event = simpy.Event(self._sim.env)
        self._waiting.append((event, count))
        self.serve()
        return event

    def drop(self, request: simpy.Event) -> None:
        """Withdraw a request; if it was granted meanwhile, its components return to the pool."""
        if request.triggered:
            self.put(request.value)  # type: ignore[arg-type]
        self._waiting = [(event, count) for event, count in self._waiting if event is not request]
        self.serve()

    @staticmethod
    def _refuse(why: str) -> SimulationError:
        return SimulationError("action", f"allocator: {why}")

    def put(self, names: Iterable[str]) -> None:
        """Return components to the pool.

        Raises
        ------
        SimulationError
            A component was not handed out.
        """
        for name in as_names("names", names, self._refuse):
            if name not in self._taken:
                raise SimulationError(
                    "action",
                    f"allocator: {name} is returned, but was not handed out; return each "
                    f"component once",
                )
            self._taken.remove(name)
        self.serve()

    def check(self) -> None:
        """Raise an error if a request still waits at the end of the run.

        Raises
        ------
        SimulationError
            The message names the components that were not returned.
        """
        if self._waiting:
            held = ", ".join(name for name in self.pool if name in self._taken) or "none"
            down = ", ".join(name for name in self.pool if self._sim.failed(name)) or "none"
            raise SimulationError(
                "deadlock",
                f"allocator: the run ended while a process waited for {self._waiting[0][1]} "
                f"components; not returned: {held}; failed: {down}; return components with put(), "
                "or request fewer",
            )

    def serve(self, _: object = None) -> None:
        """Grant waiting requests in order, as long as enough components are free."""
        while self._waiting:
            event, count = self._waiting[0]
            given = self.free[:count]
            if len(given) < count:
                return
            self._taken.update(given)
            self._waiting.pop(0)
            event.succeed(given)
