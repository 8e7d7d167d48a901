"""Chakra files as a graph: one file a rank, collectives and messages matched across ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....sim.errors import TraceError
from ....sim.graph import Builder, Graph, Label, Member
from ....sim.ops import Kind
from ...infer.cycle import refuse_cycles
from . import attribute_names
from .files import load
from .messages import COLLECTIVES, NodeType
from .nodes import ChakraNode, OurAttributes, files_of, ours_of, parsed, prefix, refuse_twice

STREAMS = {Kind.COMPUTE: 0, Kind.HOST: 1, Kind.COPY: 2}
NETWORK = 3  # the stream of messages and collectives
STREAM_KINDS = {0: "compute", 1: "host", 2: "copy", NETWORK: "network"}
COPIES = {NodeType.MEM_LOAD: "copy:h2d", NodeType.MEM_STORE: "copy:d2h"}


@dataclass
class _Op:
    """What becomes one row: one node, or those of all members of a collective."""

    nodes: list[ChakraNode] = field(default_factory=list)
    sender: ChakraNode | None = None


def read(paths: str | Path | Iterable[str | Path]) -> Graph:
    """Read ``PREFIX.RANK.et`` (or ``.json``, also gzipped) of every rank.

    Nodes have no streams: computing goes to one for each of GPU, host and copies, messages and
    collectives to another.  The groups of collectives are the ranks whose files name them.
    Where both are given, a microsecond count is passed over for our own exact duration.

    Parameters
    ----------
    paths : a prefix, a glob, or files

    Raises
    ------
    TraceError
        A rank is missing, a dependency or a message has no other end, members disagree.

    Examples
    --------
    >>> import tempfile
    >>> from .writer import write
    >>> build = Builder("two")
    >>> first = build.op(Kind.COMPUTE, duration=1e-3, name="forward")
    >>> _ = build.op(Kind.COMPUTE, duration=2e-3, after=[first])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write(build.graph(), folder)
    ...     read(f"{folder}/trace.*.et").ops.duration.tolist()
    [0.001, 0.002]
    """
    files = files_of(paths)
    loaded = [(rank, path, *load(path)) for rank, path in files.items()]
    nodes = [parsed(path, rank, node) for rank, path, _, found in loaded for node in found]
    refuse_twice(nodes)
    _, first, metadata, _ = loaded[0]
    return _Reader(nodes, ours_of(metadata, first), name=prefix(first)).graph()


class _Reader:
    """Nodes to ops, ops to rows."""

    def __init__(self, nodes: list[ChakraNode], ours: OurAttributes | None, name: str):
        self.ours, self.place = ours, name
        self.build = Builder(ours.name if ours else name)
        implied = [node for node in nodes if node.said.get(attribute_names.IMPLIED)]
        self.node = {(n.rank, n.id): n for n in nodes}
        self.ops = self._ops([n for n in nodes if not n.said.get(attribute_names.IMPLIED)])
        for row, op in enumerate(self.ops):
            for node in op.nodes:
                node.row = row
        self._match(nodes)
        for node in implied:
            node.row = self.sender[node.rank, node.id].row

    def graph(self) -> Graph:
        for op in self.ops:
            self._add(op)
        streams = self.ours.streams if self.ours else self._streams()
        for rank, stream, kind in streams:
            self.build.describe(rank, stream, kind)
        made = self.build.graph(**(self.ours.facts if self.ours else {}))
        block = made.explicit
        waits = block.successors
        refuse_cycles(self.place, block.ops, waits.owner, block.op_of_place[waits.values])
        return made

    def _ops(self, nodes: list[ChakraNode]) -> list[_Op]:
        """In the order of rows: ours by id, others' rank by rank."""
        if self.ours:
            nodes = sorted(nodes, key=lambda n: n.id)
        found: dict[tuple[object, ...], _Op] = {}
        met: dict[tuple[int, str], int] = defaultdict(int)
        for node in nodes:
            key: tuple[object, ...] = (node.rank, node.id)
            if node.type == NodeType.COMM_COLL:
                group = str(node.said.get(attribute_names.GROUP, ""))
                key = ("group", group, met[node.rank, group])
                met[node.rank, group] += 1
            found.setdefault(key, _Op()).nodes.append(node)
        self._refuse_uneven(met)
        return list(found.values())

    def _refuse_uneven(self, met: Mapping[tuple[int, str], int]) -> None:
        counts: dict[str, dict[int, int]] = defaultdict(dict)
        for (rank, group), count in met.items():
            counts[group][rank] = count
        for group, by_rank in counts.items():
            few, many = min(by_rank, key=by_rank.__getitem__), max(by_rank, key=by_rank.__getitem__)
            if by_rank[few] != by_rank[many]:
                raise TraceError(
                    f"{self.build.name}: rank {few} has {by_rank[few]} collectives of group "
                    f"'{group}', rank {many} has {by_rank[many]}; export all ranks of one run"
                )

    def _match(self, nodes: list[ChakraNode]) -> None:
        """The send of every receive: the first of its ends and tag with the first, and so on."""
        sends: dict[tuple[int, int, int], list[ChakraNode]] = defaultdict(list)
        for node in nodes:
            if node.type == NodeType.COMM_SEND:
                sends[
                    node.rank,
                    node.wants(attribute_names.TARGET),
                    node.said.get(attribute_names.TAG, 0),
                ].append(node)
        self.sender: dict[tuple[int, int], ChakraNode] = {}
        for node in nodes:
            if node.type != NodeType.COMM_RECV:
                continue
            ends = (
                node.wants(attribute_names.SOURCE),
                node.rank,
                node.said.get(attribute_names.TAG, 0),
            )
            if not sends[ends]:
                raise node.refuse(
                    f"receives from rank {ends[0]} with tag {ends[2]}, which sends no such "
                    "message; export all ranks of one run"
                )
            self.sender[node.rank, node.id] = sends[ends].pop(0)

    def _after(self, node: ChakraNode) -> tuple[int, ...]:
        rows = []
        for other in node.waits:
            if (node.rank, other) not in self.node:
                raise node.refuse(
                    f"waits for node {other}, which is not in the file; export the trace again"
                )
            rows.append(self.node[node.rank, other].row)
        sent = self.sender.get((node.rank, node.id))
        return (*rows, sent.row) if sent else tuple(rows)

    def _add(self, op: _Op) -> None:
        first = op.nodes[0]
        kind = self._kind(first)
        label = Label(
            first.name,
            first.said.get(attribute_names.MODULE, ""),
            first.said.get(attribute_names.CODE, ""),
        )
        said: dict[str, Any] = {
            "label": label if any(label) else None,
            "duration": self._duration(first),
            "release": first.said.get(attribute_names.RELEASE, 0.0),
            "iteration": first.said.get(attribute_names.ITERATION, 0),
        }
        if kind == Kind.COLLECTIVE:
            self._add_collective(op, said)
        else:
            self._add_one(first, kind, said)

    def _add_one(self, node: ChakraNode, kind: Kind, said: dict[str, Any]) -> None:
        size = node.said.get(
            attribute_names.TENSOR, node.said.get(attribute_names.COMM_SIZE, math.nan)
        )
        peer = {Kind.SEND: attribute_names.TARGET, Kind.RECV: attribute_names.SOURCE}.get(kind)
        self.build.op(
            kind,
            rank=node.rank,
            stream=self._stream(node, kind),
            after=self._after(node),
            flop=node.said.get(
                attribute_names.EXACT_FLOP, node.said.get(attribute_names.FLOP, math.nan)
            ),
            bytes=node.said.get(attribute_names.EXACT_BYTES, size),
            signature=node.said.get(
                attribute_names.SIGNATURE, "" if self.ours else self._signature(node)
            ),
            peer=node.said.get(attribute_names.PEER, node.wants(peer) if peer else -1),
            **said,
        )

    def _add_collective(self, op: _Op, said: dict[str, Any]) -> None:
        if self.ours:  # a group has an order: the first member is the root
            group = op.nodes[0].wants(attribute_names.GROUP)
            order = self.ours.groups.get(group, [])
            if sorted(order) != sorted(node.rank for node in op.nodes):
                raise op.nodes[0].refuse(
                    f"is a collective of group '{group}', which has the ranks {order}; export the "
                    "trace again"
                )
            op.nodes.sort(key=lambda node: order.index(node.rank))
        first = op.nodes[0]
        name = COLLECTIVES.get(first.wants(attribute_names.COMM_TYPE))
        if name is None:
            raise first.refuse(
                f"has comm_type {first.said[attribute_names.COMM_TYPE]}, which is unknown; export the trace "
                "again"
            )
        for node in op.nodes:
            if node.wants(attribute_names.COMM_TYPE) != first.said[attribute_names.COMM_TYPE]:
                raise node.refuse(
                    f"is no {name}, as it is on rank {first.rank}; export all ranks of one run"
                )
        size = max(node.said.get(attribute_names.COMM_SIZE, 0) for node in op.nodes)
        size *= len(op.nodes) if name == "all-gather" else 1
        plain = "" if self.ours else f"collective:{name} uint8[{size}]"
        self.build.collective(
            [Member(n.rank, self._stream(n, Kind.COLLECTIVE), self._after(n)) for n in op.nodes],
            bytes=first.said.get(attribute_names.EXACT_BYTES, size),
            signature=first.said.get(attribute_names.SIGNATURE, plain),
            **said,
        )

    def _kind(self, node: ChakraNode) -> Kind:
        if attribute_names.KIND in node.said:
            return Kind[node.said[attribute_names.KIND].upper()]
        if node.type == NodeType.COMP:
            return Kind.HOST if node.said.get(attribute_names.CPU, False) else Kind.COMPUTE
        return {
            NodeType.COMM_SEND: Kind.SEND,
            NodeType.COMM_RECV: Kind.RECV,
            NodeType.COMM_COLL: Kind.COLLECTIVE,
            NodeType.MEM_LOAD: Kind.COPY,
            NodeType.MEM_STORE: Kind.COPY,
        }.get(NodeType(node.type), Kind.DELAY)  # what only describes takes no time

    def _duration(self, node: ChakraNode) -> float:
        """Seconds; unknown where Chakra says 0 of something that has work."""
        if attribute_names.DURATION in node.said:
            return float(node.said[attribute_names.DURATION])
        works = node.type not in (NodeType.INVALID, NodeType.METADATA)
        return node.micros / 1e6 if node.micros or not works else math.nan

    def _stream(self, node: ChakraNode, kind: Kind) -> int:
        return int(node.said.get(attribute_names.STREAM, STREAMS.get(kind, NETWORK)))

    def _signature(self, node: ChakraNode) -> str:
        if node.type in COPIES:
            return (
                f"{COPIES[NodeType(node.type)]} uint8[{node.said.get(attribute_names.TENSOR, 0)}]"
            )
        if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            kind = "send" if node.type == NodeType.COMM_SEND else "recv"
            return f"{kind}:message uint8[{node.said.get(attribute_names.COMM_SIZE, 0)}]"
        return f"compute:{node.name}" if node.type == NodeType.COMP and node.name else ""

    def _streams(self) -> list[tuple[int, int, str]]:
        used = {(n.rank, self._stream(n, self._kind(n))) for n in self.node.values()}
        return [
            (rank, stream, STREAM_KINDS.get(stream, "compute")) for rank, stream in sorted(used)
        ]
