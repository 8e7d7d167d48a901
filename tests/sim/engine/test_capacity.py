"""Rules for capacities that ops and processes hold, on both engines."""

import pytest
import simpy
from engine_scripts.comparison import compare
from engine_scripts.player import play
from engine_scripts.random_scripts import random_script
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import MAX_TICK, State
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.reference.engine import ReferenceEngine

ENGINES = {"reference": ReferenceEngine, "core": CoreEngine}
GPU, NIC, KV, HBM = range(4)


@pytest.fixture(params=ENGINES)
def machine(request):
    """Engine with two slot components and two capacities of 4."""
    return ENGINES[request.param](
        Script((1, 1, -1, -1), (-1,) * 4, (), capacity=(-1, -1, 4, 4)).parts
    )


def op(slot=-1, after=(), holds=(), **facts):
    """Op that holds ``(component, amount)`` or ``(component, amount, until)``."""
    whole = tuple((*hold, -1)[:3] for hold in holds)
    return LiteralOp(((slot, tuple(after)),), holds=whole, **facts)


def submit(machine, *cases):
    return machine.submit(literal_graph("graph", cases))


def run(machine, *cases, act=()):
    """Run one graph with processes (generator functions of the engine): (ready, start, end)."""
    submit(machine, *cases)
    for process in act:
        machine.env.process(process(machine))
    machine.run()
    found = machine.columns()
    return list(zip(found.ready.tolist(), found.start.tolist(), found.end.tolist(), strict=True))


# The worked examples, by their numbers in docs/semantics.md.


def test_15_the_head_of_the_line_blocks_one_that_would_fit(machine):
    found = run(machine, *[op(holds=[(KV, n)], fixed=5) for n in (3, 2, 1)])
    assert found == [(0, 0, 5), (0, 5, 10), (0, 5, 10)]


def test_16_an_op_waiting_for_a_capacity_holds_no_slot(machine):
    first = op(GPU, holds=[(KV, 3, 1)], fixed=5)
    second = op(GPU, after=[0], fixed=5)
    third = op(GPU, holds=[(KV, 3)], fixed=5)
    assert run(machine, first, second, third) == [(0, 0, 5), (5, 5, 10), (0, 10, 15)]


def test_17_a_take_counts_amounts_taken_since_the_last_turn(machine):
    took = []

    def first(m):
        yield m.acquire(KV, 2)
        took.append((m.env.now, m.held(KV)))

    def second(m):
        yield m.env.timeout(1)
        took.extend([m.take(KV, 2), m.take(KV, 1), m.held(KV)])

    run(machine, act=[first, second])
    assert took == [(0, 2), True, False, 2]


# Ops.


def test_a_released_amount_is_granted_in_the_same_round(machine):
    waits = op(holds=[(KV, 4)], fixed=1)
    assert run(machine, op(holds=[(KV, 4)], fixed=5), waits) == [(0, 0, 5), (0, 5, 6)]
    found = machine.columns()
    assert (found.asked.tolist(), found.granted.tolist()) == ([0, 0], [0, 5])
    assert found.returned.tolist() == [5, 6]


def test_an_op_that_need_not_wait_for_a_capacity_queues_as_if_there_were_none(machine):
    found = run(machine, op(GPU, holds=[(KV, 1)], fixed=2), op(GPU, fixed=2))
    assert found == [(0, 0, 2), (0, 2, 4)]


def test_an_op_queues_for_slots_in_order_of_its_grant(machine):
    first, late = op(holds=[(KV, 4)], fixed=3), op(GPU, holds=[(KV, 1)], fixed=2)
    assert run(machine, first, late, op(GPU, fixed=5)) == [(0, 0, 3), (0, 5, 7), (0, 0, 5)]


def with_ample(script):
    """The same script, in which every op with one participant also holds an ample capacity."""
    ample = len(script.slots)
    first = [
        case._replace(holds=((ample, 1, -1),) if len(case.places) == 1 else ())
        for case in script.graphs[0]
    ]
    return script._replace(
        slots=(*script.slots, -1),
        rates=(*script.rates, -1),
        graphs=(tuple(first), *script.graphs[1:]),
        capacity=(*[-1] * ample, MAX_TICK),
    )


