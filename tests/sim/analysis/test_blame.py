"""Blame charges every tick of the makespan, on random runs and on hand-written cases."""

from itertools import pairwise

import numpy as np
import pytest
from engine_scripts.player import Player
from engine_scripts.random_scripts import KINDS, random_script
from foretrace.sim.analysis.blame import GAP, PROCESS, RELEASE, blame
from foretrace.sim.engine_api.engine_literal import literal_graph
from foretrace.sim.engine_api.interface import EngineColumns
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.flat_graph import FlatGraph, Participants
from foretrace.sim.facts.graph import Builder, Graph, Member
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.record.binding import OpTimings
from foretrace.sim.record.schedule import Schedule, SubmittedRun
from foretrace.sim.reference.engine import ReferenceEngine
from foretrace.sim.run.result import Result
from foretrace.sim.run.simulation import Simulation

NIGHTLY = pytest.mark.nightly


class Table(Backend):
    """Backend with a table of timings: seconds, bytes, and the components that they cross."""

    source = "test"

    def __init__(self, fixed=None, work=None, uses=None, limit=None):
        self.fixed, self.work, self.uses, self.limit = fixed, work, uses, limit

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        rows = ops.label.tolist()
        usage = None if self.uses is None else Usage.of([self.uses[r] for r in rows])
        return Timing.of(
            [0.0 if self.fixed is None else self.fixed[r] for r in rows],
            None if self.work is None else [self.work[r] for r in rows],
            usage,
            None if self.limit is None else [self.limit[r] for r in rows],
        )


GPU, WIRE, SLOW = 0, 1, 2
SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=1),
        Component("wire", "link", rate=1.0),
        Component("slow", "link", rate=0.5),
    ),
    ("node0.gpu0",),
)


def run(build: Builder, backend: Backend, *processes, engine="reference") -> Result:
    return Simulation(SYSTEM, {"node0.gpu0": backend}, engine=engine).run(build.graph(), *processes)


def charged(result: Result) -> dict[str, float]:
    return {who: round(t, 9) for who, t in blame(result).seconds.items()}


def test_a_chain_is_charged_to_its_component():
    build = Builder("chain")
    a = build.op(Kind.COMPUTE, name="0")
    build.op(Kind.COMPUTE, name="1", after=[a])
    assert charged(run(build, Table([1.0, 2.0]))) == {"node0.gpu0": 3.0}


def test_blame_of_a_slot_wait_continues_with_the_slot_holder():
    build = Builder("slot")
    for i in range(3):
        build.op(Kind.COMPUTE, name=str(i))
    result = run(build, Table([1.0, 2.0, 4.0]))
    assert [c.op for c in result.critical_path()] == [0, 1, 2]
    assert charged(result) == {"node0.gpu0": 7.0}


def test_a_release_time_is_charged_to_release():
    build = Builder("release")
    build.op(Kind.COMPUTE, name="0")
    build.op(Kind.COMPUTE, name="1", release=5.0)
    assert charged(run(build, Table([1.0, 1.0]))) == {RELEASE: 5.0, "node0.gpu0": 1.0}


def test_a_gap_is_charged_to_gap():
    build = Builder("gap")
    a = build.op(Kind.COMPUTE, name="0")
    g = build.op(Kind.GAP, after=[a], duration=0.5)
    build.op(Kind.COMPUTE, name="1", after=[g])
    assert charged(run(build, Table([1.0, 1.0]))) == {"node0.gpu0": 2.0, GAP: 0.5}


def test_a_flow_is_split_where_its_rate_changed():
    """Alone the flow is limited by `slow`; while another flow shares `wire`, by `wire`."""
    system = System(
        (Component("g", "gpu", slots=2), Component("wire", "link", rate=1.0),
         Component("slow", "link", rate=0.75)),
        ("g",),
    )  # fmt: skip
    build = Builder("split")
    build.op(Kind.COMPUTE, name="0")
    build.op(Kind.COMPUTE, name="1")
    table = Table(work=[3.0, 1.0], uses=[{1: 1.0, 2: 1.0}, {1: 1.0}])
    result = Simulation(system, {"g": table}, engine="reference").run(build.graph())
    # Both at 1/2 until 2 s, then op 0 alone at 3/4 for its last 2 units.
    assert charged(result) == {"slow": round(2 / 0.75, 9), "wire": 2.0}
    assert [(c.op, c.who) for c in result.critical_path()] == [(0, "wire"), (0, "slow")]


