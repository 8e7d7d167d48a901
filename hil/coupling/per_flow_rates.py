"""Measured rates of ops in flight on a device that can execute ops concurrently.

Each op in flight has a lane: a component of its own, whose rate is set to what the device measured.
When an op starts or ends, the new set of ops in flight is measured and all lanes get new rates. The
simulation keeps track of the remaining work. If an op also uses another shared component, the lower
rate applies. At most ``max_in_flight`` ops run; later ones wait in lanes with rate 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import simpy

from ...sim.errors import SimulationError
from ...sim.facts.system import Component
from ...sim.run.process import Running, Steps
from ..sample import Request
from .journal import OpTimer

TOP = {"B": 1e13, "1": 1e9}  # highest rate of a lane: 10 TB/s, an op in 1 ns
NANOSECOND = 1e-9


@dataclass(frozen=True)
class OpInFlight:
    """Op that a device is executing, and the part of its time that the device does not measure.

    Parameters
    ----------
    request : op to be timed
    work : amount of work in B, or 1 for ops without bytes
    extra : time of its path outside the device, in s; negative if time is subtracted
    """

    request: Request
    work: float
    extra: float = 0.0


class PerFlowRates:
    """Lanes of one device (one component per op in flight), and the process that sets their rates.

    Parameters
    ----------
    name : name of the device; its lanes are ``NAME.lane0`` and so on
    count : int
        Number of lanes: twice the number of ops that may run or wait, because a lane is free again
        only after its op's end was observed.
    max_in_flight : int
        Maximum number of ops that the device executes at the same time.
    unit : str
        Unit of work: ``B``, or ``1`` for ops without bytes.

    Examples
    --------
    >>> [c.name for c in PerFlowRates("node0.nic0", 2, 1, "B").components()]
    ['node0.nic0.lane0', 'node0.nic0.lane1']
    """

    def __init__(self, name: str, count: int, max_in_flight: int, unit: str):
        self.name, self.count, self.max_in_flight, self.unit = name, count, max_in_flight, unit
        self.names = tuple(f"{name}.lane{k}" for k in range(count))
        self.touches = self.names
        self.__name__ = f"{name} in flight"

    def components(self) -> tuple[Component, ...]:
        """One component per lane; its rate is 0 until an op starts."""
        top = TOP[self.unit]
        return tuple(
            Component(n, "lane", rate=0.0, unit=self.unit, max_rate=top) for n in self.names
        )

    def reset(self, timer: OpTimer) -> None:
        """Free all lanes; called at the start of a run."""
        self.timer = timer
        self.free = list(range(self.count))
        self.flights: dict[int, OpInFlight] = {}
        self.in_flight: list[int] = []  # lanes in the order in which their ops came
        self.measured_sets: dict[tuple[tuple[str, str], ...], list[float]] = {}
        self._current_turn: tuple[OpInFlight, float] | None = None

    def take_lane(self, flight: OpInFlight) -> int:
        """Take a free lane for an op that starts now; returns the lane's number."""
        if not self.free:
            raise SimulationError(
                "lanes",
                f"{self.name}: more than {self.count // 2} ops run or wait on this device at once; "
                "let fewer ops run at once, or leave out this swap",
            )
        lane = heapq.heappop(self.free)
        self.flights[lane] = flight
        return lane

    def __call__(self, sim: Running) -> Steps:
        """Process that sets the rates of the lanes whenever the set of ops in flight changes."""
        self._changed: simpy.Event = sim.env.event()
        for lane in range(self.count):
            sim.env.process(self._watch_lane(sim, lane))
        while True:
            yield self._changed
            self._changed = sim.env.event()
            self._set_rates(sim)

    def _watch_lane(self, sim: Running, lane: int) -> Steps:
        """Process that tracks the start and end of the ops of one lane."""
        name = self.names[lane]
        while True:
            yield sim.reaches("flows", name, at_least=1)
            if lane not in self.flights:
                raise SimulationError(
                    "lanes",
                    f"{self.name}: a stopped op was resumed, but the device no longer has it; "
                    "resume it with keep=False, or do not stop ops of a coupled device",
                )
            self.in_flight.append(lane)
            self._signal_change()
            yield sim.reaches("flows", name, at_most=0)
            self.in_flight.remove(lane)
            del self.flights[lane]
            heapq.heappush(self.free, lane)
            sim.set_rate(name, 0.0)
            self._signal_change()

    def _signal_change(self) -> None:
        if not self._changed.triggered:
            self._changed.succeed()

    def _set_rates(self, sim: Running) -> None:
        """Set measured rates for the first ``max_in_flight`` ops, and 0 for the ops that wait."""
        now, waiting = self.in_flight[: self.max_in_flight], self.in_flight[self.max_in_flight :]
        for lane, rate in zip(now, self._rates_of_lanes(now), strict=True):
            sim.set_rate(self.names[lane], rate)
        for lane in waiting:
            sim.set_rate(self.names[lane], 0.0)

    def _rates_of_lanes(self, lanes: Sequence[int]) -> list[float]:
        flights = [self.flights[lane] for lane in lanes]
        if not flights:
            return []
        if self.max_in_flight == 1:
            times_ns = [self._turn_time(lanes[0])]
        else:
            times_ns = self._steady_times([f.request for f in flights])
        return [
            f.work / max(t * NANOSECOND + f.extra, NANOSECOND)
            for f, t in zip(flights, times_ns, strict=True)
        ]

    def _turn_time(self, lane: int) -> float:
        """Time in ns that the op of a lane takes alone on the device.

        It is measured once per op, also if other ops start to wait meanwhile.
        """
        flight = self.flights[lane]
        if self._current_turn is None or self._current_turn[0] is not flight:
            self._current_turn = (flight, self.timer.alone(flight.request))
        return self._current_turn[1]

    def _steady_times(self, requests: Sequence[Request]) -> list[float]:
        """Time in ns that each op would take if all ops stayed in flight until it ends.

        In a measurement, the ops that end later run with fewer ops in flight after the first
        completion. The work done in that time, at the rate of the remaining ops, is subtracted.
        """
        ns = self._measure_together(requests)
        first = min(ns)
        later = [i for i, t in enumerate(ns) if t > first]
        after = self._measure_together([requests[i] for i in later]) if later else []
        for i, alone in zip(later, after, strict=True):
            done = 1 - (ns[i] - first) / alone  # while all were in flight
            ns[i] = first / done if done > 0 else inf
        return ns

    def _measure_together(self, requests: Sequence[Request]) -> list[float]:
        """Time in ns of each op while all ops are in flight.

        The same set of ops is measured only once.
        """
        order = sorted(range(len(requests)), key=lambda i: requests[i].key)
        key = tuple(requests[i].key for i in order)
        if key not in self.measured_sets:
            self.measured_sets[key] = self.timer.together([requests[i] for i in order])
        times = [0.0] * len(requests)
        for i, ns in zip(order, self.measured_sets[key], strict=True):
            times[i] = ns
        return times
