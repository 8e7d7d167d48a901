"""A plugged-in medium next to max-min, on both engines."""

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import foretrace
import numpy as np
import pytest
from by_day import tonight
from engine_scripts.comparison import compare
from engine_scripts.player import play
from engine_scripts.plugged import plugged_script
from engine_scripts.random_scripts import KINDS
from foretrace import Backend, Builder, Component, GraphError, Kind, Simulation, System, Timing
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_components, literal_graph
from foretrace.sim.engine_api.interface import MAX_TICK, ONE
from foretrace.sim.engine_api.medium_api import Medium
from foretrace.sim.facts.backend import Usage
from foretrace.sim.kernel.jit import LINKED, as_argument, jit_as_argument, jit_without_refcounts
from foretrace.sim.reference.engine import ReferenceEngine

PLUGIN = Path(foretrace.__file__).parent / "docs" / "examples" / "plugins" / "store_and_forward.py"
ENGINES = pytest.mark.parametrize("engine", [ReferenceEngine, CoreEngine])
BOTH = pytest.mark.parametrize("engine", ["reference", "core"])
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
IN_CI = 10 if INTERPRETED else 15  # runs of each kind
NIGHTLY = 20_000 // len(KINDS) + 1


def load(path):
    """Import a plug-in's module from a path."""
    sys.path.append(str(path.parent))
    return importlib.import_module(path.stem)


PLUGGED = load(PLUGIN)
MEDIUM = PLUGGED.StoreAndForward()


