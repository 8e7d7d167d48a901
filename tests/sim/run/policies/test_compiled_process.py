"""Compiled processes: their events, their actions, and how wrong ones are refused."""

import os
from typing import NamedTuple

import numpy as np
import pytest
from foretrace.sim.engine_api import interface as engine_api
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.metric import Metric
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.waiting_room import Queue
from foretrace.sim.kernel import policy
from foretrace.sim.run.job import Job
from foretrace.sim.run.policies.compiled_process import CompiledProcess, Mail
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Needs, Workload

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
KV = "node0.kv"
SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=1),
        Component(KV, "memory", capacity=4, unit="block"),
        Component("wire", "link", rate=1e9),
    ),
    ("node0.gpu0",),
)


class PerFlop(Backend):
    """An op takes a second per flop."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.flop)


def one_op(flop=1.0, count=1):
    build = Builder("work")
    for _ in range(count):
        build.op(Kind.COMPUTE, flop=flop)
    return build.graph()


@pytest.fixture(params=["reference", "core"])
def run(request):
    def run(*processes, work=None, **settings):
        made = Simulation(SYSTEM, {"*": PerFlop()}, engine=request.param)
        return made.run(work, *processes, **settings)

    return run


class Log(NamedTuple):
    """State of kernels that count their calls."""

    calls: np.ndarray


def log(rows=1):
    return Log(np.zeros(rows, np.int64))


def says(*actions, then=policy.DONE):
    """An interpreted kernel that plays one function per event, and then returns a code."""

    def step(state, event, turn):
        k = state.calls[0]
        state.calls[0] += 1
        for column in range(policy.KIND, policy.C + 1):
            policy.emit(turn, 0, event[column])
        if k < len(actions):
            actions[k](turn)
            return policy.GO_ON if k < len(actions) - 1 else then
        return then

    return step


def process(*actions, then=policy.DONE, **settings):
    settings = {"metrics": ["event"], "parts": [KV, "wire"], **settings}
    return CompiledProcess(says(*actions, then=then), log(), name="one", **settings)


def events(result):
    """Time, kind, tag and A to C of each event."""
    values = [(time, int(value)) for name, time, value in result.metrics if name == "event"]
    rows = [values[k : k + 5] for k in range(0, len(values), 5)]
    return [(row[0][0], *(value for _, value in row)) for row in rows]


def idle(turn):
    pass


def test_it_hears_of_timers_ends_grants_messages_and_arrivals(run):
    def begin(turn):
        policy.after(turn, 2 * policy.ticks_per_second(turn), 11)
        policy.submit(turn, 0, 12)
        policy.acquire(turn, 0, 3, 13)
        policy.send(turn, 0, 7, 8, 9)

    one = process(
        begin, idle, idle, idle, idle, graphs={"work": one_op()}, mail=Mail(["mine"], "mine"),
        arrivals=([0.5, 1.5], [4, 5], [6, 7]),
    )  # fmt: skip
    assert events(run(one)) == [
        (0.0, policy.START, 0, 0, 0, 0),
        (0.0, policy.GRANT, 13, 0, 3, 0),
        (0.0, policy.MESSAGE, 0, 7, 8, 9),
        (0.5, policy.ARRIVAL, 0, 4, 6, 0),
        (1.0, policy.ENDED, 12, 0, 0, 0),
    ]


def test_it_hears_what_was_lost_and_what_was_cancelled(run):
    def begin(turn):
        policy.submit(turn, 0, 3)
        policy.watch(turn, 3)

    def drop(turn):
        policy.cancel(turn, 3)

    def fault(sim):
        yield sim.wait(0.5)
        sim.fail("node0.gpu0")

    one = process(
        begin, drop, idle, graphs={"work": one_op(count=2)}, parts=[KV, "node0.gpu0"]
    )  # fmt: skip
    assert events(run(one, fault)) == [
        (0.0, policy.START, 0, 0, 0, 0),
        (0.5, policy.LOST, 3, 0, 1, 0),
        (0.5, policy.ENDED, 3, 2, 0, 0),
    ]


def test_a_submission_has_its_own_numbers(run):
    def begin(turn):
        policy.submit(turn, 0, 1)
        policy.with_flop(turn, 0, 0.25)
        policy.submit(turn, 0, 2)

    assert [e[0] for e in events(run(process(begin, idle, idle, graphs={"w": one_op()})))] == [
        0.0, 0.25, 1.25
    ]  # fmt: skip


def test_take_is_judged_in_the_kernel_as_the_engine_judges_it(run):
    took = []

    def first(turn):
        took.extend(bool(policy.take(turn, 0, n)) for n in (3, 2, 1))
        policy.release(turn, 0, 1)
        took.append(bool(policy.take(turn, 0, 1)))  # what is given back is free a turn later
        policy.after(turn, 0, 0)

    def second(turn):
        took.append(policy.free(turn, 0))
        policy.after(turn, 1, 0)

    def third(turn):
        took.append(policy.free(turn, 0))
        policy.acquire(turn, 0, 4, 5)
        took.append(bool(policy.take(turn, 0, 1)))  # would pass the request
        policy.cancel(turn, 5)
        took.append(bool(policy.take(turn, 0, 1)))  # its request is cancelled with the next turn
        policy.after(turn, 1, 0)

    def fourth(turn):
        took.append(bool(policy.take(turn, 0, 1)))

    run(process(first, second, third, fourth))
    assert took == [True, False, True, False, 4, 1, False, False, True]


def test_it_steers_rates_and_counts(run):
    def begin(turn):
        policy.set_rate(turn, 1, 5e8)
        policy.count(turn, 1, 3)
        policy.count(turn, 1, -1)
        policy.after(turn, 5, 0)

    rates = []

    def look(sim):
        yield sim.settled()
        rates.append(sim.rate("wire"))
        sim.count("hits")

    result = run(process(begin, counters=["drops", "hits"]), look)
    assert rates == [5e8]
    assert result.emitted.samples["hits"].tolist() == [3.0]
    assert result.emitted.samples["drops"].tolist() == [0.0]


def test_a_table_grows_and_the_event_comes_again(run):
    class Table(NamedTuple):
        rows: np.ndarray

    def step(state, event, turn):
        if len(state.rows) < 5:
            return policy.grow(turn, 0, len(state.rows) + 2)
        policy.emit(turn, 0, state.rows.sum() + len(state.rows))
        return policy.DONE

    given = Table(np.ones((1, 2)))
    one = CompiledProcess(step, given, metrics=["seen"])
    assert [value for *_, value in run(one).metrics] == [2 + 5]
    assert given.rows.shape == (1, 2)


def test_generators_and_kernels_wake_in_one_order(run):
    """Timers by their ids, grants by their requests, whoever waits."""
    order = []

    def generator(name):
        def waits(sim):
            yield sim.env.timeout(5)
            order.append(name)
            grant = sim.acquire(KV, 1)
            yield grant
            order.append(f"{name} has")

        return waits

    def kernel(name):
        def step(state, event, turn):
            kind = event[policy.KIND]
            if kind == policy.START:
                policy.after(turn, 5, 0)
            elif kind == policy.TIMER:
                order.append(name)
                policy.acquire(turn, 0, 1, 0)
            else:
                order.append(f"{name} has")
                return policy.DONE
            return policy.GO_ON

        return CompiledProcess(step, parts=[KV], name=name)

    run(kernel("a"), generator("b"), kernel("c"), generator("d"))
    assert order == [*"abcd", "a has", "b has", "c has", "d has"]


def test_a_workload_is_a_compiled_process_and_its_job_ends_with_it(run):
    class Serves(Workload):
        metrics = (Metric("event", "", "What it hears."),)
        needs = Needs({})

        def start(self, job):
            return process(lambda turn: policy.submit(turn, 0, 1), idle, graphs={"w": one_op(2.0)})

    ends = []

    def watch(sim):
        job = sim.launch(Serves(), "second")
        yield job.done
        ends.append(sim.now)

    result = run(watch, work=[Job("first", Serves())])
    assert ends == [4.0]
    assert [job for job in result.jobs] == ["first", "main", "second"]
    assert result.of("first").makespan == 2.0


def test_a_stopped_job_ends_its_kernels_and_drops_their_requests(run):
    class Waits(Workload):
        needs = Needs({})

        def start(self, job):
            return process(lambda turn: policy.acquire(turn, 0, 4, 1), idle)

    seen = []

    def stops(sim):
        assert sim.take(KV, 1)
        job = sim.launch(Waits(), "waits")
        yield sim.wait(1.0)
        seen.append(sim.waiting(KV))
        job.stop()
        yield sim.wait(1.0)
        seen.append(sim.waiting(KV))

    run(stops)
    assert seen == [[4], []]


def test_a_job_that_is_stopped_at_once_never_calls_its_kernel(run):
    class Never(Workload):
        needs = Needs({})

        def start(self, job):
            return process(lambda turn: policy.after(turn, 1, 0), idle)

    def stops(sim):
        sim.launch(Never(), "never").stop()
        yield sim.wait(1.0)

    assert events(run(stops)) == []


def test_done_drops_what_it_waits_for(run):
    def begin(turn):
        policy.after(turn, 10**12, 1)
        policy.acquire(turn, 0, 4, 2)

    def other(sim):
        yield sim.acquire(KV, 4)
        sim.emit("has it", sim.now)

    result = run(process(begin, then=policy.DONE), other)
    assert [v for n, _, v in result.metrics if n == "has it"] == [0.0]


def test_a_monitor_does_not_keep_the_run_alive(run):
    def step(state, event, turn):
        policy.after(turn, 10**11, 0)
        return policy.GO_ON

    watch = CompiledProcess(step, touches=())
    assert run(watch, work=one_op(1.0)).makespan == 1.0


def test_a_monitor_may_not_act(run):
    acts = process(lambda turn: policy.submit(turn, 0, 0), touches=(), graphs={"w": one_op()})
    with pytest.raises(SimulationError, match=r"one: tries to submit a graph, but declares"):
        run(acts, work=one_op())


def test_a_process_may_return_a_compiled_one(run):
    def made(sim):
        return process(lambda turn: policy.after(turn, 10**12, 4), idle)

    assert [e[:3] for e in events(run(made))] == [(0.0, 0, 0), (1.0, policy.TIMER, 4)]


# What is refused.


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda t: policy.submit(t, 3, 0), r"one: graph 3 does not exist; graphs has 1, numbered"),
        (lambda t: policy.acquire(t, 2, 1, 0), "one: part 2 does not exist; parts has 2, numbered"),
        (lambda t: policy.take(t, -1, 1), "one: part -1 does not exist; parts has 2"),
        (lambda t: policy.free(t, 9), "one: part 9 does not exist"),
        (lambda t: policy.release(t, 9, 1), "one: part 9 does not exist"),
        (lambda t: policy.send(t, 1, 0, 0, 0), "one: mailbox 1 does not exist; mail.to has 0"),
        (lambda t: policy.emit(t, 1, 0.0), "one: metric 1 does not exist; metrics has 1"),
        (lambda t: policy.count(t, 0, 1), "one: counter 0 does not exist; counters has 0"),
        (lambda t: policy.cancel(t, 5), "one: cancels tag 5, under which nothing is open"),
        (lambda t: policy.watch(t, 5), "one: watches tag 5, under which no submission is open"),
        (lambda t: policy.after(t, -1, 5), "one: timer 5: waits -1 ticks; wait 0 or longer"),
        (lambda t: policy.with_flop(t, 0, 1.0), "one: gives a number to no submission"),
        (
            lambda t: [policy.after(t, 0, 0) for _ in range(9)],
            r"one: wrote 14 actions .* is 8; set",
        ),
        (lambda t: policy.release(t, 0, 1), "node0.kv: "),
        (lambda t: policy.take(t, 0, 9), "node0.kv: "),
        (lambda t: policy.set_rate(t, 1, -1.0), "wire: rate is -1 B/s"),
    ],
)
def test_a_wrong_action_is_refused(run, act, message):
    settings = {"graphs": {"w": one_op()}, "actions": 8}
    with pytest.raises(SimulationError, match=message):
        run(process(act, **settings))


def test_a_row_that_the_graph_lacks_is_refused(run):
    def begin(turn):
        policy.submit(turn, 0, 0)
        policy.with_bytes(turn, 4, 1.0)

    with pytest.raises(GraphError, match="op 4 does not exist"):
        run(process(begin, graphs={"w": one_op()}))


@pytest.mark.parametrize("code", [3, -1, None])
def test_an_unknown_return_code_is_refused(run, code):
    with pytest.raises(SimulationError, match=f"one: its kernel returned {code}; return GO_ON"):
        run(process(idle, then=code))


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        (1, 9, "one: grows array 1, but its state has 1; correct it"),
        (0, 1, r"one: grows state.calls to 1 rows, but it has 1; ask for more"),
        (0, 2**62, r"one: grows state.calls to \d+ rows, which do not fit into memory"),
    ],
)
def test_a_table_that_cannot_grow_is_refused(run, table, rows, message):
    def step(state, event, turn):
        return policy.grow(turn, table, rows)

    with pytest.raises(SimulationError, match=message):
        run(CompiledProcess(step, log(), name="one"))


def test_growing_after_an_action_is_refused(run):
    def step(state, event, turn):
        policy.after(turn, 1, 1)
        return policy.grow(turn, 0, 9)

    with pytest.raises(SimulationError, match="one: wrote actions before it returned grow"):
        run(CompiledProcess(step, log(), name="one"))


def test_a_kernel_that_waits_for_nothing_is_refused(run):
    with pytest.raises(SimulationError, match="one: returned GO_ON, but waits for nothing"):
        run(process(idle, then=policy.GO_ON))


def test_an_error_in_a_kernel_names_its_process(run):
    def step(state, event, turn):
        raise ZeroDivisionError("of tokens")

    with pytest.raises(SimulationError, match="step: its kernel raised ZeroDivisionError: of tok"):
        run(CompiledProcess(step))


@policy.policy_kernel
def overruns(state, event, turn):
    state.calls[event[policy.KIND] + 7] = 1
    return policy.DONE


@pytest.mark.skipif(not (CHECKED or INTERPRETED), reason="needs NUMBA_BOUNDSCHECK=1")
def test_a_kernel_that_writes_beyond_its_arrays_is_named(run):
    with pytest.raises(SimulationError, match=r"overruns: its kernel raised IndexError"):
        run(CompiledProcess(overruns, log()))


@policy.policy_kernel
def divides(state, event, turn):
    return state.calls[0] // event[policy.KIND]


def test_an_error_in_compiled_code_comes_out(run):
    with np.errstate(divide="raise"):
        if INTERPRETED:
            pytest.skip("NumPy divides integers by zero with a warning")
        with pytest.raises(SimulationError, match="divides: its kernel raised ZeroDivisionError"):
            run(CompiledProcess(divides, log()))


@pytest.mark.parametrize("how", ["timers", "messages", "submissions"])
def test_a_policy_without_end_at_one_instant_is_refused_with_its_name(run, monkeypatch, how):
    monkeypatch.setattr(engine_api, "MAX_TURNS", 500)
    monkeypatch.setattr(engine_api, "MAX_EVENTS", 5000)

    def step(state, event, turn):
        if how == "timers":
            policy.after(turn, 0, 1)
        elif how == "messages":
            policy.send(turn, 0, 1, 2, 3)
        else:
            policy.submit(turn, 0, 1)
        return policy.GO_ON

    forever = CompiledProcess(
        step, name="forever", mail=Mail(["own"], "own"), graphs={"w": one_op(0.0)}
    )
    with pytest.raises(SimulationError, match=r"forever: 5001 events|forever: 501 turns") as told:
        run(forever)
    assert told.value.kind == "zero-time loop"


def test_a_deadlock_names_the_kernel_that_holds(run):
    def begin(turn):
        policy.take(turn, 0, 3)
        policy.acquire(turn, 0, 2, 1)

    with pytest.raises(SimulationError, match=r"node0.kv.*one") as told:
        run(process(begin, idle))
    assert told.value.kind == "deadlock"


def test_it_cannot_be_interrupted(run):
    def interrupts(sim):
        (made,) = sim.start([process(lambda turn: policy.after(turn, 9, 0), idle)])
        yield sim.env.timeout(1)
        made.interrupt()

    with pytest.raises(SimulationError, match="one: a compiled process cannot be interrupted"):
        run(interrupts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state": [1]}, "step: state is a list; give a NamedTuple of arrays"),
        ({"state": Log([1])}, "step: state.calls is a list; give a NumPy array of numbers"),
        ({"state": Log(np.array(["a"]))}, "step: state.calls is a <U1; give a NumPy array"),
        ({"actions": 0}, "step: actions is 0; give 1 or more"),
        ({"graphs": [1]}, "step: graphs is a list; give a mapping from name to Graph"),
        ({"parts": ["a", "a"]}, "step: parts names one twice: a, a; give each once"),
        ({"graphs": {"g": 3}}, "step: graph g is a int; give a Graph"),
        ({"arrivals": ([2.0, 1.0],)}, "step: times of arrivals must be 0 or later, and ascend"),
        ({"arrivals": ([1.0], [0.5])}, r"step: column 1 of arrivals is float64 of shape \(1,\)"),
        ({"arrivals": ([1.0], [1, 2])}, r"step: column 1 of arrivals is int64 of shape \(2,\)"),
        ({"arrivals": ([1.0],) * 5}, "step: arrivals has 5 columns; give the times and at most 3"),
        ({"kernel": 3}, "policy: kernel is a int; give a function"),
    ],
)
def test_a_wrong_setting_is_refused(settings, message):
    def step(state, event, turn):
        return policy.DONE

    with pytest.raises(TypeError, match=message):
        CompiledProcess(**{"kernel": step, **settings})


def test_a_kernel_with_other_arguments_is_refused():
    with pytest.raises(TypeError, match="short: a kernel has three arguments; write def short"):

        @policy.policy_kernel
        def short(state, event):
            return 0


def test_an_unknown_part_is_refused_before_a_run_and_in_it(run):
    one = process(idle, parts=["node0.kw"])
    with pytest.raises(GraphError, match=r"node0.kw.*did you mean 'node0.kv'"):
        one.check(SYSTEM)
    with pytest.raises(GraphError, match=r"node0.kw"):
        run(one)


@pytest.mark.parametrize("engine", ["reference", "core"])
def test_the_end_of_a_submission_counts_what_a_full_queue_turned_away(engine):
    build = Builder("two in a row, twice")
    for _ in range(2):
        first = build.op(Kind.COMPUTE, flop=1.0)
        build.op(Kind.COMPUTE, flop=1.0, after=(first,))

    def step(state, event, turn):
        if event[policy.KIND] == policy.START:
            policy.submit(turn, 0, 0)
            return policy.GO_ON
        policy.emit(turn, 0, event[policy.A])
        return policy.DONE

    gpu = Component("node0.gpu0", "gpu", slots=1, queue=Queue(0, "drop"))
    process = CompiledProcess(step, graphs={"pairs": build.graph()}, metrics=["lost"])
    found = Simulation(System((gpu,), (gpu.name,)), {"*": PerFlop()}, engine=engine)
    assert [value for *_, value in found.run(None, process).metrics] == [2.0]
