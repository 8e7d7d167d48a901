"""Parts of the compiled core: event queue, lists, running ahead of the clock, growth."""

import gc
import random
import weakref

import numpy as np
import pytest
from by_day import every
from engine_scripts.player import play
from engine_scripts.random_scripts import random_script
from engine_scripts.script import Script
from foretrace.sim.core.cycles import refuse_cycle
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.core.memory.linked_lists import sort_list
from foretrace.sim.core.memory.radix_heap import (
    earliest_tick,
    remove_cell,
    schedule_cell,
    take_due_cells,
)
from foretrace.sim.core.memory.state_layout import (
    BASE,
    BUCKETS,
    CELL,
    FURTHER,
    NONE,
    SOONEST,
    TABLES,
)
from foretrace.sim.core.static_schedule import find_static_schedule
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import MAX_TICK
from foretrace.sim.errors import GraphError
from foretrace.sim.facts.system import System
from foretrace.sim.reference.engine import ReferenceEngine
from foretrace.sim.run.session import Session
from foretrace.sim.run.simulation import Simulation


@pytest.fixture(autouse=True)
def _words_wrap():
    """Let integer overflow wrap silently, as in compiled code."""
    with np.errstate(over="ignore"):
        yield


def memory(cells):
    """Rows, times and world of a run without components."""
    rows, times = np.zeros(cells + 1, CELL), np.full((cells + 1, 3), -1, np.int64)
    world = np.zeros(TABLES, np.int64)
    world[BUCKETS:] = world[SOONEST] = NONE
    return rows, times, world


def listed(rows, c):
    """Cells of a linked list."""
    found = []
    while c != NONE:
        found.append(int(c))
        c = rows[c]["next"]
    return found


def put(rows, world, c, tick):
    rows[c]["left"] = tick
    schedule_cell(rows, world, np.int64(c), np.int64(tick))


@pytest.mark.parametrize("spread", every(3, [1, 3, 1000, 2**40]))
def test_the_event_queue_gives_all_of_the_earliest_tick(spread):
    r = random.Random(spread)
    rows, times, world = memory(300)
    ticks = {c: r.randrange(spread) for c in range(300)}
    for c, tick in ticks.items():
        put(rows, world, c, tick)
    for _ in range(500):
        tick = min(ticks.values())
        assert earliest_tick(rows, times, world) == tick
        due = listed(rows, take_due_cells(rows, times, world, np.int64(tick)))
        assert sorted(due) == [c for c, t in ticks.items() if t == tick]
        for c in due:
            ticks[c] = tick + 1 + r.randrange(spread)
            put(rows, world, c, ticks[c])


def test_the_event_queue_forgets_a_cell_and_finds_the_next():
    rows, times, world = memory(4)
    for c, tick in enumerate([5, 5, 7, MAX_TICK]):
        put(rows, world, c, tick)
    remove_cell(rows, times, world, np.int64(0))
    assert listed(rows, take_due_cells(rows, times, world, earliest_tick(rows, times, world))) == [
        1
    ]
    remove_cell(rows, times, world, np.int64(2))
    assert earliest_tick(rows, times, world) == MAX_TICK
    remove_cell(rows, times, world, np.int64(3))
    assert earliest_tick(rows, times, world) == NONE
    assert world[BASE] == 5


def test_a_list_is_sorted_by_op_then_place():
    r = random.Random(1)
    rows, _, world = memory(200)
    for c in range(100, 200):  # further places of ops 0 to 99
        rows[c]["flags"], rows[c]["link"] = FURTHER, r.randrange(100)
    chosen = r.sample(range(200), 150)
    for c, following in zip(chosen, [*chosen[1:], NONE], strict=True):
        rows[c]["next"] = following
    op = {c: int(rows[c]["link"]) if c >= 100 else c for c in chosen}
    want = sorted(chosen, key=lambda c: (op[c], c))
    assert listed(rows, sort_list(rows, world, np.int64(chosen[0]))) == want


def chain(n, slot, fixed=3):
    return [LiteralOp(((slot, (i - 1,) if i else ()),), fixed=fixed) for i in range(n)]


def test_ops_that_wait_for_each_other_want_one_slot():
    assert find_static_schedule(
        literal_graph("g", chain(5, 0)), np.array([1]), 0
    ).chains.tolist() == [1]
    five = literal_graph("g", [LiteralOp(((0, ()),))] * 5)
    assert find_static_schedule(five, np.array([5]), 0).chains.tolist() == [5]
    assert find_static_schedule(five, np.array([4]), 0) is None


