"""Growth of a run's cost from 10^5 to 10^7 explicit ops.

Usage: python -m foretrace.benchmarks.engine.growth [largest]
"""

import sys

from .._measure import cpu, growth_exponent, report
from ._engine import prepared_run, simulation_of
from ._wdag import Wdag

RANKS = 1000


def ops_and_seconds(ops: int, ahead: bool) -> tuple[int, float]:
    """Number of ops, and CPU seconds of the fastest of three runs."""
    dag = Wdag(RANKS, max(2, ops // (RANKS * 10)))
    go = prepared_run(simulation_of(RANKS, 1), dag.graph(), ahead)
    return len(dag), min(cpu(go) for _ in range(3))


def main(largest: int = 10_000_000) -> None:
    sizes = [largest // 100, largest // 10, largest]
    static = [ops_and_seconds(n, ahead=True) for n in sizes]
    queued = [ops_and_seconds(n, ahead=False) for n in sizes]
    report(
        "growth",
        {
            "exponent, fixed order": (growth_exponent(*zip(*static, strict=True)), "<=", 1.3),
            "exponent, event-driven": (growth_exponent(*zip(*queued, strict=True)), "<=", 1.3),
        },
        static=static,
        queued=queued,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
