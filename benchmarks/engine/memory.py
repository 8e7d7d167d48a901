"""Memory per op: of the op table, of the result, and of what a run allocates beyond them.

``Simulation.run`` of a placed graph holds the engine's state and the backend timings of every op
(26 bytes: duration in seconds and ticks, component and source).

Usage: python -m foretrace.benchmarks.engine.memory [ops]
"""

import sys
import tracemalloc
from typing import Any

from foretrace.sim.facts.ops import DTYPES, Ops
from foretrace.sim.facts.place import place
from foretrace.sim.run.simulation import Session

from .._measure import report
from ._engine import engine_graph, run, simulation_of
from ._wdag import Wdag

RANKS = 1000
MACHINE = Session.new_machine


def engine_without_run_ahead(session: Session, parts: Any) -> Any:
    """Engine that puts every op through the event queue, even if its order is static."""
    made: Any = MACHINE(session, parts)
    made.runs_ahead = False
    return made


def nbytes(table: object) -> int:
    """Total bytes of the arrays in a record."""
    return sum(getattr(column, "nbytes", 0) for column in vars(table).values())


def bytes_per_op(ops: int, ahead: bool) -> tuple[int, float, float]:
    """Number of ops, bytes per op needed beyond graph and columns, bytes per op of columns."""
    Session.new_machine = MACHINE if ahead else engine_without_run_ahead  # type: ignore[method-assign]
    simulation = simulation_of(RANKS, 1)
    simulation.run(Wdag(16, 2).graph())  # compiled code is no state
    graph = place(Wdag(RANKS, max(2, ops // (RANKS * 10))).graph(), simulation.system)
    tracemalloc.start()  # NumPy tells it of every array; what a process has resident says more
    result = simulation.run(graph, keep="ops")  # of the allocator's free lists than of the engine
    peak, n = tracemalloc.get_traced_memory()[1], len(graph)
    tracemalloc.stop()
    kept = nbytes(result.columns)
    return n, (peak - kept) / n, kept / n


def engine_alone(ops: int) -> float:
    """Bytes per op of the engine's state if every op goes through the event queue."""
    simulation = simulation_of(RANKS, 1)
    integers = engine_graph(simulation, Wdag(RANKS, max(2, ops // (RANKS * 10))).graph())
    tracemalloc.start()
    columns = run(simulation, integers, ahead=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - nbytes(columns)) / len(integers)


def main(ops: int = 4_000_000) -> None:
    n, static, kept = bytes_per_op(ops, ahead=True)
    _, queued, _ = bytes_per_op(ops, ahead=False)
    table = nbytes(Ops.of(rank=[0] * 1000)) / 1000
    report(
        "memory",
        {
            "bytes of a whole run an op, fixed order": (static, "<=", 40),
            "bytes of engine state an op, event-driven": (engine_alone(ops), "<=", 40),
            "bytes of the ops table a row": (table, "<=", 48),
        },
        ops=n,
        columns=len(DTYPES),
        result_bytes_an_op=kept,
        whole_run_event_driven=queued,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