def test_time_under_a_limit_of_its_own_is_the_asked_components():
    build = Builder("limit")
    build.op(Kind.COMPUTE, name="0")
    table = Table(fixed=[1.0], work=[1.0], uses=[{WIRE: 1.0}], limit=[0.25])
    assert charged(run(build, table)) == {"node0.gpu0": 5.0}


def test_capacity_waits_belong_to_the_process_that_waited():
    def later(sim):
        yield sim.wait(3.0)
        build = Builder("more")
        build.op(Kind.COMPUTE, name="1")
        yield sim.submit(build.graph()).done

    build = Builder("first")
    build.op(Kind.COMPUTE, name="0")
    assert charged(run(build, Table([1.0, 1.0]), later)) == {"node0.gpu0": 2.0, PROCESS: 2.0}


def test_a_collective_is_traced_to_its_last_member():
    system = System(
        (Component("a", "gpu", slots=1), Component("b", "gpu", slots=1), Component("f", "fabric")),
        ("a", "b"),
        fabric="f",
    )
    build = Builder("late")
    work = [build.op(Kind.COMPUTE, rank=r, name=str(r)) for r in range(2)]
    build.collective([Member(r, 1, (work[r],)) for r in range(2)], name="2", bytes=1)
    table = Table([1.0, 3.0, 0.5])
    result = Simulation(system, {"?": table}, engine="reference").run(build.graph())
    assert charged(result) == {"b": 3.0, "f": 0.5}


def as_result(player: Player, columns: EngineColumns) -> Result:
    """Result over the graphs that a script submitted, as a simulation builds it."""
    script, runs, first = player.script, [], 0
    for cases in player.submitted:
        low = literal_graph("g", cases)
        n = len(low)
        block = FlatGraph(
            Ops.of(rank=np.zeros(n)),
            Csr(low.indptr, low.successors),
            Participants(low.further, low.further * 0, low.further * 0),
            np.zeros(n),
            np.full(n, -1, np.int32),
            low.slot,
        )
        answers = OpTimings(
            Timing.of(np.zeros(n)), np.zeros(n, np.int32), np.zeros(n, np.int32), ("",), (),
            np.full(n, -1, np.int16), (),
        )  # fmt: skip
        runs.append(SubmittedRun(Graph("g", (block,)), answers, low, first))
        first += n
    system = System(tuple(Component(f"c{i}", "gpu") for i in range(len(script.slots))))
    written = Schedule(tuple(runs), columns)
    return Result(system, script.parts, 1e-12, "reference", 0, written)


class Remembering(Player):
    """Script player that stores the graphs it submits."""

    def __init__(self, *args):
        super().__init__(*args)
        self.submitted = []

    def _do_submit(self, cases):
        super()._do_submit(cases)
        self.submitted.append(cases)  # one that is refused is no part of the run


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 400), marks=NIGHTLY)])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "prepared"])  # whose rows are given back
def test_blame_sums_to_the_makespan_on_every_twin_graph(kind, seeds):
    summed = 0
    for seed in seeds:
        script = random_script(kind, seed)
        player = Remembering(ReferenceEngine(script.parts), script)
        outcome = player.outcome()
        if outcome.columns is None or not player.submitted or script.prepared:
            continue
        columns = player.machine.columns()
        result = as_result(player, columns)
        told = blame(result)
        assert sum(told.ticks.values()) == result.makespan_ticks, (kind, seed)
        marks = [(c.start, c.end) for c in told.path]
        assert all(a[1] == b[0] for a, b in pairwise(marks)), (kind, seed)
        summed += 1
    print(kind, summed)
    assert summed > len(seeds) / 2
