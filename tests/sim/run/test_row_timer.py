"""New numbers of a prepared graph: their quick timing equals that by tables, to the last bit."""

import random

import numpy as np
import pytest
from foretrace.models.compute.chain import Chain
from foretrace.sim.errors import ForetraceError
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing, Usage
from foretrace.sim.facts.coded import Coded
from foretrace.sim.facts.doubt import Doubt
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, Route, System
from foretrace.sim.facts.way import Pins
from foretrace.sim.record.binding import communication_endpoints, time_graph
from foretrace.sim.record.prepared import row_timings
from foretrace.sim.run.simulation import Session, Simulation
from foretrace.sim.run.timing.row_timer import RowTimer

GPUS = ("gpu0", "gpu1", "gpu2")
NONE = np.empty(0)
STRANGE = (np.nan, np.inf, -1.0, 1e30, 5e-324, 9.3e6, 2.0**62, 2.0**63, 1e18, 0.0)
WEIGHTS = (1.0, 1.0, 0.5, 1 / 3, 1 / 16)
ODD_WEIGHTS = (2.0**-41, 2.0**22, 0.0, np.nan, 2.0**21, 2.0**-39)
SPREADS = (
    Spread(np.array([0.9, 1.1]), NONE),
    Spread(NONE, np.array([0.5, 1.0, 1.5]), np.array([0.9, 1.2])),
    Spread(np.array([1.2, 0.8]), NONE),  # not ascending
)


def system():
    """Three GPUs with slots, memory and three links in two units, and several routes."""
    links = [Component(f"link{i}", "link", rate=r) for i, r in enumerate((1e9, 3e11, 1.0))]
    parts = [
        *(Component(name, "gpu", slots=1) for name in GPUS),
        *links,
        Component("alu", "alu", rate=1e12, unit="flop"),
        Component("kv", "memory", capacity=50),
        Component("fabric", "fabric", rate=1e9),
    ]

    def router(a, b):
        return [Route((3,), 1.0), Route((4, 5), 3.0)]

    return System(parts, GPUS, router=router, fabric="fabric")


class Random(Backend):
    """Backend with random answers that depend only on its seed and on the table."""

    def __init__(self, seed, odd=0.0, source="random"):
        self.seed, self.odd, self.source = seed, odd, source

    def knows(self, ops):
        return ops.kind != Kind.HOST

    def timing(self, ops, now=0.0):
        said = (ops.flop.tobytes(), ops.bytes.tobytes(), ops.at.component.tobytes())
        r, n = random.Random(f"{self.seed} {said}"), len(ops)
        routed = ops.at.system.routes(0, 1)[0].components

        def column(*usual):
            return [
                r.choice(STRANGE) if r.random() < self.odd else r.choice(usual) for _ in ops.flop
            ]

        fixed = np.array(column(0.0, 1e-6, 2.5e-12, 1 / 3)) + np.nan_to_num(ops.flop) * 1e-12
        work = np.array(column(0.0, 1e6, 1 / 3)) + np.nan_to_num(ops.bytes)
        limit = np.array(column(np.inf, np.inf, 1e9, 0.3))
        rows = []
        for _ in range(n):
            some = r.choice([[3], [4], list(routed), [6], [3, 4]])
            if r.random() < self.odd:
                some = r.choice([[], [3, 3], [3, 6], [0], [99]])
            weight = ODD_WEIGHTS if r.random() < self.odd else WEIGHTS
            rows.append([(c, r.choice(weight)) for c in some])
        flat = [use for row in rows for use in row]
        usage = Usage(
            np.cumsum([0, *map(len, rows)]),
            np.array([c for c, _ in flat], np.int32),
            np.array([w for _, w in flat], float),
        )
        holds = Holds.of(
            [[(7, r.choice([1, 3, 60 if r.random() < self.odd else 2]))] * r.choice([0, 0, 1, 2])
             for _ in range(n)]
        )  # fmt: skip
        known = SPREADS if r.random() < self.odd else SPREADS[:2]
        doubts = (Doubt("gemm", "memory", (-0.1, 0.1)),)
        longer = n + (r.random() < self.odd / 4)

        def codes(most):
            top = most + (r.random() < self.odd / 4)
            return np.array([r.randint(-1, top - 1) for _ in range(longer)])

        rated = all(ops.at.system.components[c].rate for c in ops.at.component.tolist())
        own = r.random() < 0.3 and (rated or r.random() < self.odd)
        return Timing(
            fixed,
            work if own or r.random() < 0.7 else None,
            None if own else usage,
            limit if r.random() < 0.4 else None,
            Coded(codes(len(known)), known) if r.random() < 0.5 else None,
            Coded(codes(2), ("a", "b")) if r.random() < 0.5 else None,
            holds if r.random() < 0.3 else None,
            Coded(codes(1), doubts) if r.random() < 0.3 else None,
        )


