"""Edge cases of both engines: overflow, impossible timings, and names that look like globs.

Each error gives the place, the problem and the remedy, with the same text on both engines.
"""

import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from by_day import every
from engine_scripts.script import Script
from foretrace.sim.analysis.activity import activity
from foretrace.sim.analysis.metrics import measure
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.core.memory import linked_lists
from foretrace.sim.core.programs import program_executor
from foretrace.sim.engine_api import deadlock
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import ONE, State
from foretrace.sim.errors import BackendError, GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing, Usage
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.flat_graph import FlatGraph, Participants
from foretrace.sim.facts.graph import LAST_PERIOD, Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.facts.system import Component, System
from foretrace.sim.kernel.jit import INTERPRETED
from foretrace.sim.reference.engine import ReferenceEngine
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
GPU, WIRE, FABRIC = range(3)


class Says(Backend):
    """Backend that returns the result of a given function of the ops."""

    source = "said"

    def __init__(self, answer, online=False):
        self.answer, self.online = answer, online

    def timing(self, ops, now=0.0):
        return self.answer(ops)


def machine(*more, slots=1):
    """System with one GPU, one wire of 1 GB/s, a fabric, and further components."""
    parts = (
        Component("gpu0", "gpu", slots=slots),
        Component("wire", "link", rate=1e9),
        Component("fabric", "fabric"),
    )
    return System((*parts, *more), ("gpu0",), fabric="fabric")


def graph(n, kind=Kind.SEND, **columns):
    """Graph of ``n`` ops without dependencies."""
    build = Builder("g")
    for _ in range(n):
        build.op(kind, stream=int(kind == Kind.SEND), **({"duration": 1.0} | columns))
    return build.graph()


def on_wire(work, weight=1.0, components=(WIRE,), online=False):
    """Backend for sends that share the wire."""

    def answer(ops):
        use = Usage.repeated(list(components), len(ops), weight)
        return Timing.of(np.zeros(len(ops)), np.full(len(ops), work), use)

    return Says(answer, online)


def run(engine, backend, of, *processes, system=None, keep=None, **settings):
    """Run a graph with one backend for all components."""
    backends = {"*": backend} if backend is not None else {}
    made = Simulation(machine() if system is None else system, backends, engine=engine, **settings)
    return made.run(of, *processes, keep=keep)


@ENGINES
def test_x1_overflowing_weights_are_refused_with_and_without_folding(engine):
    """1,027 times 2^14 is a little more than 2^24, which is none in 64 bits of 2^-40."""
    light = run(engine, on_wire(1e6, 4080.0), graph(1027))
    assert light.makespan == pytest.approx(1027 * 4080 * 1e-3, rel=1e-9)
    with pytest.raises(SimulationError, match=r"weight: wire: the weights of 1,027 ops") as told:
        run(engine, on_wire(1e6, 2.0**14), graph(1027))
    assert told.value.ops == told.value.open_ops == tuple(range(1027))


@ENGINES
@pytest.mark.parametrize(("n", "weight"), [(2, 2.0**21), (2**9, 2.0**13)])
def test_x2_weights_in_flight_on_one_component_sum_to_less_than_two_to_the_22(engine, n, weight):
    with pytest.raises(SimulationError, match=r"sum to 4.1943e\+06; the sum must stay below 2\^22"):
        run(engine, on_wire(1e6, weight), graph(n))
    assert run(engine, on_wire(1e6, weight), graph(n - 1)).makespan > 0


@ENGINES
def test_x2_weights_count_only_while_in_flight_together(engine):
    """The second op begins after the first; a heavy op that was stopped no longer counts."""
    build = Builder("g")
    first = build.op(Kind.SEND, stream=1)
    build.op(Kind.SEND, stream=1, after=[first])
    one = 2.0**21 * 1e-3
    assert run(engine, on_wire(1e6, 2.0**21), build.graph()).makespan == pytest.approx(2 * one)

    def takes_turns(sim):
        yield sim.wait(one / 2)
        sim.stop(0)
        yield sim.submit(graph(1)).done
        sim.resume(0)

    both = run(engine, on_wire(1e6, 2.0**21), graph(1), takes_turns)
    assert both.makespan == pytest.approx(2 * one)