@pytest.mark.parametrize("kind", ["plain", "verbs"])
def test_an_ample_capacity_changes_no_time(machine, kind):
    for seed in range(25):
        script = random_script(kind, seed)
        without, ample = (play(type(machine), s).columns for s in (script, with_ample(script)))
        for name in ("ready", "start", "end", "state", "attempts") if without else ():
            assert without[name] == ample[name], (seed, name)


def test_a_line_grants_while_the_other_one_of_an_op_does_not(machine):
    both = op(holds=[(KV, 3), (HBM, 3)], fixed=1)
    found = run(machine, op(holds=[(HBM, 2)], fixed=5), both, op(holds=[(KV, 2)], fixed=1))
    assert found == [(0, 0, 5), (0, 5, 6), (0, 6, 7)]
    assert machine.columns().granted.tolist() == [0, 0, 5, 6]


def test_ops_that_want_two_capacities_in_opposite_order_do_not_deadlock(machine):
    one, other = [(KV, 3), (HBM, 3)], [(HBM, 3), (KV, 3)]
    found = run(machine, op(holds=one, fixed=1), op(holds=other, fixed=1), op(holds=one, fixed=1))
    assert [end for *_, end in found] == [1, 2, 3]


def test_a_collective_asks_when_its_last_place_is_ready_and_its_places_queue_together(machine):
    collective = LiteralOp(((GPU, ()), (NIC, (0,))), fixed=2, holds=((KV, 1, -1),))
    found = run(machine, op(fixed=3), collective, op(GPU, fixed=4, release=1))
    assert found == [(0, 0, 3), (3, 5, 7), (1, 1, 5)]
    assert machine.columns().arrived.tolist() == [0, 0, 1, 3]


@pytest.mark.parametrize("first", ["op", "until"])
def test_an_amount_is_held_until_the_later_of_two_ends(machine, first):
    times = (2, 6) if first == "op" else (6, 2)
    held, until = op(holds=[(KV, 4, 1)], fixed=times[0]), op(fixed=times[1])
    assert run(machine, held, until, op(holds=[(KV, 1)], fixed=1))[2] == (0, 6, 7)


def test_a_cancelled_op_releases_amounts_held_until_its_end(machine):
    def process(m):
        yield m.env.timeout(3)
        m.cancel([1])

    cases = op(holds=[(KV, 4, 1)], fixed=2), op(fixed=9), op(holds=[(KV, 1)], fixed=1)
    assert run(machine, *cases, act=[process])[2] == (0, 3, 4)


def test_one_op_may_hold_an_amount_for_itself_and_one_until_another_ends(machine):
    held = op(holds=[(KV, 3), (KV, 1, 1)], fixed=2)
    waits = [op(holds=[(KV, 3)], fixed=1), op(holds=[(KV, 4)], fixed=1)]
    found = run(machine, held, op(after=[0], fixed=5), *waits)
    assert [start for _, start, _ in found] == [0, 2, 2, 7]


@pytest.mark.parametrize("how", ["stop", "cancel", "fail"])
def test_an_op_that_does_not_go_on_gives_everything_back(machine, how):
    seen = []

    def process(m):
        yield m.env.timeout(3)
        {"stop": lambda: m.stop(0), "cancel": lambda: m.cancel([0]), "fail": lambda: m.fail(GPU)}[
            how
        ]()
        yield m.settled()
        seen.append((m.held(KV), m.waiting(KV)))
        m.restore(GPU)
        if how != "cancel":
            m.resume(0)

    found = run(
        machine, op(GPU, holds=[(KV, 3)], fixed=5), op(holds=[(KV, 4)], fixed=2), act=[process]
    )
    assert seen == [(4, [])]
    assert found[1] == (0, 3, 5)
    assert found[0][1:] == (
        (0, -1) if how == "cancel" else (5, 7)
    )  # it asks again, behind the other


def test_an_op_that_leaves_the_line_lets_the_next_one_through(machine):
    def process(m):
        yield m.env.timeout(3)
        m.cancel([1])

    cases = op(holds=[(KV, 2)], fixed=9), op(holds=[(KV, 3)], fixed=1), op(holds=[(KV, 2)], fixed=1)
    assert run(machine, *cases, act=[process])[2] == (0, 3, 4)


