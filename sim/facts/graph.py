"""Graph of work, independent of any machine: ops, dependencies, release times, labels.

A graph is a list of blocks whose ops are numbered together. A :class:`~.flat_graph.FlatGraph`
stores every op; an :class:`~.spmd.spmd_graph.SpmdGraph` stores one program per class of ranks and
is equivalent to its ``expand()``. Blocks do not depend on each other: to run graphs one after
the other, a process awaits one and submits the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..argument import MOST_INT32, as_finite, as_float, as_integer, as_text, shown
from ..errors import GraphError
from .csr import Csr
from .flat_graph import FlatGraph, Participants, concatenate_blocks
from .ops import DTYPES, Kind, Ops
from .roles import Stream, assign_slots, stream_role

if TYPE_CHECKING:
    from .op_time_overrides import OpTimeOverrides
    from .spmd.spmd_graph import SpmdGraph
    from .system import System


class Label(NamedTuple):
    """Name of an op, with its module and source line if known."""

    name: str
    module: str = ""
    source: str = ""


class OpTexts:
    """Numbered labels and signatures of a graph; each distinct text is stored once.

    Examples
    --------
    >>> texts = OpTexts()
    >>> texts.label(Label("mm")), texts.label(Label("add")), texts.label(Label("mm"))
    (0, 1, 0)
    """

    def __init__(self) -> None:
        self._labels: dict[Label, int] = {}
        self._signatures: dict[str, int] = {}

    def label(self, label: Label) -> int:
        """Number of a label; a new label gets the next number."""
        return self._labels.setdefault(label, len(self._labels))

    def signature(self, text: str) -> int:
        """Number of a signature; a new signature gets the next number."""
        return self._signatures.setdefault(text, len(self._signatures))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels, in the order of their numbers."""
        return tuple(self._labels)

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures, in the order of their numbers."""
        return tuple(self._signatures)


LEAST_INT32 = -(2**31)
LAST_RANK = MOST_INT32 - 1  # the number of ranks is one more
LAST_PERIOD = int(np.iinfo(DTYPES["period"][0]).max)


@dataclass(frozen=True, repr=False)
class Graph:
    """Graph of ops with labels, stream kinds, and, once placed, the machine it runs on.

    Parameters
    ----------
    name : str
        Name of the graph. Random draws are keyed by name and row, so equal names give equal draws
        in every variant.
    blocks : Flat graphs and SPMD graphs that make up the graph.
    labels : Distinct labels of the ops.
    streams : mapping
        Kind of each (rank, stream): ``"host"``, ``"compute"``, ``"copy"`` or ``"network"``. A
        stream that is not listed has the kind of its first op.
    facts : mapping
        Statistics about the graph from its creator, e.g. ``{"gap_share": 0.02}``; reports show
        them.
    system : System or None
        Machine that the graph is placed on; None before placement.
    gpus : (ranks,) component
        GPU component of each rank; None before placement.
    times : OpTimeOverrides or None
        Op times and factors that override the backends; None for none.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> build = Builder("two ops")
    >>> first = build.op(Kind.COMPUTE, duration=1e-3)
    >>> _ = build.op(Kind.COMPUTE, duration=2e-3, after=[first])
    >>> graph = build.graph()
    >>> len(graph), graph.ranks, graph.placed
    (2, 1, False)
    """

    name: str
    blocks: tuple[FlatGraph | SpmdGraph, ...]
    labels: tuple[Label, ...] = ()
    streams: Mapping[Stream, str] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    system: System | None = None
    gpus: NDArray[np.int32] | None = None
    times: OpTimeOverrides | None = None

    def __len__(self) -> int:
        return sum(len(b) for b in self.blocks)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r} {len(self)} ops, {self.ranks} ranks>"

    @property
    def placed(self) -> bool:
        """True if the graph is placed on a system."""
        return self.system is not None

    @cached_property
    def ranks(self) -> int:
        """Number of ranks."""
        return max((b.ranks for b in self.blocks), default=0)

    @cached_property
    def explicit(self) -> FlatGraph:
        """All blocks as one flat graph, with SPMD graphs expanded."""
        return concatenate_blocks(
            [b if isinstance(b, FlatGraph) else self._expanded_block(b) for b in self.blocks]
        )

    def _expanded_block(self, block: SpmdGraph) -> FlatGraph:
        """Expand an SPMD graph, with the slot component of each op if the graph is placed."""
        flat = block.expand()
        if self.system is None or self.gpus is None:
            return flat
        return assign_slots(flat, self.system, self.gpus, self.streams)

    @property
    def template(self) -> SpmdGraph | None:
        """The graph's SPMD graph if that is its only block; else None."""
        only = self.blocks[0] if len(self.blocks) == 1 else None
        return None if isinstance(only, FlatGraph) else only

    def role(self, rank: int, stream: int) -> str | None:
        """Role that runs the communication ops of a stream; None if they occupy nothing.

        It is ``gpu`` for a kernel on the GPU, ``host`` for a CPU thread, or ``dma`` for a copy
        engine.
        """
        return stream_role(self.streams, (rank, stream))

    @property
    def ops(self) -> Ops:
        """Table of all ops, with SPMD graphs expanded."""
        return self.explicit.ops

    def label(self, row: int) -> Label:
        """Label of one op; its kind if it has no label."""
        ops = self.ops
        i = int(ops.label[row])
        return self.labels[i] if i >= 0 else Label(Kind(ops.kind[row]).name.lower())

    def with_ops(self, ops: Ops) -> Graph:
        """Copy of the graph with another table of ops, e.g. with other durations."""
        return replace(self, blocks=(replace(self.explicit, ops=ops),))


