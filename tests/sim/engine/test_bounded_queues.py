"""Bounded queues on both engines: who is dropped, waits outside, or goes elsewhere."""

import heapq
import random
from math import factorial
from statistics import mean, stdev

import pytest
from by_day import every, only
from engine_scripts.comparison import compare
from engine_scripts.player import play
from engine_scripts.random_scripts import random_script
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import ONE, Answer, Numbers, State
from foretrace.sim.engine_api.queue_table import QueueTable
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.reference.engine import ReferenceEngine

ENGINES = {"reference": ReferenceEngine, "core": CoreEngine}
A, B, C, LINK = range(4)


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def make(engine, *queues, slots=(1, 1, 1, -1), rates=(-1, -1, -1, 10), **facts):
    """Engine of three components with slots and a link; elsewhere, an op takes 100 ticks."""
    m = engine(Script(slots, rates, (), queues=queues, **facts).parts)
    m.elsewhere = lambda op, component: Answer(100, 0, {})
    return m


def op(slot=A, after=(), **facts):
    return LiteralOp(((slot, tuple(after)),), **facts)


def run(m, *cases):
    m.submit(literal_graph("graph", cases))
    m.run()
    return m.columns()


def named(m, first=0):
    return [State(s).name.lower() for s in m.columns().state.tolist()][first:]


def test_an_op_that_finds_the_queue_full_is_dropped(engine):
    """One runs, one waits, two find it full: ops of one round arrive in order of their ids."""
    m = make(engine, (A, 1, "drop", ()))
    found = run(m, *[op(fixed=5)] * 4)
    assert found.start.tolist() == [0, 5, -1, -1]
    assert named(m) == ["ended", "ended", "dropped", "dropped"]
    assert [m.found_full(c) for c in (A, B)] == [2, 0]


def test_all_that_depends_on_a_dropped_op_is_cancelled(engine):
    """Also what is stopped; what does not depend on it goes on, and the graph ends."""
    m, seen = make(engine, (A, 0, "drop", ())), []
    cases = [op(fixed=5), op(fixed=5, release=1), op(-1, [1]), op(-1, [2]), op(-1, [0], fixed=2)]
    graph = m.submit(literal_graph("graph", [*cases, op(-1, [1], release=9)]))

    def wait(number):
        seen.append((number, (yield m.ended(number)), m.env.now))

    def done():
        seen.append(("graph", (yield graph.done), m.env.now))

    for number in (5, 3, 1, 2, 4):
        m.env.process(wait(number))
    m.env.process(done())
    m.run()
    assert named(m) == ["ended", "dropped", "cancelled", "cancelled", "ended", "cancelled"]
    assert seen == [(1, "dropped", 1), (2, "cancelled", 1), (3, "cancelled", 1),
                    (5, "cancelled", 1), (4, "ended", 7), ("graph", None, 7)]  # fmt: skip
    assert m.columns().end.tolist() == [5, -1, -1, -1, 7, -1]


def test_a_slot_that_is_freed_at_the_tick_of_an_arrival_is_room(engine):
    """Departures come before arrivals, as in a round; so the queue of none takes an op at 5."""
    found = run(make(engine, (A, 0, "drop", ())), op(fixed=5), op(fixed=5, release=5))
    assert found.start.tolist() == [0, 5]


def test_who_waits_moves_up_before_an_arrival_finds_the_queue_full(engine):
    """At 5 the slot is free again: the op that waits counts as served, and its place is free."""
    m = make(engine, (A, 1, "drop", ()))
    found = run(m, op(fixed=5), op(fixed=5), op(fixed=5, release=5), op(fixed=5, release=5))
    assert found.start.tolist() == [0, 5, 10, -1]


def test_a_failed_component_has_no_room_but_in_its_queue(engine):
    m = make(engine, (A, 1, "drop", ()))
    m.fail(A)

    def repair():
        yield m.env.timeout(3)
        m.restore(A)

    m.env.process(repair())
    assert run(m, op(fixed=5), op(fixed=5)).start.tolist() == [3, -1]


