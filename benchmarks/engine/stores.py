"""Cost of holds, releases, look-ups and evictions of a store, from a kernel and from a process.

Usage: python -m foretrace.benchmarks.engine.stores [operations]
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np
import simpy
from foretrace.sim.core.stores.entry_store import EntryStore
from foretrace.sim.core.stores.entry_verbs import hold, release
from foretrace.sim.core.stores.store_layout import Array, StoreArrays
from foretrace.sim.core.stores.turn_view import owners_of, settle
from foretrace.sim.facts.eviction.store import EVICTION_RULES, Store
from foretrace.sim.facts.system import Component, System
from foretrace.sim.kernel.jit import jit_without_refcounts
from foretrace.sim.run.process import Running
from foretrace.sim.run.simulation import Simulation

from .._measure import report, side_by_side

SIZES = {1000: 200, 10_000: 200, 100_000: 500}
"""Entries of a store, and the goal for a hold with its release in ns.

The tables of 100,000 entries do not fit into a core's cache, and a hold reads five places of them.
"""
PER_TURN = 10  # operations
STRIDE = 7919  # between keys, so that neighbours are not next to each other in a table


@jit_without_refcounts
def hold_and_release(s: StoreArrays, keys: Array) -> int:
    """Hold and release each entry; returns the number of creations."""
    created = 0
    for i in range(len(keys)):
        created += hold(s, 0, keys[i], 1, 7) - 1
        release(s, 0, keys[i], 7)
        if i % PER_TURN == 0:
            settle(s)
    return created


@jit_without_refcounts
def look_up(s: StoreArrays, keys: Array) -> int:
    """Sum of the numbers of owners of the entries."""
    owners = 0
    for i in range(len(keys)):
        owners += owners_of(s, 0, keys[i])
    return owners


def full_store(entries: int) -> EntryStore:
    """Store full of entries of size 1, each second one held and the others cached."""
    store = EntryStore(entries, EVICTION_RULES["lru"])
    for key in range(entries):
        store.hold(0, key * STRIDE, 1, owner=key % 64)
        if key % 2:
            store.release(0, key * STRIDE, owner=key % 64)
    store.settle()
    return store


def kernel_costs(entries: int, count: int) -> dict[str, float]:
    """CPU time in ns of a hit with its release, of a look-up, and of a miss that evicts."""
    store = full_store(entries)
    keys = np.random.default_rng(1).integers(0, entries, count) * STRIDE
    fresh = np.arange(entries, entries + 6 * count) * STRIDE
    new = iter(range(0, 6 * count, count))
    works = {
        "pair": lambda: hold_and_release(store.arrays, keys),
        "look": lambda: look_up(store.arrays, keys),
    }
    look_up(store.arrays, keys[:1])
    hold_and_release(store.arrays, keys[:1])
    spent = side_by_side(5, **works)

    def evict() -> None:
        first = next(new)
        hold_and_release(store.arrays, fresh[first : first + count])

    spent |= side_by_side(5, evict=evict)
    return {name: t / count * 1e9 for name, t in spent.items()}


def process_costs(count: int) -> dict[str, float]:
    """CPU time in us of a hit with its release from a process, with and without a turn each."""

    def run(change: Callable[[Running, int], None], turns: bool) -> None:
        def process(sim: Running) -> Iterator[simpy.Event]:
            for i in range(count):
                change(sim, i % 500)
                if turns:
                    yield sim.settled()
            yield sim.settled()

        cache = Component("node0.prefix", "memory", capacity=Store(500), unit="block")
        Simulation(System((cache,), ()), {}).run(None, process)

    def hit(sim: Running, key: int) -> None:
        prefix = sim.store("node0.prefix")
        prefix.hold(key, 1)
        prefix.release(key)

    def nothing(sim: Running, key: int) -> None:
        pass

    run(hit, turns=True)
    spent = side_by_side(
        3,
        call=lambda: run(hit, turns=False),
        turn=lambda: run(hit, turns=True),
        bare=lambda: run(nothing, turns=True),
    )
    return {name: t / count * 1e6 for name, t in spent.items()}


def main(count: int = 400_000) -> None:
    """Measure stores of several sizes from a kernel, and a small one from a process."""
    goals: dict[str, tuple[float, str, float]] = {}
    kernel = {entries: kernel_costs(entries, count) for entries in SIZES}
    for entries, spent in kernel.items():
        of = f"of {entries:,} entries"
        goals[f"ns a hold and release {of}"] = (spent["pair"], "<=", SIZES[entries])
        goals[f"ns a look-up {of}"] = (spent["look"], "<=", 100)
        goals[f"ns a miss and eviction {of}"] = (spent["evict"], "<=", 1000)
    process = process_costs(count // 20)
    goals["us a hold and release from a process"] = (process["call"], "<=", 10)
    goals["us a turn more"] = (process["turn"] - process["bare"], "<=", 20)
    report("stores", goals, operations=count, nanoseconds=kernel, microseconds=process)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