@ENGINES
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("online", [False, True])
def test_x3_a_component_named_twice_is_used_with_the_sum_of_its_weights(engine, n, online):
    twice = on_wire(1e9, components=(WIRE, WIRE), online=online)
    assert run(engine, twice, graph(n)).makespan == 2.0 * n


@ENGINES
@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("weight", [2.0**24, 2.0**22, 1e-13])
def test_x12_a_weight_outside_its_range_says_the_range(engine, weight, online):
    with pytest.raises(
        BackendError, match=r"op 0: the weight on wire is .* 2\^-40 and below 2\^22"
    ):
        run(engine, on_wire(1e6, weight, online=online), graph(1))


def sized(duration, spread=None):
    """Backend for ops of one duration with random variation."""
    return Says(lambda ops: Timing.of([duration] * len(ops), spread=spread))


@ENGINES
def test_x4_busy_time_and_sources_add_up_beyond_the_range_of_ticks(engine):
    found = run(engine, sized(8e6), graph(2, Kind.COMPUTE), system=machine(slots=2))
    assert found.busy == {"gpu0": 1.6e7}
    assert found.sources == {"said": 1.6e7}
    assert found.utilization() == {"gpu0": 1.0}
    assert found.busy_by_kind == {("gpu0", "compute"): 1.6e7}
    summed = run(engine, sized(8e6), graph(2, Kind.COMPUTE), system=machine(slots=2), keep="none")
    assert (summed.busy, summed.sources) == (found.busy, found.sources)


class Alike(Says):
    uniform = True


@pytest.mark.parametrize("chain", [True, False])
def test_x4_ten_minutes_on_16384_gpus_are_9830400_seconds(chain):
    n, ops = 16384, Ops.of(kind=[Kind.COMPUTE] * 2, duration=300.0)
    program = RankProgram.chain(ops)
    if not chain:
        none = np.full(2, -1, np.int16)
        program = RankProgram(ops.replace(kind=Kind.DELAY), Csr.empty(2), none)
    gpus = tuple(Component(f"g{i}", "gpu", slots=1) for i in range(n))
    of = Graph("t", (SpmdGraph((program,), np.zeros(n, np.int32)),))
    system = System(gpus, tuple(g.name for g in gpus))
    found = run("core", Alike(lambda ops: Timing.of(ops.duration)), of, system=system, keep="none")
    assert sum(found.sources.values()) == 9_830_400
    assert sum(found.busy.values()) == (9_830_400 if chain else 0)


def test_x4_a_template_with_twice_106_days_per_rank_is_summed_correctly():
    ops = Ops.of(kind=[Kind.DELAY] * 3, duration=8e6)
    program = RankProgram(ops, Csr.empty(3), np.full(3, -1, np.int16))
    of = Graph("t", (SpmdGraph((program,), np.zeros(1, np.int32)),))
    found = run("core", None, of, keep="none")
    assert list(found.sources.values()) == [2.4e7]


@ENGINES
@pytest.mark.parametrize("keep", ["none", "ranks", "ops"])
def test_x5_a_run_of_106_days_has_activity_and_metrics(engine, keep):
    days = 106.0
    found = run(engine, None, graph(1, Kind.DELAY, duration=days * 86400), keep=keep)
    assert found.makespan == days * 86400
    if keep != "none":
        assert activity(found)["idle"].tolist() == [days * 86400]
    assert measure(found)["exposed_communication"].tolist() == [0.0]
    assert found.rank_frame()["exposed_us"].tolist() == [0.0]
    two = run(engine, sized(days * 86400), pair_of_ranks(), system=two_gpus(), keep=keep)
    if keep != "none":
        assert activity(two)["compute"].tolist() == [days * 86400] * 2


def two_gpus():
    """System with two GPUs and nothing else."""
    return System(tuple(Component(f"gpu{i}", "gpu", slots=1) for i in range(2)), ("gpu0", "gpu1"))


def pair_of_ranks():
    """Graph with one op on each of two ranks."""
    build = Builder("pair")
    for rank in range(2):
        build.op(Kind.COMPUTE, rank=rank)
    return build.graph()


