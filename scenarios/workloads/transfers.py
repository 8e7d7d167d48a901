"""``workload: {type: transfers}``: an explicit list of sends, copies and other ops.

The ops of a list entry start when the ops of the entry before it have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from ...sim.errors import ScenarioError
from ...sim.facts.graph import Builder, Graph, Member
from ...sim.facts.kind import KINDS, ROLES, Kind
from ...sim.facts.roles import role_named_by_stream
from ...sim.facts.signature import Operand, Signature
from ...sim.facts.splits import parse_collective_name
from ...sim.run.periodic import Periodic
from ...sim.run.workload import Size, workload
from ...sim.units import Chunk, Duration
from ..config.schema import Many, Section
from .iterations import ONE, Iterations, Positive

if TYPE_CHECKING:
    from ...sim.run.job import Job

Rank = Annotated[int, Field(ge=0)]
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "barrier")
OUR_KINDS = ("send", "copy", "host", "compute", "collective", "delay")


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
    bytes: Annotated[Chunk, Field(ge=0)] = 0
    """Number of bytes of each op; only a ``delay`` may leave it out."""
    from_: Annotated[Many[Rank], Field(min_length=1)] = Field((0,), alias="from")
    """Ranks that run the op, all at the same time; or the members of a collective."""
    to: Rank | None = None
    """Receiving rank of a send."""
    count: Positive = 1
    """Number of ops per rank."""
    at_once: Positive = 1
    """Number of concurrent ops per rank."""
    on: str = ""
    """Role that runs the op: that of a pool (``cluster.node.pools``) or of a plug-in."""
    time: Annotated[Duration, Field(ge=0)] | None = None
    """Length of a ``delay``, which occupies nothing."""

    @model_validator(mode="after")
    def _check_delay(self) -> TransferSection:
        """Only delays have a time, since backends time all other ops, by their bytes."""
        delay = self.op.startswith("delay:")
        if delay == (self.time is None):
            told = "it has no time" if delay else f"time is {self.time:g} s"
            raise ValueError(f"'{self.op}': {told}; give a time to delays, and to no other op")
        if delay and self.on:
            raise ValueError(f"'{self.op}': on is '{self.on}'; leave it out: a delay runs nowhere")
        if not delay and "bytes" not in self.model_fields_set:
            raise ValueError(f"'{self.op}': 'bytes' is missing; write them")
        return self


@workload("transfers")
class TransferWorkload(Periodic):
    """Workload given as a list of ops; each entry starts when the one before it has ended.

    Parameters
    ----------
    ops : sequence of TransferSection
        Ops of one iteration.
    iterations : Iterations
        Numbers of warm-up and of counted iterations.
    concurrent : bool or int
        Number of entries that run side by side: an entry starts when the one that many places
        before it has ended. ``true`` is all of them, ``false`` is 1. Iterations follow each other.
    """

    def __init__(
        self,
        *,
        ops: Annotated[Many[TransferSection], Field(min_length=1)],
        iterations: Iterations = ONE,
        concurrent: bool | Positive = False,
    ):
        self.beside = len(ops) if concurrent is True else int(concurrent) or 1
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
        builder, streams = Builder("transfers"), _streams_of_roles(self.ops)
        before: tuple[int, ...] = ()
        for iteration in range(self.times):
            ends: list[tuple[int, ...]] = []
            for k, line in enumerate(self.ops):
                after = ends[k - self.beside] if k >= self.beside else before
                ends.append(_add_line(builder, line, iteration, after, streams))
            before = tuple(row for last in ends[-self.beside :] for row in last)
        return builder.graph()


def _streams_of_roles(ops: Iterable[TransferSection]) -> dict[str, int]:
    """Stream of the ops that name a role, by role; other ops are on stream 0.

    Raises
    ------
    ScenarioError
        A role does not exist.
    """
    roles = dict.fromkeys(line.on for line in ops if line.on)
    for role in roles:
        if not role_named_by_stream(role):
            known = ", ".join(name for name in ROLES if role_named_by_stream(name)) or "none"
            raise ScenarioError(
                f"workload.ops: on is '{role}', which is not the role of a part; the roles are "
                f"{known}: declare the part in cluster.node.pools"
            )
    return {role: 1 + k for k, role in enumerate(roles)}


def _ranks_that_begin_op(line: TransferSection) -> tuple[int, ...]:
    """Ranks that start an op each; a collective is a single op of all its ranks."""
    return line.from_[:1] if line.op.startswith("collective:") else line.from_


def _add_line(
    builder: Builder,
    line: TransferSection,
    iteration: int,
    before: tuple[int, ...],
    streams: Mapping[str, int],
) -> tuple[int, ...]:
    """Add the ops of one list entry; returns the last op of each chain of consecutive ops."""
    ends: list[int] = []
    stream = streams.get(line.on, 0)
    for rank in line.from_ if line.on else ():
        builder.set_stream_kind(rank, stream, line.on)
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
            chains[k % width] = (_add_op(builder, line, (rank, stream), iteration, after),)
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
    builder: Builder,
    line: TransferSection,
    place: tuple[int, int],
    iteration: int,
    after: tuple[int, ...],
) -> int:
    (rank, stream), (kind, _, name) = place, line.op.partition(":")
    size = int(line.bytes)
    if kind == "collective":
        return builder.collective(
            [Member(r, stream or 1, after) for r in line.from_],
            bytes=size,
            period=iteration,
            signature=str(Signature(kind, name, (Operand("uint8", (size,)),))),
            name=line.op.partition(" ")[0],  # splits may be thousands of numbers
        )
    return builder.op(
        Kind[kind.upper()],
        rank=rank,
        stream=stream,
        duration=np.nan if line.time is None else line.time,
        peer=-1 if line.to is None or kind != "send" else line.to,
        bytes=size,
        flop=0.0,
        period=iteration,
        signature=str(Signature(kind, name, (Operand("uint8", (size,)),))),
        after=after,
        name=line.op,
    )
