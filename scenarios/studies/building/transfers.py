"""Ops written out in a scenario as a graph: every line waits for the one before it."""

from __future__ import annotations

from typing import Any

from ....sim.errors import ScenarioError
from ....sim.graph import Builder, Graph, Member
from ....sim.ops import Kind
from ....sim.signature import Operand, Signature
from ...config.scenario import Scenario
from ..limits import require_memory
from ..plan import memory
from .workloads import workload


@workload("transfers")
def build(scenario: Scenario) -> Graph:
    """A graph of the ops of ``workload.ops``, iteration after iteration.

    Raises
    ------
    ScenarioError
        A send without an end, or to itself; a collective of one; more ops than fit into memory.
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
    for rank in line.from_[:1] if line.op.startswith("collective:") else line.from_:
        if line.op.startswith("send:") and line.to in (None, rank):
            raise ScenarioError(f"workload.ops: {line.op} from {rank} to {line.to}; name its end")
        if line.op.startswith("collective:"):
            _refuse_alone(line)
        width = min(line.at_once, line.count)
        chains: list[tuple[int, ...]] = [before] * width
        for k in range(line.count):
            after = chains[k % width]
            chains[k % width] = (_op(made, line, rank, iteration, after),)
        ends += [row for chain in chains for row in chain if chain != before]
    return tuple(ends)


def _refuse_alone(line: Any) -> None:
    """A collective has several members, and no end."""
    if line.to is not None or len(set(line.from_)) < max(2, len(line.from_)):
        raise ScenarioError(
            f"workload.ops: {line.op} among {list(line.from_)} to {line.to}; name two or more "
            "different ranks in 'from', and leave 'to' out"
        )


def _op(made: Builder, line: Any, rank: int, iteration: int, after: tuple[int, ...]) -> int:
    kind, _, name = line.op.partition(":")
    size = int(line.bytes)
    if kind == "collective":
        return made.collective(
            [Member(r, 1, after) for r in line.from_],
            bytes=size,
            iteration=iteration,
            signature=str(Signature(kind, name, (Operand("uint8", (size,)),))),
            name=line.op,
        )
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