BAD = {
    "work NaN": lambda n: Timing.of([0.0] * n, [np.nan] * n, Usage.repeated([WIRE], n)),
    "work negative": lambda n: Timing.of([0.0] * n, [-1.0] * n, Usage.repeated([WIRE], n)),
    "work -inf": lambda n: Timing.of([0.0] * n, [-np.inf] * n, Usage.repeated([WIRE], n)),
    "work inf": lambda n: Timing.of([0.0] * n, [np.inf] * n, Usage.repeated([WIRE], n)),
    "limit NaN": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([WIRE], n), [np.nan] * n),
    "limit negative": lambda n: Timing.of(
        [0.0] * n, [1.0] * n, Usage.repeated([WIRE], n), [-1.0] * n
    ),
    "limits of another number": lambda n: Timing.of([0.0] * n, [1.0] * n, None, [1.0] * (n + 1)),
    "fixed NaN": lambda n: Timing.of([np.nan] * n),
    "fixed negative": lambda n: Timing.of([-1e-9] * n),
    "one answer too many": lambda n: Timing.of([1.0] * (n + 1)),
    "one usage too many": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([WIRE], n + 1)),
    "weight NaN": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([WIRE], n, np.nan)),
    "weight 0": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([WIRE], n, 0.0)),
    "component 77": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([77], n)),
    "component -1": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([-1], n)),
    "no rate": lambda n: Timing.of([0.0] * n, [1.0] * n, Usage.repeated([FABRIC], n)),
    "no timing": lambda n: [1.0] * n,
    "work 1e30": lambda n: Timing.of([0.0] * n, [1e30] * n, Usage.repeated([WIRE], n)),
    "107 days": lambda n: Timing.of([107 * 86400.0] * n),
}


@pytest.mark.parametrize("what", BAD)
def test_x6_an_invalid_timing_is_refused_before_and_during_the_run(what):
    """Includes X12: what was a raw Python error now names the op or the component."""
    said = set()
    for engine in ("reference", "core"):
        for online in (False, True):
            with pytest.raises(BackendError) as told:
                run(engine, Says(lambda ops: BAD[what](len(ops)), online), graph(2))
            said.add(str(told.value))
    assert len(said) == 1
    assert "op " in next(iter(said)) or "fabric" in next(iter(said))


@ENGINES
@pytest.mark.parametrize("online", [False, True])
def test_x6_work_without_usage_is_of_the_component_that_was_asked(engine, online):
    system = System(
        (Component("gpu0", "gpu", slots=1), Component("net", "fabric", rate=1e9)),
        ("gpu0",),
        fabric="net",
    )
    backend = Says(lambda ops: Timing.of([0.0] * len(ops), [1e9] * len(ops)), online)
    assert run(engine, backend, graph(2), system=system).makespan == 2.0


@ENGINES
def test_x6_an_answer_names_the_row_of_the_graph(engine):
    build = Builder("g")
    build.op(Kind.DELAY, duration=1.0)
    build.op(Kind.SEND, stream=1, after=[0])
    with pytest.raises(BackendError, match="fabric: fixed of op 1 "):
        run(engine, Says(lambda ops: Timing.of([np.nan]), True), build.graph())


@ENGINES
@pytest.mark.parametrize("limited", [False, True])
def test_x7_work_left_does_not_move_to_a_component_of_another_unit(engine, limited):
    def moves(sim):
        yield sim.wait(0.5)
        sim.stop(0)
        sim.resume(0, usage={"fpu": 1.0})
        yield sim.settled()

    system = machine(Component("fpu", "gpu", rate=1e12, unit="flop"))
    backend = on_wire(1e9)
    if limited:
        backend = Says(lambda ops: Timing.of([0.0], [1e9], Usage.of([{}]), [1e9]))
    with pytest.raises(
        SimulationError, match=r"op 0: it cannot be resumed: .* fpu has another unit"
    ):
        run(engine, backend, graph(1), moves, system=system)