class PerByte(Backend):
    source = "per byte"

    def timing(self, ops, now=0.0):
        return Timing.of(np.full(len(ops), 1e-6), ops.bytes, Usage.repeated([4], len(ops)))


def graph(r):
    """Graph of random ops on three ranks."""
    build, rows = Builder("g"), []
    for _ in range(r.randint(1, 8)):
        what, rank, facts = r.random(), r.randrange(3), {"flop": 1e6, "bytes": 1e3}
        if what < 0.2:
            members = [Member(k, 1, ()) for k in range(3)]
            rows.append(build.collective(members, bytes=1e3))
        elif what < 0.3:
            rows.append(build.op(Kind.DELAY, rank=rank, duration=1e-6))
        else:
            kind = r.choice([Kind.COMPUTE, Kind.COMPUTE, Kind.COPY, Kind.HOST])
            rows.append(build.op(kind, rank=rank, after=rows[-1:], **facts))
    return build.graph()


def outcome(function):
    try:
        return function()
    except (ForetraceError, ValueError, IndexError) as error:
        return type(error).__name__, str(error)


def timers(seed, odd):
    """Quick timing of some rows with new numbers, and the same by tables."""
    r = random.Random(seed)
    made = system()
    usual = Random(seed, odd)
    chain = Chain.of(usual, PerByte()) if r.random() < 0.3 else usual
    bound = {"*": chain, "gpu2": Random(seed + 1, odd, "other")}
    bound["fabric"] = Random(seed + 2, odd, "fabric")
    session = Session(Simulation(made, bound, "reference"), None)
    timing = session.timing
    placed = timing.place(graph(r))
    pins = Pins({(0, 1): Route((4,))}) if r.random() < 0.5 else None
    members = communication_endpoints(placed)
    component = time_graph(placed, [Quiet()] * len(made.components), made).component
    timer = RowTimer(timing, placed, component, members, pins)
    for _ in range(4):
        rows = sorted(r.sample(range(len(placed)), r.randint(1, len(placed))))
        flop = [r.choice([0.0, 1e6 + r.random(), np.nan]) for _ in rows]
        moved = [r.choice([0.0, 1e4 * r.random()]) for _ in rows]
        at = np.array(rows)
        ops = placed.ops.take(at).replace(flop=flop, bytes=moved)
        by_table = outcome(
            lambda at=at, ops=ops: row_timings(
                *timing.time_rows(placed, at, component[at], members.take(at), ops, pins)
            )
        )
        yield outcome(lambda rows=rows, f=flop, m=moved: timer.times(rows, f, m)), by_table


class Quiet(Backend):
    def timing(self, ops, now=0.0):
        return Timing.of(np.zeros(len(ops)))


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.3])
def test_new_numbers_are_timed_as_by_tables(odd):
    errors = 0
    for seed in range(400):
        for quick, by_table in timers(seed, odd):
            assert repr(quick) == repr(by_table), seed
            errors += isinstance(by_table, tuple)
    assert (errors > 0) == (odd > 0)
