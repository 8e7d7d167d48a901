"""Random runs from end to end, with backends that answer anything and names that look like globs.

Scripts (:mod:`.random_scripts`) are in the integers of the engines; here the border is tried too.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from foretrace.sim.engine_api.interface import State
from foretrace.sim.errors import ForetraceError, SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.waiting_room import Queue
from foretrace.sim.run.process import Process, Running, Steps
from foretrace.sim.run.simulation import Simulation
from numpy.typing import NDArray

GPUS = ("gpu0", "gpu[0]", "gpu?", "gpu*")
LINKS = ("wire", "wire[0]", "w*", "wire0")
STRANGE = (np.nan, np.inf, -np.inf, -1.0, 1e30, 5e-324, 9.3e6, 4.7e6, 2.0**22, 2.0**21, 2.0**-41)


def random_outcome(seed: int, engine: str, bounded: bool = False) -> Any:
    """What comes of a random run on an engine: its times and sums, or its error.

    With ``bounded``, queues are short and turn ops away.

    Examples
    --------
    >>> random_outcome(3, "reference") == random_outcome(3, "reference")
    True
    """
    try:
        return _Draw(seed, bounded).outcome(engine)
    except SimulationError as error:  # the words may name components in another order
        return "SimulationError", error.kind, error.ops, error.open_ops
    except (ForetraceError, ValueError) as error:
        if type(error) is ValueError and "give" not in str(error):
            raise  # an error of Python, without a cure
        return type(error).__name__, str(error)


class _Draw:
    """Draws the parts of one run."""

    def __init__(self, seed: int, bounded: bool = False):
        self.r = random.Random(f"run {seed}")
        self.queues = random.Random(f"queues {seed}") if bounded else None
        self.odd = self.r.choice([0.0, 0.02, 0.1])  # how often a number is strange
        if bounded:
            self.odd = 0.0

    def outcome(self, engine: str) -> Any:
        r = self.r
        system, graph = self.system(), self.graph()
        bound = {p: _Says(self, r.random() < 0.4) for p in self.patterns(system)}
        tick = r.choice([1.0, 2.0, 0.7, 0.0, np.nan]) if r.random() < self.odd else 1e-9
        replica, keep = r.choice([None, 0, 3]), r.choice(["ops", "ops", "none"])
        made = Simulation(system, bound, engine, r.choice([1e-12, tick]), seed=r.randrange(9))
        movers = [self.mover(system, len(graph.ops))] if r.random() < 0.3 else []
        found = made.run(graph, *movers, replica=replica, keep=keep)
        rows = [] if keep == "none" else [found.start, found.end]
        if self.queues is not None:
            return found.makespan, found.queues(), found.busy, found.sources
        times = [[None if np.isnan(t) else t for t in row.tolist()] for row in rows]
        return found.makespan, times, found.sources, found.busy, found.periods.tolist()

    def mover(self, system: System, n: int) -> Process:
        """A process that stops ops and lets them go on, mostly elsewhere."""
        r, gpus = self.r, list(system.gpus)
        wait = r.choice([0.0, 1e-9, 0.5, 1.0])
        chosen = sorted(r.sample(range(n), r.randint(1, n)))
        slots = r.choice([None, [r.choice(gpus)]])
        instead = None if slots else {r.choice(gpus): r.choice(gpus)}
        keep, again = r.random() < 0.5, r.random() < 0.3

        def process(sim: Running) -> Steps:
            for _ in range(1 + again):
                yield sim.wait(wait)
                for op in chosen:
                    sim.stop(op)
                yield sim.settled()
                stopped = [op for op in chosen if sim.state(op) == State.STOPPED]
                sim.resume(stopped, keep=keep, slots=slots, instead=instead)

        return process

    def number(self, usual: tuple[float, ...]) -> float:
        return self.r.choice(STRANGE if self.r.random() < self.odd else usual)

    def system(self) -> System:
        r = self.r
        gpus = r.sample(GPUS, r.randint(1, 3))
        parts = [
            Component(name, "gpu", slots=r.randint(1, 2), queue=self.queue(name, gpus))
            for name in gpus
        ]
        for name in r.sample(LINKS, r.randint(1, 3)):
            unit = "flop" if r.random() < 0.1 else "B"
            rate = r.choice([0.0, 1.0, 1e9, 1e9, 1e12]) if r.random() < 0.2 else 1e9
            most = r.choice([None, 1.0, 1e13]) if r.random() < self.odd else None
            parts.append(Component(name, "link", rate=rate, unit=unit, max_rate=most))
        fabric = Component("fabric", "fabric", rate=r.choice([None, 1e9]))
        return System((*parts, fabric), tuple(gpus), fabric="fabric")

    def queue(self, name: str, gpus: list[str]) -> Queue | None:
        """A short queue in front of a GPU, if queues are bounded; no further number is drawn."""
        if self.queues is None:
            return None
        q, others = self.queues, tuple(other for other in gpus if other != name)
        rule = q.choice(["wait", "drop", *(["elsewhere"] * 3 if others else [])])
        return Queue(q.randint(0, 1), rule, others if rule == "elsewhere" else ())

    def patterns(self, system: System) -> list[str]:
        r = self.r
        names = [c.name for c in system.components if r.random() < 0.4]
        return ["*", *names, *(["gpu*"] if r.random() < 0.3 else [])]

    def graph(self) -> Graph:
        r, build = self.r, Builder("g")
        for i in range(r.randint(1, 6) + 8 * (self.queues is not None)):
            kind = r.choice([Kind.COMPUTE, Kind.SEND, Kind.SEND, Kind.DELAY])
            after = [d for d in range(i) if r.random() < (0.3 if self.queues is None else 0.02)]
            build.op(
                kind,
                stream=int(kind == Kind.SEND),
                after=after,
                duration=self.number((0.0, 1.0, 2.5e-9)),
                release=self.number((0.0, 0.0, 1e-9)),
            )
        return build.graph()

    def column(self, n: int, *usual: float) -> NDArray[np.float64]:
        return np.array([self.number(usual) for _ in range(n)], np.float64)

    def timing(self, n: int, system: System) -> Timing:
        """An answer to n questions; sometimes to one more."""
        r = self.r
        m = n + (r.random() < self.odd / 4)
        fixed = self.column(m, 0.0, 1.0, 1e-9)
        if self.queues is not None:
            return Timing.of(fixed, spread=self.spread() if r.random() < 0.2 else None)
        work = self.column(n, 0.0, 1.0, 1e9, 3e9) if r.random() < 0.7 else None
        limit = self.column(n, np.inf, 1e9, 1.0) if r.random() < 0.2 else None
        usage = self.usage(n, system) if r.random() < 0.7 else None
        return Timing.of(fixed, work, usage, limit, self.spread() if r.random() < 0.2 else None)

    def usage(self, n: int, system: System) -> Usage:
        r = self.r
        rated = [i for i, c in enumerate(system.components) if c.rate is not None]
        known = [-1, *range(len(system.components) + 1)] if r.random() < self.odd else rated
        rows = [[r.choice(known) for _ in range(r.choice([0, 1, 1, 1, 2]))] for _ in range(n)]
        flat = [c for row in rows for c in row]
        weight = self.column(len(flat), 1.0, 0.5, 2.0, 1 / 48)
        return Usage(np.cumsum([0, *map(len, rows)]), np.array(flat, np.int32), weight)

    def spread(self) -> Spread:
        def factors() -> NDArray[np.float64]:
            return np.sort(self.column(self.r.randint(0, 3), 0.5, 1.0, 1.5))

        return Spread(factors(), factors(), factors())


class _Says(Backend):
    """Answers at random: the same to the same questions on every engine."""

    source = "said"

    def __init__(self, draw: _Draw, online: bool):
        self.draw, self.online = draw, online

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        assert ops.at is not None
        return self.draw.timing(len(ops), ops.at.system)
