"""Rules of stores, on both engines, and properties of their entries under random programs."""

import numpy as np
import pytest
import simpy
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.core.stores.entry_store import EntryStore as CoreStore
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.store_control import AmountSamples
from foretrace.sim.engine_api.store_interface import NOBODY, PARTS, SeenEntry
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.eviction.rule import EVICTION_RULES, EvictionRule, eviction_rule
from foretrace.sim.reference.engine import ReferenceEngine
from foretrace.sim.reference.entry_store import EntryStore as ReferenceStore
from hypothesis import given, settings
from hypothesis import strategies as st

ENGINES = {"reference": ReferenceEngine, "core": CoreEngine}
STORES = {"reference": ReferenceStore, "core": CoreStore}
CACHE, KV = 0, 1
RULES = sorted(EVICTION_RULES)


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def machine_with(engine, capacity=4, rule="lru"):
    """Engine with a store and an ordinary capacity of 4."""
    script = Script((-1, -1), (-1, -1), (), capacity=(capacity, 4), rules=(rule, ""))
    return ENGINES[engine](script.parts)


@pytest.fixture
def machine(engine):
    return machine_with(engine)


def run(machine, *processes):
    """Run processes (generator functions of the engine), which start in this order."""
    for process in processes:
        machine.env.process(process(machine))
    machine.run()


def keys(machine):
    return [entry.key for entry in machine.stores.entries(CACHE)]


# An entry's life.


def test_an_entry_is_held_cached_and_gone(machine):
    of = machine.stores
    assert of.hold(CACHE, 7, 3)
    assert of.hold(CACHE, 7, 3, owner=1)
    assert of.entry(CACHE, 7) == SeenEntry(7, 3, 2)
    of.release(CACHE, 7)
    of.release(CACHE, 7, owner=1)
    assert (of.entry(CACHE, 7), of.amounts(CACHE)) == (SeenEntry(7, 3, 0), (3, 0))
    assert of.drop(CACHE, 7)
    assert (of.entry(CACHE, 7), of.amounts(CACHE)) == (None, (0, 0))


def test_a_cached_entry_that_is_held_again_is_a_hit(machine):
    of = machine.stores
    of.hold(CACHE, 7, 3)
    of.release(CACHE, 7)
    assert of.hold(CACHE, 7, 3)
    assert of.counts(CACHE)[:2] == (1, 1)


def test_a_hold_evicts_no_more_than_it_needs(machine):
    of = machine.stores
    for key in range(4):
        of.hold(CACHE, key, 1)
        of.release(CACHE, key)
    assert of.hold(CACHE, 9, 2)
    assert keys(machine) == [2, 3, 9]
    assert of.counts(CACHE).evictions == 2


def test_a_hold_that_does_not_fit_evicts_nothing(machine):
    of = machine.stores
    of.hold(CACHE, 1, 2)
    of.hold(CACHE, 2, 2)
    of.release(CACHE, 2)
    assert not of.hold(CACHE, 3, 3)
    assert keys(machine) == [1, 2]
    assert (of.counts(CACHE).refused, of.counts(CACHE).evictions) == (1, 0)


def test_the_longest_prefix_ends_at_the_first_entry_that_is_gone(machine):
    of = machine.stores
    for key in (5, 6, 8):
        of.hold(CACHE, key, 1)
    of.release(CACHE, 5)
    assert of.longest_prefix(CACHE, np.array([5, 6, 7, 8])) == 2
    assert of.longest_prefix(CACHE, np.array([], np.int64)) == 0


def test_a_hold_of_a_prefix_entry_and_its_owners_are_released_by_owner(machine):
    of = machine.stores
    for owner in (1, 2):
        of.hold(CACHE, 5, 1, owner)
        of.hold(CACHE, 6, 1, owner)
    of.hold(CACHE, 6, 1, owner=1)
    of.release_all(1)
    assert [e.owners for e in of.entries(CACHE)] == [1, 1]
    of.release_all(2, CACHE)
    assert of.amounts(CACHE) == (2, 0)


