"""Diagnosis of a deadlocked run, compared with brute force."""

import random
from itertools import permutations

import pytest
from foretrace.sim.engine_api.deadlock import StuckState, diagnose, shortest_cycle


def waits_for(waits, queues, holders):
    """All waits as explicit edges."""
    edges = {i: set(w) for i, w in waits.items()}
    for c, queue in queues.items():
        for at, op in enumerate(queue):
            edges.setdefault(op, set()).update(holders.get(c, ()))
            edges[op] |= {other for other in queue[:at] if other != op}
    return edges


def by_brute_force(edges, most=7):
    """First of the shortest cycles, each written from its smallest member."""
    nodes = sorted(edges)
    for length in range(1, most + 1):
        found = [
            ring
            for ring in permutations(nodes, length)
            if ring[0] == min(ring)
            and all(b in edges.get(a, ()) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True))
        ]
        if found:
            return list(min(found))
    return []


@pytest.mark.parametrize("block", range(4))
def test_the_shortest_cycle_with_the_smallest_numbers_is_found(block):
    cycles = 0
    for seed in range(block * 150, block * 150 + 150):
        r = random.Random(seed)
        n = r.randint(1, 7)
        waits = {i: r.sample(range(n), r.choice([0, 0, 1, 1, min(2, n)])) for i in range(n)}
        queues = {c: [r.randrange(n) for _ in range(r.randint(0, 4))] for c in range(2)}
        holders = {c: r.sample(range(n), r.randint(0, 1)) for c in range(2)}
        if r.random() < 0.4:
            queues = {}
        want = by_brute_force(waits_for(waits, queues, holders))
        assert shortest_cycle(waits, queues, holders) == want, (waits, queues, holders)
        cycles += bool(want)
    assert 30 < cycles < 150


def test_a_long_line_behind_a_deadlock_costs_little():
    n = 30_000
    line = list(range(2, n))
    waits = {i: [i - 1] for i in range(3, n)} | {0: [1], 1: [0], 2: [1]}
    assert shortest_cycle(waits, {0: line}, {0: [0]}) == [0, 1]


def test_a_long_ring_is_found():
    n = 20_000
    assert shortest_cycle({i: [(i + 1) % n] for i in range(n)}) == list(range(n))


def test_the_first_reason_that_applies_is_given():
    facts = {
        "stopped": {3: "a test"},
        "beyond": [1],
        "starved": {2: "runs at rate 0"},
        "unmet": {0: [4], 4: [0]},
    }
    kinds = []
    for drop in ("", "stopped", "beyond", "starved"):
        facts.pop(drop, None)
        error = diagnose(StuckState((), range(5), **facts))
        kinds.append((error.kind, error.ops, error.open_ops))
    every = (0, 1, 2, 3, 4)
    assert kinds == [
        ("lost", (3,), every),
        ("time overflow", (1,), every),
        ("starvation", (2,), every),
        ("deadlock", (0, 4), every),
    ]


def test_an_error_lists_only_a_few_of_many_names():
    error = diagnose(
        StuckState((), range(100), starved=dict.fromkeys(range(100), "runs at rate 0"))
    )
    assert "(and 92 more)" in str(error)
    assert len(error.ops) == 100