@ENGINES
def test_x7_work_left_moves_within_its_unit_and_usage_has_one(engine):
    def moves(sim):
        yield sim.wait(0.5)
        sim.stop(0)
        sim.resume(0, usage={"lane": 1.0})
        yield sim.settled()
        sim.stop(0)
        sim.resume(0, usage={"lane": 1.0, "fpu": 1.0})

    fpu = Component("fpu", "gpu", rate=1e12, unit="flop")
    system = machine(Component("lane", "link", rate=5e8), fpu)
    with pytest.raises(SimulationError, match=r"usage in several units \(B, flop\)"):
        run(engine, on_wire(1e9), graph(1), moves, system=system)

    def moves_once(sim):
        yield sim.wait(0.5)
        sim.stop(0)
        sim.resume(0, usage={"lane": 1.0})

    assert run(engine, on_wire(1e9), graph(1), moves_once, system=system).makespan == 1.5


@ENGINES
def test_x8_a_name_that_looks_like_a_glob_is_a_name(engine):
    names = ("gpu[0]", "gpu0", "gpu?", "gpu*")
    system = System(tuple(Component(n, "gpu", slots=1) for n in names), names)
    build = Builder("g")
    for rank in range(4):
        build.op(Kind.COMPUTE, rank=rank)
    bound = {"*": sized(1.0), "gpu[0]": sized(7.0), "gpu?": sized(3.0), "gpu*": sized(5.0)}
    made = Simulation(system, bound, engine=engine)
    assert made.run(build.graph()).end.tolist() == [7.0, 1.0, 3.0, 5.0]


@ENGINES
def test_x8_touches_are_names_before_globs(engine):
    system = machine(Component("link?", "link", rate=1.0), Component("link0", "link", rate=1.0))

    def steers(name):
        def process(sim):
            sim.set_rate(name, 2.0)
            yield sim.settled()

        process.touches = ("link?",)
        return process

    run(engine, on_wire(1e9), graph(1), steers("link?"), system=system)
    with pytest.raises(SimulationError, match="alters link0, which its touches do not include"):
        run(engine, on_wire(1e9), graph(1), steers("link0"), system=system)


@pytest.mark.parametrize(
    ("rate", "most"), [(1e9, 1.0), (1e9, np.nan), (1e9, np.inf), (np.inf, None)]
)
def test_x9_a_max_rate_below_the_rate_is_refused_with_both(rate, most):
    with pytest.raises(
        ValueError, match=r"wire: (max_rate is .*, and its rate 1e\+09|rate is inf)"
    ):
        Component("wire", "link", rate=rate, max_rate=most)


def spread(step=(), op=(), start=()):
    """Distribution from factors per iteration, per op and per process start."""
    return Spread(*(np.array(f, np.float64) for f in (step, op, start)))


@ENGINES
@pytest.mark.parametrize(
    "of",
    [
        spread(step=[np.nan, 1.0]),
        spread(op=[1.0, np.inf]),
        spread(start=[-1.0, 1.0]),
        spread(step=[5000.0]),
        spread(step=[2.0, 1.0]),
        spread(step=[100.0], start=[100.0]),
    ],
)
def test_x10_invalid_factors_are_refused(engine, of):
    with pytest.raises(BackendError, match=r"^gpu0: .*(factor|factors).*"):
        Simulation(machine(), {"*": sized(1.0, of)}, engine=engine).run(
            graph(1, Kind.COMPUTE), replica=0
        )


@ENGINES
def test_x10_a_drawn_time_or_work_beyond_the_range_is_refused(engine):
    wide = spread(step=[5.0, 5.0])
    simulation = Simulation(machine(), {"*": sized(50 * 86400.0, wide)}, engine=engine)
    with pytest.raises(
        GraphError, match=r"'g' op 0: its drawn time does not fit .*; use a coarser"
    ):
        simulation.run(graph(1, Kind.COMPUTE), replica=0)
    answer = Timing.of([0.0], [1e17], Usage.repeated([WIRE], 1), spread=spread(op=[4000.0]))
    simulation = Simulation(machine(), {"*": Says(lambda ops: answer)}, engine=engine)
    with pytest.raises(GraphError, match=r"'g' op 0: its drawn work does not fit .*; split the op"):
        simulation.run(graph(1), replica=0)