@pytest.mark.parametrize("seed", range(20))
def test_waiting_outside_is_as_waiting_in_a_longer_queue(engine, seed):
    script = random_script("capacity", seed)
    script = script._replace(pauses=(), actors=())
    queues = [(c, 0, "wait", ()) for c, n in enumerate(script.slots) if n > 0]
    assert compare(play(engine, script), play(engine, script._replace(queues=tuple(queues)))) == ""


def test_an_op_that_waits_outside_is_counted_and_seen_in_the_queue(engine):
    m = make(engine, (A, 1, "wait", ()))
    seen = []

    def look():
        yield m.env.timeout(1)
        seen.append((m.queue(A), m.found_full(A)))

    m.env.process(look())
    assert run(m, *[op(fixed=5)] * 4).start.tolist() == [0, 5, 10, 15]
    assert seen == [([(1, 0), (2, 0), (3, 0)], 2)]


def test_an_op_goes_elsewhere_in_the_order_of_the_names(engine):
    """C has a queue of one, B none: ops 1 and 2 take both slots, 3 the queue, 4 is dropped."""
    queues = (A, 0, "elsewhere", (C, B)), (B, 0, "drop", ()), (C, 1, "drop", ())
    m = make(engine, *queues)
    found = run(m, *[op(fixed=5)] * 5)
    assert found.start.tolist() == [0, 0, 100, 0, -1]
    assert found.end.tolist() == [5, 100, 200, 100, -1]
    assert [m.found_full(c) for c in (A, B, C)] == [4, 0, 0]


def test_the_last_component_says_what_happens_when_all_are_full(engine):
    queues = (A, 0, "elsewhere", (B,)), (B, 0, "wait", ())
    found = run(make(engine, *queues), *[op(fixed=5)] * 4)
    assert found.start.tolist() == [0, 0, 100, 200]


def test_components_that_send_to_each_other_drop_what_none_takes(engine):
    queues = (A, 0, "elsewhere", (B,)), (B, 0, "elsewhere", (A,))
    m = make(engine, *queues)
    run(m, op(A, fixed=5), op(A, fixed=5), op(B, fixed=5), op(A, fixed=5))
    assert named(m) == ["ended", "ended", "dropped", "dropped"]
    assert [m.found_full(c) for c in (A, B)] == [2, 1]


def test_the_timing_elsewhere_is_asked_when_the_op_starts_there(engine):
    """By a backend that is asked before the run, and by one that is asked during it."""
    m, log = make(engine, (A, 0, "elsewhere", (B,))), []

    def online(rows, now):
        log.append((rows, now))
        return [Answer(0, 60, {LINK: ONE})]

    def elsewhere(number, component):
        log.append((number, component))
        return Answer(7, 0, {}) if number == 1 else online

    m.elsewhere = elsewhere
    found = run(m, op(fixed=5, work=10**9, usage=((LINK, ONE),)), *[op(fixed=5)] * 2)
    assert (found.start.tolist()[1:], found.end.tolist()[1:]) == ([0, 7], [7, 19])
    assert log == [(1, B), (2, B), ([2], 7)]


def test_an_op_that_was_sent_elsewhere_starts_over_there(engine):
    """Stopped at 50 of 100 ticks and resumed from zero: 100 again."""
    m = make(engine, (A, 0, "elsewhere", (B,)))

    def stop():
        yield m.env.timeout(50)
        m.stop(1)
        m.resume(1, keep=False)

    m.env.process(stop())
    found = run(m, op(fixed=5), op(fixed=5))
    assert (found.start[1], found.end[1], found.attempts[1]) == (50, 150, 2)


@pytest.mark.parametrize(
    ("how", "took"),
    [
        ({"keep": False}, (100, 200)),
        ({"slots": (C,), "there": lambda rows, now: [Answer(7, 0, {})]}, (10, 17)),
        ({"slots": (C,), "there": Answer(8, 0, {})}, (10, 18)),
        ({"slots": (C,)}, (10, 110)),
    ],
)
def test_an_op_that_waits_elsewhere_can_be_stopped_and_resumed(engine, how, took):
    """Op 2 waits behind op 1 on B; it has not been timed there, and had work on the link before."""
    m = make(engine, (A, 0, "elsewhere", (B,)))

    def move():
        yield m.env.timeout(10)
        assert m.usage(2) == {}
        m.stop(2)
        m.resume(2, **how)

    m.env.process(move())
    found = run(m, *[op(fixed=5)] * 2, op(work=60, usage=((LINK, ONE),)))
    assert (found.start[2], found.end[2]) == took


