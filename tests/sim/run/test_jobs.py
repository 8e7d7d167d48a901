"""Jobs: workloads that run alone or next to others."""

import numpy as np
import pytest
from foretrace.sim.analysis.activity import activity
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.metric import Metric
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import Component, Location, System
from foretrace.sim.run.allocator import Allocator
from foretrace.sim.run.job import Job
from foretrace.sim.run.periodic import Periodic
from foretrace.sim.run.session import Session
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import WORKLOADS, Need, Needs, Workload, workload

ENGINES = ("reference", "core")
GPUS = tuple(f"node{i}.gpu{k}" for i in range(2) for k in range(2))
SYSTEM = System(
    (
        *(Component(name, "gpu", slots=1, location=Location(name[:5])) for name in GPUS),
        Component("uplink", "link", rate=1e9),
        Component("fabric", "fabric"),
    ),
    GPUS,
    fabric="fabric",
)


class Recorded(Backend):
    source, uniform = "the test", True

    def __init__(self, op=()):
        self.spread = Spread(np.empty(0), np.array(op, float))

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration, spread=self.spread)


class Uplink(Backend):
    """Backend whose transfers use one common uplink."""

    source, uniform = "the test", True

    def timing(self, ops, now=0.0):
        n = len(ops)
        return Timing.of(np.zeros(n), work=ops.bytes, usage=Usage.repeated([4], n))


@pytest.fixture(params=ENGINES)
def simulation(request):
    return machine(request.param)


def machine(engine="core", **gpu):
    return Simulation(SYSTEM, {"node*": Recorded(**gpu), "fabric": Uplink()}, engine=engine)


def step(ranks=1, duration=1.0, period=0, name="step"):
    build = Builder(name)
    for rank in range(ranks):
        build.op(Kind.COMPUTE, rank=rank, duration=duration, period=period)
    return build.graph()


def transfer(size=1e9):
    build = Builder("transfer")
    build.op(Kind.COLLECTIVE, rank=0, bytes=size)
    return build.graph()


class Once(Workload):
    """Workload of a single graph."""

    def __init__(self, graph):
        self.graph = graph

    def start(self, job):
        return self.graph


class Steps(Workload):
    """Workload of steps of two ranks in sequence, submitted by a process."""

    metrics = (Metric("step_time", "s", "From one step to the next.", better="lower"),)
    headline = "step_time.p50"

    def __init__(self, count=3, duration=1.0, gpus=2, until=None):
        self.count, self.duration, self.gpus, self.until = count, duration, gpus, until

    @property
    def needs(self):
        return Needs({"gpu": Need("gpu", self.gpus)})

    def start(self, job):
        def steps(sim):
            for _ in range(self.count):
                began = sim.now
                yield sim.submit(step(self.gpus, self.duration)).done
                sim.emit("step_time", sim.now - began)

        return steps


class Training(Periodic):
    """Workload of three iterations in one graph."""

    def start(self, job):
        build, after = Builder("training"), []
        for k in range(3):
            after = [build.op(Kind.COMPUTE, duration=1.0 + k, period=k, after=after)]
        return build.graph()


class Two(Workload):
    """Workload with one graph on each of its GPUs, at once."""

    def start(self, job):
        def two(sim):
            for gpu in job.on["gpu"]:
                sim.submit(place(step(duration=9.0), SYSTEM, [gpu]))
            yield sim.settled()

        return two


LEFT, RIGHT = {"gpu": GPUS[:2]}, {"gpu": GPUS[2:]}


def test_a_workload_that_is_a_process_is_run(simulation):
    result = simulation.run(Steps(3, 0.5))
    assert result.jobs == ("main",)
    assert result.makespan == 1.5
    assert result.emitted.samples["step_time"].tolist() == [0.5, 0.5, 0.5]
    assert Steps().measure(result)["step_time"].tolist() == [0.5, 0.5, 0.5]


def test_a_job_of_a_workload_without_periods_has_none(simulation):
    result = simulation.run(Steps())
    assert len(result.periods) == 0
    assert np.isnan(result.period_time)
    assert "period" not in result.frame()
    assert "period" not in result.rank_frame()
    assert result.compare(result) == {}
    assert "period" not in result._repr_html_()


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_a_job_without_periods_has_one_window(simulation, keep):
    """The window lasts from arrival to last end, with the time breakdown of each rank."""
    result = simulation.run([Job("a", Steps(), LEFT, arrives=2.0)], keep=keep)
    frame = result.rank_frame()
    assert frame["rank"].tolist() == [0, 1]
    assert (frame["start_us"] / 1e6).tolist() == [2.0, 2.0]
    assert (frame["end_us"] / 1e6).tolist() == [5.0, 5.0]
    assert result.makespan == 3.0
    assert result.utilization() == {GPUS[0]: 1.0, GPUS[1]: 1.0}


