"""Stores in kernels of compiled processes: verbs, errors, other processes, and lasting properties.

Each test runs on the reference engine, through SimPy on the compiled one, and in its loop.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.core.policies import policy_driver
from foretrace.sim.core.policies.policy_driver import PolicyLoop
from foretrace.sim.engine_api.store_interface import PARTS
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.eviction.store import Store
from foretrace.sim.facts.system import Component, System
from foretrace.sim.kernel import policy, policy_store
from foretrace.sim.kernel.jit import LINKED, jit
from foretrace.sim.run.policies.compiled_process import CompiledProcess
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Needs, Workload

CACHE, PAGES, KV = "node0.cache", "node0.pages", "node0.kv"
SYSTEM = System(
    (
        Component(CACHE, "memory", capacity=Store(4), unit="block"),
        Component(PAGES, "memory", capacity=Store(4, "order"), unit="block"),
        Component(KV, "memory", capacity=4, unit="block"),
    ),
    (),
)
HOLD, RELEASE, DROP, TOUCH, SET_ORDER, OWNERS, SIZE, USED, HELD, PREFIX, TAKE, WAIT = range(12)


class Played(NamedTuple):
    """Rows of verb, part, key and number; number of the next row."""

    rows: np.ndarray
    at: np.ndarray


@jit
def do(turn, verb, part, key, number):
    """Do what a row says; returns the answer."""
    if verb == HOLD:
        return int(policy_store.hold(turn, part, key, number))
    if verb == RELEASE:
        policy_store.release(turn, part, key)
    elif verb == DROP:
        return int(policy_store.drop(turn, part, key))
    elif verb == TOUCH:
        policy_store.touch(turn, part, key)
    elif verb == SET_ORDER:
        policy_store.set_order(turn, part, key, number)
    elif verb == OWNERS:
        return policy_store.owners(turn, part, key)
    elif verb == SIZE:
        return policy_store.size(turn, part, key)
    elif verb == USED:
        return policy_store.used(turn, part)
    elif verb == HELD:
        return policy_store.held(turn, part)
    elif verb == PREFIX:
        return policy_store.longest_prefix(turn, part, np.arange(key, key + number))
    elif verb == TAKE:
        return int(policy.take(turn, part, number))
    return 0


@policy.policy_kernel
def plays(state, event, turn):
    """Emit the answer of each row, up to one that waits."""
    while state.at[0] < len(state.rows):
        row = state.rows[state.at[0]]
        state.at[0] += 1
        if row[0] == WAIT:
            policy.after(turn, row[3], 0)
            return policy.GO_ON
        policy.emit(turn, 0, do(turn, row[0], row[1], row[2], row[3]))
    return policy.DONE


WAYS = ["reference", "core", "loop"] if LINKED else ["reference", "core"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """How kernels are called."""
    if request.param == "core":
        monkeypatch.setattr(CoreEngine, "drive", lambda engine, policy: None)
    monkeypatch.setattr(policy_driver, "DULL", -(10**9))  # however few calls a loop makes
    return request.param


@pytest.fixture
def run(way):
    engine = "core" if way == "loop" else way

    def run(*processes, system=SYSTEM, work=None):
        return Simulation(system, {}, engine, 1e-9).run(work, *processes)

    return run


@pytest.fixture
def calls(monkeypatch):
    """Number of calls of kernels in each loop."""
    made, back = [], PolicyLoop._return_to_simpy

    def note(loop, code, error):
        made.append(loop.now.item(policy_driver.dl.EVENTS))
        back(loop, code, error)

    monkeypatch.setattr(PolicyLoop, "_return_to_simpy", note)
    return made


def process(*rows, parts=(CACHE, PAGES, KV), name="one", **settings):
    """A kernel that waits for a tick, so that the loop may begin, and then plays rows."""
    padded = [(WAIT, 0, 0, 1)] + [(*row, *[0] * (4 - len(row))) for row in rows]
    return CompiledProcess(
        plays, Played(np.array(padded, np.int64), np.zeros(1, np.int64)), parts=parts,
        metrics=[name], name=name, **settings,
    )  # fmt: skip


def answers(result, name="one"):
    return result.emitted.samples[name].tolist()


def wait(ticks):
    return WAIT, 0, 0, ticks


# What a kernel does and sees.


def test_an_entry_is_held_cached_and_gone(run):
    rows = [
        (HOLD, 0, 7, 3), (HOLD, 0, 7, 3), (OWNERS, 0, 7), (SIZE, 0, 7), (USED, 0), (HELD, 0),
        (RELEASE, 0, 7), (RELEASE, 0, 7), (OWNERS, 0, 7), (USED, 0), (HELD, 0),
        (DROP, 0, 7), (OWNERS, 0, 7), (SIZE, 0, 7), (USED, 0),
    ]  # fmt: skip
    assert answers(run(process(*rows))) == [1, 1, 2, 3, 3, 3, 0, 0, 0, 3, 0, 1, -1, 0, 0]


def test_a_kernel_reuses_at_once_what_it_released(run):
    rows = [
        (HOLD, 0, 1, 2), (HOLD, 0, 2, 2), (HOLD, 0, 3, 1), (RELEASE, 0, 1), (HOLD, 0, 3, 1),
        (OWNERS, 0, 1), (PREFIX, 0, 2, 3), (PREFIX, 0, 1, 2),
    ]  # fmt: skip
    result = run(process(*rows))
    assert answers(result) == [1, 1, 0, 0, 1, -1, 2, 0]
    assert tuple(result.stores[CACHE].counts) == (0, 3, 1, 1)


def test_calls_of_one_turn_are_one_process(run):
    """Two timers of a tick: the second call uses what the first one released."""
    rows = [(HOLD, 0, 1, 4), wait(3), (RELEASE, 0, 1), wait(0), (HOLD, 0, 2, 4), (OWNERS, 0, 1)]
    assert answers(run(process(*rows))) == [1, 0, 1, -1]


def test_touches_and_order_numbers_decide_what_is_evicted(run):
    rows = [(HOLD, part, key, 2) for part in (0, 1) for key in (1, 2)]
    rows += [(RELEASE, part, key) for part in (0, 1) for key in (1, 2)]
    rows += [(TOUCH, 0, 1), (SET_ORDER, 1, 1, 5)]
    rows += [(HOLD, part, 3, 1) for part in (0, 1)]
    rows += [(OWNERS, part, key) for part in (0, 1) for key in (1, 2)]
    assert answers(run(process(*rows)))[-4:] == [0, -1, 0, -1]


def test_held_amounts_are_those_of_the_component(run):
    rows = [(HOLD, 0, 1, 3), wait(4), (HOLD, 0, 2, 1), (RELEASE, 0, 1), wait(5)]
    result = run(process(*rows))
    assert result.acquired.changes.tolist() == [[1, 0, 3], [5, 0, -2], [10, 0, -1]]
    assert result.stores[CACHE].samples.tolist() == [[1, 3, 3], [5, 4, 1], [10, 4, 0]]


# Next to generators.


def test_a_kernel_and_a_generator_hold_one_entry(run):
    seen = []

    def other(sim):
        cache = sim.store(CACHE)
        yield sim.env.timeout(4)
        seen.append((cache.owners(7), cache.hold(7, 2), cache.owners(7)))
        yield sim.env.timeout(4)
        seen.append((cache.owners(7), cache.owners(8)))
        cache.release(7)

    rows = [(HOLD, 0, 7, 2), wait(5), (OWNERS, 0, 7), (RELEASE, 0, 7), (HOLD, 0, 8, 1), wait(9)]
    assert answers(run(process(*rows), other)) == [1, 2, 0, 1]
    assert seen == [(1, True, 2), (1, 1)]


def test_a_kernel_uses_parts_of_an_entry_that_a_generator_split(run):
    seen = []

    def splits(sim):
        cache = sim.store(CACHE)
        cache.hold(7, 3)
        parts = cache.split(7, [1, 2])
        yield sim.env.timeout(9)
        seen.append([cache.owners(part) for part in parts])

    first, second = PARTS - 1, PARTS - 2
    rows = [
        (OWNERS, 0, 7), (OWNERS, 0, first), (SIZE, 0, second), (HOLD, 0, second, 2),
        (OWNERS, 0, second), (HOLD, 0, first, 1), (RELEASE, 0, first), (HELD, 0), wait(20),
    ]  # fmt: skip
    assert answers(run(process(*rows), splits)) == [-1, 1, 2, 1, 2, 1, 0, 3]
    assert seen == [[1, 2]]


def test_others_use_in_the_next_turn_what_a_kernel_released(run):
    rows = [(HOLD, 0, 1, 4), wait(3), (RELEASE, 0, 1), wait(9)]
    other = [wait(3), (HOLD, 0, 2, 4), (USED, 0), wait(1), (HOLD, 0, 2, 4), wait(9)]
    result = run(process(*rows), process(*other, name="two"))
    assert answers(result, "two") == [0, 4, 1]


def test_a_failed_store_refuses_holds_of_a_kernel(run):
    def faults(sim):
        yield sim.env.timeout(3)
        sim.fail(CACHE)
        yield sim.env.timeout(10)
        sim.restore(CACHE)

    rows = [(HOLD, 0, 1, 2), wait(5), (HOLD, 0, 1, 2), (RELEASE, 0, 1), wait(9), (HOLD, 0, 1, 2)]
    assert answers(run(process(*rows), faults)) == [1, 0, 0, 1]


# Memory.


def test_a_store_grows_in_the_middle_of_a_call(run, calls, way):
    """Far more entries in one call than a new store has rows."""
    system = System((Component(CACHE, "memory", capacity=Store(900), unit="block"),), ())
    rows = [(HOLD, 0, key, 1) for key in range(1000)] + [wait(1)]
    rows += [(RELEASE, 0, key) for key in range(500)] + [(HOLD, 0, 2000, 400), (USED, 0), wait(2)]
    result = run(process(*rows, parts=[CACHE], actions=3000), system=system)
    assert answers(result) == [1] * 900 + [0] * 100 + [0] * 500 + [1, 900]
    assert tuple(result.stores[CACHE].counts) == (0, 901, 100, 400)
    if way == "loop":
        assert sum(calls) >= 3


def test_many_turns_leave_the_same_samples(run):
    """More turns than the loop's table of samples has rows."""

    result = run(
        CompiledProcess(
            cycles, Played(np.zeros((0, 4), np.int64), np.array([20_000])), parts=[CACHE]
        )
    )
    history = result.stores[CACHE]
    assert 2000 < len(history.samples) <= 4096
    assert history.samples[-1].tolist() == [100_000, 4, 0]
    assert sum(history.counts[:2]) == 20_001


