"""SPMD graph: one program stored for all ranks that run it.

Its meaning is that of :meth:`SpmdGraph.expand`, with every op of every rank. The compiled engine
runs it without expanding it (``sim/core/programs/program_executor.py``), and identical ranks can
be folded into one (``sim/spmd/rank_quotient.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import GraphError
from ..csr import Csr
from ..flat_graph import FlatGraph
from ..ops import Kind, Ops

if TYPE_CHECKING:
    from .program_encoding import ProgramWords


@dataclass(frozen=True)
class RankProgram:
    """Program of one rank: its ops in topological order, with dependencies.

    Parameters
    ----------
    ops : Ops
        Table of the ops; the column ``rank`` is not used.
    successors : Csr
        Row ``i``: later rows of the same rank that wait for the end of row ``i``.
    family : (n,) family of groups of a collective, or family of peers of a send or recv; -1 for
        other ops
    """

    ops: Ops
    successors: Csr
    family: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.ops)

    @classmethod
    def chain(cls, ops: Ops, family: Sequence[int] | None = None) -> RankProgram:
        """Program in which each op waits for the previous one.

        >>> RankProgram.chain(Ops.of(duration=[1.0, 2.0])).successors.values.tolist()
        [1]
        """
        n = len(ops)
        after = np.arange(1, n)
        return cls(
            ops,
            Csr.from_pairs(after - 1, after, n),
            np.full(n, -1, np.int16) if family is None else np.asarray(family, np.int16),
        )

    def __post_init__(self) -> None:
        early = np.flatnonzero(self.successors.values <= self.successors.owner)
        if len(early):
            row = int(self.successors.owner[early[0]])
            raise GraphError("order", f"row {self.successors.values[early[0]]} of a program waits "
                             f"for row {row}; write it after that one", (row,))  # fmt: skip

    @cached_property
    def non_collective(self) -> NDArray[np.bool_]:
        """True for each row that is a separate op on every rank; False for collectives."""
        return np.asarray(self.ops.kind != Kind.COLLECTIVE)

    @cached_property
    def is_chain(self) -> bool:
        """True if every op waits for the previous row, so that ops of a rank never overlap."""
        linked = np.zeros(len(self), bool)
        linked[self.successors.values[self.successors.values == self.successors.owner + 1]] = True
        return bool(linked[1:].all())

    @cached_property
    def encoded(self) -> ProgramWords:
        """Program as 32-bit words for the compiled engine; encoded on first use.

        Raises
        ------
        OverflowError
            There are more families, dependencies or live end times than the words can encode.
        """
        from .program_encoding import encode_program

        return encode_program(self)

    def count_by_family(self, kind: Kind, families: int) -> NDArray[np.int64]:
        """Number of ops of a kind in each family, shape (families,)."""
        family = self.family[(self.ops.kind == kind) & (self.family >= 0)]
        return np.bincount(family, minlength=families)[:families]


@dataclass(frozen=True)
class SpmdGraph:
    """Graph of ranks that run shared programs, connected by collectives and messages.

    The k-th collective of a family on one rank is the k-th on every member of its group. The k-th
    send over a family of peers matches the k-th recv of the other rank over that family.

    Parameters
    ----------
    programs : tuple of RankProgram
    program : (ranks,) index of the program that each rank runs
    groups : (families, ranks) int32
        Group number of each rank, by family; ranks with one number form a group.
    peers : (families, ranks) int32
        Rank that each rank sends to, by family; -1 for none. No rank receives from two in one
        family.
    lead : for each family an array of shape (groups,), or None
        Member whose program gives the duration of each group's collectives; by default the first.

    Examples
    --------
    >>> ops = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE], duration=[1.0, 0.5])
    >>> program = RankProgram.chain(ops, family=[-1, 0])
    >>> everyone = SpmdGraph((program,), np.zeros(4, np.int32), groups=np.zeros((1, 4), np.int32))
    >>> len(everyone), everyone.expand().members.counts.tolist()
    (5, [1, 1, 1, 1, 4])
    """

    programs: tuple[RankProgram, ...]
    program: NDArray[np.int32]
    groups: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))
    peers: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))
    lead: tuple[NDArray[np.int32], ...] | None = None

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.program)

    @property
    def rank(self) -> NDArray[np.int32]:
        """Numbers of all ranks, shape (ranks,); the counterpart of ``FlatGraph.rank``."""
        return np.arange(self.ranks, dtype=np.int32)

    def __len__(self) -> int:
        return int(self.bases[-1])

    @cached_property
    def non_collective_counts(self) -> NDArray[np.int64]:
        """Number of ops in each program that are not collectives, shape (programs,).

        Every rank that runs the program has its own copy of these ops.
        """
        return np.array([int(p.non_collective.sum()) for p in self.programs], np.int64)

    @cached_property
    def calls(self) -> NDArray[np.int64]:
        """Number of collectives of each family in each program, shape (families, programs)."""
        return self._count_rows(Kind.COLLECTIVE, len(self.groups))

    @cached_property
    def sends(self) -> NDArray[np.int64]:
        """Number of sends of each family of peers in each program, shape (families, programs)."""
        return self._count_rows(Kind.SEND, len(self.peers))

    @cached_property
    def recvs(self) -> NDArray[np.int64]:
        """Number of recvs of each family of peers in each program, shape (families, programs)."""
        return self._count_rows(Kind.RECV, len(self.peers))

    def _count_rows(self, kind: Kind, families: int) -> NDArray[np.int64]:
        once = {id(p): p.count_by_family(kind, families) for p in self.programs}
        found = np.array([once[id(p)] for p in self.programs], np.int64)
        return np.ascontiguousarray(found.reshape(len(self.programs), families).T)

    @cached_property
    def group_leaders(self) -> tuple[NDArray[np.int32], ...]:
        """For each family and group, the rank whose program gives its collectives' times."""
        if self.lead is not None:
            return self.lead
        found = []
        for of in self.groups:
            first = np.full(int(of.max(initial=-1)) + 1, -1, np.int32)
            first[of[::-1]] = np.arange(self.ranks - 1, -1, -1)
            found.append(first)
        return tuple(found)

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """Graph row of each rank's first op, then of the first collective, then the number of rows.

        The shape is (ranks + 2,).
        """
        own = np.cumsum(self.non_collective_counts[self.program])
        shared = sum(int(self.first_calls(f)[-1]) for f in range(len(self.groups)))
        return np.concatenate([[0], own, own[-1:] + shared])

    @cached_property
    def senders(self) -> NDArray[np.int32]:
        """Rank that sends to each rank, by family, shape (families, ranks); -1 for none.

        Raises
        ------
        GraphError
            Two ranks send to the same rank in one family.
        """
        found = np.full(self.peers.shape, -1, np.int32)
        for f, to in enumerate(self.peers):
            sends = np.flatnonzero(to >= 0)
            found[f, to[sends]] = sends
            if np.bincount(to[sends], minlength=1).max() > 1:
                raise GraphError("message", f"two ranks send to the same rank in peer family {f}; "
                                 "give each sender its own family")  # fmt: skip
        return found

    def check(self) -> None:
        """Raise an error for messages and collectives without a counterpart.

        Raises
        ------
        GraphError
            The message names the rank and the family.
        """
        _ = self.bases
        for f, senders in enumerate(self.senders):
            received = self.recvs[f][self.program]
            sent = np.where(senders >= 0, self.sends[f][self.program[senders]], 0)
            wrong = np.flatnonzero((received > 0) & (sent != received))
            if len(wrong):
                r = int(wrong[0])
                if senders[r] < 0:
                    raise GraphError(
                        "message",
                        f"rank {r} receives messages of peer family {f}, but no rank sends to it; "
                        "set its sender in peers",
                    )
                raise GraphError(
                    "message",
                    f"rank {r} receives {received[r]} messages of peer family {f}, but rank "
                    f"{senders[r]} sends {sent[r]}; make them equal",
                )

    def first_calls(self, family: int) -> NDArray[np.int64]:
        """Index of each group's first collective within a family, shape (groups + 1,).

        The last entry is the number of collectives of the family.

        Raises
        ------
        GraphError
            Members of one group run different numbers of collectives.
        """
        group = self.groups[family]
        calls = self.calls[family][self.program]
        count = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        np.maximum.at(count, group, calls)
        short = np.flatnonzero(calls < count[group])
        if len(short):
            r = int(short[0])
            raise GraphError(
                "collective",
                f"rank {r} runs {calls[r]} collectives of family {family}, others of its group "
                f"{count[group[r]]}; every member must run all of them",
            )
        return np.concatenate([[0], np.cumsum(count)])

    def expand(self) -> FlatGraph:
        """Flat graph with every op: each rank's own ops, then collectives by family and group.

        Raises
        ------
        GraphError
            A collective, send or recv has no counterpart.
        """
        from .expansion import Expansion

        return Expansion(self).block()