def test_a_periodic_workload_measures_each_iteration(simulation):
    workload = Training()
    result = simulation.run(workload)
    assert workload.measure(result)["iteration_time"].tolist() == [1.0, 2.0, 3.0]
    workload.warm_up, workload.counted = 1, 1
    assert workload.measure(result)["iteration_time"].tolist() == [2.0]


def test_a_workload_is_started_anew_for_each_run(simulation):
    started = []

    class Counting(Steps):
        def start(self, job):
            started.append(job.name)
            return super().start(job)

    work = Counting()
    simulation.replicas(work, count=2)
    assert started == ["main", "main"]


def test_a_graph_of_a_workload_runs_as_the_graph_does(simulation):
    graph = Training().start(None)
    a, b = simulation.run(Training()), simulation.run(graph)
    assert a.frame().equals(b.frame())
    assert a.periods.tolist() == b.periods.tolist() == [1.0, 2.0, 3.0]
    assert a.detail is a


def test_jobs_are_placed_on_their_own_components(simulation):
    result = simulation.run([Job("a", Steps(), LEFT), Job("b", Steps(2), RIGHT)])
    assert result.jobs == ("a", "b")
    assert result.of("a").makespan == 3.0
    assert result.of("b").makespan == 2.0
    assert result.of("b").busy == {GPUS[2]: 2.0, GPUS[3]: 2.0}
    assert result.of("b").whole is result


def test_frames_of_several_jobs_have_a_job_column(simulation):
    result = simulation.run([Job("a", Steps(1), LEFT), Job("b", Steps(1), RIGHT)])
    assert result.frame()["job"].tolist() == ["a", "a", "b", "b"]
    ranks = result.rank_frame()
    assert ranks[["job", "rank"]].to_numpy().tolist() == [["a", 0], ["a", 1], ["b", 0], ["b", 1]]
    assert "job" not in result.of("a").frame()
    assert activity(result)["compute"].tolist() == [1.0] * 4


@pytest.mark.parametrize("keep", ["ranks", "none"])
def test_aggregates_without_rows_are_kept_for_each_job(simulation, keep):
    jobs = [Job("a", Steps(3), LEFT), Job("b", Training(), {"gpu": GPUS[3:]}, arrives=0.5)]
    rows, kept = simulation.run(jobs, keep="ops"), simulation.run(jobs, keep=keep)
    for name in ("a", "b"):
        a, b = rows.of(name), kept.of(name)
        assert b.whole is kept
        assert a.busy == b.busy
        assert a.makespan == b.makespan
        assert a.periods.tolist() == b.periods.tolist()
        assert a.rank_frame().equals(b.rank_frame())
    assert rows.rank_frame().equals(kept.rank_frame())
    assert rows.busy == kept.busy


def test_a_job_arrives_when_it_says(simulation):
    result = simulation.run([Job("a", Once(step()), arrives=5.0), Job("b", Steps(), RIGHT)])
    a = result.of("a")
    assert a.start.tolist() == [5.0]
    assert (a.first_release, a.makespan) == (5 * 10**12, 1.0)
    assert result.makespan == 6.0


def test_a_job_that_arrives_after_the_run_stops_has_no_ops(simulation):
    jobs = [Job("a", Steps(), LEFT, arrives=2.0), Job("b", Steps(), RIGHT, arrives=10.0)]
    result = simulation.run(jobs, until=6.0)
    assert (result.makespan, result.of("a").makespan, result.of("b").makespan) == (3.0, 3.0, 0.0)
    assert result.of("b").count == 0


def test_jobs_of_one_component_queue_for_it(simulation):
    """The wait of the second job is charged to the GPU, and the other job is named."""
    both = {"gpu": GPUS[:1]}
    result = simulation.run(
        [Job("a", Once(step(duration=2.0)), both), Job("b", Once(step(duration=1.0)), both)]
    )
    a, b = result.of("a").blame(), result.of("b").blame()
    assert (a.seconds, a.slowed_by) == ({GPUS[0]: 2.0}, {})
    assert (b.seconds, b.slowed_by) == ({GPUS[0]: 3.0}, {"a": 2 * 10**12})
    assert result.blame().seconds == {GPUS[0]: 3.0}