def test_a_split_entry_keeps_its_owners_order_and_amount(machine):
    of = machine.stores
    of.hold(CACHE, 1, 3, owner=1)
    of.hold(CACHE, 1, 3, owner=2)
    parts = of.split(CACHE, 1, [2, 1])
    assert parts == [PARTS - 1, PARTS - 2]
    assert of.entries(CACHE) == [SeenEntry(parts[1], 1, 2), SeenEntry(parts[0], 2, 2)]
    of.release_all(1)
    of.release(CACHE, parts[0], owner=2)
    assert of.hold(CACHE, 2, 3)
    assert keys(machine) == [parts[1], 2]


# Eviction.

ORDERS = {
    "lru": [3, 4, 1, 2],
    "oldest": [1, 2, 3, 4],
    "window": [4, 3, 1, 2],
    "order": [4, 2, 3, 1],
}


@pytest.mark.parametrize("rule", RULES)
def test_entries_are_evicted_by_the_rule(engine, rule):
    machine = machine_with(engine, 4, rule)
    of, order = machine.stores, {1: 3, 2: 0, 3: 0, 4: -1}
    for key in order:
        of.hold(CACHE, key, 1)
    for key, number in order.items():
        if rule in ("order", "window"):
            of.set_order(CACHE, key, number)
        of.release(CACHE, key)
    of.touch(CACHE, 1)
    of.touch(CACHE, 2)
    gone = []
    for new in range(11, 15):
        before = set(keys(machine))
        assert of.hold(CACHE, new, 1)
        gone += before - set(keys(machine))
    assert gone == ORDERS[rule]


def test_a_rule_of_a_plug_in_names_two_numbers(engine):
    @eviction_rule("least-often")
    class LeastOften(EvictionRule):
        first_by, then_by = "uses", "used"

    try:
        machine = machine_with(engine, 3, "least-often")
    finally:
        del EVICTION_RULES["least-often"]
    of = machine.stores
    for key in (1, 1, 2, 3, 3):
        of.hold(CACHE, key, 1)
    for key in (1, 1, 2, 3, 3):
        of.release(CACHE, key)
    of.hold(CACHE, 4, 1)
    of.hold(CACHE, 5, 1)
    assert keys(machine) == [3, 4, 5]


# Several processes in one turn.


def test_what_a_process_releases_it_may_reuse_at_once_and_others_in_the_next_turn(machine):
    seen = []

    def holds_all(m):
        m.stores.hold(CACHE, 1, 4)
        yield m.env.timeout(1)
        m.stores.release(CACHE, 1)
        yield m.env.timeout(0)
        seen.append(m.stores.hold(CACHE, 2, 4))

    def other(m):
        yield m.env.timeout(1)
        seen.append(m.stores.hold(CACHE, 3, 1))
        seen.append(m.stores.drop(CACHE, 1))
        yield m.env.timeout(0)
        seen.append(m.stores.hold(CACHE, 3, 4))

    run(machine, holds_all, other)
    assert seen == [False, False, True, False]
    assert keys(machine) == [2]


def test_room_that_a_process_frees_is_its_own_in_this_turn(machine):
    seen = []

    def first(m):
        m.stores.hold(CACHE, 1, 3)
        m.stores.release(CACHE, 1)
        yield m.settled()
        seen.append(m.stores.hold(CACHE, 2, 2))  # evicts 1, of which 1 is left over, and 1 is free
        seen.append(m.stores.hold(CACHE, 5, 1))

    def second(m):
        yield m.settled()
        seen.append(m.stores.hold(CACHE, 3, 1))
        seen.append(m.stores.hold(CACHE, 4, 1))

    run(machine, first, second)
    assert seen == [True, True, True, False]


def test_a_process_sees_its_own_changes_and_those_of_others_a_turn_later(machine):
    seen = []

    def first(m):
        m.stores.hold(CACHE, 1, 2)
        seen.append((m.stores.amounts(CACHE), keys(m)))
        yield m.settled()

    def second(m):
        seen.append((m.stores.amounts(CACHE), keys(m)))
        yield m.settled()
        seen.append((m.stores.amounts(CACHE), keys(m)))

    run(machine, first, second)
    assert seen == [((2, 2), [1]), ((0, 0), []), ((2, 2), [1])]


