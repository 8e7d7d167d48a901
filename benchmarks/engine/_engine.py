"""Helpers that run only the compiled engine: submission and run are timed, placement is not."""

from collections.abc import Callable

import numpy as np
from foretrace.sim.engine_api.interface import EngineColumns, EngineGraph
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Session, Simulation


class Durations(Backend):
    """Backend whose ops take the duration in their table."""

    source = "benchmark: given durations"
    uniform = True

    def __init__(self, spread: Spread | None = None):
        self.spread = spread

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        return Timing.of(ops.duration, spread=self.spread)


def machine_of(ranks: int, slots: int | None) -> System:
    """System with one GPU per rank; without slots, streams keep the order of their program."""
    gpus = tuple(Component(f"node{i}.gpu0", "gpu", slots=slots) for i in range(ranks))
    return System(
        (*gpus, Component("fabric", "fabric")), tuple(g.name for g in gpus), fabric="fabric"
    )


def simulation_of(ranks: int, slots: int | None) -> Simulation:
    return Simulation(machine_of(ranks, slots), {"*": Durations()})


def engine_graph(simulation: Simulation, graph: Graph) -> EngineGraph:
    """The graph in the engine's form."""
    return Session(simulation, None).time_graph(graph).lowered


def run(simulation: Simulation, graph: EngineGraph, ahead: bool = True) -> EngineColumns:
    """Run the engine once; ``ahead`` lets it skip the event queue for statically ordered ops."""
    session = Session(simulation, None)
    session.machine.runs_ahead = ahead
    session.machine.submit(graph)
    session.machine.run(None)
    return session.machine.columns()


def prepared_run(
    simulation: Simulation, graph: Graph, ahead: bool = True
) -> Callable[[], EngineColumns]:
    """Function that runs only the engine on a graph, compiled and run once before."""
    integers = engine_graph(simulation, graph)
    run(simulation, integers, ahead)
    return lambda: run(simulation, integers, ahead)


def makespan(columns: EngineColumns) -> int:
    return int(np.max(columns.end))