def test_waiting_for_another_job_is_charged_apart_from_own_ops(simulation):
    only = {"gpu": GPUS[:1]}

    def later(sim):
        yield sim.wait(0.5)
        yield sim.submit(place(step(duration=1.0), SYSTEM, GPUS[:1])).done

    class Late(Workload):
        def start(self, job):
            return later

    result = simulation.run(
        [Job("a", Once(step(2, 1.0)), {"gpu": [GPUS[0]] * 2}), Job("b", Late(), only)]
    )
    b = result.of("b").blame()
    assert b.ticks == {GPUS[0]: 25 * 10**11, "process": 5 * 10**11}
    assert b.slowed_by == {"a": 15 * 10**11}


def test_two_equal_all_reduces_on_one_uplink_take_twice_as_long(simulation):
    alone = simulation.run([Job("a", Once(transfer()))])
    both = simulation.run([Job("a", Once(transfer())), Job("b", Once(transfer()), RIGHT)])
    for name, other in (("a", "b"), ("b", "a")):
        job = both.of(name)
        assert job.makespan_ticks == 2 * alone.makespan_ticks
        assert job.blame().ticks == {"uplink": job.makespan_ticks}
        assert job.blame().slowed_by == {other: alone.makespan_ticks}
    assert alone.blame().slowed_by == {}


def test_slowdown_on_a_shared_link_is_charged_to_the_other_job(simulation):
    """Three quarters of the time of `a` overlap with `b`; half of the link is `b`'s then."""
    result = simulation.run([Job("a", Once(transfer(2e9))), Job("b", Once(transfer(1e9)), RIGHT)])
    assert result.of("a").blame().slowed_by == {"b": 10**12}
    assert result.of("b").blame().slowed_by == {"a": 10**12}


def test_a_process_launches_jobs_and_waits_for_them(simulation):
    seen = []

    class Scheduler(Workload):
        def start(self, job):
            def schedule(sim):
                a = sim.launch(Steps(2), "a", LEFT)
                assert a.parent is sim.job
                yield a.done
                seen.append(sim.now)
                b = sim.launch(Steps(1), "b", RIGHT)
                yield b.done | sim.wait(10.0)
                seen.append(sim.now)
                yield a.done  # who asks again goes on at once
                seen.append(sim.now)

            return schedule

    result = simulation.run(Scheduler())
    assert seen == [2.0, 3.0, 3.0]
    assert result.jobs == ("main", "a", "b")
    assert result.of("b").makespan == 1.0
    assert result.of("main").count == 0


def test_a_job_reports_its_ops_lost_in_a_failure(simulation):
    seen = []

    def crash(sim):
        yield sim.wait(0.5)
        sim.fail("node0")
        yield sim.wait(1.0)
        sim.restore("node0")

    def watch(sim):
        job = sim.launch(Steps(2), "a", LEFT)
        while True:
            what = yield job.done | job.lost
            if job.done in what:
                break
            lost = next(iter(what.values()))
            seen.append((sim.now, [x.component for x in lost]))
            yield sim.wait(1.5)
            for x in lost:
                sim.resume(x.op)
        seen.append(sim.now)

    result = simulation.run(None, watch, crash)
    assert seen == [(0.5, [GPUS[0], GPUS[1]]), 3.5]
    assert result.of("a").makespan == 3.5


def test_each_loss_of_a_job_is_reported_once(simulation):
    """Two graphs: the failure of the first is reported once, then that of the second once."""
    told = []

    def watch(sim):
        job = sim.launch(Two(), "a", LEFT)
        for name in LEFT["gpu"]:
            yield sim.wait(1.0)
            sim.fail(name)
            for one in (yield job.lost):
                told.append((sim.now, one.component))
                sim.cancel(one.op)

    simulation.run(None, watch)
    assert told == [(1.0, GPUS[0]), (2.0, GPUS[1])]


def test_losses_of_several_graphs_at_one_tick_are_reported_together(simulation):
    told = []

    def watch(sim):
        job = sim.launch(Two(), "a", LEFT)
        yield sim.wait(1.0)
        lost = job.lost
        sim.fail("node0")
        told.extend(one.component for one in (yield lost))
        job.stop()

    simulation.run(None, watch)
    assert told == [GPUS[0], GPUS[1]]