@policy.policy_kernel
def cycles(state, event, turn):
    """Hold another entry every 5 ticks, and release the last one."""
    left = state.at[0]
    if event[policy.KIND] == policy.TIMER:
        policy_store.release(turn, 0, (left + 1) % 9)
    policy_store.hold(turn, 0, left % 9, 1)
    if left == 0:
        return policy.DONE
    state.at[0] -= 1
    policy.after(turn, 5, 0)
    return policy.GO_ON


# Errors.

ERRORS = [
    ((HOLD, 0, 7, 5), f"{CACHE}: entry 7 has size 5; give one between 1 and the store's 4"),
    ((HOLD, 0, 7, 0), f"{CACHE}: entry 7 has size 0; give one"),
    ((HOLD, 0, 1, 3), f"{CACHE}: entry 1 has size 2, and size 3 was given; give the same size"),
    ((HOLD, 0, -3, 1), f"{CACHE}: key is -3; give a number of 0 or more, or a text"),
    ((OWNERS, 0, -3), f"{CACHE}: key is -3"),
    ((HOLD, 0, PARTS, 1), f"{CACHE}: key is {PARTS}; give a number of 0 or more"),
    ((HOLD, 0, PARTS - 1, 1), "is a part that is gone; hold and split a new entry"),
    ((RELEASE, 0, 8), f"{CACHE}: entry 8 is not in the store; hold it first"),
    ((RELEASE, 0, 2), f"{CACHE}: entry 2 is not held by owner "),
    ((DROP, 0, 8), "entry 8 is not in the store"),
    ((TOUCH, 0, 8), "entry 8 is not in the store"),
    ((SET_ORDER, 0, 1, 3), "rule 'lru' ignores numbers; declare eviction order or window"),
    ((SET_ORDER, 1, 8, 3), "entry 8 is not in the store"),
    ((HOLD, 2, 1, 1), f"{KV}: is no store; give it capacity=Store"),
    ((USED, 2), f"{KV}: is no store"),
    ((PREFIX, 2, 1, 3), f"{KV}: is no store"),
    ((HOLD, 3, 1, 1), "one: part 3 does not exist; parts has 3, numbered from 0"),
    ((TAKE, 0, 0, 1), f"{CACHE}: is a store; hold entries of it"),
    ((TAKE, 0, 0, 4), f"{CACHE}: is a store; hold entries of it"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_a_wrong_verb_is_refused(run, wrong, message):
    """Verbs that follow in the call would make it right, and do nothing."""
    mends = [(HOLD, 0, 8, 1), (HOLD, 0, 2, 1), (DROP, 0, 1), (HOLD, 0, 7, 1), wait(3)]
    first = [(HOLD, 0, 1, 2), (HOLD, 0, 2, 1), (RELEASE, 0, 2), wait(1)]
    with pytest.raises(SimulationError) as raised:
        run(process(*first, wrong, *mends))
    assert message in str(raised.value)


@policy.policy_kernel
def grows_late(state, event, turn):
    if event[policy.KIND] == policy.START:
        policy.after(turn, 1, 0)
        return policy.GO_ON
    policy_store.hold(turn, 0, 7, 1)
    return policy.grow(turn, 0, 9)


def test_growing_after_a_hold_is_refused(run):
    late = CompiledProcess(
        grows_late, Played(np.zeros((0, 4), np.int64), np.zeros(1, np.int64)), parts=[CACHE]
    )
    with pytest.raises(SimulationError, match="wrote actions before it returned grow"):
        run(late)


@pytest.mark.parametrize("touches", [(), (KV,)])
def test_a_store_is_observed_and_not_changed_without_permission(run, touches):
    def work(sim):
        yield sim.env.timeout(9)

    watch = process((USED, 0), (HOLD, 0, 1, 1), touches=touches)
    with pytest.raises(SimulationError, match=rf"one: alters {CACHE}"):
        run(watch, work)


# Properties.

KEYS, LOST, ENDS = 6, 1000, 2000  # and emitted values: a hold was lost, the process ends


class Drawn(NamedTuple):
    """Number of calls left and of the random draw; number of holds of each key."""

    now: np.ndarray
    kept: np.ndarray


@jit
def draw(state, below):
    state.now[1] = state.now[1] * 48271 % (2**31 - 1)
    return state.now[1] // 7 % below


@policy.policy_kernel
def wanders(state, event, turn):
    """Hold, release and drop at random, at even ticks, and emit each change of its holds."""
    for _ in range(draw(state, 4)):
        key = draw(state, KEYS)
        if draw(state, 3) and state.kept[key]:
            policy_store.release(turn, 0, key)
            state.kept[key] -= 1
            policy.emit(turn, 0, -1 - key)
        elif draw(state, 5) == 0 and policy_store.owners(turn, 0, key) >= 0:
            policy_store.drop(turn, 0, key)
        elif policy_store.hold(turn, 0, key, 1 + key % 3):
            state.kept[key] += 1
            policy.emit(turn, 0, 1 + key)
        if max(policy_store.owners(turn, 0, key), 0) < state.kept[key]:
            policy.emit(turn, 0, LOST)
    state.now[0] -= 1
    policy.after(turn, 2 * draw(state, 3), 0)
    if state.now[0]:
        return policy.GO_ON
    policy.emit(turn, 0, ENDS)
    return policy.DONE


class Wanders(Workload):
    """A job that holds entries until it ends or is stopped."""

    needs = Needs({})

    def __init__(self, name, seed, count):
        self.name, self.seed, self.count = name, seed, count

    def start(self, job):
        state = Drawn(np.array([self.count, self.seed]), np.zeros(KEYS, np.int64))
        return CompiledProcess(
            wanders, state, parts=[CACHE], metrics=[self.name], name=self.name, actions=99
        )


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_entry_is_lost_in_two_places_or_owned_by_nobody(run, seed):
    """Holds of each job, summed from its emissions, are the owners of the entries."""
    audits, ends = [], {}

    def audit(sim):
        cache = sim.store(CACHE)
        first = sim.launch(Wanders("a", seed, 200), "first")
        others = [sim.launch(Wanders(n, 77 * seed + k, 150), n) for k, n in enumerate("bc")]
        yield sim.env.timeout(1)
        for k in range(60):
            entries = cache.entries()
            audits.append((sim.env.now, {e.key: e.owners for e in entries}))
            assert len({e.key for e in entries}) == len(entries)
            assert sum(e.size for e in entries) == cache.used <= 4
            assert sum(e.size for e in entries if e.owners) == cache.held == sim.held(CACHE)
            if k == 20:
                first.stop()
                ends["a"] = sim.env.now
            if k in (30, 34):
                (sim.fail if k == 30 else sim.restore)(CACHE)
            yield sim.env.timeout(2 + 4 * (k % 3))
        for job in others:
            yield job.done
        yield sim.env.timeout(3 - sim.env.now % 2)
        audits.append((sim.env.now, {e.key: e.owners for e in cache.entries()}))

    emitted = list(run(audit).emitted)
    assert LOST not in {value for *_, value in emitted}
    assert len(emitted) > 100
    log = [(n, round(t * 1e9), int(v)) for n, t, v in emitted]
    for now, owners in audits[:-1]:
        assert held_at(log, now, ends) == {k: n for k, n in owners.items() if n}
    assert not any(audits[-1][1].values())


def held_at(log, now, ends):
    """Number of holds of each key, of all jobs that have not ended."""
    kept = Counter()
    over = {name for name, at, value in log if value == ENDS and at < now}
    over |= {name for name, at in ends.items() if at < now}
    for name, at, value in log:
        if at < now and name not in over:
            kept[abs(value) - 1] += 1 if value > 0 else -1
    return {key: n for key, n in kept.items() if n}