def test_x10_a_template_draws_no_time_beyond_the_range_either():
    program = RankProgram.chain(Ops.of(kind=[Kind.COMPUTE], duration=50 * 86400.0))
    of = Graph("t", (SpmdGraph((program,), np.zeros(1, np.int32)),))
    backend = Alike(lambda ops: Timing.of(ops.duration, spread=spread(step=[5.0, 5.0])))
    with pytest.raises(GraphError, match="its drawn time does not fit"):
        Simulation(machine(), {"*": backend}).run(of, replica=0, keep="none")


@ENGINES
@pytest.mark.parametrize("tick", [2.0, 0.7, 0.0, -1e-12, np.nan, np.inf, 1e-13])
def test_x11_a_tick_that_is_no_part_of_a_second_is_refused(engine, tick):
    with pytest.raises(ValueError, match=r"tick is .*; give 1 s divided by a whole number"):
        Simulation(machine(), {}, engine=engine, tick=tick)


@pytest.mark.parametrize("tick", [1.0, 0.5, 1 / 3, 1e-3, 1e-9, 1e-12])
def test_x11_a_tick_is_an_integer_fraction_of_a_second(tick):
    assert run("core", sized(10.0), graph(1, Kind.COMPUTE), tick=tick).makespan == 10.0


@ENGINES
def test_x12_former_python_errors_name_the_op_or_component(engine):
    with pytest.raises(GraphError, match="'g' op 0: rank is -1; give a whole number between 0"):
        Builder("g").op(Kind.COMPUTE, rank=-1)
    block = graph(1, Kind.COMPUTE).explicit
    below = replace(block, ops=block.ops.replace(rank=np.full(1, -1, np.int32)))
    with pytest.raises(GraphError, match="op 0: is on rank -1; give a rank of 0"):
        run(engine, sized(1.0), Graph("g", (below,)))

    def weighs_nothing(sim):
        sim.stop(0)
        sim.resume(0, usage={"wire": np.nan})
        yield sim.settled()

    with pytest.raises(SimulationError, match="action: the weight on wire is nan"):
        run(engine, on_wire(1e9), graph(1), weighs_nothing)

    def waits(sim):
        yield sim.wait(-1.0)

    with pytest.raises(SimulationError, match=r"waits: time to wait is -1\.0; give a finite"):
        run(engine, on_wire(1e9), graph(1), waits)

    def cancels(sim):
        yield sim.wait(0.25)
        sim.cancel(np.int64(0))
        yield sim.settled()

    assert np.isnan(run(engine, on_wire(1e9), graph(1), cancels).end).tolist() == [True]


@pytest.mark.parametrize("op", [(1, 0), (0, 2), (-1, 1)])
def test_x12_further_places_out_of_order_are_refused(op):
    """The core relies on their order and used to loop forever."""
    ops = Ops.of(kind=Kind.COLLECTIVE, rank=[0, 0], duration=1.0)
    places = Participants(np.array(op, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32))
    with pytest.raises(GraphError, match=r"place order: .* 0 to 1, ascending; sort them by op"):
        FlatGraph(ops, Csr.empty(2), places, np.zeros(2), np.full(2, -1, np.int32))


def test_x12_a_builder_refuses_invalid_ops():
    build = Builder("g")
    with pytest.raises(GraphError, match=r"op 0: period is .*; give 0 to"):
        build.op(Kind.COMPUTE, period=LAST_PERIOD + 1)
    with pytest.raises(GraphError, match="op 0: period is -2"):
        build.op(Kind.COMPUTE, period=-2)
    with pytest.raises(GraphError, match="op 0: has no members"):
        build.collective([])