class Member(NamedTuple):
    """Member of a collective: its rank and stream, and the ops that it waits for."""

    rank: int
    stream: int = 0
    after: tuple[int, ...] = ()


class Builder:
    """Builder that assembles a graph op by op.

    Ops of one stream are not ordered automatically: list every dependency in ``after``.

    Examples
    --------
    >>> build = Builder("ring of two")
    >>> a = build.op(Kind.COMPUTE, rank=0, duration=1.0, name="forward")
    >>> b = build.op(Kind.COMPUTE, rank=1, duration=2.0, name="forward")
    >>> both = build.collective([Member(0, 1, (a,)), Member(1, 1, (b,))], bytes=1e6)
    >>> graph = build.graph()
    >>> graph.explicit.members[both].tolist(), graph.label(a).name
    ([0, 1], 'forward')
    """

    def __init__(self, name: str):
        self.name = name
        self._rows: list[dict[str, object]] = []
        self._edges: list[tuple[int, int, int]] = []  # op, dependent op, its member index
        self._further: list[Sequence[Member]] = []
        self._texts = OpTexts()
        self._streams: dict[Stream, str] = {}

    def op(
        self,
        kind: Kind,
        *,
        rank: int = 0,
        stream: int = 0,
        after: Iterable[int] = (),
        name: str = "",
        label: Label | None = None,
        signature: str = "",
        period: int = 0,
        flop: float = np.nan,
        bytes: float = np.nan,
        duration: float = np.nan,
        release: float = 0.0,
        peer: int = -1,
    ) -> int:
        """Add one op and return its row.

        Raises
        ------
        GraphError
            A number is of another type or out of range.
        """
        row = len(self._rows)
        self._check_numbers(kind, rank, stream, period, peer)
        self._check_amounts(flop, bytes, duration, release)
        for what, value in (("name", name), ("signature", signature)):
            if not isinstance(value, str):
                as_text(what, value, self._refuse(what))
        self._edges += [(a, row, 0) for a in self._rows_of(after)]
        label = label or (Label(name) if name else None)
        self._rows.append(
            {
                "kind": kind,
                "rank": rank,
                "stream": stream,
                "period": period,
                "flop": flop,
                "bytes": bytes,
                "duration": duration,
                "release": release,
                "peer": peer,
                "label": -1 if label is None else self._texts.label(label),
                "signature": self._texts.signature(signature) if signature else -1,
            }
        )
        self._further.append(())
        return row

    def collective(
        self,
        members: Sequence[Member],
        *,
        name: str = "",
        label: Label | None = None,
        signature: str = "",
        period: int = 0,
        bytes: float = np.nan,
        duration: float = np.nan,
        release: float = 0.0,
    ) -> int:
        """Add one collective over several member ranks and return its row.

        Raises
        ------
        GraphError
            It has no members, or a number is of another type or out of range.
        """
        if not isinstance(members, Sequence) or not all(isinstance(m, tuple) for m in members):
            raise self._refuse("members")(f"members is {shown(members)}; give a list of Member")
        if not members:
            raise GraphError(
                "collective", f"op {len(self._rows)}: has no members; give at least one"
            )
        first, *further = members
        row = self.op(
            Kind.COLLECTIVE,
            rank=first.rank,
            stream=first.stream,
            after=first.after,
            name=name,
            label=label,
            signature=signature,
            period=period,
            bytes=bytes,
            duration=duration,
            release=release,
        )
        self._further[row] = further
        for k, member in enumerate(map(Member._make, further), 1):
            self._check_numbers(Kind.COLLECTIVE, member.rank, member.stream, period, -1, row)
            self._edges += [(a, row, k) for a in self._rows_of(member.after, row)]
        return row

    def _refuse(self, kind: str, row: int | None = None) -> Callable[[str], GraphError]:
        """Function that makes the error of a wrong number of an op; by default the next one."""
        op = len(self._rows) if row is None else row
        return lambda why: GraphError(kind, f"{self.name!r} op {op}: {why}", (op,))

    def _check_numbers(
        self, kind: Kind, rank: int, stream: int, period: int, peer: int, row: int | None = None
    ) -> None:
        """Raise an error for a kind, rank, stream, period or peer that an op cannot have."""
        if (
            isinstance(kind, Kind)
            and type(rank) is type(stream) is type(period) is type(peer) is int
            and 0 <= rank <= LAST_RANK
            and LEAST_INT32 <= stream <= MOST_INT32
            and -1 <= period <= LAST_PERIOD
            and -1 <= peer <= LAST_RANK
        ):
            return  # as nearly all, and ten times as fast as the checks one by one
        if not isinstance(kind, Kind):
            refuse, last = self._refuse("kind", row), len(Kind) - 1
            Kind(as_integer("kind", kind, refuse, 0, last))
        as_integer("rank", rank, self._refuse("rank", row), 0, LAST_RANK)
        as_integer("stream", stream, self._refuse("stream", row), LEAST_INT32, MOST_INT32)
        as_integer("peer", peer, self._refuse("peer", row), -1, LAST_RANK)
        refuse = self._refuse("period", row)
        try:
            as_integer("period", period, refuse, -1, LAST_PERIOD)
        except GraphError:
            raise refuse(
                f"period is {shown(period)}; give 0 to {LAST_PERIOD}, or -1 for no period"
            ) from None

    def _check_amounts(self, flop: float, bytes: float, duration: float, release: float) -> None:
        """Raise an error for work or a time that an op cannot have; NaN is an unknown one."""
        for what, value in (("flop", flop), ("bytes", bytes), ("duration", duration)):
            if type(value) is float and (0 <= value < inf or value != value):
                continue
            found = nan if value is None else as_float(value)
            if found is None or found < 0 or found == inf:
                raise self._refuse(what)(
                    f"{what} is {shown(value)}; give a finite number, 0 or more, or NaN if it is "
                    "unknown"
                )
        if not (type(release) is float and 0 <= release < inf):
            as_finite("release", release, self._refuse("release"), 0.0, " s")

    def _rows_of(self, after: Iterable[int], row: int | None = None) -> Sequence[int]:
        """Rows of the ops that an op waits for."""
        if isinstance(after, tuple | list):
            for a in after:
                if type(a) is not int or not 0 <= a <= MOST_INT32:
                    break
            else:
                return after
        refuse = self._refuse("unknown op", row)
        if isinstance(after, str | bytes) or not isinstance(after, Iterable):
            raise refuse(f"after is {shown(after)}; give a list of rows")
        return [as_integer("after", a, refuse, LEAST_INT32, MOST_INT32) for a in after]

    def set_stream_kind(self, rank: int, stream: int, kind: str) -> None:
        """Set the kind of a stream: ``host``, ``compute``, ``copy`` or ``network``."""
        refuse = self._refuse("stream")
        as_integer("rank", rank, refuse, 0, LAST_RANK)
        as_integer("stream", stream, refuse, LEAST_INT32, MOST_INT32)
        as_text("kind", kind, refuse)
        self._streams[rank, stream] = kind

    def graph(self, **facts: object) -> Graph:
        """Graph of all ops added so far.

        Raises
        ------
        GraphError
            A dependency on an op that does not exist.
        """
        n = len(self._rows)
        members = [(i, m) for i, ms in enumerate(self._further) for m in ms]
        base = np.cumsum([n, *(len(ms) for ms in self._further)])
        source = np.array([a for a, _, _ in self._edges], np.int64)
        if len(source) and (source.min() < 0 or source.max() >= n):
            a, b, _ = next(e for e in self._edges if not 0 <= e[0] < n)
            raise GraphError(
                "unknown op",
                f"op {b} waits for op {a}, which does not exist; rows are 0 to {n - 1}",
                (b,),
            )
        target = [b if k == 0 else int(base[b]) + k - 1 for _, b, k in self._edges]
        pairs = np.array(sorted(set(zip(source.tolist(), target, strict=True))), np.int64)
        pairs = pairs.reshape(-1, 2)
        columns = {k: [r[k] for r in self._rows] for k in (self._rows[0] if n else ())}
        release, peer = columns.pop("release", []), columns.pop("peer", [])
        ops = Ops.of(**columns, signatures=self._texts.signatures) if n else Ops.of(rank=[])  # type: ignore[arg-type]
        block = FlatGraph(
            ops,
            Csr.from_pairs(pairs[:, 0], pairs[:, 1], n),
            Participants(
                np.array([i for i, _ in members], np.int32),
                np.array([m.rank for _, m in members], np.int32),
                np.array([m.stream for _, m in members], np.int32),
            ),
            np.array(release, np.float64),
            np.array(peer, np.int32),
        )
        return Graph(self.name, (block,), self._texts.labels, self._streams, facts)
