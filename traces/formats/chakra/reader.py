"""Reader of Chakra files, one per rank; collectives and messages are matched across ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....sim.errors import TraceError
from ....sim.facts.graph import Builder, Graph, Label, Member
from ....sim.facts.ops import Kind
from ....sim.facts.splits import SPLIT, all_to_all_name
from ...infer.cycle import refuse_cycles, refuse_later_steps
from . import attribute_names as names
from .files import load_rank_file
from .messages import COLLECTIVES, NodeType
from .nodes import (
    ChakraNode,
    ForetraceAttributes,
    file_prefix,
    parse_node,
    rank_files,
    read_foretrace_attributes,
    refuse_same_id,
)

STREAMS = {Kind.COMPUTE: 0, Kind.HOST: 1, Kind.COPY: 2}
NETWORK = 3  # the stream of messages and collectives
STREAM_KINDS = {0: "compute", 1: "host", 2: "copy", NETWORK: "network"}
COPIES = {NodeType.MEM_LOAD: "copy:h2d", NodeType.MEM_STORE: "copy:d2h"}


@dataclass
class _OpNodes:
    """Nodes that become one op: a single node, or the nodes of all members of a collective."""

    nodes: list[ChakraNode] = field(default_factory=list)


def read(paths: str | Path | Iterable[str | Path]) -> Graph:
    """Read the graph from the files ``PREFIX.RANK.et`` (or ``.json``, also gzipped) of all ranks.

    Nodes have no streams. So compute ops are put on one stream each for GPU, host and copies;
    messages and collectives on another. The group of a collective is the set of ranks whose files
    contain it. If a node has both a duration in whole us and foretrace's own exact duration, the
    exact one is used.

    Parameters
    ----------
    paths : a prefix, a glob, or files

    Raises
    ------
    TraceError
        A rank is missing, a dependency or a message has only one end, or members of a
        collective disagree.

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
    files = rank_files(paths)
    loaded = [(rank, path, *load_rank_file(path)) for rank, path in files.items()]
    nodes = [
        parse_node(path, rank, node) for rank, path, _, messages in loaded for node in messages
    ]
    refuse_same_id(nodes)
    _, first, metadata, _ = loaded[0]
    return _Reader(
        nodes, read_foretrace_attributes(metadata, first), name=file_prefix(first)
    ).graph()


