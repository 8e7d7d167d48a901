"""A small machine for random policies, with a tick of 1 ns and times of a few ticks."""

from __future__ import annotations

import numpy as np
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing, Usage
from foretrace.sim.facts.eviction.store import Store
from foretrace.sim.facts.graph import Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.way import Way
from foretrace.sim.record.step_grid import StepGrid

KV, WIRE = 2, 4  # numbers of components
SPREAD = Spread(np.empty(0), np.array([1.0, 2.0, 3.0]))  # so that the key of a draw matters


def machine() -> System:
    """Two GPUs, two capacities, a link, two stores."""
    gpus = Component("node0.gpu0", "gpu", slots=1), Component("node0.gpu1", "gpu", slots=2)
    amounts = (
        Component("node0.kv", "memory", capacity=3, unit="block"),
        Component("node0.pool", "memory", capacity=5, unit="block"),
    )
    stores = (
        Component("node0.cache", "memory", capacity=Store(3), unit="block"),
        Component("node0.pages", "memory", capacity=Store(4, "window"), unit="block"),
    )
    return System(
        (*gpus, *amounts, Component("wire", "link", rate=1e9), *stores),
        (gpus[0].name, gpus[1].name),
    )


class Ticks(Backend):
    """An op takes one tick per flop, then its bytes on the wire; labels say who holds memory."""

    source = "the test"

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Times of ops."""
        texts = [ops.signature_text(row) for row in range(len(ops))]
        holds = [[(KV, 1, -1)] if text == "compute:holds" else [] for text in texts]
        return Timing.of(
            ops.flop * 1e-9,
            work=ops.bytes,
            usage=Usage.repeated([WIRE], len(ops)),
            holds=Holds.of(holds),
            spread=SPREAD,
        )


def graphs() -> dict[str, Graph]:
    """The graphs that policies submit."""
    one = Builder("one")
    one.op(Kind.COMPUTE, flop=3.0, bytes=0.0)
    two = Builder("two")
    first = two.op(Kind.COMPUTE, flop=0.0, bytes=2.0)
    two.op(Kind.COMPUTE, rank=1, flop=1.0, bytes=1.0, after=[first])
    holding = Builder("holding")
    holding.op(Kind.COMPUTE, rank=1, flop=2.0, bytes=0.0, signature="compute:holds")
    return {"one": one.graph(), "two": two.graph(), "holding": holding.graph()}


def ways() -> dict[str, list[Way]]:
    """The ways of each graph, which swap the GPUs."""
    gpus = ["node0.gpu1", "node0.gpu0"]
    return {"one": [Way(gpus[:1]), Way(gpus[1:])], "two": [Way(gpus)], "holding": []}


def sized(size: int) -> Graph:
    """A graph of a grid: its time is no linear function of its size; a large one holds memory."""
    build, held = Builder("sized"), "compute:holds" if size > 6 else "compute:sized"
    build.op(Kind.COMPUTE, rank=1, flop=float(size * size), bytes=float(size), signature=held)
    return build.graph()


def grid() -> StepGrid:
    """The grid that policies submit, after the graphs."""
    return StepGrid(sized, {"size": [0, 3, 5, 7]})
