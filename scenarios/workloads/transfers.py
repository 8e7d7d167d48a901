"""``workload: {type: transfers}``: an explicit list of sends, copies and other ops.

The ops of a list entry start when the ops of the entry before it have ended.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from ...sim.errors import ScenarioError
from ...sim.facts.graph import Builder, Graph, Member
from ...sim.facts.kind import KINDS, Kind
from ...sim.facts.signature import Operand, Signature
from ...sim.facts.splits import parse_collective_name
from ...sim.run.periodic import Periodic
from ...sim.run.workload import Size, workload
from ...sim.units import Chunk
from ..config.schema import Many, Section
from .iterations import ONE, Iterations, Positive

if TYPE_CHECKING:
    from ...sim.run.job import Job

Rank = Annotated[int, Field(ge=0)]
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "barrier")
OUR_KINDS = ("send", "copy", "host", "compute", "collective")


def _check_collective(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not colon or not name or kind not in (*OUR_KINDS, *KINDS):
        cure = "send:write, copy:h2d or collective:all-reduce"
        if (collective := kind.replace("_", "-")) in COLLECTIVES:
            cure = f"collective:{collective}"
        raise ValueError(f"'{text}' is not an op; write it like {cure}")
    return text


class TransferSection(Section):
    """Equal ops of one or several ranks, which run at the same time."""

    op: Annotated[str, AfterValidator(_check_collective)]
    """Kind and name, as drivers know it: ``send:write``, ``copy:c2d``, or a kind that a plug-in
    registered; an all-to-all may say how
    unequal its parts are, ``collective:all-to-all receive=5,1,1,1`` (``docs/signatures.md``); a
    collective, such as ``collective:all-reduce``, is one op of all its ranks."""
    bytes: Annotated[Chunk, Field(ge=0)]
    """Number of bytes of each op."""
    from_: Annotated[Many[Rank], Field(min_length=1)] = Field((0,), alias="from")
    """Ranks that run the op, all at the same time; or the members of a collective."""
    to: Rank | None = None
    """Receiving rank of a send."""
    count: Positive = 1
    """Number of ops per rank."""
    at_once: Positive = 1
    """Number of concurrent ops per rank."""


@workload("transfers")
class TransferWorkload(Periodic):
    """Workload given as a list of ops; each entry starts when the one before it has ended.

    Parameters
    ----------
    ops : sequence of TransferSection
        Ops of one iteration.
    iterations : Iterations
        Numbers of warm-up and of counted iterations.
    """

    def __init__(
        self,
        *,
        ops: Annotated[Many[TransferSection], Field(min_length=1)],
        iterations: Iterations = ONE,
    ):
        self.ops, self.times = ops, iterations.warm_up + (iterations.measure or 1)
        self.warm_up, self.counted = iterations.warm_up, iterations.measure

    def size(self) -> Size:
        """Number of ranks up to the last one named, and of all ops."""
        named = chain.from_iterable((*line.from_, line.to or 0) for line in self.ops)
        each = sum(line.count * len(_ranks_that_begin_op(line)) for line in self.ops)
        return Size(max(named) + 1, self.times * each, self.times)

    def start(self, job: Job) -> Graph:
        """Graph of the ops, iteration after iteration.

        Raises
        ------
        ScenarioError
            A send has no receiver or sends to itself, or a collective has one member.
        """
        builder = Builder("transfers")
        last: tuple[int, ...] = ()
        for iteration in range(self.times):
            for line in self.ops:
                last = _add_line(builder, line, iteration, last)
        return builder.graph()


def _ranks_that_begin_op(line: TransferSection) -> tuple[int, ...]:
    """Ranks that start an op each; a collective is a single op of all its ranks."""
    return line.from_[:1] if line.op.startswith("collective:") else line.from_


def _add_line(
    builder: Builder, line: TransferSection, iteration: int, before: tuple[int, ...]
) -> tuple[int, ...]:
    """Add the ops of one list entry; returns the last op of each chain of consecutive ops."""
    ends: list[int] = []
    for rank in _ranks_that_begin_op(line):
        if line.op.startswith("send:") and line.to in (None, rank):
            raise ScenarioError(
                f"workload.ops: {line.op} goes from {rank} to {line.to}; write another rank in 'to'"
            )
        if line.op.startswith("collective:"):
            _refuse_impossible_members(line)
        width = min(line.at_once, line.count)
        chains: list[tuple[int, ...]] = [before] * width
        for k in range(line.count):
            after = chains[k % width]
            chains[k % width] = (_add_op(builder, line, rank, iteration, after),)
        ends += [row for chain in chains for row in chain if chain != before]
    return tuple(ends)


def _refuse_impossible_members(line: TransferSection) -> None:
    """Raise an error for a collective with one member, with a receiver, or with invalid parts."""
    if line.to is not None or len(set(line.from_)) < max(2, len(line.from_)):
        receiver = "" if line.to is None else f" to {line.to}"
        raise ScenarioError(
            f"workload.ops: {line.op} among {list(line.from_)}{receiver}; name two or more "
            "different ranks in 'from', and leave 'to' out"
        )
    name = line.op.partition(":")[2]
    if name.partition(" ")[0] not in COLLECTIVES:
        return  # of a driver's own, which knows its attributes
    try:
        parse_collective_name(name, len(line.from_))
    except ValueError as error:
        what = line.op.partition(" ")[0]
        raise ScenarioError(f"workload.ops: {what}: {error}") from error


def _add_op(
    builder: Builder, line: TransferSection, rank: int, iteration: int, after: tuple[int, ...]
) -> int:
    kind, _, name = line.op.partition(":")
    size = int(line.bytes)
    if kind == "collective":
        return builder.collective(
            [Member(r, 1, after) for r in line.from_],
            bytes=size,
            period=iteration,
            signature=str(Signature(kind, name, (Operand("uint8", (size,)),))),
            name=line.op.partition(" ")[0],  # splits may be thousands of numbers
        )
    return builder.op(
        Kind[kind.upper()],
        rank=rank,
        peer=-1 if line.to is None or kind != "send" else line.to,
        bytes=size,
        flop=0.0,
        period=iteration,
        signature=str(Signature(kind, name, (Operand("uint8", (size,)),))),
        after=after,
        name=line.op,
    )
