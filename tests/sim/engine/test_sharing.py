"""Compiled max-min medium compared with plain progressive filling from scratch."""

import os
import random
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from foretrace.sim.engine_api.interface import MAX_TICK, NO_LIMIT, ONE, ComponentTable
from foretrace.sim.errors import BackendError
from foretrace.sim.media.max_min import medium as core
from foretrace.sim.media.max_min.medium_memory import MaxMinMemory
from foretrace.sim.media.max_min.pairing_heap import NONE
from foretrace.sim.media.max_min.table_layout import BUNDLE, FENCE, LEVEL, SHARED

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
SEEDS = [
    range(30 if INTERPRETED else 200),
    pytest.param(range(200, 2000), marks=pytest.mark.nightly),
]


@pytest.fixture(autouse=True)
def _words_wrap() -> Iterator[None]:
    with np.errstate(over="ignore"):
        yield


def medium(*rates: int, top: int = 0) -> MaxMinMemory:
    rate = np.array(rates, np.int64)
    tops = np.full(len(rates), max(top, *rates), np.int64)
    names = tuple(f"c{i}" for i in range(len(rates)))
    return MaxMinMemory(ComponentTable(names, np.full(len(rates), -1, np.int32), rate, tops))


class Plain:
    """Plain model of the medium: Python integers, all rates recomputed at every change."""

    def __init__(self, rates: tuple[int, ...]):
        self.capacity = list(rates)
        self.flows: list[tuple[dict[int, int], int]] = []
        self.left: list[int] = []
        self.rate: dict[int, int] = {}
        self.now = 0

    def go(self, now: int) -> None:
        for f, x in self.rate.items():
            self.left[f] = max(0, self.left[f] - x * (now - self.now))
        self.now = now

    def fill(self) -> None:
        uses = {f: dict(self.flows[f][0]) for f in self.rate}
        room = {c: r * ONE for c, r in enumerate(self.capacity)}
        for f in uses:
            if self.flows[f][1] != NO_LIMIT:
                room[-1 - f], uses[f][-1 - f] = self.flows[f][1] * ONE, ONE
        self.levels: dict[int, int] = {}
        while uses:
            weight: dict[int, int] = {}
            for u in uses.values():
                for c, w in u.items():
                    weight[c] = weight.get(c, 0) + w
            level = {c: room[c] // w for c, w in weight.items()}
            lowest = min(level.values())
            full = {c for c, v in level.items() if v == lowest}
            self.levels.update(dict.fromkeys(full, lowest))
            for f in [f for f, u in uses.items() if full & u.keys()]:
                self.rate[f] = lowest
                for c, w in uses.pop(f).items():
                    room[c] -= w * lowest

    def due(self) -> int:
        ends = [self.now] * (0 in (self.left[f] for f in self.rate))
        ends += [self.now - -self.left[f] // x for f, x in self.rate.items() if x]
        return min([e for e in ends if e <= MAX_TICK], default=NONE)

    def done(self) -> list[int]:
        return sorted(f for f in self.rate if self.left[f] == 0)


Draw = Callable[[random.Random], int]
UNIT: tuple[int, ...] = (ONE,)
TWELFTHS = tuple(ONE * k // 12 for k in range(1, 25))
TINY = (ONE, ONE // 1024, 1)  # whose levels may lie beyond the range: then a limit is slower
GENERAL = (ONE, ONE // 3, 2 * ONE, ONE // 48, 1, 7 * ONE + 1)


def small(rng: random.Random) -> int:
    return rng.randint(0 if rng.random() < 0.2 else 1, 9)


def large(rng: random.Random) -> int:
    return rng.choice([2**55, 2**55 + rng.randint(0, 3), rng.getrandbits(rng.randint(1, 55)), 0])


def uneven(rng: random.Random) -> int:
    """Random rate from a wide range, so that many components have slack."""
    return rng.choice([1, 2, 3, 10, 30, 100, 1000, 10_000]) * rng.randint(1, 3)


def little_work(rng: random.Random) -> int:
    return rng.randint(0, 60)


def much_work(rng: random.Random) -> int:
    return rng.choice([0, 1, rng.getrandbits(80), rng.getrandbits(rng.randint(1, 120)), 2**100])


def usage_of(rng: random.Random, components: int, weights: tuple[int, ...]) -> dict[int, int]:
    many = rng.randint(1, min(components, 5))
    return {c: rng.choice(weights) for c in rng.sample(range(components), many)}


class Pair:
    """Plain and compiled medium with the same history."""

    def __init__(self, rates: tuple[int, ...], top: int):
        self.plain, self.fast = Plain(rates), medium(*rates, top=top)
        self.out = np.zeros(4096, np.int64)

    def add(self, work: int, usage: dict[int, int], limit: int) -> None:
        self.plain.flows.append((usage, limit))
        self.plain.left.append(work)
        self.fast.append(work, usage, limit)

    def join(self, f: int) -> None:
        self.plain.rate[f] = 0
        core.join(self.fast.state, f, self.plain.now)

    def leave(self, f: int) -> None:
        del self.plain.rate[f]
        core.leave(self.fast.state, f, self.plain.now)
        assert self.fast.work_left(f) == self.plain.left[f]

    def set_rate(self, c: int, rate: int) -> None:
        self.plain.capacity[c] = rate
        core.set_rate(self.fast.state, c, rate)

    def go(self, now: int) -> list[int]:
        """Advance both to a tick, and remove the flows that are done."""
        self.plain.go(now)
        done = self.plain.done()
        n = core.take_due(self.fast.state, now, self.out)
        assert self.out[:n].tolist() == done
        for f in done:
            del self.plain.rate[f]
        return done

    def settle(self) -> None:
        self.plain.fill()
        core.settle(self.fast.state, self.plain.now)
        got = {f: int(core.rate(self.fast.state, f)) for f in self.plain.rate}
        assert got == self.plain.rate
        assert core.due(self.fast.state) == self.plain.due()


def history(
    seed: int, draw: Draw, weights: tuple[int, ...], work: Draw, components: int, flows: int
) -> None:
    rng = random.Random(seed)
    top = {small: 9, uneven: 30_000}.get(draw, 2**55 + 3)
    pair = Pair(tuple(draw(rng) for _ in range(components)), top)
    kinds = [usage_of(rng, components, weights) for _ in range(rng.randint(1, 6))]
    for _ in range(flows):
        usage = rng.choice(kinds) if rng.random() < 0.6 else usage_of(rng, components, weights)
        limit = draw(rng) if rng.random() < 0.2 or weights is TINY else NO_LIMIT
        pair.add(work(rng), usage, limit)
    away = list(range(flows))
    for _ in range(rng.randint(3, 30)):
        for _ in range(rng.choice([0, 1, 1, 2, flows])):
            act = rng.random()
            if act < 0.55 and away:
                pair.join(away.pop(rng.randrange(len(away))))
            elif act < 0.75 and pair.plain.rate:
                f = rng.choice(sorted(pair.plain.rate))
                pair.leave(f)
                away.append(f)
            elif act < 0.85:
                pair.set_rate(rng.randrange(components), draw(rng))
        pair.settle()
        far = pair.plain.now + 2**40
        soon = far if pair.plain.due() == NONE else min(pair.plain.due(), far)
        if soon > 2**61:
            break
        pair.go(soon if rng.random() < 0.7 else rng.randint(pair.plain.now, soon))


CASES = {
    "ties": (small, UNIT, little_work, 4, 8),
    "many": (small, UNIT, little_work, 8, 24),
    "uneven": (uneven, UNIT, much_work, 6, 24),
    "uneven twelfths": (uneven, TWELFTHS, much_work, 5, 16),
    "twelfths": (small, TWELFTHS, little_work, 4, 8),
    "general": (small, GENERAL, little_work, 3, 6),
    "large": (large, UNIT, much_work, 5, 12),
    "large and twelfths": (large, TWELFTHS, much_work, 5, 12),
    "large and tiny": (large, TINY, much_work, 4, 12),
    "large and general": (large, GENERAL[:4], much_work, 5, 12),
}


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_random_histories_equal_filling_from_scratch(case: str, seeds: range) -> None:
    for seed in seeds:
        try:
            history(seed, *CASES[case])
        except Exception as error:
            raise AssertionError(f"{case}: seed {seed}") from error


def test_the_tie_of_two_components_freezes_both() -> None:
    """Rates of 3 units, one flow on both and one on each: 1, 1, 1; a fixed order would give 2."""
    link = medium(3, 3)
    for usage in ({0: ONE, 1: ONE}, {0: ONE}, {1: ONE}):
        link.append(10, usage)
    for f in range(3):
        core.join(link.state, f, 0)
    core.settle(link.state, 0)
    assert [core.rate(link.state, f) for f in range(3)] == [1, 1, 1]
    assert link.state[0][:, LEVEL].tolist() == [1, 1]


def test_a_slack_component_becomes_full_when_a_flow_speeds_up_elsewhere() -> None:
    """7 units carry flows of 3 and 2; 3 and 4 would fit, but in whole units both get 3."""
    link = medium(7, 3, 8)
    for usage in ({0: ONE, 1: ONE}, {0: ONE, 2: ONE}, {2: ONE}, {2: ONE}, {2: ONE}):
        link.append(10**6, usage)
    for f in range(5):
        core.join(link.state, f, 0)
    core.settle(link.state, 0)
    assert [core.rate(link.state, f) for f in range(3)] == [3, 2, 2]
    core.leave(link.state, 3, 5)
    core.leave(link.state, 4, 5)
    core.settle(link.state, 5)
    assert [core.rate(link.state, f) for f in range(3)] == [3, 3, 5]


def test_flows_are_added_while_others_are_in_flight() -> None:
    rng = random.Random(5)
    pair = Pair((9, 7, 5), 9)
    for f in range(40):
        pair.add(rng.randint(1, 99), usage_of(rng, 3, TWELFTHS), NO_LIMIT)
        pair.join(f)
        pair.settle()
        pair.go(min(pair.plain.due(), pair.plain.now + rng.randint(0, 2)))
        pair.settle()


def test_usage_and_work_are_replaced_between_attempts() -> None:
    link = medium(10, 4)
    link.append(100, {0: ONE})
    core.join(link.state, 0, 0)
    core.settle(link.state, 0)
    core.leave(link.state, 0, 3)
    assert link.work_left(0) == 70
    link.set_usage(0, {1: ONE})
    core.join(link.state, 0, 5)
    core.settle(link.state, 5)
    assert (core.users(link.state, 0), core.users(link.state, 1)) == (0, 1)
    assert core.due(link.state) == 5 + 18
    core.leave(link.state, 0, 6)
    link.set_work_left(0, 8)
    link.set_usage(0, {}, limit=2)
    core.join(link.state, 0, 6)
    core.settle(link.state, 6)
    assert core.due(link.state) == 10
    link.set_work_left(0, 2**100 + 3)
    assert link.work_left(0) == 2**100 + 3


def test_an_end_beyond_the_range_is_no_event() -> None:
    link = medium(1)
    link.append(2**63 - 1, {0: ONE})
    core.join(link.state, 0, 0)
    core.settle(link.state, 0)
    assert core.due(link.state) == MAX_TICK
    link.append(2**63, {0: ONE})
    core.leave(link.state, 0, 0)
    core.join(link.state, 1, 0)
    core.settle(link.state, 0)
    assert core.due(link.state) == NONE


def test_a_component_with_room_is_left_out_until_it_may_be_full() -> None:
    """Two senders share two links on the way into one port."""
    port = medium(100, 1000, 10_000)
    for usage in ({0: ONE, 1: ONE, 2: ONE}, {0: ONE, 1: ONE, 2: ONE}, {1: ONE}):
        port.append(10**9, usage)
    s = port.state
    core.join(s, 0, 0)
    core.join(s, 1, 0)
    core.settle(s, 0)
    assert [int(s[0][c, FENCE]) for c in range(3)] == [0, 128, 2048]  # above 50, below 500
    core.settle(s, 1)
    assert [int(s[0][c, SHARED]) for c in range(3)] == [1, 0, 0]
    core.join(s, 2, 1)
    core.settle(s, 1)
    assert [core.rate(s, f) for f in range(3)] == [50, 50, 900]  # the last reached the fence
    core.set_rate(s, 2, 7)
    core.settle(s, 2)
    assert [core.rate(s, f) for f in range(3)] == [3, 3, 994]


def test_a_component_fills_up_before_it_is_left_out() -> None:
    """The component is fenced at the end of a turn, and shared again by a flow of the next turn."""
    port = medium(100, 1000, 10_000)
    for usage in ({0: ONE, 1: ONE, 2: ONE}, {0: ONE, 1: ONE, 2: ONE}, *[{1: ONE, 2: ONE}] * 7):
        port.append(10**9, usage)
    s = port.state
    core.join(s, 0, 0)
    core.join(s, 1, 0)
    core.settle(s, 0)
    assert [int(s[0][c, FENCE]) for c in range(3)] == [0, 128, 2048]
    for f in range(2, 9):
        core.join(s, f, 1)
    assert [int(s[0][c, FENCE]) for c in range(3)] == [0, 0, 0]  # 1000 / 9, 10,000 / 9
    core.settle(s, 1)
    assert [core.rate(s, f) for f in range(9)] == [50, 50, *[128] * 7]
    core.leave(s, 0, 2)
    for f in range(2, 8):
        core.leave(s, f, 2)
    core.settle(s, 2)
    assert [core.rate(s, f) for f in range(9)] == [0, 100, *[0] * 6, 900]


def test_flows_with_unbounded_rate_are_refused() -> None:
    with pytest.raises(BackendError, match=r"op 0: its rate may reach 2\^62 rate units; set"):
        medium(2**61).append(1, {0: ONE // 12})
    assert medium(2**61).append(1, {0: ONE // 12}, limit=2**61) == 0


def incast(senders: int) -> tuple[MaxMinMemory, list[int]]:
    """Flows of different sizes into port 0, each over its own link."""
    port = medium(10**9, *[10**9] * senders)
    work = [10**18 + 10**12 * i * i for i in range(senders)]
    for i, w in enumerate(work):
        port.append(w, {0: ONE, 1 + i: ONE})
    return port, work


def test_senders_to_one_port_share_one_clock() -> None:
    """Their levels are 1/n of the port for the first, and so on; every end has a closed form."""
    port, work = incast(300 if not INTERPRETED else 30)
    s, out = port.state, np.zeros(len(work), np.int64)
    for f in range(len(work)):
        core.join(s, f, 0)
    core.settle(s, 0)
    assert len({int(b) for b in s[1][: len(work), BUNDLE]}) == 1
    clock = now = 0
    for f, w in enumerate(work):
        level = 10**9 // (len(work) - f)
        now, before = now - (clock - w) // level, now
        clock += level * (now - before)
        assert core.due(s) == now
        assert core.take_due(s, now, out) == 1
        assert out[0] == f
        core.settle(s, now)


@pytest.mark.nightly
def test_eight_times_as_many_senders_take_far_less_than_64_times_as_long() -> None:
    """Each end changes all rates, but costs only the logarithm of the number of senders."""
    rounds = [spent(8191) / spent(1023) for _ in range(9)]
    assert np.median(rounds) < 8 * 3


def spent(senders: int) -> float:
    """CPU seconds from the first send to the last end."""
    port, work = incast(senders)
    s, out = port.state, np.zeros(len(work), np.int64)
    began = time.process_time()
    for f in range(len(work)):
        core.join(s, f, 0)
    core.settle(s, 0)
    for _ in work:
        now = core.due(s)
        assert core.take_due(s, now, out) == 1
        core.settle(s, now)
    assert core.due(s) == NONE
    return time.process_time() - began