def test_an_op_that_has_started_is_never_turned_away(engine):
    """Op 0 is stopped at 2 and resumed at 4, when op 1 runs and op 2 waits."""
    m = make(engine, (A, 1, "drop", ()))

    def stop():
        yield m.env.timeout(2)
        m.stop(0)
        yield m.env.timeout(2)
        m.resume(0)

    m.env.process(stop())
    found = run(m, *[op(fixed=5)] * 2, op(fixed=5, release=3))
    assert found.start.tolist() == [12, 2, 7]
    assert found.end.tolist() == [15, 7, 12]


def test_an_op_that_waited_and_was_stopped_arrives_again(engine):
    m = make(engine, (A, 1, "drop", ()))

    def stop():
        yield m.env.timeout(2)
        m.stop(1)
        yield m.env.timeout(2)
        m.resume(1)

    m.env.process(stop())
    run(m, *[op(fixed=5)] * 2, op(fixed=5, release=3))
    assert named(m) == ["ended", "dropped", "ended"]


def test_a_dropped_op_gives_back_what_it_holds_at_once(engine):
    """Op 1 had its amount and finds the queue full; op 2 waits for the amount, and gets it."""
    m = make(engine, (A, 0, "drop", ()), slots=(1, 1, -1, -1), rates=(-1,) * 4,
             capacity=(-1, -1, 3, -1))  # fmt: skip
    held = [(C, n, -1) for n in (1, 2, 2)]
    cases = [op(slot, fixed=5, holds=(hold,)) for slot, hold in zip((A, A, B), held, strict=True)]
    found = run(m, *cases)
    assert named(m) == ["ended", "dropped", "ended"]
    assert (found.granted.tolist(), found.returned.tolist()) == ([0, 0, 0], [5, 0, 5])


def test_a_collective_that_waits_for_a_dropped_op_gives_its_slots_back(engine):
    """It holds B from 0, and its place on C waits for op 1; op 3 gets B at once."""
    m = make(engine, (A, 0, "drop", ()))
    both = LiteralOp(((B, ()), (C, (1,))), fixed=5)
    found = run(m, op(fixed=5), op(fixed=5, release=2), both, op(B, fixed=5, release=1))
    assert named(m) == ["ended", "dropped", "cancelled", "ended"]
    assert found.start.tolist() == [0, -1, -1, 2]


def test_a_collective_is_refused_where_a_queue_turns_ops_away(engine):
    both = LiteralOp(((A, ()), (B, ())))
    with pytest.raises(GraphError, match="op 0: an op on several ranks cannot be turned away by"):
        run(make(engine, (B, 1, "drop", ())), both)
    assert run(make(engine, (B, 0, "wait", ())), both).end.tolist() == [0]


def test_a_collective_is_not_resumed_where_a_queue_turns_ops_away(engine):
    m, told = make(engine, (C, 1, "drop", ())), []

    def move():
        yield m.env.timeout(1)
        m.stop(0)
        try:
            m.resume(0, slots=(A, C))
        except SimulationError as error:
            told.append(str(error))
        m.resume(0)

    m.env.process(move())
    run(m, LiteralOp(((A, ()), (B, ())), fixed=5))
    assert "the queue of component 2 turns ops away" in told[0]


def test_what_was_dropped_is_known_after_its_graph_was_freed(engine):
    m, seen = make(engine, (A, 0, "drop", ())), []
    shape = m.prepare(literal_graph("pair", [op(fixed=5), op(fixed=5), op(-1, [1])]))

    def serve():
        for _ in range(3):
            graph = m.submit_prepared(shape, Numbers.of(shape.lowered))
            yield graph.done
            m.collect_ended()
            seen.extend(m.state(graph.first + k).name for k in range(3))
            seen.append((yield m.ended(graph.first + 1)))

    m.env.process(serve())
    m.run()
    assert seen == ["ENDED", "DROPPED", "CANCELLED", "dropped"] * 3