def test_a_node_fails_and_comes_back_as_a_whole(simulation):
    seen = []

    def look(sim):
        sim.fail("node1")
        yield sim.settled()
        seen.append([sim.failed(name) for name in GPUS])
        sim.restore("node1")
        yield sim.settled()
        seen.append([sim.failed(name) for name in GPUS])

    simulation.run(None, look)
    assert seen == [[False, False, True, True], [False] * 4]


def test_an_unknown_node_is_refused(simulation):
    def typo(sim):
        yield sim.wait(1.0)
        sim.fail("nod1")

    with pytest.raises(GraphError, match="no component is named 'nod1'"):
        simulation.run(None, typo)


def test_a_stopped_job_ends_at_once(simulation):
    """Its processes end and its graphs are cancelled; other jobs continue."""

    def stops(sim):
        a, b = sim.launch(Steps(5), "a", LEFT), sim.launch(Steps(2), "b", RIGHT)
        yield sim.wait(1.5)
        a.stop()
        yield a.done
        assert sim.now == 1.5
        yield b.done
        assert sim.now == 2.0

    result = simulation.run(None, stops)
    assert result.of("a").columns.state.tolist() == [2, 2, 4, 4]
    assert result.of("a").makespan == 1.0
    assert result.of("b").makespan == 2.0


def test_a_process_started_outside_the_job_may_not_submit_for_a_stopped_job(simulation):
    class Child(Workload):
        def start(self, job):
            def child(sim):
                yield sim.wait(2.0)
                sim.submit(step())

            def parent(sim):
                sim.env.process(child(sim))
                yield sim.wait(5.0)

            return parent

    def stops(sim):
        a = sim.launch(Child(), "a", LEFT)
        yield sim.wait(1.0)
        a.stop()

    with pytest.raises(SimulationError, match="which was stopped; start its processes with"):
        simulation.run(None, stops)


def test_children_that_a_process_starts_end_with_their_job(simulation):
    class Parent(Workload):
        def start(self, job):
            def child(sim):
                yield sim.wait(2.0)
                sim.submit(step())

            def parent(sim):
                sim.start([child])
                yield sim.wait(5.0)

            return parent

    def stops(sim):
        a = sim.launch(Parent(), "a", LEFT)
        yield sim.wait(1.0)
        a.stop()

    assert simulation.run(None, stops).count == 0


def test_a_job_does_not_stop_itself(simulation):
    def stops(sim):
        yield sim.wait(1.0)
        sim.job.stop()

    with pytest.raises(
        SimulationError, match="job main: its own process tries to stop it; let that"
    ):
        simulation.run(None, stops)


def test_a_workload_can_set_its_end(simulation):
    endless = Steps(10**9, until=3.5)
    result = simulation.run([Job("a", endless, LEFT), Job("b", Steps(5), RIGHT)])
    assert result.of("a").makespan == 3.0
    assert result.of("b").makespan == 5.0
    assert simulation.run(endless).makespan == 3.0


def test_processes_that_returned_are_freed(simulation):
    """One for each request, say."""

    def request(sim):
        yield sim.submit(step(duration=0.5)).done

    def arrivals(sim):
        for _ in range(50):
            sim.start([request])
            yield sim.wait(0.25)

    session = Session(simulation, None)
    session.main.start([arrivals])
    session.machine.run()
    assert session.machine.env.now == 25 * 10**12
    assert not session.main.processes


def test_open_is_true_while_the_job_has_open_ops(simulation):
    """A loop that watches a job ends with it, whatever goes on beside it."""

    def watch(sim):
        yield sim.wait(0.75)
        while sim.open():
            yield sim.wait(0.5)
        sim.emit("over", sim.now)

    class Watched(Steps):
        def start(self, job):
            steps = super().start(job)

            def both(sim):
                sim.start([steps, watch])
                yield sim.settled()

            return both

    result = simulation.run([Job("a", Watched(1), LEFT), Job("b", Steps(5), RIGHT)])
    assert result.of("a").emitted.samples["over"].tolist() == [1.25]


def test_an_allocator_hands_out_in_the_order_of_requests(simulation):
    got = []

    def users(sim):
        gpus = Allocator(sim, GPUS)

        def user(count, time):
            def use(sim):
                mine = yield gpus.request(count)
                got.append((sim.now, mine))
                yield sim.wait(time)
                gpus.put(mine)

            return use

        sim.start([user(3, 1.0), user(2, 1.0), user(1, 1.0)])
        yield sim.wait(0.0)

    simulation.run(None, users)
    assert got == [(0.0, GPUS[:3]), (1.0, GPUS[:2]), (1.0, GPUS[2:3])]


