"""Cost of handing control to Python: online backends called during the run, and processes woken.

Usage: python -m foretrace.benchmarks.engine.handover [ranks] [ops per rank]
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from foretrace.sim.engine_api.interface import Answer, EngineColumns, EngineGraph
from foretrace.sim.run.process import Running
from foretrace.sim.run.simulation import Session, Simulation

from .._measure import report, side_by_side
from ._engine import engine_graph, makespan, simulation_of
from ._wdag import Wdag

SHARES = (0.001, 0.1)


def run(simulation: Simulation, graph: EngineGraph, wake: Sequence[int] = ()) -> EngineColumns:
    """Run the engine once; a process waits for each op in ``wake``, in the order of their ends."""
    session = Session(simulation, None)
    session.machine.runs_ahead = False
    session.machine.submit(graph)

    def watch(sim: Running):
        for op in wake:
            yield sim.ended(op)

    if len(wake):
        session.main.start([watch])
    session.machine.run(None)
    return session.machine.columns()


def with_online_ops(graph: EngineGraph, rows: np.ndarray) -> EngineGraph:
    """Copy of a graph in which some ops get their timing from Python when they start."""
    online = np.full(len(graph), -1, np.int16)
    online[rows] = 0
    fixed = graph.fixed.tolist()

    def timing(ops: Sequence[int], now: int) -> list[Answer]:
        return [Answer(fixed[op], 0, {}) for op in ops]

    return replace(graph, online=online, backends=(timing,))


def main(ranks: int = 80, ops: int = 5000) -> None:
    dag, simulation = Wdag(ranks, ops // 10), simulation_of(ranks, 1)
    graph = engine_graph(simulation, dag.graph())
    plain = run(simulation, graph)
    rng = np.random.default_rng(0)
    counts, works = {}, {"plain": lambda: run(simulation, graph)}
    for share in SHARES:
        rows = np.flatnonzero(rng.random(dag.computes) < share)
        order = rows[np.argsort(plain.end[rows], kind="stable")].tolist()
        other = with_online_ops(graph, rows)
        if makespan(run(simulation, other)) != makespan(plain):
            sys.exit("asking during the run changed the answer")
        works[f"asked {share}"] = _bound(run, simulation, other)
        works[f"woken {share}"] = _bound(run, simulation, graph, order)
        counts[share] = len(rows)
    spent = side_by_side(15, **works)  # a run takes 60 ms: few rounds would judge the machine
    few, many = SHARES

    def each(what: str) -> float:
        return (spent[f"{what} {many}"] - spent["plain"]) / counts[many] * 1e6

    slower = {w: spent[f"{w} {few}"] / spent["plain"] for w in ("asked", "woken")}
    report(
        "handover",
        {
            "microseconds an op asked during the run": (each("asked"), "<=", 8),
            "microseconds a wake-up of a process": (each("woken"), "<=", 8),
            "times slower, 0.1 % of ops asked": (slower["asked"], "<=", 1.3),
            "times slower, a process woken by 0.1 %": (slower["woken"], "<=", 1.3),
        },
        ops=len(dag),
        handed_over=counts,
        cpu_seconds=spent,
    )


def _bound(function: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: function(*arguments)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
