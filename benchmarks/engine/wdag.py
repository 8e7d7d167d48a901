"""W-DAG compared with a lean SimPy program of the same graph: static order, and slot queues.

Usage: python -m foretrace.benchmarks.engine.wdag [ranks] [ops per rank]
"""

import sys

from .._measure import report, side_by_side
from ._engine import makespan, prepared_run, simulation_of
from ._wdag import Peer, Wdag


def main(ranks: int = 1000, ops: int = 1000) -> None:
    dag = Wdag(ranks, ops // 10)
    graph = dag.graph()
    static = prepared_run(simulation_of(ranks, 1), graph)
    queued = prepared_run(simulation_of(ranks, 1), graph, ahead=False)
    ends = {makespan(static()), makespan(queued()), Peer(dag).run()}
    if len(ends) != 1:
        sys.exit(f"the three programs end at different ticks: {sorted(ends)}")
    whole = simulation_of(ranks, 1)
    spent = side_by_side(
        3,
        simpy=lambda: Peer(dag).run(),
        static=static,
        queued=queued,
        whole_call=lambda: whole.run(graph),
    )
    report(
        "wdag",
        {
            "fixed order: times faster than SimPy": (spent["simpy"] / spent["static"], ">=", 50),
            "event-driven: times faster than SimPy": (spent["simpy"] / spent["queued"], ">=", 10),
        },
        ops=len(dag),
        makespan_ticks=ends.pop(),
        cpu_seconds=spent,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