def differences(kind, seeds):
    """Differences between the engines, each with the seed that shows it."""
    found = []
    for seed in seeds:
        script = plugged_script(kind, seed, MEDIUM)
        what = compare(play(ReferenceEngine, script), play(CoreEngine, script))
        if what:
            found.append(f"plugged_script({kind!r}, {seed}): reference and core: {what}")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_core_equals_reference_in_a_plugged_medium(kind):
    assert differences(kind, range(IN_CI)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_core_equals_reference_in_a_plugged_medium_all_night(kind):
    seeds = tonight(range(1000, 1000 + NIGHTLY))
    print(f"{kind}: seeds {seeds}")
    assert differences(kind, seeds) == []


def test_the_scripts_reach_the_plugged_medium_and_every_outcome():
    kinds, inside = set(), 0
    for kind in KINDS:
        for seed in range(30):
            script = plugged_script(kind, seed, MEDIUM)
            inside += any(script.plugged)
            error = play(ReferenceEngine, script).error
            kinds.add(error[1] if error else "done")
    assert {"done", "lost", "time overflow", "starvation", "deadlock", "medium"} <= kinds
    assert inside > 30 * len(KINDS) / 2


def test_a_medium_whose_kernels_differ_from_its_plain_version_is_detected():
    class LastFirst(PLUGGED.Ports):
        def _enter(self, op):
            super()._enter(op)
            queue = self.queue[self.ahead[op][0]]
            queue[1:] = queue[:0:-1]

    class Wrong(PLUGGED.StoreAndForward):
        def plain(self, rates):
            return LastFirst(rates)

    scripts = [plugged_script("plain", seed, Wrong()) for seed in range(30)]
    assert any(compare(play(ReferenceEngine, s), play(CoreEngine, s)) for s in scripts)


def test_the_plug_in_is_one_file_of_less_than_150_lines():
    assert len(PLUGIN.read_text().splitlines()) < 150


# What it must do, where everybody can work it out.


def machine(engine, *rates):
    """Engine with ports of the given rates, all in the plugged-in medium."""
    parts = literal_components((-1,) * len(rates), rates)
    return engine(replace(parts, medium=MEDIUM, plugged=np.ones(len(rates), np.bool_)))


def message(work, *ports, **facts):
    """Op whose message crosses the given ports in order."""
    return LiteralOp(work=work, usage=tuple((port, ONE) for port in ports), **facts)


def ends(engine, *cases):
    """Ends of ops that are submitted and run."""
    engine.submit(literal_graph("messages", cases))
    engine.run()
    return engine.columns().end.tolist()


@ENGINES
def test_a_message_is_forwarded_once_it_has_arrived_completely(engine):
    """Three ports of rates 10, 5 and 20 take 4, 8 and 2 ticks."""
    assert ends(machine(engine, 10, 5, 20), message(40, 0, 1, 2)) == [14]


@ENGINES
def test_ports_are_crossed_in_the_order_of_the_backend(engine):
    """The second message waits at port 0 for the first, which arrives there last."""
    assert ends(machine(engine, 1, 2), message(4, 1, 0), message(1, 0)) == [6, 1]
    assert ends(machine(engine, 1, 2), message(4, 0, 1), message(1, 0)) == [6, 5]


@ENGINES
@pytest.mark.parametrize("n", [1, 2, 7])
def test_messages_follow_each_other_through_a_pipeline(engine, n):
    """With k ports of t ticks, the i-th of n equal messages is done after (k + i) t."""
    found = ends(machine(engine, 2, 2, 2), *[message(10, 0, 1, 2)] * n)
    assert found == [5 * (3 + i) for i in range(n)]


@ENGINES
def test_queues_are_first_come_first_served_and_ties_go_by_id(engine):
    cases = message(6, 0, release=3), message(5, 0), message(2, 0), message(1, 0, release=1)
    assert ends(machine(engine, 1), *cases) == [14, 5, 7, 8]


@ENGINES
def test_a_limit_slows_the_message_and_whoever_waits_behind_it(engine):
    assert ends(machine(engine, 10), message(20, 0, limit=2), message(20, 0)) == [10, 12]


@ENGINES
def test_a_weight_makes_a_message_heavier(engine):
    heavy = LiteralOp(work=20, usage=((0, 2 * ONE),))
    assert ends(machine(engine, 10), heavy) == [4]


@ENGINES
def test_a_rate_that_changes_keeps_the_progress_and_stalls_at_zero(engine):
    made = machine(engine, 10)

    def process():
        for tick, rate in ((2, 0), (7, 1), (9, 40)):
            yield made.env.timeout(tick - made.env.now)
            made.set_rate(0, rate)

    made.env.process(process())
    assert ends(made, message(60, 0)) == [10]  # 20, then 0, then 2, then 38 of 40


@ENGINES
@pytest.mark.parametrize("keep", [True, False])
def test_a_message_that_fails_en_route_restarts_at_its_first_port(engine, keep):
    made = machine(engine, 10, 10)

    def process():
        yield made.env.timeout(6)  # 2 of 4 ticks over the second port
        made.fail(1)
        yield made.env.timeout(1)
        made.restore(1)
        made.resume(0, keep)

    made.env.process(process())
    assert ends(made, message(40, 0, 1)) == [15]


@ENGINES
def test_a_stopped_queued_op_rejoins_at_the_end_and_a_finished_op_stays_finished(engine):
    made = machine(engine, 10)

    def process():
        yield made.env.timeout(4)
        made.stop(0)
        made.stop(1)
        yield made.env.timeout(5)
        made.resume(0)
        made.resume(1)

    made.env.process(process())
    assert ends(made, message(40, 0), message(10, 0), message(30, 0)) == [4, 10, 7]


@ENGINES
def test_an_end_beyond_the_range_is_an_overflow_and_its_successors_starve(engine):
    made = machine(engine, 1)
    with pytest.raises(foretrace.SimulationError, match="beyond") as error:
        ends(made, message(MAX_TICK + 1, 0), message(1, 0))
    assert error.value.kind == "time overflow"
    assert error.value.ops == (0,)


# From a simulation.


class Wires(Backend):
    """Backend whose sends cross the wires of their route."""

    source = "test"

    def __init__(self, routes):
        self.routes = routes

    def timing(self, ops, now=0.0):
        return Timing.of(np.zeros(len(ops)), ops.bytes, Usage.of([self.routes] * len(ops)))


def system():
    """System with two GPUs and two wires of 1 GB/s."""
    gpus = [Component(f"node{i}.gpu0", "gpu", slots=8) for i in range(2)]
    wires = [Component(f"wire{i}", "link", rate=1e9) for i in range(2)]
    fabric = Component("fabric", "fabric")
    return System((*gpus, *wires, fabric), tuple(g.name for g in gpus), fabric="fabric")


def sends(n):
    """Graph of ``n`` sends of 1 MB from the first GPU."""
    build = Builder("sends")
    for _ in range(n):
        build.op(Kind.SEND, rank=0, peer=1, bytes=1e6)
    return build.graph()


@BOTH
def test_a_simulation_takes_a_medium_for_components_by_glob(engine):
    """Equal sends share max-min links and end together; in port queues they end in turn."""
    backends = {"fabric": Wires({2: 1.0, 3: 1.0})}
    shared = Simulation(system(), backends, engine=engine).run(sends(3))
    queued = Simulation(system(), backends, engine, media={"wire*": MEDIUM}).run(sends(3))
    assert shared.end.round(9).tolist() == [0.003] * 3
    assert queued.end.round(9).tolist() == [0.002, 0.003, 0.004]
    assert sum(queued.blame().seconds.values()) == pytest.approx(queued.makespan, abs=1e-15)


@BOTH
def test_max_min_and_a_plugged_in_medium_are_independent(engine):
    backends = {"fabric": Wires({2: 1.0})}
    alone = Simulation(system(), backends, engine=engine).run(sends(3))
    beside = Simulation(system(), backends, engine, media={"wire1": MEDIUM}).run(sends(3))
    assert alone.end.tolist() == beside.end.tolist()


@BOTH
def test_an_op_over_two_media_is_refused(engine):
    backends = {"fabric": Wires({2: 1.0, 3: 1.0})}
    simulation = Simulation(system(), backends, engine, media={"wire1": MEDIUM})
    with pytest.raises(
        GraphError, match="component 3 and another are in different media; put both"
    ):
        simulation.run(sends(1))


def test_media_that_name_nothing_or_are_two_are_refused():
    with pytest.raises(GraphError, match=r"media: 'node\*' matches no component with a rate"):
        _ = Simulation(system(), {}, media={"node*": MEDIUM}).parts
    two = {"wire0": MEDIUM, "wire1": Medium()}
    with pytest.raises(GraphError, match="a run can have one medium besides max-min: use the same"):
        _ = Simulation(system(), {}, media=two).parts


# Kernels of a plug-in.


@jit_as_argument
def unsettled(a):
    """Kernel that returns nothing."""


@jit_without_refcounts
def unpassed(a):
    """Kernel that returns a number but cannot be passed to compiled code."""
    return np.int64(a)


@pytest.mark.skipif(not LINKED, reason="kernels are passed as they are")
def test_a_kernel_that_cannot_be_passed_says_why():
    with pytest.raises(TypeError, match="unsettled: returns none; return an int64 on every path"):
        as_argument(unsettled, 1)
    said = "unpassed: it is an argument of another kernel; decorate it with jit_as_argument"
    with pytest.raises(TypeError, match=said):
        as_argument(unpassed, 1)
