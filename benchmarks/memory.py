"""Bytes an op: of the table, of the result, and of what the engine itself allocates while it runs.

Usage: python benchmarks/memory.py [ops]
"""

import sys
import tracemalloc

from _engine import lowered, run, simulation_of
from _measure import report
from _wdag import Wdag
from foretrace.sim.ops import DTYPES, Ops

RANKS = 1000


def nbytes(table: object) -> int:
    """Bytes of the arrays in a record."""
    return sum(getattr(column, "nbytes", 0) for column in vars(table).values())


def state(ops: int, ahead: bool) -> tuple[int, float, float]:
    """Ops, bytes an op that a run needs beyond graph and columns, bytes an op of the columns."""
    dag = Wdag(RANKS, max(2, ops // (RANKS * 10)))
    simulation = simulation_of(RANKS, 1)
    run(simulation, lowered(simulation, Wdag(16, 2).graph()), ahead)  # compiled code is no state
    integers = lowered(simulation, dag.graph())
    tracemalloc.start()  # NumPy tells it of every array; what a process has resident says more
    columns = run(simulation, integers, ahead)  # of the allocator's free lists than of the engine
    peak, n = tracemalloc.get_traced_memory()[1], len(dag)
    tracemalloc.stop()
    return n, (peak - nbytes(columns)) / n, nbytes(columns) / n


def main(ops: int = 4_000_000) -> None:
    n, static, kept = state(ops, ahead=True)
    _, queued, _ = state(ops, ahead=False)
    table = nbytes(Ops.of(rank=[0] * 1000)) / 1000
    report(
        "memory",
        {
            "bytes of engine state an op, fixed order": (static, "<=", 40),
            "bytes of engine state an op, event-driven": (queued, "<=", 40),
            "bytes of the ops table a row": (table, "<=", 48),
        },
        ops=n,
        columns=len(DTYPES),
        result_bytes_an_op=kept,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
