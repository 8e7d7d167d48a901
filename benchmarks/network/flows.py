"""Cost of the max-min medium alone, compared with computing all rates from scratch, and its growth.

Usage: python -m foretrace.benchmarks.network.flows [k]

Growth is measured from k = 16 (1,024 hosts) to four times k (65,536 hosts); this takes a minute
and 2 GiB. The number of rates computed counts each flow whenever its rate changes, and its first
rate.

The cost of computing all rates from scratch at each change is an estimate: one computation with
all flows in flight, times the number of changes.
"""

import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
from foretrace.sim.kernel.jit import jit
from foretrace.sim.media.max_min.medium import due, join, settle, take_due
from foretrace.sim.media.max_min.medium_memory import MaxMinMemory
from foretrace.sim.media.max_min.pairing_heap import NONE
from foretrace.sim.media.max_min.table_layout import OPEN, RATES_GIVEN, Array, State

from .._measure import growth_exponent, report
from ._fattree import RATE, flows, medium_input, rates, routes, star

# kind: largest exponent of CPU seconds in flows
GROWTH = {"ring": 1.2, "perm": 1.2, "a2a16": 1.2, "rand4": 1.5, "thin": 1.5, "incastall": 1.5}


@jit
def simulate_flows(s: State, n: int, end: Array, out: Array) -> int:
    """Run flows that all start at tick 0; store their ends, return the number of end ticks."""
    for f in range(n):
        join(s, f, 0)
    settle(s, 0)
    changes = 0
    now = due(s)
    while now != NONE:
        for i in range(take_due(s, now, out)):
            end[out[i]] = now
        settle(s, now)
        changes += 1
        now = due(s)
    return changes


@jit
def fill_progressively(capacity: Array, indptr: Array, link: Array) -> int:
    """Plain progressive filling with unit weights; returns the number of levels."""
    room, open_on = capacity.copy(), np.zeros(len(capacity), np.int64)
    for c in link:
        open_on[c] += 1
    frozen = np.zeros(len(indptr) - 1, np.int64)
    levels = 0
    while True:
        lowest = OPEN
        for c in range(len(room)):
            if open_on[c]:
                lowest = min(lowest, room[c] // open_on[c])
        if lowest == OPEN:
            return levels
        levels += 1
        for f in range(len(frozen)):
            if frozen[f] == 0:
                for u in range(indptr[f], indptr[f + 1]):
                    if room[link[u]] // open_on[link[u]] == lowest:
                        frozen[f] = 2
        for f in range(len(frozen)):
            if frozen[f] == 2:
                frozen[f] = 1
                for u in range(indptr[f], indptr[f + 1]):
                    room[link[u]] -= lowest
                    open_on[link[u]] -= 1


def best(work: Callable[[], float], rounds: int = 5) -> float:
    return min(work() for _ in range(rounds))


class Case:
    """One traffic pattern on one network."""

    def __init__(self, kind: str, k: int):
        source, to, size = flows(kind, k)
        indptr, link, _ = routes(k, source, to)
        self._ready(indptr, link, rates(kind, k), size)

    @classmethod
    def of(cls, indptr: Array, link: Array, size: Array) -> "Case":
        """Case from given routes and sizes."""
        case = cls.__new__(cls)
        case._ready(indptr, link, np.full(int(link.max()) + 1, RATE), size)
        return case

    def _ready(self, indptr: Array, link: Array, rate: Array, size: Array) -> None:
        self.indptr, self.link, self.size = indptr, link, size
        self.parts, self.flows = medium_input(indptr, link, rate, size)
        self.end = np.zeros(len(size), np.int64)
        self.changes = self.rates_given = 0

    def run_seconds(self) -> float:
        """CPU seconds from the first start to the last end, with tables already built."""
        sharing, out = MaxMinMemory(self.parts), np.zeros(len(self.size), np.int64)
        sharing.add(self.flows)
        began = time.process_time()
        self.changes = simulate_flows(sharing.state, len(self.size), self.end, out)
        spent = time.process_time() - began
        self.rates_given = int(sharing.state[3][0, RATES_GIVEN])
        return spent

    def refill_seconds(self) -> float:
        """Lower bound of the CPU seconds if all rates were computed from scratch at every change.

        Each change counts half of the first computation, because the number of flows falls to zero.
        """
        began = time.process_time()
        fill_progressively(self.parts.rate, self.indptr, self.link)
        return (time.process_time() - began) * self.changes / 2


def growth(kind: str, cases: Iterable[Case]) -> tuple[float, float, list[float]]:
    """Growth exponents of CPU seconds and of computed rates over flows; seconds per case."""
    sizes, costs, given = [], [], []
    for case in cases:
        costs.append(best(case.run_seconds, 3))
        sizes.append(float(len(case.size)))
        given.append(float(case.rates_given))
    print(kind, sizes, costs, given)
    return growth_exponent(sizes, costs), growth_exponent(sizes, given), costs


def main(k: int = 16) -> None:
    facts: dict[str, object] = {}
    began = time.process_time()
    Case("perm", 4).run_seconds()
    Case("perm", 4).refill_seconds()
    facts["first_call_seconds"] = round(time.process_time() - began, 2)
    goals: dict[str, tuple[float, str, float]] = {}
    for kind in ("ring", "perm", "incast", "rand4", "a2a16", "incastall"):
        case = Case(kind, k)
        spent = best(case.run_seconds)
        facts[kind] = {
            "flows": len(case.size),
            "changes": case.changes,
            "cpu_seconds": spent,
            "microseconds_a_flow": round(spent / len(case.size) * 1e6, 2),
            "filling_from_scratch": round(best(case.refill_seconds, 3) / spent, 1),
        }
        print(kind, facts[kind])
    for kind, most in GROWTH.items():
        seconds, given, _ = growth(kind, (Case(kind, n) for n in (k, 2 * k, 4 * k)))
        goals[f"{kind}: exponent of seconds in flows"] = (seconds, "<=", most)
        if kind != "incastall":  # there every end changes every rate
            goals[f"{kind}: exponent of rates given in flows"] = (given, "<=", 1.1)
    cases = []
    for senders in (1023, 2047, 4095, 8191):
        indptr, link, _, (_, _, size) = star(senders)
        cases.append(Case.of(indptr, link, size))
    grown, _, costs = growth("star", cases)
    goals["one port: exponent of growth in flows"] = (grown, "<=", 1.5)
    goals["CPU seconds, 8191 flows into one port"] = (costs[-1], "<=", 1)
    report("flows", goals, **facts)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