def test_a_failed_capacity_grants_nothing_and_revokes_nothing(machine):
    def process(m):
        m.fail(KV)
        yield m.env.timeout(1)
        assert not m.take(KV, 1)
        assert m.state(0) == State.RUNNING
        yield m.env.timeout(8)
        m.restore(KV)

    def before(m):
        yield m.env.timeout(0)
        m.env.process(process(m))

    found = run(machine, op(holds=[(KV, 1)], fixed=5), op(holds=[(KV, 1)], release=2), act=[before])
    assert found == [(0, 0, 5), (2, 9, 9)]


def test_amounts_of_63_bits_do_not_wrap(machine):
    m = type(machine)(Script((-1,), (-1,), (), capacity=(MAX_TICK,)).parts)
    found = run(m, *[op(holds=[(0, MAX_TICK - 1)], fixed=1), op(holds=[(0, MAX_TICK)], fixed=1)])
    assert found == [(0, 0, 1), (0, 1, 2)]


@pytest.mark.parametrize(
    ("holds", "kind", "said"),
    [
        ([(KV, 5)], "amount", "c2; its capacity is 4"),
        ([(KV, 3), (KV, 2)], "amount", "5 of c2"),
        ([(KV, 0)], "amount", "hold 1 or more"),
        ([(GPU, 1)], "no capacity", "holds of c0, which has no capacity"),
        ([(9, 1)], "unknown component", "component 9"),
        ([(KV, 1, 7)], "unknown op", "until op 7 ends"),
        ([(KV, 1, 0)], "unknown op", "another of the 1 ops"),
    ],
)
def test_amounts_above_the_capacity_are_refused(machine, holds, kind, said):
    with pytest.raises(GraphError, match=said) as error:
        submit(machine, op(holds=holds))
    assert error.value.kind == kind


# Processes.


def log_of(machine, *steps):
    """Log of what a process observes; each step is a wait or an action at its own tick."""
    seen = []

    def process(m):
        for step in steps:
            value = step(m)
            if isinstance(value, simpy.Event):
                yield value
                value = "woke"
            seen.append((m.env.now, value))

    machine.env.process(process(machine))
    return seen


def wait(ticks):
    return lambda m: m.env.timeout(ticks)


def test_processes_and_ops_stand_in_one_line(machine):
    seen = log_of(machine, wait(1), lambda m: m.acquire(KV, 3), wait(4), lambda m: m.release(KV, 3))
    found = run(machine, op(holds=[(KV, 4)], fixed=3), op(holds=[(KV, 2)], release=2, fixed=1))
    assert seen == [(1, "woke"), (3, "woke"), (7, "woke"), (7, None)]
    assert found[1] == (2, 7, 8)


def test_take_is_refused_while_requests_wait(machine):
    first = log_of(machine, lambda m: m.take(KV, 3), wait(1), lambda m: m.acquire(KV, 2))
    second = log_of(machine, wait(1), lambda m: m.take(KV, 1), wait(1), lambda m: m.release(KV, 3))
    third = log_of(machine, wait(5), lambda m: m.take(KV, 1))
    run(machine)
    assert first == [(0, True), (1, "woke"), (2, "woke")]
    assert second[1] == (1, False)
    assert third[1] == (5, True)


def test_releasing_a_grant_twice_counts_once(machine):
    grants = []

    def process(m):
        with m.acquire(KV, 3) as grant:
            grants.append(grant)
            yield grant
            assert m.held(KV) == 3
            grant.release()
        yield m.settled()
        assert m.held(KV) == 0

    run(machine, act=[process])
    assert grants[0].over


def test_an_abandoned_request_leaves_the_queue(machine):
    seen = []

    def impatient(m):
        yield m.env.timeout(1)
        grant = m.acquire(KV, 2)
        got = yield grant | m.env.timeout(2)
        seen.append((m.env.now, grant in got))
        yield m.env.timeout(0)

    def behind(m):
        yield m.env.timeout(2)
        yield m.acquire(KV, 1)
        seen.append((m.env.now, "behind"))

    run(machine, op(holds=[(KV, 3)], fixed=9), act=[impatient, behind])
    assert seen == [(3, False), (3, "behind")]
    assert machine.held(KV) == 1