class _Reader:
    """Builder of a graph: groups the nodes of all ranks into ops."""

    def __init__(self, nodes: list[ChakraNode], ours: ForetraceAttributes | None, name: str):
        self.ours, self.place = ours, name
        self.build = Builder(ours.name if ours else name)
        implied = [node for node in nodes if node.attributes.get(names.IMPLIED)]
        self.node = {(n.rank, n.id): n for n in nodes}
        self.ops = self._ops([n for n in nodes if not n.attributes.get(names.IMPLIED)])
        for row, op in enumerate(self.ops):
            for node in op.nodes:
                node.row = row
        self._match_receives(nodes)
        for node in implied:
            node.row = self.sender[node.rank, node.id].row

    def graph(self) -> Graph:
        for op in self.ops:
            self._add(op)
        streams = self.ours.streams if self.ours else self._stream_kinds()
        for rank, stream, kind in streams:
            self.build.set_stream_kind(rank, stream, kind)
        graph = self.build.graph(**(self.ours.facts if self.ours else {}))
        block = graph.explicit
        waits = block.successors
        target = block.op_of_place[waits.values]
        refuse_cycles(self.place, block.ops, waits.owner, target)
        refuse_later_steps(self.place, block.ops, waits.owner, target)
        return graph

    def _ops(self, nodes: list[ChakraNode]) -> list[_OpNodes]:
        """Ops in the order of rows: by id in foretrace's files, otherwise rank by rank."""
        if self.ours:
            nodes = sorted(nodes, key=lambda n: n.id)
        ops: dict[tuple[object, ...], _OpNodes] = {}
        count: dict[tuple[int, str], int] = defaultdict(int)
        for node in nodes:
            key: tuple[object, ...] = (node.rank, node.id)
            if node.type == NodeType.COMM_COLL:
                group = str(node.attributes.get(names.GROUP, ""))
                key = ("group", group, count[node.rank, group])
                count[node.rank, group] += 1
            ops.setdefault(key, _OpNodes()).nodes.append(node)
        self._refuse_uneven_collectives(count)
        return list(ops.values())

    def _refuse_uneven_collectives(self, count: Mapping[tuple[int, str], int]) -> None:
        """Refuse groups whose ranks have different numbers of collectives."""
        counts: dict[str, dict[int, int]] = defaultdict(dict)
        for (rank, group), collectives in count.items():
            counts[group][rank] = collectives
        for group, by_rank in counts.items():
            few, many = min(by_rank, key=by_rank.__getitem__), max(by_rank, key=by_rank.__getitem__)
            if by_rank[few] != by_rank[many]:
                raise TraceError(
                    f"{self.build.name}: rank {few} has {by_rank[few]} collectives of group "
                    f"'{group}', rank {many} has {by_rank[many]}; export all ranks of one run"
                )

    def _match_receives(self, nodes: list[ChakraNode]) -> None:
        """Match receives with sends: the k-th receive between two ranks gets the k-th send.

        Messages of each tag are counted separately.
        """
        sends: dict[tuple[int, int, int], list[ChakraNode]] = defaultdict(list)
        for node in nodes:
            if node.type == NodeType.COMM_SEND:
                sends[
                    node.rank,
                    node.required_attribute(names.TARGET),
                    node.attributes.get(names.TAG, 0),
                ].append(node)
        self.sender: dict[tuple[int, int], ChakraNode] = {}
        for node in nodes:
            if node.type != NodeType.COMM_RECV:
                continue
            ends = (
                node.required_attribute(names.SOURCE),
                node.rank,
                node.attributes.get(names.TAG, 0),
            )
            if not sends[ends]:
                raise node.error(
                    f"receives from rank {ends[0]} with tag {ends[2]}, which sends no such "
                    "message; export all ranks of one run"
                )
            self.sender[node.rank, node.id] = sends[ends].pop(0)

    def _awaited_rows(self, node: ChakraNode) -> tuple[int, ...]:
        """Rows of the ops that a node waits for."""
        rows = []
        for other in node.waits:
            if (node.rank, other) not in self.node:
                raise node.error(
                    f"waits for node {other}, which is not in the file; export the trace again"
                )
            rows.append(self.node[node.rank, other].row)
        sent = self.sender.get((node.rank, node.id))
        return (*rows, sent.row) if sent else tuple(rows)

    def _add(self, op: _OpNodes) -> None:
        first = op.nodes[0]
        kind = self._kind(first)
        label = Label(
            first.name, first.attributes.get(names.MODULE, ""), first.attributes.get(names.CODE, "")
        )
        columns: dict[str, Any] = {
            "label": label if any(label) else None,
            "duration": self._duration(first),
            "release": first.attributes.get(names.RELEASE, 0.0),
            "period": first.attributes.get(names.PERIOD, 0),
        }
        if kind == Kind.COLLECTIVE:
            self._add_collective(op, columns)
        else:
            self._add_single_node(first, kind, columns)

    def _add_single_node(self, node: ChakraNode, kind: Kind, columns: dict[str, Any]) -> None:
        size = node.attributes.get(names.TENSOR, node.attributes.get(names.COMM_SIZE, math.nan))
        peer = {Kind.SEND: names.TARGET, Kind.RECV: names.SOURCE}.get(kind)
        self.build.op(
            kind,
            rank=node.rank,
            stream=self._stream(node, kind),
            after=self._awaited_rows(node),
            flop=node.attributes.get(names.EXACT_FLOP, node.attributes.get(names.FLOP, math.nan)),
            bytes=node.attributes.get(names.EXACT_BYTES, size),
            signature=node.attributes.get(
                names.SIGNATURE, "" if self.ours else self._signature(node)
            ),
            peer=node.attributes.get(names.PEER, node.required_attribute(peer) if peer else -1),
            **columns,
        )

    def _add_collective(self, op: _OpNodes, columns: dict[str, Any]) -> None:
        if self.ours:  # a group has an order: the first member is the root
            group = op.nodes[0].required_attribute(names.GROUP)
            order = self.ours.groups.get(group, [])
            if sorted(order) != sorted(node.rank for node in op.nodes):
                raise op.nodes[0].error(
                    f"is a collective of group '{group}', which has the ranks {order}; export the "
                    "trace again"
                )
            op.nodes.sort(key=lambda node: order.index(node.rank))
        first = op.nodes[0]
        name = COLLECTIVES.get(first.required_attribute(names.COMM_TYPE))
        if name is None:
            comm_type = first.attributes[names.COMM_TYPE]
            raise first.error(
                f"has comm_type {comm_type}, which is unknown; export the trace again"
            )
        for node in op.nodes:
            if node.required_attribute(names.COMM_TYPE) != first.attributes[names.COMM_TYPE]:
                raise node.error(
                    f"is no {name}, as it is on rank {first.rank}; export all ranks of one run"
                )
        sizes = [node.attributes.get(names.COMM_SIZE, 0) for node in op.nodes]
        size = max(sizes) * (len(op.nodes) if name == "all-gather" else 1)
        if name == SPLIT and not self.ours:  # each says what it sends
            name, size = all_to_all_name(send=sizes), sum(sizes) / len(sizes)
        plain = "" if self.ours else f"collective:{name} uint8[{round(size)}]"
        self.build.collective(
            [
                Member(n.rank, self._stream(n, Kind.COLLECTIVE), self._awaited_rows(n))
                for n in op.nodes
            ],
            bytes=first.attributes.get(names.EXACT_BYTES, size),
            signature=first.attributes.get(names.SIGNATURE, plain),
            **columns,
        )

    def _kind(self, node: ChakraNode) -> Kind:
        if names.KIND in node.attributes:
            return Kind[node.attributes[names.KIND].upper()]
        if node.type == NodeType.COMP:
            return Kind.HOST if node.attributes.get(names.CPU, False) else Kind.COMPUTE
        return {
            NodeType.COMM_SEND: Kind.SEND,
            NodeType.COMM_RECV: Kind.RECV,
            NodeType.COMM_COLL: Kind.COLLECTIVE,
            NodeType.MEM_LOAD: Kind.COPY,
            NodeType.MEM_STORE: Kind.COPY,
        }.get(NodeType(node.type), Kind.DELAY)  # what only describes takes no time

    def _duration(self, node: ChakraNode) -> float:
        """Duration in s; unknown if Chakra gives 0 for a node that has work."""
        if names.DURATION in node.attributes:
            return float(node.attributes[names.DURATION])
        works = node.type not in (NodeType.INVALID, NodeType.METADATA)
        return node.micros / 1e6 if node.micros or not works else math.nan

    def _stream(self, node: ChakraNode, kind: Kind) -> int:
        return int(node.attributes.get(names.STREAM, STREAMS.get(kind, NETWORK)))

    def _signature(self, node: ChakraNode) -> str:
        """Signature of a node that lacks foretrace's own attributes."""
        if node.type in COPIES:
            return f"{COPIES[NodeType(node.type)]} uint8[{node.attributes.get(names.TENSOR, 0)}]"
        if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            kind = "send" if node.type == NodeType.COMM_SEND else "recv"
            return f"{kind}:message uint8[{node.attributes.get(names.COMM_SIZE, 0)}]"
        return f"compute:{node.name}" if node.type == NodeType.COMP and node.name else ""

    def _stream_kinds(self) -> list[tuple[int, int, str]]:
        """Kind of each stream that has a node, as (rank, stream, kind)."""
        used = {(n.rank, self._stream(n, self._kind(n))) for n in self.node.values()}
        return [
            (rank, stream, STREAM_KINDS.get(stream, "compute")) for rank, stream in sorted(used)
        ]