def test_a_hold_of_an_entry_that_another_process_created_joins_it(machine):
    seen = []

    def creates(m):
        assert m.stores.hold(CACHE, 1, 3, owner=1)
        yield m.settled()

    def joins(m):
        seen.append(m.stores.longest_prefix(CACHE, np.array([1])))
        seen.append(m.stores.hold(CACHE, 1, 3, owner=2))
        seen.append(m.stores.entry(CACHE, 1))
        yield m.settled()

    run(machine, creates, joins)
    assert seen == [0, True, SeenEntry(1, 3, 2)]


def test_an_entry_that_another_process_evicted_is_seen_until_the_turn_ends(machine):
    seen = []

    def evicts(m):
        m.stores.hold(CACHE, 1, 3)
        m.stores.release(CACHE, 1)
        yield m.settled()
        m.stores.hold(CACHE, 2, 4)

    def looks(m):
        yield m.settled()
        seen.append((keys(m), m.stores.drop(CACHE, 1), m.stores.hold(CACHE, 1, 3)))
        m.stores.touch(CACHE, 1)  # it is gone, which the process cannot know
        yield m.settled()
        seen.append(keys(m))

    run(machine, evicts, looks)
    assert seen == [([1], False, False), [2]]


def test_thresholds_and_engine_observe_the_held_amount_after_a_turn(machine):
    seen = []

    def waits(m):
        yield m.reaches("held", CACHE, at_least=3)
        seen.append((m.env.now, m.held(CACHE), m.capacity(CACHE)))
        yield m.reaches("held", CACHE, at_most=0)
        seen.append((m.env.now, m.held(CACHE)))

    def holds(m):
        yield m.env.timeout(2)
        m.stores.hold(CACHE, 1, 3)
        assert m.held(CACHE) == 0
        yield m.env.timeout(3)
        m.stores.release(CACHE, 1)

    run(machine, waits, holds)
    assert seen == [(2, 3, 4), (5, 0)]


def test_a_failed_store_refuses_holds_and_revokes_nothing(machine):
    def process(m):
        m.stores.hold(CACHE, 1, 1)
        m.fail(CACHE)
        yield m.settled()
        assert not m.stores.hold(CACHE, 2, 1)
        assert not m.stores.hold(CACHE, 1, 1)
        assert m.stores.entry(CACHE, 1).owners == 1
        m.stores.release(CACHE, 1)
        m.restore(CACHE)
        yield m.settled()
        assert m.stores.hold(CACHE, 2, 1)

    run(machine, process)
    assert keys(machine) == [1, 2]


def test_an_interrupted_process_leaves_its_holds_to_their_owner(machine):
    def holds(m):
        m.stores.hold(CACHE, 1, 2, owner=5)
        try:
            yield m.env.timeout(9)
        except simpy.Interrupt:
            yield m.env.timeout(0)

    def process(m):
        victim = m.env.process(holds(m))
        yield m.env.timeout(1)
        victim.interrupt()
        yield m.settled()
        assert m.stores.amounts(CACHE) == (2, 2)
        m.release_all(5)
        yield m.settled()
        assert m.stores.amounts(CACHE) == (2, 0)

    run(machine, process)


def test_names_of_entries_are_numbered_by_the_run(machine):
    of = machine.stores
    first, second = of.number_of_name("prompt"), of.number_of_name("layer 3")
    assert (first, second, of.number_of_name("prompt")) == (-1, -2, -1)
    assert (of.name_of(second), of.name_of(8), of.name_of(PARTS - 1)) == ("layer 3", 8, PARTS - 1)


