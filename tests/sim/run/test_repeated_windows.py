"""A steered run whose rows were not kept is repeated for them: in full, or for a window."""

import random
from dataclasses import replace

import pytest
from foretrace.sim.errors import NotKeptError
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run import held_graphs, session
from foretrace.sim.run.row_window import RowWindow
from foretrace.sim.run.simulation import Simulation

MS = 1e-3
GPUS = ("node0.gpu0", "node0.gpu1")
ENGINES = ("core", "reference")


class Works(Backend):
    """Each op takes 1 ms on its slot, then moves its bytes over the link."""

    def timing(self, ops, now=0.0):
        link = ops.at.system.number("link")
        return Timing.of([MS] * len(ops), ops.bytes, Usage.of([{link: 1.0}] * len(ops)))


class Asked(Works):
    online = True


SYSTEM = System(
    (
        *(Component(name, "gpu", slots=1) for name in GPUS),
        Component("link", "link", rate=1e9),
    ),
    GPUS,
)


def simulation(engine="core", backend=Works, memory=None):
    return Simulation(SYSTEM, {"*": backend()}, engine=engine, memory=memory)


def requests(count, seed=0):
    """Requests at random times, each two ops on one of two GPUs; their latency is emitted."""

    def serve(sim):
        draw = random.Random(seed)
        build = Builder("request")
        first = build.op(Kind.COMPUTE, bytes=0.0)
        build.op(Kind.COMPUTE, bytes=1e6, after=[first])
        made = [sim.prepare(build.graph(), gpus=[gpu]) for gpu in GPUS]
        for _ in range(count):
            yield sim.wait(draw.expovariate(1 / (2.2 * MS)))
            sim.start([lambda sim, k=draw.randrange(2): one(sim, made[k])])

    def one(sim, prepared):
        began = sim.now
        yield sim.submit(prepared).done
        sim.emit("latency", sim.now - began, "s")

    return serve


def ops_between(result, first, last):
    """(start, end, component) of the ops that ran between two times, in order."""
    names, where = result.parts.names, result.component.tolist()
    times = zip(result.start.tolist(), result.end.tolist(), where, strict=True)
    return sorted((a, b, names[c]) for a, b, c in times if b > first and b <= last)


@pytest.fixture
def small_memory(monkeypatch):
    """Rows are freed early, and only of small runs all of them are kept again."""
    monkeypatch.setattr(held_graphs, "AT_ONCE", 400)
    monkeypatch.setattr(held_graphs, "MOST_OPS", 3_000)
    monkeypatch.setattr(session, "MOST_OPS", 3_000)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_window_has_the_rows_that_the_run_had(engine, small_memory):
    whole = simulation(engine).run(None, requests(300), keep="ops")
    freed = simulation(engine).run(None, requests(300))
    assert freed.keep == "ranks"
    found = freed.window(0.2, 0.3)
    assert found.span == (round(0.2 / whole.tick), round(0.3 / whole.tick))
    assert found.count < whole.count / 2
    assert ops_between(found, 0.2, 0.3) == ops_between(whole, 0.2, 0.3)
    assert sum(found.blame().ticks.values()) == found.makespan_ticks
    assert set(found.blame().seconds) <= {"node0.gpu0", "node0.gpu1", "link", "process", "gap"}


def test_both_engines_explain_a_window_alike(small_memory):
    core, reference = (
        simulation(engine).run(None, requests(300)).window(0.1, 0.25) for engine in ENGINES
    )
    assert core.blame().path == reference.blame().path
    assert core.frame().equals(reference.frame())


def test_a_flow_in_flight_at_the_end_of_a_window_has_its_share(small_memory):
    """Two flows share the link; the one that ends first is charged to it all the same."""

    def both(sim):
        for size, gpu in ((4e6, 0), (40e6, 1)):
            build = Builder(f"{size:g} B")
            build.op(Kind.COMPUTE, bytes=size)
            sim.submit(sim.prepare(build.graph(), gpus=[f"node0.gpu{gpu}"]))
        yield sim.wait(1.0)

    whole = simulation().run(None, both, keep="ops")
    found = simulation().run(None, both, keep="none").window(0.0, 9 * MS)
    assert found.blame().seconds == pytest.approx({"link": 8 * MS, "node0.gpu0": MS})
    first = whole.runs[0].first
    assert found.end[0] == whole.end[first] == pytest.approx(9 * MS)