def test_the_table_of_queues_lists_each_component_once():
    rows = {A: (0, "elsewhere", (B, C)), B: (0, "elsewhere", (A, C)), C: (2, "wait", ())}
    table = QueueTable.of(rows, 4)
    assert [table.elsewhere[c].tolist() for c in range(4)] == [[B, C], [A, C], [], []]
    assert table.last.tolist() == [C, C, C, -1]
    assert table.turns_away().tolist() == [True, True, False, False]


# Closed forms of queueing theory: customers are ops with release times.

SERVICE, BATCHES, WARM = 10**6, 20, 500
CUSTOMERS = 12_500
SHAPES = [(1, 0.3, 4), (1, 0.7, 4), (1, 0.95, 8), (3, 0.7, 0), (3, 0.7, 3), (2, 0.95, 6)]
BY_DAY = pytest.mark.parametrize("engine", only(["core"], [*ENGINES]), indirect=True)


def customers(seed, servers, load, count=CUSTOMERS):
    r, at, found = random.Random(seed), 0.0, []
    for _ in range(count):
        at += r.expovariate(load * servers / SERVICE)
        found.append((round(at), max(1, round(r.expovariate(1 / SERVICE)))))
    return found


def served(queue, servers, length):
    """Start of each customer, None for one that is turned away: the queue, event by event."""
    free, starts, found = [0] * servers, [], []
    for at, service in queue:
        while starts and starts[0] <= at:
            heapq.heappop(starts)
        begin = max(at, free[0])
        if begin > at and len(starts) >= length:
            found.append(None)
            continue
        heapq.heapreplace(free, begin + service)
        if begin > at:
            heapq.heappush(starts, begin)
        found.append(begin)
    return found


def m_m_c_k(servers, load, length):
    """Probability to be dropped, and mean wait in services: Gross and Harris 1998, section 2.4."""
    offered, places = load * servers, servers + length
    weight = [offered**n / factorial(n) for n in range(servers + 1)]
    weight += [weight[servers] * load ** (n - servers) for n in range(servers + 1, places + 1)]
    p = [w / sum(weight) for w in weight]
    waiting = sum((n - servers) * p[n] for n in range(servers, places + 1))
    return p[places], waiting / (offered * (1 - p[places]))


def agrees(sample, theory):
    size = (len(sample) - WARM) // BATCHES
    batches = [mean(sample[WARM + b * size : WARM + (b + 1) * size]) for b in range(BATCHES)]
    assert abs(mean(batches) - theory) <= 3 * stdev(batches) / BATCHES**0.5


@pytest.mark.parametrize(("servers", "load", "length"), every(3, SHAPES))
@BY_DAY
def test_drops_and_waits_are_those_of_m_m_c_k(engine, servers, load, length):
    queue = customers(servers + length, servers, load)
    m = make(engine, (A, length, "drop", ()), slots=(servers, 1, 1, -1))
    found = run(m, *[op(release=at, fixed=service) for at, service in queue])
    begun = [None if start < 0 else start for start in found.start.tolist()]
    assert begun == served(queue, servers, length)
    lost, wait = m_m_c_k(servers, load, length)
    agrees([float(start is None) for start in begun], lost)
    waits = [start - at for start, (at, _) in zip(begun, queue, strict=True) if start is not None]
    if length:
        agrees(waits, wait * SERVICE)
    else:
        assert set(waits) == {0}


@pytest.mark.parametrize("load", only([0.7], [0.3, 0.7, 0.95]))
@BY_DAY
def test_waits_outside_are_those_of_m_d_1(engine, load):
    """rho / (2 mu (1 - rho)), Pollaczek and Khinchine: Kleinrock 1975, section 5.6."""
    at = [when for when, _ in customers(7, 1, load)]
    m = make(engine, (A, 1, "wait", ()))
    found = run(m, *[op(release=when, fixed=SERVICE) for when in at])
    agrees((found.start - found.ready).tolist(), load / (2 * (1 - load)) * SERVICE)
    assert m.found_full(A) > 0
