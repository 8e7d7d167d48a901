"""Seconds of ops by the family of their doubt."""

import numpy as np
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.doubt import Doubt
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.place import place
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.facts.system import Component, System
from foretrace.sim.rerun.model_errors import seconds_by_error_family


class Counting(Backend):
    """One ns a flop; it counts what it is asked."""

    asked = 0

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        self.asked += len(ops)
        return Timing.of(ops.flop * 1e-9, doubt=Doubt("norm", "", (-0.1, 0.1)))


def test_equal_ops_of_an_spmd_graph_are_timed_once_and_all_counted():
    flop = np.tile([1.0, 3.0], 500)
    program = RankProgram.chain(Ops.of(kind=Kind.COMPUTE, flop=flop), family=[-1] * 1000)
    template = SpmdGraph((program,), np.zeros(2, np.int32))
    gpus = tuple(Component(f"node0.gpu{i}", "gpu", slots=1) for i in range(2))
    system = System(gpus, tuple(g.name for g in gpus))
    backend = Counting()
    graph = place(Graph("template", (template,)), system)
    found = seconds_by_error_family([graph], [backend, backend])
    assert found == {"norm": float(np.bincount(np.zeros(1000, int), 2 * flop * 1e-9)[0])}
    assert backend.asked == 2