def test_a_window_that_ends_after_the_run_is_the_run_although_it_counts(small_memory):
    """Totals of counters come at the end of the run, which a repeated window does not reach."""

    def counting(sim):
        yield from requests(300)(sim)
        sim.count("served", 300)

    freed = simulation().run(None, counting, keep="none")
    assert freed.metrics[-1][::2] == ("served", 300.0)
    end = freed.metrics[-1][1]
    found = [freed.window(0.9 * end, last) for last in (end, end + 1.0)]
    assert found[0].frame().equals(found[1].frame())
    assert found[0].count


def test_a_small_steered_run_is_repeated_in_full():
    whole = simulation().run(None, requests(40), keep="ops")
    for keep in ("ranks", "none"):
        freed = simulation().run(None, requests(40), keep=keep)
        assert freed.blame() == whole.blame()
        assert freed.frame().equals(whole.frame())


def test_of_a_large_steered_run_rows_of_a_window_only_are_kept(small_memory):
    freed = simulation().run(None, requests(300))
    with pytest.raises(NotKeptError, match="rows of all its 300 submitted graphs are too many"):
        freed.blame()
    assert freed.window(0.0, 0.05).blame().seconds


def test_of_a_window_with_too_many_ops_the_end_is_kept(small_memory):
    run = simulation()
    found = run._run_window(None, [requests(300)], None, RowWindow(0, 10**12 // 2, most=1_000))
    first, last = found.span
    assert 0 < first < last == 10**12 // 2
    assert found.count < 200
    assert sum(found.blame().ticks.values()) == found.makespan_ticks


def test_jobs_of_a_window_are_those_of_the_run(small_memory):
    from foretrace.sim.run.job import Job
    from foretrace.sim.run.workload import Workload

    class Server(Workload):
        def __init__(self, seed):
            self.seed = seed

        def start(self, job):
            return requests(120, self.seed)

    jobs = [Job("a", Server(1)), Job("b", Server(2), arrives=0.1)]
    whole = simulation().run(jobs, keep="ops")
    freed = simulation().run(jobs)
    found = freed.window(0.15, 0.2)
    for name in ("a", "b"):
        assert ops_between(found.of(name), 0.15, 0.2) == ops_between(whole.of(name), 0.15, 0.2)
        assert freed.of(name).window(0.15, 0.2).count == found.of(name).count
        blame = found.of(name).blame()
        assert sum(blame.ticks.values()) == found.of(name).makespan_ticks


def test_a_run_that_an_online_backend_answered_is_not_repeated():
    freed = simulation(backend=Asked).run(None, requests(5), keep="ranks")
    for explain in (freed.blame, lambda: freed.window(0.0, 1.0)):
        with pytest.raises(NotKeptError, match="another online backend answered during it"):
            explain()


def test_a_run_that_does_not_repeat_is_refused():
    """A process that keeps state between runs gives another run, whose rows would mislead."""
    left = iter(range(50, 0, -1))

    def fewer(sim):
        yield from requests(next(left))(sim)

    with pytest.raises(NotKeptError, match="its number of ops or makespan differ; let its proc"):
        simulation().run(None, fewer, keep="none").blame()
    draw = random.Random(1)

    def other(sim):
        for _ in range(50):
            yield sim.wait(1e-3)
            sim.emit("value", draw.random())

    with pytest.raises(NotKeptError, match="its emitted values differ"):
        simulation().run(None, other, keep="none").window(0.0, 0.01)


def test_a_replica_is_repeated_as_itself():
    run = replace(simulation(), seed=3)
    whole = run.run(None, requests(20), replica=4, keep="ops")
    assert run.run(None, requests(20), replica=4, keep="ranks").blame() == whole.blame()
