"""A program stored once for each class of ranks; a rank is a place in it.

What a template means is its :meth:`Template.expand`: every op of every rank, written out.  The
compiled core runs it without ever writing it out (``sim/core/templates.py``), and identical
ranks can be folded into one (``sim/fold.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .csr import Csr
from .errors import GraphError
from .graph import Explicit, Places
from .ops import Kind, Ops


@dataclass(frozen=True)
class Program:
    """What one rank does, in an order in which every op comes after those it waits for.

    Parameters
    ----------
    ops : Ops
        The column ``rank`` is not read.
    successors : Csr
        Row ``i``: later rows that wait for the end of row ``i`` on the same rank.
    family : (n,) of a collective, which family of groups; of a send or recv, which family of
        peers; -1 otherwise
    """

    ops: Ops
    successors: Csr
    family: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.ops)

    @classmethod
    def chain(cls, ops: Ops, family: Sequence[int] | None = None) -> Program:
        """Each op waits for the one before it.

        >>> Program.chain(Ops.of(duration=[1.0, 2.0])).successors.values.tolist()
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

    @property
    def own(self) -> NDArray[np.bool_]:
        """(n,) rows that every rank has for itself; the others are collectives, one a group."""
        return np.asarray(self.ops.kind != Kind.COLLECTIVE)