# Errors.


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda of: of.hold(CACHE, 7, 5), "c0: entry 7 has size 5; give one between 1 and the "),
        (lambda of: of.hold(CACHE, 7, 0), "c0: entry 7 has size 0; give one between 1"),
        (lambda of: of.hold(CACHE, 1, 3), "c0: entry 1 has size 2, and size 3 was given; give the"),
        (lambda of: of.release(CACHE, 1, 9), "entry 1 is not held by owner 9, which releases it"),
        (lambda of: of.release(CACHE, 8), "c0: entry 8 is not in the store; hold it first"),
        (lambda of: of.drop(CACHE, 8), "entry 8 is not in the store"),
        (lambda of: of.touch(CACHE, 8), "entry 8 is not in the store"),
        (lambda of: of.known_entry(CACHE, 8), "entry 8 is not in the store"),
        (lambda of: of.split(CACHE, 8, [1]), "entry 8 is not in the store"),
        (lambda of: of.split(CACHE, 1, [1, 2]), "entry 1 has size 2, and size 3 was given"),
        (lambda of: of.split(CACHE, 1, [2, 0]), r"is split into \[2, 0\]; give sizes of 1 or more"),
        (lambda of: of.set_order(CACHE, 1, 3), "rule 'lru' ignores numbers; declare eviction"),
        (lambda of: of.hold(CACHE, PARTS - 1, 1), "is a part that is gone"),
        (lambda of: of.hold(KV, 1, 1), r"c1: is no store; give it capacity=Store\(size\)"),
        (lambda of: of.engine.take(CACHE, 1), "c0: is a store; hold entries of it"),
        (lambda of: of.engine.acquire(CACHE, 1), "c0: is a store; hold entries of it"),
    ],
)
def test_impossible_commands_raise_at_the_call(machine, call, said):
    machine.stores.hold(CACHE, 1, 2)
    with pytest.raises(SimulationError, match=said):
        call(machine.stores)


def test_an_op_cannot_hold_an_amount_of_a_store(machine):
    with pytest.raises(GraphError, match="holds of c0, which is a store"):
        machine.submit(literal_graph("graph", [LiteralOp(holds=((CACHE, 1, -1),))]))


# Properties.

SMALL = st.integers(0, 5)
ACTORS, OWNERS = st.integers(0, 2), st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.just("hold"), ACTORS, SMALL, OWNERS),
    st.tuples(st.just("hold"), ACTORS, SMALL, OWNERS),
    st.tuples(st.just("release"), ACTORS, SMALL, OWNERS),
    st.tuples(st.just("release"), ACTORS, SMALL, OWNERS),
    st.tuples(st.just("release_all"), ACTORS, OWNERS),
    st.tuples(st.just("drop"), ACTORS, SMALL),
    st.tuples(st.just("touch"), ACTORS, SMALL),
    st.tuples(st.just("set_order"), ACTORS, SMALL, st.integers(-2, 2)),
    st.tuples(st.just("split"), ACTORS, SMALL),
    st.tuples(st.just("settle")),
)
PROGRAMS = st.tuples(st.integers(1, 9), st.sampled_from(RULES), st.lists(STEPS, max_size=60))


def size_of(key, capacity):
    return min(1 + key % 3, capacity)


def apply(store, capacity, step):
    """Answer of a store to one step."""
    verb, *args = step
    if verb == "hold":
        actor, key, owner = args
        return store.hold(actor, key, size_of(key, capacity), owner)
    if verb == "split":
        actor, key = args
        return store.split(actor, key, np.ones(size_of(key, capacity), np.int64))
    return getattr(store, verb)(*args)


def observed(store):
    """Everything that each actor sees, and an actor that has not acted."""
    few = np.arange(4)
    return [
        (store.amounts(a), store.entries(a), store.longest_prefix(a, few))
        for a in (NOBODY, 0, 1, 2)
    ], store.counts


@settings(max_examples=150, deadline=None)
@given(PROGRAMS)
def test_both_stores_answer_and_show_the_same(program):
    capacity, rule, steps = program
    stores = [cls(capacity, EVICTION_RULES[rule]) for cls in STORES.values()]
    for step in steps:
        one, other = (apply(store, capacity, step) for store in stores)
        assert (step, one) == (step, other)
        assert observed(stores[0]) == observed(stores[1])


