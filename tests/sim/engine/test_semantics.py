"""Worked examples and single rules of docs/semantics.md."""

import pytest
import simpy
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api import interface as engine_api
from foretrace.sim.engine_api import simpy_clock
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import NO_LIMIT, ONE, Answer, State
from foretrace.sim.errors import BackendError, GraphError, SimulationError
from foretrace.sim.reference.engine import ReferenceEngine

SECOND = 10**12
G = 10**9
ENGINES = {"reference": ReferenceEngine, "core": CoreEngine}


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def build(engine, slots=(), rates=()):
    """Engine whose slot components come before its rate components."""
    none = [-1] * len(slots), [-1] * len(rates)
    return engine(Script((*slots, *none[1]), (*none[0], *rates), ()).parts)


def op(slot=-1, after=(), **facts):
    return LiteralOp(((slot, tuple(after)),), **facts)


def both(*places, **facts):
    """Collective op with a participant on each given component."""
    return LiteralOp(tuple((slot, tuple(after)) for slot, after in places), **facts)


def work(amount, *uses, **facts):
    """Op with work on components, each with weight 1 unless given as a pair."""
    usage = tuple(u if isinstance(u, tuple) else (u, ONE) for u in uses)
    return op(work=amount * SECOND, usage=usage, **facts)


def rows(m):
    found = m.columns()
    return list(zip(found.ready.tolist(), found.start.tolist(), found.end.tolist(), strict=True))


def run(m, *cases, act=()):
    """Run one graph, with processes given as generator functions of the engine."""
    graph = m.submit(literal_graph("graph", cases))
    for process in act:
        m.env.process(process(m, graph))
    m.run()
    return rows(m)


def at(tick, *calls):
    """Process that calls engine methods at a tick, such as ``("fail", 0)``."""

    def process(m, graph):
        yield m.env.timeout(tick)
        for verb, *arguments in calls:
            getattr(m, verb)(*arguments)

    return process


# The worked examples, by their numbers.


def test_1_two_flows_share_a_link(engine):
    m = build(engine, rates=[G])
    assert run(m, work(G, 0), work(G, 0)) == [(0, 0, 2 * SECOND)] * 2


