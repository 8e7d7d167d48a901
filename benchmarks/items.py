"""Items per second of a stream: three pools, a hash table that hits or misses, a line that drops.

Usage: python benchmarks/items.py [MOST]
"""

import sys
import time
from typing import NamedTuple

import numpy as np
from foretrace import ItemPool, ItemStream, Queue, Simulation, System, item_kernel
from foretrace.benchmarks._measure import growth_exponent, peak_memory, report
from foretrace.sim.facts.items.arrival_process import Poisson
from foretrace.sim.items import item_policy as items

MOST = int(sys.argv[1]) if len(sys.argv) > 1 else 10**7
PARSE, TABLE, SLOW = range(3)
ROUNDS = 3


class Flows(NamedTuple):
    popularity: np.ndarray
    entries: np.ndarray


@item_kernel
def forward(state, item, turn):
    kind, pool = items.kind(turn), items.pool(turn)
    if kind == items.ARRIVES:
        item[items.A] = items.zipf(turn, item, 0, state.popularity)
        return PARSE
    if kind == items.STARTS:
        if pool == SLOW:
            return items.exponential(turn, item, 1, 800_000.0)
        if pool == TABLE:
            entry = item[items.A] % len(state.entries)
            item[items.CLASS] = 0 if state.entries[entry] == item[items.A] else 1
            state.entries[entry] = item[items.A]
        return 40_000
    if pool == PARSE:
        return TABLE
    return SLOW if pool == TABLE and item[items.CLASS] else items.LEAVE


def stream(count):
    pools = [ItemPool("parse", 1), ItemPool("table", 1), ItemPool("slow", 4, Queue(16, "drop"))]
    state = Flows(items.zipf_table(100_000, 1.0), np.full(16_384, -1))
    return ItemStream(
        forward, state, pools=pools, arrivals=Poisson(2e7, count=count), classes=["hit", "miss"]
    )


def seconds(count):
    """CPU seconds of a complete run, and its table; the best of some rounds."""
    best, table = np.inf, None
    for _ in range(ROUNDS if count < MOST else 1):
        simulation = Simulation(System((), ()), {}, seed=1)
        begun = time.process_time()
        table = simulation.run(None, stream(count), replica=0).items[0]
        best = min(best, time.process_time() - begun)
    return best, table


def main():
    seconds(1000)  # compiles
    sizes = [n for n in (10**5, 10**6, 10**7, 10**8) if n <= MOST]
    used, memory = {}, {}
    for count in sizes:
        used[count], table = seconds(count)
        memory[count] = peak_memory()
        print(f"{count:>12,} items: {used[count]:8.3f} s, {count / used[count] / 1e6:5.2f} M/s")
    assert table.dropped.sum() > 0
    assert table.served[1, SLOW] > 0
    last, middle = sizes[-1], sizes[-2]
    exponent = growth_exponent(sizes, list(used.values()))
    report(
        "items",
        {
            "million items per second": (last / used[last] / 1e6, ">=", 3.0),
            "exponent of time": (exponent, "<=", 1.05),
            "growth of memory, last tenfold": (memory[last] / memory[middle], "<=", 1.1),
        },
        dropped=int(table.dropped.sum()),
    )


if __name__ == "__main__":
    main()