@settings(max_examples=60, deadline=None)
@given(PROGRAMS)
def test_entries_are_never_lost_nor_above_the_capacity(program):
    """A model keeps a set of owners per entry; the store must agree with it after each step."""
    capacity, rule, steps = program
    store = CoreStore(capacity, EVICTION_RULES[rule])
    owned: dict[int, list[int]] = {}
    for step in steps:
        answer = apply(store, capacity, step)
        verb, *args = step
        if verb == "hold" and answer > 0:
            owned.setdefault(args[1], []).append(args[2])
        elif verb == "release" and answer > 0:
            owned[args[1]].remove(args[2])
        elif verb == "release_all":
            owned = {k: [o for o in of if o != args[1]] for k, of in owned.items()}
        elif verb == "split" and answer > 0:
            whole = owned.pop(args[1])
            owned |= {PARTS - answer - i: list(whole) for i in range(size_of(args[1], capacity))}
        store.settle()
        entries = store.entries(NOBODY)
        assert len({e.key for e in entries}) == len(entries)
        assert sum(e.size for e in entries) == store.amounts(NOBODY)[0] <= capacity
        assert sum(e.size for e in entries if e.owners) == store.amounts(NOBODY)[1]
        held = {key: len(of) for key, of in owned.items() if of}
        assert {e.key: e.owners for e in entries if e.owners} == held


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RULES), st.lists(st.tuples(SMALL, st.integers(-2, 2)), min_size=6))
def test_eviction_follows_the_rule(rule, program):
    """Entries of size 1 go in the order of the rule's numbers, computed beside the store."""
    store, clock = CoreStore(6, EVICTION_RULES[rule]), 0
    numbers: dict[int, dict[str, int]] = {}
    for key, order in program:
        clock += 1
        store.hold(0, key, 1, owner=0)
        new = {"zero": 0, "size": 1, "uses": 0, "created": clock, "order": 0, "used": 0}
        mine = numbers.setdefault(key, new)
        clock += 1
        store.release(0, key, owner=0)
        store.set_order(0, key, order)
        mine |= {"used": clock, "order": order, "outside": min(order, 0), "uses": mine["uses"] + 1}
    first, then = EVICTION_RULES[rule].first_by, EVICTION_RULES[rule].then_by
    expected = sorted(numbers, key=lambda k: (numbers[k][first], numbers[k][then]))
    free, gone = 6 - len(numbers), []
    for new in range(10, 10 + 6):
        before = {e.key for e in store.entries(0)}
        store.hold(0, new, 1, owner=0)
        gone += before - {e.key for e in store.entries(0)}
    assert gone == expected
    assert free + len(gone) == 6


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 7), st.integers(1, 9))
def test_samples_of_many_turns_are_those_of_one_turn_after_the_other(gaps, batch, most):
    rows = np.column_stack([np.cumsum(gaps), np.arange(len(gaps)), np.arange(len(gaps)) // 2])
    one, many = AmountSamples(most), AmountSamples(most)
    for row in rows.tolist():
        one.add(*row)
    for first in range(0, len(rows), batch):
        many.extend(rows[first : first + batch])
    assert (many.rows.tolist(), many.window) == (one.rows.tolist(), one.window)


def test_a_large_store_grows_and_evicts_in_order():
    """More entries, owners and evictions than the arrays of a new store hold."""
    stores = [cls(500, EVICTION_RULES["lru"]) for cls in STORES.values()]
    for store in stores:
        for key in range(900):
            assert store.hold(0, key, 1, owner=key % 77) > 0
            if key >= 200:
                store.release(0, key - 200, owner=(key - 200) % 77)
            if key % 100 == 0:
                store.settle()
    assert stores[0].entries(0) == stores[1].entries(0)
    assert stores[0].counts == stores[1].counts
    assert stores[0].counts.evictions == 400


def test_many_actors_and_parts_in_one_turn():
    stores = [cls(64, EVICTION_RULES["oldest"]) for cls in STORES.values()]
    answers = []
    for store in stores:
        mine = [store.hold(actor, 1, 64, owner=actor) for actor in range(100)]
        mine.append(store.split(3, 1, np.ones(64, np.int64)))
        answers.append((mine, observed(store), store.settle(), observed(store)))
    assert answers[0] == answers[1]