def test_2_the_second_starts_later(engine):
    m = build(engine, rates=[G])
    found = run(m, work(G, 0), work(G, 0, release=SECOND // 2))
    assert [end for *_, end in found] == [15 * SECOND // 10, 2 * SECOND]


def test_3_indivisible_rate_units_stay_unused(engine):
    m = build(engine, rates=[10])
    assert [end for *_, end in run(m, *[work(1, 0)] * 3)] == [333_333_333_334] * 3


def test_4_a_queue_is_served_by_round_before_id(engine):
    m = build(engine, slots=[1])
    assert run(m, op(), op(0, [0], fixed=5), op(0, fixed=5)) == [(0, 0, 0), (0, 5, 10), (0, 0, 5)]


def test_5_waiting_ops_are_served_before_arriving_ops(engine):
    m = build(engine, slots=[1])
    found = run(m, op(0, fixed=5), op(0, fixed=5), op(0, fixed=5, release=5))
    assert found == [(0, 0, 5), (0, 5, 10), (5, 10, 15)]


def test_6_a_collective_holds_its_places_until_the_last_is_granted(engine):
    m = build(engine, slots=[1, 1])
    collective = both((0, [0]), (1, [1]), fixed=2)
    found = run(m, op(0, fixed=3), op(1, fixed=7), collective, op(0, [0], fixed=1))
    assert found == [(0, 0, 3), (0, 0, 7), (7, 7, 9), (3, 9, 10)]
    assert m.columns().arrived.tolist() == [0, 0, 3, 3, 7]


def test_7_collectives_in_opposite_order_deadlock(engine):
    m = build(engine, slots=[1, 1])
    with pytest.raises(SimulationError, match="op 4 waits for op 5 waits for op 4") as error:
        run(
            m,
            op(0, fixed=1),
            op(1, fixed=1),
            op(0, [0]),
            op(1, [1]),
            both((0, [0]), (1, [3]), fixed=1),
            both((1, [1]), (0, [2]), fixed=1),
        )
    assert (error.value.kind, error.value.ops, error.value.open_ops) == ("deadlock", (4, 5), (4, 5))


def test_8_a_stalled_link_keeps_progress(engine):
    m = build(engine, rates=[G])
    stall, go = at(SECOND // 2, ("set_rate", 0, 0)), at(SECOND, ("set_rate", 0, G))
    assert run(m, work(G, 0), act=[stall, go]) == [(0, 0, 15 * SECOND // 10)]


@pytest.mark.parametrize(("keep", "end"), [(True, 10), (False, 14)])
def test_9_an_op_moves_from_a_failed_slot(engine, keep, end):
    m = build(engine, slots=[1, 1])
    moved = at(4, ("fail", 0), ("resume", 0, keep, [1]))
    assert run(m, op(0, fixed=10), act=[moved]) == [(0, 4, end)]
    assert m.columns().attempts.tolist() == [2]


def test_10_a_limit_leaves_the_rest_to_others(engine):
    m = build(engine, rates=[10])
    found = run(m, work(3, 0, limit=3), work(7, 0))
    assert [end for *_, end in found] == [SECOND, SECOND]


def test_11_a_weight_takes_more_at_the_same_level(engine):
    m = build(engine, rates=[30])
    seen = []

    def look(m, graph):
        yield m.env.timeout(1)
        seen.append((m.rates(), m.held(0)))

    found = run(m, work(10, 0), work(10, (0, 2 * ONE)), act=[look])
    assert [end for *_, end in found] == [SECOND, SECOND]
    assert seen == [({0: 10, 1: 10}, 30)]


def test_12_latency_takes_no_bandwidth(engine):
    m = build(engine, rates=[G])
    assert run(m, work(G, 0, fixed=SECOND), work(G, 0)) == [(0, 0, 2 * SECOND), (0, 0, SECOND)]


def test_13_nothing_starts_on_a_failed_link(engine):
    m = build(engine, rates=[G])
    down = at(SECOND, ("fail", 0)), at(3 * SECOND, ("restore", 0))
    found = run(m, work(G, 0, release=2 * SECOND), act=down)
    assert found == [(2 * SECOND, 3 * SECOND, 4 * SECOND)]


def test_14_a_collective_that_waits_is_lost_with_its_member(engine):
    m = build(engine, slots=[1, 1])
    down = at(3, ("fail", 0)), at(5, ("restore", 0), ("resume", 1))
    assert run(m, op(1, fixed=7), both((0, []), (1, [0]), fixed=2), act=down) == [
        (0, 0, 7),
        (7, 7, 9),
    ]
    assert m.columns().attempts.tolist() == [1, 1]


# What wakes when, and what it sees.


def test_waiters_wake_before_other_events_of_the_tick(engine):
    m, seen = build(engine, slots=[1]), []

    def note(name, event):
        yield event()
        seen.append((m.env.now, name))

    graph = m.submit(literal_graph("pair", [op(0, fixed=5), op(0, [0])]))
    m.env.process(note("a timeout", lambda: m.env.timeout(5)))
    m.env.process(note("the graph", lambda: graph.done))
    m.env.process(note("settled", m.settled))
    m.env.process(note("the second", lambda: m.ended(1)))
    m.env.process(note("a threshold", lambda: m.reaches("held", 0, at_least=1)))
    m.env.process(note("the first", lambda: m.ended(0)))
    m.run()
    assert seen == [
        (0, "a threshold"),
        (0, "settled"),
        (5, "the first"),
        (5, "the second"),
        (5, "the graph"),
        (5, "a timeout"),
    ]


def test_a_successor_starts_before_its_process_learns_of_the_end(engine):
    m, seen = build(engine, slots=[1]), []

    def look(m, graph):
        yield m.ended(0)
        seen.append([m.state(i) for i in range(3)])

    run(m, op(0, fixed=5), op(0, [0], fixed=5), op(0, [1], fixed=5), act=[look])
    assert seen == [[State.ENDED, State.RUNNING, State.PENDING]]


def test_actions_are_visible_after_the_next_turn(engine):
    m, seen = build(engine, slots=[1]), []

    def look(m, graph):
        yield m.env.timeout(2)
        m.stop(1)
        seen.append(m.queue(0))
        yield m.env.timeout(0)
        seen.append(m.queue(0))
        yield m.settled()
        seen.append(m.queue(0))
        m.resume(1)

    run(m, *[op(0, fixed=5)] * 3, act=[look])
    assert seen == [[(1, 0), (2, 0)], [(1, 0), (2, 0)], [(2, 0)]]
    assert rows(m) == [(0, 0, 5), (0, 10, 15), (0, 5, 10)]  # resumed behind what queued meanwhile


def test_waiting_for_a_past_event_wakes_at_once(engine):
    m, seen = build(engine), []

    def late(m, graph):
        yield m.env.timeout(7)
        seen.append(((yield m.ended(0)), m.env.now))

    run(m, op(fixed=2), act=[late])
    assert seen == [("ended", 7)]


def test_losses_are_stored_until_a_process_asks(engine):
    m, seen = build(engine, slots=[2], rates=[10]), []

    def late(m, graph):
        yield m.env.timeout(3)
        m.fail(0)
        yield m.env.timeout(4)
        seen.extend((yield m.lost(graph)))
        m.restore(0)
        for loss in seen:
            m.resume(loss.op)

    found = run(
        m,
        op(0, fixed=10),
        op(0, work=100, usage=((1, ONE),)),
        act=[late],
    )
    assert [tuple(loss) for loss in seen] == [(0, 7, 0, 0), (1, 0, 70, 0)]
    assert found == [(0, 7, 14), (0, 7, 14)]


def test_cancelling_an_op_cancels_its_dependents(engine):
    m, seen = build(engine, slots=[1]), []

    def drop(m, graph):
        yield m.env.timeout(1)
        m.cancel([1])
        seen.append((yield m.ended(2)))
        yield graph.done
        seen.append(m.env.now)

    found = run(m, op(0, fixed=5), op(0, fixed=5), op(0, [1]), op(0, fixed=1), act=[drop])
    assert found == [(0, 0, 5), (0, -1, -1), (-1, -1, -1), (0, 5, 6)]
    assert seen == ["cancelled", 6]
    assert m.columns().state.tolist()[1:3] == [State.CANCELLED] * 2


def test_a_submitted_graph_counts_its_release_from_now(engine):
    m = build(engine, slots=[1])

    def more(m, graph):
        yield graph.done
        m.submit(literal_graph("more", [op(0, fixed=1, release=4)]))

    assert run(m, op(0, fixed=3), act=[more]) == [(0, 0, 3), (7, 7, 8)]


def test_an_op_may_go_on_with_other_usage(engine):
    m = build(engine, rates=[10, 5])

    def reroute(m, graph):
        yield m.env.timeout(2)
        m.fail(0)
        m.resume(0, usage={1: ONE})

    assert run(m, op(work=100, usage=((0, ONE),)), act=[reroute]) == [(0, 2, 18)]


# Online backends.


def online(m, answers, cases, log):
    """Graph whose ops are timed by one online backend, with a timing per row."""

    def timing(asked, now):
        log.append((now, list(asked)))
        return [answers[row] for row in asked]

    return m.submit(literal_graph("online", cases, [timing]))


def test_ops_that_start_together_are_one_question(engine):
    m, log = build(engine, slots=[2]), []
    online(m, [Answer(4, 0, {}), Answer(6, 0, {}), Answer(1, 0, {})], [op(0, online=0)] * 3, log)
    m.run()
    assert log == [(0, [0, 1]), (4, [2])]
    assert rows(m) == [(0, 0, 4), (0, 0, 6), (0, 4, 5)]


def test_a_backend_is_asked_again_only_without_keep(engine):
    m, log = build(engine, slots=[1]), []
    online(m, [Answer(10, 0, {})], [op(0, online=0)], log)

    def twice():
        for keep in (True, False):
            yield m.env.timeout(4)
            m.stop(0)
            m.resume(0, keep)

    m.env.process(twice())
    m.run()
    assert log == [(0, [0]), (8, [0])]
    assert rows(m) == [(0, 8, 18)]


def moved(engine, keep, there, first=10, work=0):
    """Op of 10 ticks, or with work, stopped at tick 4 and resumed on other components."""
    m = build(engine, slots=[1, 1], rates=[1])
    m.submit(
        literal_graph("graph", [op(0, fixed=first, work=work, usage=((2, ONE),) if work else ())])
    )

    def move():
        yield m.env.timeout(4)
        m.stop(0)
        m.resume(0, keep, (1,), None, there)

    m.env.process(move())
    m.run()
    return rows(m)[0][2]


def test_a_moved_op_keeps_its_remaining_fraction_of_the_new_duration(engine):
    assert moved(engine, True, Answer(5, 0, {})) == 4 + 3
    assert moved(engine, False, Answer(5, 0, {})) == 4 + 5
    assert moved(engine, True, Answer(4, 0, {})) == 4 + 3  # 2.4, rounded up
    assert moved(engine, True, lambda rows, now: [Answer(5, 0, {})]) == 4 + 3


def test_each_phase_keeps_its_share_and_one_without_counterpart_takes_that_of_the_work(engine):
    there = {"work": Answer(2, 20, {2: ONE}), "time": Answer(10, 0, {})}
    assert moved(engine, True, there["work"], first=2, work=4) == 4 + 10  # half of the work is left
    assert moved(engine, True, there["time"], first=2, work=4) == 4 + 5
    assert moved(engine, True, there["work"], first=8) == 4 + 1 + 10  # of a time alone
    assert moved(engine, True, there["work"], first=8, work=4) == 4 + 1 + 20


def test_an_answer_on_a_failed_component_waits_for_the_restore(engine):
    m = build(engine, rates=[10])
    online(m, [Answer(0, 50, {0: ONE})], [op(release=2, online=0)], [])

    def down():
        m.fail(0)
        yield m.env.timeout(5)
        m.restore(0)

    m.env.process(down())
    m.run()
    assert rows(m) == [(2, 2, 10)]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer(-1, 0, {}), "negative"),
        (Answer(0, 5, {}), "neither usage nor limit"),
        (Answer(0, 5, {0: ONE}), "usage of component 0"),
        (Answer(0, 5, {1: 0}), "weight 0"),
        (Answer(0, 2**127, {1: ONE}), "127 bits"),
        (Answer(0, 5, {1: ONE}, -2), "negative"),
        (Answer(0, 5, {1: ONE // 48}), "2.62 units"),
    ],
)
def test_an_impossible_answer_is_refused(engine, answer, what):
    m = build(engine, slots=[1], rates=[1])
    online(m, [answer], [op(online=0)], [])
    with pytest.raises(BackendError, match=what):
        m.run()


# Errors, not hangs.


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (op(7), "unknown place"),
        (op(-2), "unknown place"),
        (op(1), "no slots"),
        (op(work=1, usage=((9, ONE),)), "unknown component"),
        (op(work=1, usage=((0, ONE),)), "no rate"),
        (op(work=1, usage=((1, 0),)), "weight"),
        (op(fixed=-1), "negative"),
        (op(release=-1), "negative"),
        (op(work=-1, usage=((1, ONE),)), "negative"),
        (op(limit=-2, usage=((1, ONE),)), "negative"),
        (op(work=1, usage=((1, ONE // 48),)), "too fast"),
        (op(work=1, limit=2**62), "too fast"),
    ],
)
def test_a_graph_that_cannot_be_scheduled_is_refused(engine, case, kind):
    m = build(engine, slots=[1], rates=[1])
    with pytest.raises(GraphError) as error:
        m.submit(literal_graph("bad", [op(), case]))
    assert (error.value.kind, error.value.ops) == (kind, (1,))


def test_the_shortest_cycle_is_named(engine):
    m = build(engine)
    cases = [op(after=[3]), op(after=[0]), op(after=[1, 3]), op(after=[2]), op(after=[3])]
    with pytest.raises(GraphError, match="op 2 -> op 3 -> op 2") as error:
        m.submit(literal_graph("ring", cases))
    assert (error.value.kind, error.value.ops) == ("cycle", (2, 3))


def test_an_op_that_waits_for_itself_is_a_cycle(engine):
    with pytest.raises(GraphError, match="op 1 -> op 1"):
        build(engine).submit(literal_graph("loop", [op(), op(after=[1])]))


@pytest.mark.parametrize(
    "call",
    [
        ("set_rate", 0, 5),
        ("set_rate", 1, -1),
        ("set_rate", 1, 2**58),
        ("set_rate", 1, float("nan")),
        ("fail", 2),
        ("restore", -1),
        ("resume", 0, True, [1]),
        ("resume", 0, True, [0, 0]),
        ("resume", 0, True, None, {0: ONE}),
        ("resume", 0, True, None, {1: ONE // 48}),
        ("reaches", "queue", 1, 1, None),
        ("reaches", "held", 0, None, None),
        ("reaches", "flow", 1, 1, None),
    ],
)
def test_an_impossible_verb_is_refused_in_the_process(engine, call):
    m, refused = build(engine, slots=[1], rates=[1]), []

    def wrong(m, graph):
        yield m.env.timeout(1)
        verb, *arguments = call
        with pytest.raises(SimulationError) as error:
            getattr(m, verb)(*arguments)
        refused.append(error.value.kind)

    assert run(m, op(0, fixed=3), act=[wrong]) == [(0, 0, 3)]
    assert refused == ["action"]


def test_a_running_op_cannot_be_resumed(engine):
    m = build(engine, slots=[1])
    with pytest.raises(SimulationError, match="stop it first") as error:
        run(m, op(0, fixed=9), op(0), act=[at(1, ("resume", 0))])
    assert (error.value.kind, error.value.ops, error.value.open_ops) == ("action", (0,), (0, 1))


def test_an_error_of_a_process_ends_the_run(engine):
    m = build(engine, slots=[1])
    with pytest.raises(SimulationError, match="components are 0 to 0"):
        run(m, op(0, fixed=9), act=[at(1, ("fail", 3))])


def stuck(engine, *cases, act=(), slots=(1,), rates=(5,)):
    m = build(engine, slots, rates)
    with pytest.raises(SimulationError) as error:
        run(m, *cases, act=act)
    return error.value.kind, error.value.ops, error.value.open_ops


def test_a_lost_op_names_the_failed_component(engine):
    assert stuck(engine, op(0, fixed=9), op(0, [0]), act=[at(1, ("fail", 0))]) == (
        "lost",
        (0,),
        (0, 1),
    )


def test_a_stopped_op_names_the_process(engine):
    m = build(engine, slots=[1])

    def clumsy(m, graph):
        yield m.env.timeout(1)
        m.stop(0)

    with pytest.raises(SimulationError, match="op 0 was stopped by clumsy"):
        run(m, op(0, fixed=9), act=[clumsy])


def test_a_rate_of_zero_starves(engine):
    assert stuck(engine, work(1, 1), op(after=[0]), rates=[0]) == ("starvation", (0,), (0, 1))


def test_a_failed_queue_starves_those_in_it(engine):
    assert stuck(engine, op(0, release=2), act=[at(1, ("fail", 0))])[:2] == ("starvation", (0,))


def test_ops_that_need_a_failed_component_starve(engine):
    found = stuck(engine, work(1, 1, release=2), act=[at(1, ("fail", 1))])
    assert found[:2] == ("starvation", (0,))


def test_an_end_beyond_the_range_of_ticks_is_an_error_when_nothing_else_happens(engine):
    kind, ops, _ = stuck(engine, op(fixed=3), op(work=2**126, usage=((1, ONE),)))
    assert (kind, ops) == ("time overflow", (1,))


def test_a_process_that_waits_beyond_the_range_of_ticks_is_an_overflow(engine):
    def patient(m, graph):
        yield m.env.timeout(engine_api.MAX_TICK)
        yield m.env.timeout(3)
        m.set_rate(1, 1)

    assert stuck(engine, op(fixed=3), act=[patient])[0] == "time overflow"


def test_two_places_of_one_op_on_one_slot_wait_for_themselves(engine):
    assert stuck(engine, both((0, []), (0, [])))[:2] == ("deadlock", (0,))


def test_a_process_that_never_lets_time_pass_is_named(engine, monkeypatch):
    monkeypatch.setattr(engine_api, "MAX_TURNS", 100)
    m = build(engine, rates=[1])

    def restless(m, graph):
        while True:
            m.set_rate(0, 1)
            yield m.settled()

    with pytest.raises(SimulationError, match="restless") as error:
        run(m, op(fixed=5), act=[restless])
    assert (error.value.kind, error.value.open_ops) == ("zero-time loop", (0,))


def test_a_process_that_only_spins_in_simpy_is_named(engine, monkeypatch):
    monkeypatch.setattr(simpy_clock.engine_api, "MAX_EVENTS", 1000)
    m = build(engine)

    def spinning(m, graph):
        while True:
            yield m.env.timeout(0)

    with pytest.raises(SimulationError, match="spinning"):
        run(m, op(fixed=5), act=[spinning])


# The end of a run.


def test_a_monitor_keeps_nothing_alive(engine):
    m, seen = build(engine), []

    def monitor():
        while True:
            yield m.env.timeout(2) | m.env.timeout(3)
            seen.append(m.env.now)

    m.watchers.add(m.env.process(monitor()))
    m.submit(literal_graph("one", [op(fixed=5)]))
    m.run()
    assert seen == [2, 4]
    assert rows(m) == [(0, 0, 5)]


def test_a_process_that_may_act_is_waited_for(engine):
    m = build(engine)

    def late(m, graph):
        yield m.env.timeout(50)
        m.submit(literal_graph("late", [op(fixed=1)]))

    assert run(m, op(fixed=5), act=[late])[1] == (50, 50, 51)


def test_run_until_includes_the_first_turn_and_no_process(engine):
    m, seen = build(engine, slots=[1]), []
    m.submit(literal_graph("pair", [op(0, fixed=5), op(0, fixed=5)]))

    def process():
        yield m.env.timeout(5)
        seen.append(m.env.now)

    m.env.process(process())
    m.run(until=5)
    assert (m.state(0), m.state(1), m.env.now, seen) == (State.ENDED, State.RUNNING, 5, [])
    m.run(until=7)
    assert (m.env.now, seen) == (7, [5])
    m.stop(1)
    m.resume(1)
    m.run()
    assert rows(m) == [(0, 0, 5), (0, 7, 10)]


def test_run_does_not_go_back(engine):
    m = build(engine)
    m.run(until=5)
    with pytest.raises(ValueError, match="the run is already at 5"):
        m.run(until=4)


def test_an_empty_graph_is_done_at_once(engine):
    m, seen = build(engine), []

    def wait():
        yield m.submit(literal_graph("nothing", [])).done
        seen.append(m.env.now)

    m.env.process(wait())
    m.run()
    assert seen == [0]
    assert rows(m) == []


def test_an_environment_may_be_shared(engine):
    env = simpy.Environment(initial_time=100)
    m = engine(Script((1,), (-1,), ()).parts, env)
    m.submit(literal_graph("one", [op(0, fixed=5, release=1)]))
    m.run()
    assert rows(m) == [(101, 101, 106)]


def test_numbers_near_the_limits_stay_exact(engine):
    m = build(engine, rates=[2**58 - 1])
    left = (2**58 - 1) * (2**63 - 3) + 1
    m.submit(literal_graph("huge", [op(work=left, usage=((0, ONE),), limit=NO_LIMIT)]))
    m.run()
    assert rows(m) == [(0, 0, 2**63 - 2)]
