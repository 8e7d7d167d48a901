"""Bounded queues in whole runs: what processes learn, jobs, prepared graphs, and what is kept."""

import pytest
from foretrace import (
    Backend,
    Builder,
    Component,
    Job,
    Kind,
    Location,
    Queue,
    Simulation,
    System,
    Timing,
    Workload,
)
from foretrace.sim.errors import GraphError
from foretrace.sim.facts.backend import Usage
from foretrace.sim.facts.kind import ROLES, Role
from foretrace.sim.facts.place import place

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
KEEPS = pytest.mark.parametrize("keep", ["ops", "ranks", "none"])


class Rate(Backend):
    """A constant time, and a second for each byte."""

    source = "test"

    def __init__(self, time=1.0):
        self.time = time

    def timing(self, ops, now=0.0):
        return Timing.of(self.time + ops.bytes)


def machine(engine, first, second=None, **backends):
    """Two components of one slot each, at 1 s and at 10 s an op."""
    at = Location("node0")
    parts = [
        Component(f"node0.nf{k}", "nf", slots=1, location=at, queue=queue)
        for k, queue in enumerate((first, second))
    ]
    bound = {"node0.nf0": Rate(), "node0.nf1": Rate(10.0)}
    return Simulation(System(parts, ("node0.nf0", "node0.nf1")), bound, engine=engine)


def graph(n=4, rank=0, bytes=0.0):
    build = Builder("g")
    for k in range(n):
        build.op(Kind.COMPUTE, rank=rank, stream=k, bytes=bytes)
    return build.graph()


@ENGINES
@KEEPS
def test_a_process_learns_that_its_op_was_dropped(engine, keep):
    def ask(sim):
        handle = sim.submit(graph(3))
        first = yield sim.ended(handle.first)
        told = [first, (yield sim.ended(handle.first + 1)), (yield sim.ended(handle.first + 2))]
        yield handle.done
        sim.emit("dropped ops", told.count("dropped"))
        again = sim.submit(graph(1))  # the queue takes ops again
        sim.emit("then", float((yield sim.ended(again.first)) == "ended"))

    found = machine(engine, Queue(0, "drop")).run(None, ask, keep=keep)
    assert [value for _, _, value in found.metrics] == [2.0, 1.0]
    assert found.queues() == {"node0.nf0": (2, 2)}
    assert found.makespan == 2.0


@ENGINES
def test_a_prepared_op_takes_its_own_bytes_where_it_is_sent(engine):
    def serve(sim):
        one = sim.prepare(graph(1, bytes=1.0), gpus=["node0.nf0"])
        first = sim.submit(one)
        second = sim.submit(one, bytes={0: 5.0})
        yield first.done & second.done

    found = machine(engine, Queue(0, "elsewhere", ("nf1",))).run(None, serve)
    assert found.end.tolist() == [2.0, 15.0]
    assert found.busy == {"node0.nf0": 2.0, "node0.nf1": 15.0}
    assert found.queues() == {"node0.nf0": (1, 0)}


class Burst(Workload):
    def __init__(self, n):
        self.n = n

    def start(self, job):
        return graph(self.n)


@ENGINES
@KEEPS
def test_drops_are_counted_for_each_job(engine, keep):
    jobs = [Job(name, Burst(n), {"gpu": ["node0.nf0"]}) for name, n in (("a", 2), ("b", 3))]
    found = machine(engine, Queue(1, "drop")).run(jobs, keep=keep)
    assert found.queues() == {"node0.nf0": (3, 3)}
    assert found.of("a").queues() == {}
    assert found.of("b").queues() == {"node0.nf0": (None, 3)}


@ENGINES
@pytest.mark.parametrize("keep", ["ops", "none"])
def test_drops_are_counted_in_a_run_that_is_cut_short(engine, keep):
    def ask(sim):
        yield sim.submit(graph(3)).done

    found = machine(engine, Queue(0, "drop")).run(None, ask, until=0.5, keep=keep)
    assert found.queues() == {"node0.nf0": (2, 2)}


@ENGINES
def test_equal_components_with_bounded_queues_are_not_folded(engine):
    """Forty components with four ops each, of 1 to 4 s: one runs, one waits, two are dropped."""

    class Work(Backend):
        source = "test"

        def timing(self, ops, now=0.0):
            usage = Usage.of([{40 + k: 1.0} for k in ops.rank.tolist()])
            return Timing.of([0.0] * len(ops), ops.bytes, usage)

    parts = [Component(f"nf{k}", "nf", slots=1, queue=Queue(1, "drop")) for k in range(40)]
    wires = [Component(f"wire{k}", "link", rate=1.0) for k in range(40)]
    build = Builder("g")
    for k in range(160):
        build.op(Kind.COMPUTE, rank=k // 4, bytes=1.0 + k % 4)
    system = System((*parts, *wires), [part.name for part in parts])
    found = Simulation(system, {"nf*": Work()}, engine=engine).run(build.graph())
    assert found.queues() == {part.name: (2, 2) for part in parts}
    assert found.makespan == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"length": -1}, "length is -1; give the number of ops that may wait, 0 or more"),
        ({"length": 1.5}, "length is 1.5; give the number"),
        ({"length": 1, "full": "dorp"}, "full is 'dorp'; write one of wait, drop, elsewhere"),
        ({"length": 1, "elsewhere": ("b",)}, "full is 'wait' and elsewhere is \\['b'\\]; name"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(facts, message):
    with pytest.raises(ValueError, match=message):
        Queue(**facts)


def test_a_queue_without_slots_is_refused():
    with pytest.raises(ValueError, match="wire: has a queue, but no slots; give it slots, or"):
        Component("wire", "link", rate=1.0, queue=Queue(1))


def test_an_op_on_a_stream_of_a_role_needs_a_part_in_that_role():
    Role.register("test-role", layer="host")
    try:
        build = Builder("g")
        build.op(Kind.COMPUTE)
        build.set_stream_kind(0, 0, "test-role")
        system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
        with pytest.raises(GraphError, match="op 0: runs on the role 'test-role' of rank 0"):
            place(build.graph(), system)
    finally:
        del ROLES["test-role"]