def test_a_loop_that_waits_again_for_its_grant_keeps_its_place(machine):
    seen = []

    def patient(m):
        yield m.env.timeout(1)
        grant = m.acquire(KV, 2)
        while grant not in (yield grant | m.env.timeout(2)):
            seen.append(m.env.now)
        seen.append((m.env.now, m.waiting(KV)))

    def behind(m):
        yield m.env.timeout(2)
        yield m.acquire(KV, 3)

    def back(m):
        yield m.env.timeout(8)
        m.release_all(0)

    run(machine, op(holds=[(KV, 3)], fixed=6), act=[patient, behind, back])
    assert seen == [3, 5, (6, [(-1, 3)])]


def test_an_interrupted_process_leaves_the_line(machine):
    def waits(m):
        try:
            yield m.acquire(KV, 4)
        except simpy.Interrupt:
            yield m.env.timeout(1)

    def process(m):
        yield m.env.timeout(1)
        waiting = m.env.process(waits(m))
        yield m.env.timeout(1)
        assert m.waiting(KV) == [(-1, 4)]
        waiting.interrupt()
        yield m.env.timeout(0)
        yield m.settled()
        assert m.waiting(KV) == []

    run(machine, op(holds=[(KV, 1)], fixed=9), act=[process])
    assert machine.held(KV) == 0


def test_an_owner_gives_back_all_it_holds_and_leaves_all_lines(machine):
    def job(m):
        yield m.acquire(KV, 2, owner=7)
        assert m.take(HBM, 4, owner=7)
        m.acquire(HBM, 1, owner=7)
        yield m.env.timeout(5)
        m.release_all(7)
        yield m.settled()
        assert (m.held(KV), m.held(HBM), m.waiting(HBM)) == (1, 0, [])

    def other(m):
        yield m.acquire(KV, 1, owner=8)
        yield m.env.timeout(9)
        m.release(KV, 1, owner=8)

    run(machine, act=[job, other])
    assert machine.held(KV) == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.acquire(KV, 5), "c2: amount is 5; it must be between 1 and its capacity 4"),
        (lambda m: m.take(KV, 0), "c2: amount is 0"),
        (lambda m: m.acquire(GPU, 1), "c0: has no capacity"),
        (lambda m: m.release(KV, 1), "1 released, but its owner holds 0"),
    ],
)
def test_impossible_acquire_or_release_raises_at_the_call(machine, call, said):
    with pytest.raises(SimulationError, match=said):
        call(machine)


def test_a_threshold_can_watch_held_amounts_and_waiters(machine):
    seen = log_of(
        machine,
        lambda m: m.reaches("held", KV, at_least=3),
        lambda m: m.reaches("queue", KV, at_least=1),
        lambda m: m.reaches("held", KV, at_most=0),
    )
    run(machine, op(holds=[(KV, 3)], release=2, fixed=5), op(holds=[(KV, 2)], release=4, fixed=1))
    assert seen == [(2, "woke"), (4, "woke"), (8, "woke")]


# The end of a run.


def test_a_run_that_ends_with_a_waiting_process_names_the_holder(machine):
    def server(m):
        yield m.acquire(KV, 3)

    def client(m):
        yield m.env.timeout(1)
        yield m.acquire(KV, 2)

    with pytest.raises(SimulationError) as error:
        run(machine, act=[server, client])
    said = "c2: 3 of 4 held (server 3), waiting: client for 2; release what is held"
    assert error.value.kind == "deadlock"
    assert said in str(error.value)


def test_ops_waiting_for_an_amount_of_a_process_are_deadlock_roots(machine):
    def server(m):
        yield m.acquire(KV, 3)

    held = op(holds=[(KV, 1, 2)], fixed=1)
    with pytest.raises(SimulationError) as error:
        run(machine, held, op(after=[0], holds=[(KV, 1)]), op(after=[1]), act=[server])
    assert (error.value.kind, error.value.ops, error.value.open_ops) == ("deadlock", (1, 2), (1, 2))
    assert "held (op 2 1, server 3), waiting: op 1 for 1" in str(error.value)