@dataclass(frozen=True)
class Template:
    """Ranks that run programs and meet in collectives and messages.

    The k-th collective of a family that a rank runs is the k-th of every member of its group;
    the k-th send over a family of peers is the k-th recv of the other end over the same family.

    Parameters
    ----------
    programs : tuple of Program
    program : (ranks,) which program each rank runs
    groups : (families, ranks) int32
        Number of the group that a rank belongs to, by family; ranks of one number are a group.
    peers : (families, ranks) int32
        The rank that a rank sends to, by family; -1 for none.  Nobody hears from two.

    Examples
    --------
    >>> ops = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE], duration=[1.0, 0.5])
    >>> program = Program.chain(ops, family=[-1, 0])
    >>> everyone = Template((program,), np.zeros(4, np.int32), groups=np.zeros((1, 4), np.int32))
    >>> len(everyone), everyone.expand().members.counts.tolist()
    (5, [1, 1, 1, 1, 4])
    """

    programs: tuple[Program, ...]
    program: NDArray[np.int32]
    groups: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))
    peers: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.program)

    @property
    def rank(self) -> NDArray[np.int32]:
        """Ranks, as a block's column of places would list them."""
        return np.arange(self.ranks, dtype=np.int32)

    def __len__(self) -> int:
        return int(self.bases[-1])

    @cached_property
    def own(self) -> NDArray[np.int64]:
        """(programs,) rows of a rank that are its own."""
        return np.array([int(p.own.sum()) for p in self.programs], np.int64)

    @cached_property
    def calls(self) -> NDArray[np.int64]:
        """(families, programs) collectives of each family in each program."""
        families = len(self.groups)
        return np.array(
            [[int((p.family[~p.own] == f).sum()) for p in self.programs] for f in range(families)],
            np.int64,
        ).reshape(families, len(self.programs))

    @cached_property
    def bases(self) -> NDArray[np.int64]:
        """(ranks + 2,) First row of each rank's own ops, of the collectives, and the end."""
        own = np.cumsum(self.own[self.program])
        shared = sum(int(self.first_calls(f)[-1]) for f in range(len(self.groups)))
        return np.concatenate([[0], own, own[-1:] + shared])

    @cached_property
    def senders(self) -> NDArray[np.int32]:
        """(families, ranks) The rank that a rank hears from, by family; -1 for none.

        Raises
        ------
        GraphError
            Two ranks that send to one over the same family.
        """
        found = np.full(self.peers.shape, -1, np.int32)
        for f, to in enumerate(self.peers):
            sends = np.flatnonzero(to >= 0)
            found[f, to[sends]] = sends
            if len(np.unique(to[sends])) < len(sends):
                raise GraphError("message", f"two ranks send to one over family {f} of peers; "
                                 "give each its own family")  # fmt: skip
        return found

    def first_calls(self, family: int) -> NDArray[np.int64]:
        """(groups + 1,) Number of the first collective of each group of a family, from 0.

        Raises
        ------
        GraphError
            Members of one group that run different numbers of collectives.
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

    def expand(self) -> Explicit:
        """Every op written out: each rank's own ops in order, then collectives by family and group.

        Raises
        ------
        GraphError
            Collectives, sends or recvs that have no counterpart.
        """
        return _Expansion(self).block()


class _Expansion:
    """Writes a template out."""

    def __init__(self, template: Template):
        self.t = template
        self.first_row = template.bases
        starts = [template.bases[template.ranks]]
        for f in range(len(template.groups)):
            starts.append(starts[-1] + template.first_calls(f)[-1])
        self.family_base = starts
        n = len(template)
        self.source = np.zeros(n, np.int64)  # row of the concatenated programs
        self.rank = np.zeros(n, np.int32)
        self.peer = np.full(n, -1, np.int32)
        self.edges: list[NDArray[np.int64]] = []  # (m, 2): op and the (row, rank) that waits
        self.members: list[NDArray[np.int64]] = []

    def block(self) -> Explicit:
        t = self.t
        tables = [p.ops for p in t.programs]
        base = np.concatenate([[0], np.cumsum([len(x) for x in tables])])
        seen = np.zeros(len(t), bool)
        rows = [self._rows(r) for r in range(t.ranks)]
        for r in range(t.ranks):
            new = ~seen[rows[r]]
            self.source[rows[r][new]] = base[t.program[r]] + np.flatnonzero(new)
            self.rank[rows[r][new]] = r
            seen[rows[r]] = True
        ops = Ops.concat(tables).take(self.source).replace(rank=self.rank)
        places, place_of = self._places(rows)
        pairs = np.concatenate([*self._inside(rows, place_of), *self._messages(rows)])
        return Explicit(
            ops,
            Csr.from_pairs(pairs[:, 0], pairs[:, 1], len(t)),
            places,
            np.zeros(len(t)),
            self.peer,
        )

    def _rows(self, r: int) -> NDArray[np.int64]:
        """The row of the graph of each row of rank ``r``'s program."""
        program = self.t.programs[self.t.program[r]]
        rows = np.zeros(len(program), np.int64)
        rows[program.own] = self.first_row[r] + np.arange(int(program.own.sum()))
        for f in range(len(self.t.groups)):
            at = np.flatnonzero(~program.own & (program.family == f))
            first = self.t.first_calls(f)[self.t.groups[f, r]]
            rows[at] = self.family_base[f] + first + np.arange(len(at))
        return rows

    def _places(self, rows: list[NDArray[np.int64]]) -> tuple[Places, dict[tuple[int, int], int]]:
        """Further places of collectives, and the place of each (collective, rank)."""
        found: list[tuple[int, int, int]] = []
        place_of: dict[tuple[int, int], int] = {}
        for r, at in enumerate(rows):
            program = self.t.programs[self.t.program[r]]
            for i in np.flatnonzero(~program.own).tolist():
                if int(self.rank[at[i]]) == r:
                    place_of[int(at[i]), r] = int(at[i])
                else:
                    found.append((int(at[i]), r, int(program.ops.stream[i])))
        found.sort()
        n = len(self.t)
        place_of |= {(op, r): n + j for j, (op, r, _) in enumerate(found)}
        table = np.array(found, np.int32).reshape(-1, 3)
        return Places(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()), place_of

    def _inside(
        self, rows: list[NDArray[np.int64]], place_of: dict[tuple[int, int], int]
    ) -> list[NDArray[np.int64]]:
        """Dependencies within each rank."""
        found = [np.empty((0, 2), np.int64)]
        for r, at in enumerate(rows):
            program = self.t.programs[self.t.program[r]]
            to = at[program.successors.values].copy()
            for j in np.flatnonzero(~program.own[program.successors.values]).tolist():
                to[j] = place_of[int(to[j]), r]
            found.append(np.column_stack([at[program.successors.owner], to]))
        return found

    def _messages(self, rows: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """A recv waits for the send of the other end."""
        found = [np.empty((0, 2), np.int64)]
        for r, at in enumerate(rows):
            program = self.t.programs[self.t.program[r]]
            for f in range(len(self.t.peers)):
                mine = np.flatnonzero((program.ops.kind == Kind.RECV) & (program.family == f))
                if not len(mine):
                    continue
                other = int(self.t.senders[f, r])
                sends = self._sends(other, f, r, len(mine))
                found.append(np.column_stack([rows[other][sends], at[mine]]))
        self._set_peers(rows)
        return found

    def _sends(self, other: int, f: int, r: int, wanted: int) -> NDArray[np.int64]:
        if other < 0:
            raise GraphError("message", f"rank {r} hears from nobody over family {f}")
        program = self.t.programs[self.t.program[other]]
        sends = np.flatnonzero((program.ops.kind == Kind.SEND) & (program.family == f))
        if len(sends) != wanted:
            raise GraphError("message", f"rank {r} hears {wanted} times from rank {other} over "
                             f"family {f}, which sends {len(sends)} times")  # fmt: skip
        return sends

    def _set_peers(self, rows: list[NDArray[np.int64]]) -> None:
        for r, at in enumerate(rows):
            program = self.t.programs[self.t.program[r]]
            sends = np.flatnonzero((program.ops.kind == Kind.SEND) & (program.family >= 0))
            if len(sends):
                self.peer[at[sends]] = self.t.peers[program.family[sends], r]