def test_a_chain_of_ops_continues_through_a_collective():
    both = LiteralOp(((0, (0,)), (1, (1,))))
    cases = [
        LiteralOp(((0, ()),)),
        LiteralOp(((1, ()),)),
        both,
        LiteralOp(((0, (2,)),)),
        LiteralOp(((1, (2,)),)),
    ]
    assert find_static_schedule(literal_graph("g", cases), np.array([1, 1]), 0).chains.tolist() == [
        1,
        1,
    ]


def test_work_releases_beyond_the_range_and_backends_forbid_to_run_ahead():
    wire = ((0, 1 << 40),)
    slots = np.array([-1])
    assert (
        find_static_schedule(literal_graph("g", [LiteralOp(work=1, usage=wire)]), slots, 0) is None
    )
    assert find_static_schedule(literal_graph("g", [LiteralOp(release=MAX_TICK)]), slots, 1) is None
    assert find_static_schedule(literal_graph("g", [LiteralOp(online=0)]), slots, 0) is None
    assert find_static_schedule(literal_graph("g", chain(2, -1, MAX_TICK)), slots, 0) is None


def test_a_cycle_is_named():
    with pytest.raises(GraphError, match="op 1 -> op 2 -> op 1") as caught:
        refuse_cycle(
            literal_graph("g", [LiteralOp(), LiteralOp(((-1, (0, 2)),)), LiteralOp(((-1, (1,)),))])
        )
    assert caught.value.ops == (1, 2)


def patient(parts):
    """Compiled engine that never runs ahead of the clock."""
    engine = CoreEngine(parts)
    engine.runs_ahead = False
    return engine


def test_running_ahead_changes_nothing():
    ran = 0
    for seed in range(300):
        script = random_script("plain", seed)
        graphs = tuple(
            tuple(c._replace(work=0, usage=(), limit=-1) for c in cases) for cases in script.graphs
        )
        if seed % 2:  # no contention at all
            graphs = tuple(
                tuple(c._replace(places=tuple((-1, a) for _, a in c.places)) for c in cases)
                for cases in graphs
            )
        script = script._replace(graphs=graphs, pauses=())
        engine = CoreEngine(script.parts)
        outcome = play(lambda _, engine=engine: engine, script)
        assert outcome == play(patient, script), seed
        ran += any(g.over for g in engine.graphs)
    assert ran > 150


def test_graphs_run_ahead_of_the_clock_end_before_later_graphs():
    engine = CoreEngine(Script((1,), (-1,), ()).parts)
    first = engine.submit(literal_graph("first", chain(3, 0)))
    engine.run()
    assert engine.graphs[first.index].over
    assert (engine.env.now, engine.state(2).name, engine.held(0)) == (9, "ENDED", 0)
    engine.stop(1)  # too late: nothing happens
    second = engine.submit(literal_graph("second", [LiteralOp(((0, ()),), fixed=2)] * 2))
    engine.run()
    assert (second.first, engine.columns().end.tolist()) == (3, [3, 6, 9, 11, 13])
    assert first.done.processed
    assert second.done.processed


def test_an_explicit_op_needs_the_documented_memory():
    assert CELL.itemsize <= 40


def test_thousands_of_graphs_handed_in_during_the_run():
    engine = CoreEngine(Script((1,), (-1,), ()).parts)

    def policy():
        for _ in range(500):
            graph = engine.submit(literal_graph("one", chain(2, 0, 1)))
            yield graph.done

    engine.env.process(policy())
    engine.run()
    assert engine.columns().end.tolist() == list(range(1, 1001))


def test_mass_ties_are_served_by_id():
    n = 2000
    engine = CoreEngine(Script((1,), (-1,), ()).parts)
    engine.submit(literal_graph("ties", [LiteralOp(((0, ()),), fixed=1)] * n))
    engine.run()
    assert engine.columns().start.tolist() == list(range(n))


def test_a_process_beyond_the_range_of_ticks_is_an_overflow_in_both_engines():
    script = Script((1,), (-1,), ((LiteralOp(release=MAX_TICK),),), ((("ended", 0), ("wait", 1)),))
    outcome = play(CoreEngine, script)
    assert outcome == play(ReferenceEngine, script)
    assert outcome.error == ("SimulationError", "time overflow", (), ())


def test_an_unreferenced_engine_is_freed_at_once():
    """The state is large but has few objects, so the garbage collector would free it late."""
    engine = CoreEngine(Script((1,), (-1,), ()).parts)
    engine.submit(literal_graph("two on one slot", [LiteralOp(((0, ()),), fixed=5)] * 2))
    engine.run()
    state = weakref.ref(engine)
    gc.disable()
    try:
        del engine
        assert state() is None
    finally:
        gc.enable()


def test_the_engine_is_freed_with_its_session():
    session = Session(Simulation(System((), ()), {}), None)
    session.machine.run()
    state = weakref.ref(session.machine)
    gc.disable()
    try:
        del session
        assert state() is None
    finally:
        gc.enable()
