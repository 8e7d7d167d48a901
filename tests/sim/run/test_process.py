"""Processes: names and SI units on any engine; waiting, observing and acting."""

import pytest
from foretrace.sim.engine_api.interface import State
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation


class Recorded(Backend):
    """Backend whose ops take their recorded duration."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


class Wire(Backend):
    """Backend whose transfers use the wire, which is component 2."""

    source = "the test"

    def timing(self, ops, now=0.0):
        n = len(ops)
        return Timing.of([0.0] * n, work=ops.bytes, usage=Usage.repeated([2], n))


SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=1),
        Component("node0.gpu1", "gpu", slots=2),
        Component("wire", "link", rate=1e9),
        Component("fabric", "fabric"),
    ),
    ("node0.gpu0", "node0.gpu1"),
    router=lambda a, b: (2,),
    fabric="fabric",
)


@pytest.fixture(params=["reference", "core"])
def simulation(request):
    return Simulation(SYSTEM, {"node0.gpu*": Recorded(), "fabric": Wire()}, engine=request.param)


def chain(*seconds, name="chain"):
    build = Builder(name)
    after = []
    for duration in seconds:
        after = [build.op(Kind.COMPUTE, duration=duration, after=after)]
    return build.graph()


def transfer(size, name="transfer"):
    build = Builder(name)
    build.op(Kind.SEND, rank=0, peer=1, bytes=size)
    return build.graph()


def side_by_side(*seconds):
    build = Builder("side by side")
    for duration in seconds:
        build.op(Kind.COMPUTE, duration=duration)
    return build.graph()


def test_waiting_for_an_op_that_has_ended_continues_at_once(simulation):
    """Also one that was told long ago, whose event the engine may have let go."""
    seen = []

    def process(sim):
        for op in (0, 1, 0, 1):
            seen.append((op, (yield sim.ended(op)), sim.now))  # noqa: PERF401  a comprehension cannot yield
        either = sim.ended(0) | sim.ended(2)
        yield either
        seen.append(("either", sim.state(2).name, sim.now))

    simulation.run(chain(1.0, 1.0, 1.0), process)
    ended = [(0, "ended", 1.0), (1, "ended", 2.0), (0, "ended", 2.0), (1, "ended", 2.0)]
    assert seen == [*ended, ("either", "RUNNING", 2.0)]


def test_time_is_in_seconds(simulation):
    seen = []

    def process(sim):
        yield sim.wait(0.25)
        seen.append((sim.now, sim.env.now))
        yield sim.ended(0)
        seen.append((sim.now, sim.state(0)))

    simulation.run(chain(1.0, 1.0), process)
    assert seen == [(0.25, 250_000_000_000), (1.0, State.ENDED)]


def test_a_process_submits_and_waits_for_graphs(simulation):
    seen = []

    def policy(sim):
        for k in range(3):
            graph = sim.submit(chain(0.5, name=f"step{k}"))
            yield graph.done
            seen.append((graph.first, sim.now))
            sim.emit("step", k)

    result = simulation.run(None, policy)
    assert seen == [(0, 0.5), (1, 1.0), (2, 1.5)]
    assert result.metrics == (("step", 0.5, 0.0), ("step", 1.0, 1.0), ("step", 1.5, 2.0))
    assert result.makespan == 1.5


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_ops_submitted_by_a_process_belong_to_no_iteration(simulation, keep):
    def checkpoint(sim):
        yield sim.wait(0.25)
        yield sim.submit(chain(0.5)).done  # takes the GPU after the first step
        yield sim.wait(1.25)
        yield sim.submit(chain(1.0)).done  # when all steps are over

    build = Builder("two steps")
    first = build.op(Kind.COMPUTE, duration=0.5)
    build.op(Kind.COMPUTE, duration=0.5, after=[first], period=1)
    result = simulation.run(build.graph(), checkpoint, keep=keep)
    assert result.periods.tolist() == [0.5, 1.0]
    assert result.makespan == 3.25


def test_a_process_observes_queues_rates_and_flows(simulation):
    seen = []

    def look(sim):
        yield sim.wait(0.5)
        seen.append((sim.queue("node0.gpu0"), sim.utilisation("node0.gpu0"), sim.flows()))
        seen.append((sim.rate("wire"), sim.failed("wire"), sim.utilisation("wire")))

    simulation.run(side_by_side(1.0, 1.0, 1.0), look)
    assert seen == [([1, 2], 1.0, []), (1e9, False, 0.0)]


def test_a_rate_is_set_in_bytes_a_second(simulation):
    seen = []

    def slow(sim):
        yield sim.wait(0.5)
        seen.append((sim.flows(), sim.utilisation("wire")))
        sim.set_rate("wire", 0.25e9)
        yield sim.settled()
        seen.append((sim.rate("wire"), sim.utilisation("wire")))

    result = simulation.run(transfer(1e9), slow)
    assert result.makespan == 2.5
    assert seen == [([0], 1.0), (0.25e9, 1.0)]
    assert [(at, c) for at, c, _ in result.rate_log] == [(500_000_000_000, 2)]


def test_ops_stopped_by_a_failure_continue_on_another_gpu(simulation):
    told = []

    def rescue(sim):
        yield sim.wait(0.25)
        sim.fail("node0.gpu0")
        graph = sim.submit(chain(name="nothing"))
        yield graph.done

    def watch(sim):
        first = sim.submit(chain(1.0))
        told.extend((yield sim.lost(first)))
        for loss in told:
            sim.resume(loss.op, slots=["node0.gpu1"])

    result = simulation.run(None, watch, rescue)
    assert [tuple(loss) for loss in told] == [(0, 0.75, 0.0, "node0.gpu0")]
    assert result.makespan == 1.0


def test_lost_work_is_reported_in_bytes(simulation):
    told = []

    def fault(sim):
        yield sim.wait(0.25)
        sim.fail("wire")
        yield sim.wait(0.25)
        sim.restore("wire")

    def watch(graph, again):
        def process(sim):
            losses = yield sim.lost(graph[0])
            told.extend(losses)
            if again:
                yield sim.wait(0.5)
                sim.resume(losses[0].op, keep=True, usage={"wire": 0.5})

        return process

    def start(sim):
        graph = sim.submit(transfer(1e9))
        yield from ()
        sim.env.process(watch([graph], True)(sim))
        sim.env.process(watch([graph], False)(sim))

    result = simulation.run(None, start, fault)
    assert [(loss.op, loss.work, loss.component) for loss in told] == [(0, 0.75e9, "wire")] * 2
    assert result.makespan == 0.75 + 0.375


def test_thresholds_by_name(simulation):
    seen = []

    def watch(sim):
        yield sim.reaches("queue", "node0.gpu0", at_most=0)
        seen.append(sim.now)
        yield sim.reaches("held", "node0.gpu0", at_most=0)
        seen.append(sim.now)

    simulation.run(side_by_side(1.0, 1.0, 1.0), watch)
    assert seen == [2.0, 3.0]


def test_stop_and_cancel(simulation):
    def policy(sim):
        yield sim.wait(0.5)
        sim.stop(0)
        sim.cancel(2)
        yield sim.wait(0.25)
        sim.resume(0)

    result = simulation.run(side_by_side(1.0, 1.0, 1.0), policy)
    assert result.columns.end.tolist() == [2 * 10**12, 15 * 10**11, -1]


def test_a_whole_graph_is_cancelled(simulation):
    def policy(sim):
        graph = sim.submit(chain(1.0, 1.0))
        yield sim.wait(0.5)
        sim.cancel(graph)

    result = simulation.run(None, policy)
    assert result.columns.state.tolist() == [State.CANCELLED] * 2


def test_a_monitor_watches_and_keeps_nothing_alive(simulation):
    seen = []

    class Monitor:
        touches = ()

        def __call__(self, sim):
            while True:
                yield sim.wait(0.4)
                seen.append(sim.now)

    assert simulation.run(chain(1.0), Monitor()).makespan == 1.0
    assert seen == [0.4, 0.8]


@pytest.mark.parametrize(
    "verb",
    [("stop", 0), ("cancel", 0), ("resume", 0), ("fail", "wire"), ("set_rate", "wire", 1.0)],
)
def test_a_monitor_may_not_act(simulation, verb):
    class Monitor:
        touches = ()

        def __call__(self, sim):
            yield sim.wait(0.1)
            name, *arguments = verb
            getattr(sim, name)(*arguments)

    with pytest.raises(SimulationError, match=r"Monitor.*touches"):
        simulation.run(chain(1.0), Monitor())


def test_a_process_alters_only_what_it_declares(simulation):
    class Fault:
        touches = ("node0.gpu*",)

        def __call__(self, sim):
            yield sim.wait(0.1)
            sim.fail("node0.gpu1")
            sim.set_rate("wire", 1.0)

    with pytest.raises(SimulationError, match="Fault: alters wire"):
        simulation.run(chain(1.0), Fault())


@pytest.mark.parametrize(
    ("rate", "what"),
    [(-1.0, "between 0"), (17e9, "max_rate 1.6e"), (float("nan"), "finite number")],
)
def test_an_invalid_rate_is_refused(simulation, rate, what):
    def wrong(sim):
        yield sim.wait(0.1)
        sim.set_rate("wire", rate)

    with pytest.raises(SimulationError, match=what):
        simulation.run(chain(1.0), wrong)


def test_slots_have_no_rate(simulation):
    def wrong(sim):
        yield sim.wait(0.1)
        sim.set_rate("node0.gpu0", 1.0)

    with pytest.raises(SimulationError, match=r"node0.gpu0: has no rate to set; fail\(\) it"):
        simulation.run(chain(1.0), wrong)


def test_an_unknown_component_names_the_nearest(simulation):
    def wrong(sim):
        yield sim.wait(0.1)
        sim.queue("node0.gpo0")

    with pytest.raises(GraphError, match=r"did you mean .node0\.gpu0."):
        simulation.run(chain(1.0), wrong)