def test_an_allocator_hands_out_nothing_that_has_failed_until_it_is_restored(simulation):
    got = []

    def use(sim):
        gpus = Allocator(sim, sim.system.select(kind="gpu"))
        sim.fail("node0")
        yield sim.settled()
        mine = yield gpus.request(1)
        got.append((sim.now, mine))
        gpus.put(mine)
        everything = gpus.request(4)
        yield sim.wait(2.0)
        sim.restore("node0")
        got.append((sim.now, (yield everything)))

    simulation.run(None, use)
    assert got == [(0.0, GPUS[2:3]), (2.0, GPUS)]


def test_a_request_that_is_dropped_lets_the_next_one_through(simulation):
    got = []

    def use(sim):
        gpus = Allocator(sim, GPUS)
        first = yield gpus.request(3)
        second, third = gpus.request(2), gpus.request(1)
        gpus.drop(second)
        got.append((yield third))
        gpus.put(first)
        with pytest.raises(SimulationError, match="is returned, but was not handed out"):
            gpus.put(first)
        with pytest.raises(SimulationError, match="5 components requested, but the pool has 4"):
            gpus.request(5)

    simulation.run(None, use)
    assert got == [GPUS[3:]]


def test_a_run_that_ends_with_waiting_requests_names_the_holders(simulation):
    def use(sim):
        gpus = Allocator(sim, GPUS[:2])
        yield gpus.request(1)
        yield gpus.request(2)

    with pytest.raises(
        SimulationError, match=r"while a process waited for 2 components; .*: node0.gpu0;"
    ):
        simulation.run(None, use)


def test_equal_jobs_draw_differently_and_main_draws_as_a_graph_alone():
    varying = machine(op=np.linspace(0.5, 1.5, 64))
    jobs = [Job("a", Once(step()), LEFT), Job("b", Once(step()), RIGHT)]
    result = varying.run(jobs, replica=0)
    a, b = result.of("a").makespan, result.of("b").makespan
    assert a != b
    assert varying.run(jobs[:1], replica=0).makespan == a
    assert varying.run(Once(step()), replica=0).makespan == varying.run(step(), replica=0).makespan


def test_random_numbers_of_a_job_depend_on_seed_replica_job_and_purpose():
    drawn = {}

    class Random(Workload):
        def start(self, job):
            def process(sim):
                yield sim.wait(0.0)
                for name in ("arrivals", "lengths"):
                    sim.emit(name, sim.job.random(name).random())

            return process

    for seed in (0, 1):
        for replica in (None, 0, 1):
            simulation = Simulation(SYSTEM, {}, seed=seed)
            result = simulation.run([Job("a", Random()), Job("b", Random())], replica=replica)
            for job in ("a", "b"):
                for name, values in result.of(job).emitted.samples.items():
                    drawn[seed, replica, job, name] = values.item()
    assert len(set(drawn.values())) == len(drawn) == 24
    again = Simulation(SYSTEM, {}).run([Job("b", Random())])
    assert again.emitted.samples["arrivals"].item() == drawn[0, None, "b", "arrivals"]


def test_processes_outside_jobs_belong_to_main(simulation):
    seen = []

    def beside(sim):
        yield sim.wait(0.5)
        seen.append(sim.job.name)
        sim.emit("seen", 1.0)

    result = simulation.run([Job("a", Steps(1), LEFT)], beside)
    assert seen == ["main"]
    assert result.jobs == ("a", "main")
    assert result.of("main").emitted.samples.keys() == {"seen"}
    assert result.of("a").emitted.samples.keys() == {"step_time"}


def test_a_unit_that_is_not_the_metric_s_is_refused(simulation):
    class Wrong(Steps):
        def start(self, job):
            def process(sim):
                yield sim.wait(1.0)
                sim.emit("step_time", 1.0, "ms")

            return process

    with pytest.raises(
        SimulationError, match="step_time: a value has the unit 'ms', earlier ones 's'"
    ):
        simulation.run(Wrong())


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([Job("a", Steps()), Job("a", Steps())], "job a: another job has this name"),
        (
            [Job("a", Steps(), {"gpus": GPUS})],
            "job a: pool 'gpus' is unknown; its workload needs gpu",
        ),
        ([Job("a", Steps(), {"gpu": GPUS[:1]})], "pool 'gpu' has 1 gpu, but its workload needs 2"),
    ],
)
def test_an_invalid_job_is_refused(jobs, said):
    with pytest.raises(SimulationError, match=said):
        machine().run(jobs)


