"""Ops written out in a scenario as a graph: every line waits for the one before it."""

from __future__ import annotations

from typing import Any

from ..sim.errors import ScenarioError
from ..sim.graph import Builder, Graph
from ..sim.ops import Kind
from ..sim.signature import Operand, Signature
from .limits import require_memory
from .plan import memory
from .scenario import Scenario
from .workloads import workload


@workload("transfers")
def build(scenario: Scenario) -> Graph:
    """A graph of the ops of ``workload.ops``, iteration after iteration.

    Raises
    ------
    ScenarioError
        A send without an end, or to itself; more ops than fit into memory.
    """
    said: Any = scenario.workload
    iterations = said.iterations.warm_up + (said.iterations.measure or 1)
    count = iterations * sum(line.count * len(line.from_) for line in said.ops)
    require_memory(memory(count), 1, scenario.run.memory, f"{count:,} ops")
    made = Builder(scenario.name)
    last: tuple[int, ...] = ()
    for iteration in range(iterations):
        for line in said.ops:
            last = _line(made, line, iteration, last)
    return made.graph()


def _line(made: Builder, line: Any, iteration: int, before: tuple[int, ...]) -> tuple[int, ...]:
    """The ops of one line; returns the last of each chain."""
    ends: list[int] = []
    for rank in line.from_:
        if line.op.startswith("send:") and line.to in (None, rank):
            raise ScenarioError(f"workload.ops: {line.op} from {rank} to {line.to}; name its end")
        width = min(line.at_once, line.count)
        chains: list[tuple[int, ...]] = [before] * width
        for k in range(line.count):
            after = chains[k % width]
            chains[k % width] = (_op(made, line, rank, iteration, after),)
        ends += [row for chain in chains for row in chain if chain != before]
    return tuple(ends)


def _op(made: Builder, line: Any, rank: int, iteration: int, after: tuple[int, ...]) -> int:
    kind, _, name = line.op.partition(":")
    size = int(line.bytes)
    return made.op(
        Kind[kind.upper()],
        rank=rank,
        peer=line.to if kind == "send" else -1,
        bytes=size,
        flop=0.0,
        iteration=iteration,
        signature=str(Signature(kind, name, (Operand("uint8", (size,)),))),
        after=after,
        name=line.op,
    )
