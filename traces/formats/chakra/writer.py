"""Writer of a graph as Chakra files: one ``PREFIX.RANK.et`` per rank, and a file of groups.

Chakra has dependencies only within a rank. Ranks wait for each other through collectives and
messages. Any other dependency between ranks is refused.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ....sim.errors import TraceError
from ....sim.facts.csr import Csr
from ....sim.facts.graph import Graph, Label
from ....sim.facts.ops import Kind
from ....sim.facts.signature import parse_signature
from . import attribute_names as names
from .files import save_rank_file, save_rank_json
from .messages import COLLECTIVES, VERSION, NodeType, Value, make_attribute, message_classes

TYPE = {
    Kind.SEND: NodeType.COMM_SEND,
    Kind.RECV: NodeType.COMM_RECV,
    Kind.COLLECTIVE: NodeType.COMM_COLL,
}
ON_CPU = (Kind.HOST, Kind.DELAY, Kind.GAP)
COMM_TYPE = {name: number for number, name in COLLECTIVES.items() if number != 8}
MICROSECOND = 1e-6


def write(graph: Graph, folder: str | Path, prefix: str = "trace", form: str = "et") -> list[Path]:
    """Write a graph as Chakra files; :func:`.read` restores exactly the same graph.

    Durations are rounded to us such that the total of each stream is preserved.

    Parameters
    ----------
    form : ``et`` or ``json``

    Returns
    -------
    list of Path
        One file per rank, then ``PREFIX.groups.json``, ASTRA-sim's communicator groups.

    Raises
    ------
    TraceError
        No op at all, an edge between ranks that is no message, or a collective that Chakra has no
        number for.

    Examples
    --------
    >>> import tempfile
    >>> from foretrace.sim.facts.graph import Builder, Member
    >>> build = Builder("pair")
    >>> work = [build.op(Kind.COMPUTE, rank=r, duration=1.5e-6) for r in range(2)]
    >>> both = [Member(r, 1, (work[r],)) for r in range(2)]
    >>> _ = build.collective(both, bytes=4e6, signature="collective:all-reduce fp32[1000000]")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write(build.graph(), folder)]
    ['trace.0.et', 'trace.1.et', 'trace.groups.json']
    """
    if not len(graph):
        raise TraceError(f"{graph.name}: has no ops; there is nothing to write")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer(graph)
    keep = {"et": save_rank_file, "json": save_rank_json}[form]
    paths = [folder / f"{prefix}.{rank}.{form}" for rank in range(graph.ranks)]
    nodes = writer.nodes()
    for rank, path in enumerate(paths):
        keep(path, writer.metadata(), nodes[rank])
    groups = folder / f"{prefix}.groups.json"
    groups.write_text(
        json.dumps({str(number): list(ranks) for ranks, number in writer.groups.items()}) + "\n"
    )
    return [*paths, groups]


class _Writer:
    """Builder of the nodes of every rank; a node's id is the row of its op."""

    def __init__(self, graph: Graph):
        self.graph, self.block = graph, graph.explicit
        self.ops, self.rank = self.block.ops, self.block.rank
        self.groups: dict[tuple[int, ...], int] = {}
        self.rounding: dict[tuple[int, int], float] = defaultdict(float)  # µs owed to each stream
        self.tags: dict[int, int] = {}
        self.implied: dict[int, Any] = {}
        s = self.block.successors
        self.before = Csr.from_pairs(s.values, s.owner, len(self.rank))

    def metadata(self) -> Any:
        graph = {
            "name": self.graph.name,
            "streams": [[*key, kind] for key, kind in self.graph.streams.items()],
            "facts": dict(self.graph.facts),
            "groups": {str(number): ranks for ranks, number in self.groups.items()},
        }
        metadata = message_classes().GlobalMetadata(version=VERSION)
        metadata.attr.append(make_attribute(names.GRAPH, json.dumps(graph)))
        return metadata

    def nodes(self) -> list[list[Any]]:
        """Nodes of every rank, sorted by id."""
        self._number_messages()
        by_rank: list[list[Any]] = [[] for _ in range(self.graph.ranks)]
        for place, rank in enumerate(self.rank.tolist()):
            by_rank[rank].append(self._make_node(place, rank))
        for row, node in self.implied.items():
            by_rank[int(self.block.peer[row])].append(node)
        return [sorted(nodes, key=lambda node: int(node.id)) for nodes in by_rank]

    def _number_messages(self) -> None:
        """Number the messages between each pair of ranks; the number is the message's tag."""
        count: dict[tuple[int, int], int] = defaultdict(int)
        for row in np.flatnonzero(self.ops.kind == Kind.SEND).tolist():
            ends = int(self.rank[row]), int(self.block.peer[row])
            self.tags[row] = count[ends]
            count[ends] += 1

    def _make_node(self, place: int, rank: int) -> Any:
        row = int(self.block.op_of_place[place])
        kind, label = Kind(self.ops.kind[row]), self._label(row)
        node = message_classes().Node(id=row, name=label.name, type=TYPE.get(kind, NodeType.COMP))
        node.data_deps.extend(self._awaited_ids(place, row, rank))
        node.duration_micros = self._rounded_micros(row, rank)
        attributes = {
            **self._standard_attributes(row, kind),
            **self._own_attributes(row, place, kind, label),
        }
        node.attr.extend(make_attribute(k, v) for k, v in attributes.items())
        return node

    def _label(self, row: int) -> Label:
        i = int(self.ops.label[row])
        return self.graph.labels[i] if i >= 0 else Label("")

    def _awaited_ids(self, place: int, row: int, rank: int) -> Iterator[int]:
        """Ids of the nodes of the same rank that a participant of an op waits for."""
        for op in self.before[place].tolist():
            if rank in self._ranks_of_op(op):
                yield op
            elif self.ops.kind[op] == Kind.SEND and int(self.block.peer[op]) == rank:
                if self.ops.kind[row] != Kind.RECV:
                    yield self._id_of_implied_receive(op)
            else:
                raise TraceError(
                    f"op {row} of rank {rank} waits for op {op} of rank {int(self.rank[op])} "
                    "without a message; Chakra has dependencies only within a rank: add a send "
                    "and a receive between the two ops"
                )

    def _ranks_of_op(self, op: int) -> list[int]:
        if self.ops.kind[op] != Kind.COLLECTIVE:
            return [int(self.rank[op])]
        return [int(rank) for rank in self.block.members[op]]

    def _id_of_implied_receive(self, send: int) -> int:
        """Id of the receive node added for a message whose receive is not an op of the graph."""
        if send not in self.implied:
            node = message_classes().Node(id=len(self.ops) + send, type=NodeType.COMM_RECV)
            attributes = {**self._message_attributes(send), names.IMPLIED: True}
            node.attr.extend(make_attribute(k, v) for k, v in attributes.items())
            self.implied[send] = node
        return len(self.ops) + send

    def _rounded_micros(self, row: int, rank: int) -> int:
        """Duration in whole us; the rounding error is carried over to the stream's next op."""
        exact = float(self.ops.duration[row])
        if math.isnan(exact):
            return 0
        stream = rank, int(self.ops.stream[row])
        due = exact / MICROSECOND + self.rounding[stream]
        self.rounding[stream] = due - round(due)
        return max(0, round(due))

    def _standard_attributes(self, row: int, kind: Kind) -> dict[str, Value]:
        """Attributes that other programs understand."""
        if kind == Kind.COLLECTIVE:
            return self._collective_attributes(row)
        if kind == Kind.SEND:
            return self._message_attributes(row)
        if kind == Kind.RECV:
            return self._message_attributes(self._awaited_send_row(row))
        attributes: dict[str, Value] = {names.CPU: kind in ON_CPU}
        for name, value in ((names.FLOP, self.ops.flop[row]), (names.TENSOR, self.ops.bytes[row])):
            if not math.isnan(value):
                attributes[name] = round(float(value))
        return attributes

    def _awaited_send_row(self, row: int) -> int:
        """Row of the one send of another rank that a receive waits for."""
        rank = int(self.rank[row])
        sends = [op for op in self.before[row].tolist() if rank not in self._ranks_of_op(op)]
        if len(sends) != 1:
            raise TraceError(
                f"op {row} of rank {rank} receives {len(sends)} messages from other ranks; add a "
                "receive for each: Chakra allows one message per receive"
            )
        return int(sends[0])

    def _message_attributes(self, send: int) -> dict[str, Value]:
        return {
            names.CPU: False,
            names.SOURCE: int(self.rank[send]),
            names.TARGET: int(self.block.peer[send]),
            names.TAG: self.tags[send],
            names.COMM_SIZE: self._op_bytes(send),
        }

    def _collective_attributes(self, row: int) -> dict[str, Value]:
        name = parse_signature(self.ops.signature_text(row) or "collective:unknown").op
        if name not in COMM_TYPE:
            raise TraceError(
                f"op {row} is a collective '{name}', which Chakra does not have; write one of "
                f"{', '.join(COMM_TYPE)} in its signature"
            )
        members = tuple(self.block.members[row].tolist())
        size = self._op_bytes(row)
        return {
            names.CPU: False,
            names.COMM_TYPE: COMM_TYPE[name],
            # of an all-gather Chakra counts what a rank gives, we what it has in the end
            names.COMM_SIZE: size // len(members) if name == "all-gather" else size,
            # ASTRA-sim wants them above 0
            names.GROUP: str(self.groups.setdefault(members, len(self.groups) + 1)),
        }

    def _op_bytes(self, row: int) -> int:
        size = float(self.ops.bytes[row])
        return 0 if math.isnan(size) else round(size)

    def _own_attributes(self, row: int, place: int, kind: Kind, label: Label) -> dict[str, Value]:
        """Attributes of foretrace's own, without those that follow from the rest of the node."""
        ops, size, flop = self.ops, float(self.ops.bytes[row]), float(self.ops.flop[row])
        wanted: dict[str, tuple[Value, bool]] = {
            names.KIND: (kind.name.lower(), kind not in (*TYPE, Kind.COMPUTE, Kind.HOST)),
            names.STREAM: (int(self.block.stream[place]), True),
            names.PERIOD: (int(ops.period[row]), bool(ops.period[row])),
            names.EXACT_FLOP: (
                flop,
                self._is_fraction(flop) or (kind in TYPE and not math.isnan(flop)),
            ),
            names.EXACT_BYTES: (size, kind in TYPE or self._is_fraction(size)),
            names.DURATION: (float(ops.duration[row]), not math.isnan(ops.duration[row])),
            names.RELEASE: (float(self.block.release[row]), bool(self.block.release[row])),
            names.PEER: (int(self.block.peer[row]), kind == Kind.RECV),
            names.SIGNATURE: (ops.signature_text(row), ops.signature[row] >= 0),
            names.MODULE: (label.module, bool(label.module)),
            names.CODE: (label.source, bool(label.source)),
        }
        return {name: value for name, (value, needed) in wanted.items() if needed}

    @staticmethod
    def _is_fraction(value: float) -> bool:
        """True if a number is finite and not an integer."""
        return math.isfinite(value) and not value.is_integer()