def test_a_component_of_a_pool_that_does_not_exist_is_refused():
    with pytest.raises(GraphError, match=r"no component is named 'node0\.gpu7'; did you mean"):
        machine().run([Job("a", Steps(), {"gpu": ["node0.gpu0", "node0.gpu7"]})])


def test_a_job_that_does_not_exist_is_named_with_the_nearest():
    result = machine().run([Job("train", Steps(), LEFT), Job("serve", Steps(), RIGHT)])
    with pytest.raises(KeyError, match="no job is named 'trian'; did you mean 'train'"):
        result.of("trian")


def test_a_job_is_not_under_way_before_its_run():
    with pytest.raises(SimulationError, match="job a: it is not running"):
        Job("a", Steps()).random("x")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (3, "job main: start returned a int; return a Graph, or a process"),
        (None, "job main: start returned a NoneType; return a Graph, or a process"),
    ],
)
def test_a_start_result_must_be_a_graph_or_a_process(what, said):
    with pytest.raises(TypeError, match=said):
        machine().run(Once(what))


def test_a_workload_is_registered_by_its_name():
    @workload("a test's steps")
    class Registered(Steps):
        pass

    assert WORKLOADS.pop("a test's steps") is Registered
    assert Registered.registered_name == "a test's steps"


def test_a_period_number_may_exceed_16_bits(simulation):
    build = Builder("long")
    first = build.op(Kind.COMPUTE, duration=1.0, period=65_535)
    build.op(Kind.COMPUTE, duration=2.0, period=65_536, after=[first])
    assert simulation.run(build.graph()).periods.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("engine", ["core", "reference"])
@pytest.mark.parametrize("ends", ["returns", "is stopped"])
def test_a_job_releases_its_amounts_at_its_end(engine, ends):
    kv = Component("node0.kv", "memory", capacity=8, unit="block")
    system = System((Component("node0.gpu0", "gpu", slots=1), kv), ("node0.gpu0",))
    granted = []

    class Hoards(Workload):
        def start(self, job):
            def hoard(sim):
                assert sim.take("node0.kv", 6)
                yield sim.wait(2.0 if ends == "returns" else 1e6)

            return hoard

    def boss(sim):
        other = sim.launch(Hoards(), "other", on={"gpu": ("node0.gpu0",)})
        yield sim.wait(1.0)
        if ends == "is stopped":
            other.stop()
        with sim.acquire("node0.kv", 8) as grant:
            yield grant
            granted.append(sim.now)

    Simulation(system, {}, engine=engine).run(None, boss)
    assert granted == [2.0 if ends == "returns" else 1.0]


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_an_op_in_no_iteration_is_part_of_the_run_and_of_no_iteration(simulation, keep):
    build = Builder("and a delay")
    first = build.op(Kind.COMPUTE, duration=1.0)
    build.op(Kind.DELAY, duration=2.0, period=-1, after=[first])
    result = simulation.run(build.graph(), keep=keep)
    assert result.periods.tolist() == [1.0]
    assert result.makespan == 3.0


def test_a_prepared_graph_is_of_the_job_that_prepared_it(simulation):
    """It is placed on the components of that job, and no other job may submit it."""
    made = []

    class Prepares(Workload):
        def start(self, job):
            def repeat(sim):
                made.append(sim.prepare(step()))
                for _ in range(2):
                    yield sim.submit(made[0]).done

            return repeat

    def takes(sim):
        yield sim.launch(Prepares(), "b", RIGHT).done
        with pytest.raises(SimulationError, match="prepared in another run or job"):
            sim.submit(made[0])

    result = simulation.run(None, takes)
    assert result.of("b").busy == {GPUS[2]: 2.0}
    assert result.of("b").makespan == 2.0


@pytest.mark.parametrize("keep", ["ops", "ranks", "none"])
def test_the_first_period_begins_after_the_initial_fill(simulation, keep):
    """Otherwise the first period would include the fill: 49 s, while each period takes 19 s."""
    build = Builder("behind")
    last = build.op(Kind.COMPUTE, duration=30.0, period=-1)
    for period in range(3):
        last = build.op(Kind.COMPUTE, duration=19.0, after=[last], period=period)
        build.op(Kind.DELAY, duration=1.0, period=period)
    assert simulation.run(build.graph(), keep=keep).periods.tolist() == [19.0] * 3