def cyclic(shape, n):
    """Graph with a dependency cycle of the given shape."""
    random = Random(n)
    after = {
        "a ring": lambda i: [(i - 1) % n],
        "a ladder": lambda i: [(i - 1) % n, (i + 1) % n] if i else [n - 1],
        "a torus": lambda i: [(i - 1) % n, (i - 141) % n],
        "any three": lambda i: [random.randrange(n) for _ in range(3)],
        "a chain between two rings": lambda i: [i + 1 if i % (n // 2) else i + 2] if i < n - 3
        else [n - 3 + (i + 1 - n + 3) % 3],
    }[shape]  # fmt: skip
    return [LiteralOp(((-1, tuple(sorted({*after(i)}))),)) for i in range(n)]


@pytest.mark.parametrize("make", [ReferenceEngine, CoreEngine])
@pytest.mark.parametrize(
    "shape", every(4, ["a ring", "a ladder", "a torus", "any three", "a chain between two rings"])
)
def test_x13_a_large_cyclic_graph_is_refused_in_a_bounded_number_of_steps(make, shape, monkeypatch):
    searches = []
    init = deadlock._WaitForGraph.__init__
    monkeypatch.setattr(
        deadlock._WaitForGraph,
        "__init__",
        lambda self, *a: (init(self, *a), searches.append(self))[0],
    )
    cases = cyclic(shape, 5_000)
    with pytest.raises(GraphError, match="cycle: graph 'g': op ") as told:
        make(Script((), (), ()).parts).submit(literal_graph("g", cases))
    ring = told.value.ops
    for op, after in zip(ring, (*ring[1:], ring[0]), strict=True):
        assert op in cases[after].places[0][1]
    assert searches[0].steps < deadlock.MOST_STEPS + 8 * len(cases)


class Counted(list):
    """List that counts how often its items are read."""

    looks = 0

    def __getitem__(self, i):
        self.looks += 1
        return super().__getitem__(i)


@pytest.mark.parametrize("add", ["prepend", "append_doubly_linked"])
def test_x13_leaving_a_list_costs_the_same_for_any_length(add, monkeypatch):
    plain = {
        name: getattr(f, "py_func", f) for name, f in vars(linked_lists).items() if callable(f)
    }
    monkeypatch.setattr(linked_lists, "append", plain["append"])
    looks = {}
    for n in (10, 1000):
        rows = Counted({"next": -1, "unmet": 0} for _ in range(n))
        world = [-1, -1]
        for c in range(n):
            plain[add](rows, world, 0, c)
        rows.looks = 0
        order = [n // 2, 0, n - 1, *range(1, n // 2), *range(n - 2, n // 2, -1)]
        for c in order:
            plain["unlink"](rows, world, 0, c)
        assert world[0] == -1
        assert {row["unmet"] for row in rows} == {0}
        looks[n] = rows.looks / n
    assert looks[1000] <= looks[10] + 1


@pytest.mark.parametrize("kind", every(2, ["running", "queued", "released later", "barred"]))
@pytest.mark.parametrize("verb", ["cancel", "stop"])
def test_x13_removing_many_ops_from_the_end_is_fast(kind, verb):
    n = 4_000 if not INTERPRETED else 200
    case = {
        "running": LiteralOp(fixed=1000),
        "queued": LiteralOp(((0, ()),), fixed=1000),
        "released later": LiteralOp(release=1000),
        "barred": LiteralOp(work=1000, usage=((1, ONE),)),
    }[kind]
    engine = CoreEngine(Script((1, -1), (-1, 10), ()).parts)
    if kind == "barred":
        engine.fail(1)
    engine.submit(literal_graph("g", [case] * n))

    def removes():
        yield engine.env.timeout(1)
        for op in reversed(range(n)):
            engine.stop(op) if verb == "stop" else engine.cancel([op])

    engine.env.process(removes())
    engine.run(until=5)
    state = State.STOPPED if verb == "stop" else State.CANCELLED
    assert set(engine.columns().state.tolist()) == {state}
    if kind == "queued":
        assert engine.queue(0) == []


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
from foretrace.sim.core.memory.state_layout import NOW
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.interface import Flows, EngineGraph
from engine_scripts.script import Script
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph

def chain(n):
    none = np.empty(0, np.int32)
    return EngineGraph("g", none, np.zeros(n, np.int32), np.minimum(np.arange(n + 1), n - 1),
                   np.arange(1, n, dtype=np.int32), none.astype(np.int64), np.ones(n, np.int64),
                   Flows.none(), none)

def made(n):
    engine = CoreEngine(Script((1,), (-1,), ()).parts)
    engine.runs_ahead = False
    engine.submit(chain(n))
    return engine

made(10).run()  # compiled by now
engine = made(int(sys.argv[1]))

def interrupts():
    while not engine.store.world.item(NOW):
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupts, daemon=True).start()
try:
    engine.run()
except KeyboardInterrupt:
    print("interrupted", engine.has_open_ops())
"""


def test_x9_a_kernel_that_runs_can_be_interrupted():
    """A second thread sends the signal after a while; earlier, all ops ended first."""
    ops = 4_000_000 if not INTERPRETED else 40_000
    command = [sys.executable, "-c", INTERRUPTED, str(ops)]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, env=found)
    assert told.stdout == "interrupted True\n", told.stderr


def test_x9_an_spmd_run_can_pause_and_continue(monkeypatch):
    ops = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE] * 3, duration=1.0)
    program = RankProgram.chain(ops, family=[-1, 0] * 3)
    of = Graph("t", (SpmdGraph((program,), np.zeros(64, np.int32), np.zeros((1, 64), np.int32)),))
    gpus = tuple(Component(f"g{i}", "gpu", slots=1) for i in range(64))
    system = System(
        (*gpus, Component("fabric", "fabric")), tuple(g.name for g in gpus), fabric="fabric"
    )
    drawn = spread(op=[0.5, 1.5])
    made = Simulation(system, {"*": Alike(lambda ops: Timing.of(ops.duration, spread=drawn))})
    whole = made.run(of, replica=0, keep="none")
    calls = []
    plain = getattr(
        program_executor._run_until_blocked, "py_func", program_executor._run_until_blocked
    )
    monkeypatch.setattr(program_executor, "PAUSE", 100)
    monkeypatch.setattr(
        program_executor, "_run_until_blocked", lambda *a: (calls.append(1), plain(*a))[1]
    )
    again = made.run(of, replica=0, keep="none")
    assert (again.makespan, again.sources) == (whole.makespan, whole.sources)
    assert len(calls) > 2


@pytest.mark.skipif(INTERPRETED, reason="a million ops take too long without compiled kernels")
def test_x14_keeping_less_detail_takes_no_more_peak_memory():
    n, ranks = 1 << 20, 64
    row, none = np.arange(n), np.empty(0, np.int32)
    ops = Ops.of(rank=row * ranks // n, period=row % (n // ranks) * 9 * ranks // n, duration=1e-6)
    before = row[(row + 1) % (n // ranks) != 0]
    after = Csr.from_pairs(before, before + 1, n)
    block = FlatGraph(
        ops, after, Participants(none, none, none), np.zeros(n), np.full(n, -1, np.int32)
    )
    gpus = tuple(Component(f"g{i}", "gpu", slots=1) for i in range(ranks))
    system = System(gpus, tuple(g.name for g in gpus))
    simulation = Simulation(system, {"*": Says(lambda ops: Timing.of(ops.duration))})
    graph = Graph("g", (block,))
    peak, found = {}, {}
    for keep in ("ops", "none", "ops", "none"):  # the second time all is compiled
        tracemalloc.start()
        found[keep] = simulation.run(graph, keep=keep)
        peak[keep] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak["none"] <= 1.05 * peak["ops"]
    whole, less = found["ops"], found["none"]
    assert (less.busy, less.sources, less.makespan) == (whole.busy, whole.sources, whole.makespan)
    assert less.periods.tolist() == whole.periods.tolist()


@ENGINES
def test_x16_weights_from_a_sixteenth_fit_and_lighter_ones_where_the_page_says(engine):
    for weight in (1 / 16, 1.0, 2.0):
        assert run(engine, on_wire(1e9, weight), graph(1)).makespan == pytest.approx(weight)
    light = on_wire(1e9, 1 / 48)
    with pytest.raises(GraphError, match=r"too fast: .* 2\^62 units or more; give it a limit"):
        run(engine, light, graph(1))
    beside = machine(Component("lane", "link", rate=1e12))  # sets K
    assert run(engine, light, graph(1), system=beside).makespan == pytest.approx(1 / 48)
    limited = Timing.of([0.0], [1e9], Usage.repeated([WIRE], 1, 1 / 48), [48e9])
    assert run(engine, Says(lambda ops: limited), graph(1)).makespan == pytest.approx(1 / 48)
