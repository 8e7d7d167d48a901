"""Ops in flight on a device that says how fast each of them goes.

Every op in flight has a lane, a component of its own whose rate is what the device measured for
it.  Whenever an op enters or leaves, the device is asked about the set that is now in flight and
the lanes are set anew; the simulation keeps the work that is left, and where an op also uses
something that others share, the lower rate wins.  Beyond ``most`` ops the latest ones wait: their
lanes stand still.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import simpy

from ...sim.errors import SimulationError
from ...sim.process import Running, Steps
from ...sim.system import Component
from ..sample import Request
from .journal import Questioned

TOP = {"B": 1e13, "1": 1e9}  # highest rate of a lane: 10 TB/s, an op in 1 ns
NANOSECOND = 1e-9


@dataclass(frozen=True)
class Flight:
    """An op that a device works on.

    Parameters
    ----------
    request : Request
    work : B, or 1 for ops without bytes
    extra : s that its path costs beside the device; taken off where negative
    """

    request: Request
    work: float
    extra: float = 0.0


class PerFlowRates:
    """The lanes of one device, and the process that sets their rates.

    Parameters
    ----------
    name : of the device; lanes are ``NAME.lane0`` and so on
    count : int
        Lanes that there are: twice as many as ops may run or wait at once, since a lane is given
        out again only after its end was seen.
    most : int
        Ops that the device works on at once.
    unit : str
        ``B``, or ``1`` for ops without bytes.

    Examples
    --------
    >>> [c.name for c in PerFlowRates("node0.nic0", 2, 1, "B").components()]
    ['node0.nic0.lane0', 'node0.nic0.lane1']
    """

    def __init__(self, name: str, count: int, most: int, unit: str):
        self.name, self.count, self.most, self.unit = name, count, most, unit
        self.names = tuple(f"{name}.lane{k}" for k in range(count))
        self.touches = self.names
        self.__name__ = f"{name} in flight"

    def components(self) -> tuple[Component, ...]:
        """They stand still until the device was asked."""
        top = TOP[self.unit]
        return tuple(
            Component(n, "lane", rate=0.0, unit=self.unit, max_rate=top) for n in self.names
        )

    def reset(self, asked: Questioned) -> None:
        """Begin a run."""
        self.asked = asked
        self.free = list(range(self.count))
        self.taken: dict[int, Flight] = {}
        self.flying: list[int] = []  # lanes in the order in which their ops came
        self.known: dict[tuple[tuple[str, str], ...], list[float]] = {}
        self._turn: tuple[Flight, float] | None = None

    def give(self, flight: Flight) -> int:
        """A lane for an op that starts now."""
        if not self.free:
            raise SimulationError(
                "lanes", f"{self.name}: more than {self.count // 2} ops at once; swap less of it"
            )
        lane = heapq.heappop(self.free)
        self.taken[lane] = flight
        return lane

    def __call__(self, sim: Running) -> Steps:
        """Ask the device whenever the set in flight changes."""
        self._changed: simpy.Event = sim.env.event()
        for lane in range(self.count):
            sim.env.process(self._watch(sim, lane))
        while True:
            yield self._changed
            self._changed = sim.env.event()
            self._share(sim)

    def _watch(self, sim: Running, lane: int) -> Steps:
        """See the ops of one lane come and go."""
        name = self.names[lane]
        while True:
            yield sim.reaches("flows", name, at_least=1)
            if lane not in self.taken:
                raise SimulationError(
                    "lanes",
                    f"{self.name}: a stopped op goes on, but the device has forgotten it; "
                    "resume it with keep=False, or do not stop ops of a coupled device",
                )
            self.flying.append(lane)
            self._tell()
            yield sim.reaches("flows", name, at_most=0)
            self.flying.remove(lane)
            del self.taken[lane]
            heapq.heappush(self.free, lane)
            sim.set_rate(name, 0.0)
            self._tell()

    def _tell(self) -> None:
        if not self._changed.triggered:
            self._changed.succeed()

    def _share(self, sim: Running) -> None:
        """The rate of every lane, for the set that is in flight now."""
        now, waiting = self.flying[: self.most], self.flying[self.most :]
        for lane, rate in zip(now, self._rates(now), strict=True):
            sim.set_rate(self.names[lane], rate)
        for lane in waiting:
            sim.set_rate(self.names[lane], 0.0)

    def _rates(self, lanes: Sequence[int]) -> list[float]:
        flights = [self.taken[lane] for lane in lanes]
        if not flights:
            return []
        if self.most == 1:
            spent = [self._once(lanes[0])]
        else:
            spent = self._paces([f.request for f in flights])
        return [
            f.work / max(t * NANOSECOND + f.extra, NANOSECOND)
            for f, t in zip(flights, spent, strict=True)
        ]

    def _once(self, lane: int) -> float:
        """An op has its turn once, however often other ops come to wait meanwhile."""
        flight = self.taken[lane]
        if self._turn is None or self._turn[0] is not flight:
            self._turn = (flight, self.asked.alone(flight.request))
        return self._turn[1]

    def _paces(self, requests: Sequence[Request]) -> list[float]:
        """How long each op would take if all of them stayed in flight, ns.

        A set is measured until its last op is done, so what took longest ran on with fewer beside
        it.  What it did in that time, at the pace of those that were left, is not this set's.
        """
        ns = self._together(requests)
        first = min(ns)
        later = [i for i, t in enumerate(ns) if t > first]
        after = self._together([requests[i] for i in later]) if later else []
        for i, alone in zip(later, after, strict=True):
            done = 1 - (ns[i] - first) / alone  # while all were in flight
            ns[i] = first / done if done > 0 else inf
        return ns

    def _together(self, requests: Sequence[Request]) -> list[float]:
        """Of each op, in the order asked; a set that was measured is not measured again."""
        order = sorted(range(len(requests)), key=lambda i: requests[i].key)
        key = tuple(requests[i].key for i in order)
        if key not in self.known:
            self.known[key] = self.asked.together([requests[i] for i in order])
        found = [0.0] * len(requests)
        for i, ns in zip(order, self.known[key], strict=True):
            found[i] = ns
        return found