def test_ops_that_hold_until_each_other_end_are_a_cycle(machine):
    first, second = op(holds=[(KV, 3, 2)]), op(holds=[(HBM, 3, 3)])
    third, fourth = op(after=[1], holds=[(HBM, 2)]), op(after=[0], holds=[(KV, 2)])
    with pytest.raises(SimulationError, match="op 2 waits for op 3 waits for op 2") as error:
        run(machine, first, second, third, fourth)
    assert (error.value.kind, error.value.ops) == ("deadlock", (2, 3))


def test_holders_are_named_by_id_after_claim_rows_were_reused(machine):
    """Freed rows are reused last in, first out, so claims are stored in another order than ops."""
    for _ in range(2):
        submit(machine, op(holds=[(KV, 1)], fixed=1))
    machine.run()
    machine.collect_ended()
    for _ in range(2):
        submit(machine, op(holds=[(KV, 2, 1)]), op(after=[0], holds=[(KV, 1)]))
    said = r"c2: 4 of 4 held \(op 3 2, op 5 2\), waiting: op 3 for 1, op 5 for 1; "
    with pytest.raises(SimulationError, match=said):
        machine.run()


def test_queues_stay_intact_when_finished_graphs_are_freed(machine):
    """A queued request can still be withdrawn after memory was compacted."""
    submit(machine, op(GPU, holds=[(HBM, 1)], fixed=2))
    submit(machine, *[op(GPU, fixed=5)] * 4, *[op(holds=[(KV, 3)], fixed=4)] * 3)

    def process(m):
        yield m.env.timeout(3)
        over = m.collect_ended().over.tolist()
        assert over == [True, False]
        m.stop(3)  # from the middle of the line for slots
        m.stop(6)  # and of that for amounts
        yield m.settled()
        assert [m.queue(GPU), m.waiting(KV)] == [[(2, 0), (4, 0)], [(7, 3)]]
        m.resume(3)
        m.resume(6)

    machine.env.process(process(machine))
    machine.run()
    assert machine.columns().end.tolist() == [7, 12, 22, 17, 4, 12, 8]


def test_an_op_in_the_line_of_a_failed_capacity_starves(machine):
    def process(m):
        m.fail(KV)
        yield m.env.timeout(1)

    with pytest.raises(SimulationError, match="op 0 waits for failed c2") as error:
        run(machine, op(holds=[(KV, 1)], release=1), act=[process])
    assert error.value.kind == "starvation"


# Two engines, one meaning.


def test_random_programs_cover_capacities():
    reached = set()
    for seed in range(150):
        outcome = play(ReferenceEngine, random_script("capacity", seed))
        reached.add(outcome.error[1] if outcome.error else "done")
        reached |= {str(entry[1]) for entry in outcome.log}
        reached |= {f"took {entry[-1]}" for entry in outcome.log if entry[1] == "took"}
        if outcome.columns is not None:
            times = zip(outcome.columns["asked"], outcome.columns["granted"], strict=True)
            reached |= {"waited" for asked, granted in times if asked < granted}
    wanted = {"done", "deadlock", "starvation", "amount", "interrupted", "refused", "lost"}
    assert wanted | {"took True", "took False", "waited"} <= reached


def test_random_programs_free_graphs_that_held_amounts():
    reached = set()
    for seed in range(100):
        for _, verb, *said in play(ReferenceEngine, random_script("prepared", seed)).log:
            if verb == "gave back" and said[2][5]:
                graphs, (*_, claim, asked, granted, _) = said[0], said[2]
                reached |= {
                    "over" for g, first in zip(graphs, claim, strict=True) if g[2] and first
                }
                reached |= {"waited" for a, g in zip(asked, granted, strict=True) if a < g}
                reached |= {"waits" for a, g in zip(asked, granted, strict=True) if a > g}
    assert reached == {"over", "waited", "waits"}


def test_an_engine_with_queue_jumping_is_detected():
    class Passing(ReferenceEngine):
        def _run_round(self):
            for part in self.at:
                part.line.sort(key=lambda claim: claim.amount)
            return super()._run_round()

    different = 0
    for seed in range(60):
        script = random_script("capacity", seed)
        different += bool(compare(play(ReferenceEngine, script), play(Passing, script)))
    assert different > 5
