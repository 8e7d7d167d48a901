"""Nodes of Chakra files (one file per rank), with checked attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ....sim.errors import TraceError
from ....sim.facts.ops import Kind
from . import attribute_names as names
from .messages import VERSION, NodeType, attribute_values

RANK = re.compile(r"(.*)\.(\d+)\.((?:et|json)(?:\.gz)?)")
HAVE_A_TYPE = {
    Kind.COLLECTIVE: NodeType.COMM_COLL,
    Kind.SEND: NodeType.COMM_SEND,
    Kind.RECV: NodeType.COMM_RECV,
}


@dataclass
class ChakraNode:
    """Node of one rank's Chakra file.

    Parameters
    ----------
    waits : ids of the nodes of the same rank that it waits for
    micros : duration in us
    attributes : attribute values by name
    row : table row of the op made from the node; -1 until it is known
    """

    file: Path
    rank: int
    id: int
    type: int
    name: str
    waits: list[int]
    micros: int
    attributes: dict[str, Any]
    row: int = -1

    def error(self, what: str) -> TraceError:
        """Build an error that names the file and the node."""
        return TraceError(f"{self.file}: node {self.id} ({self.name or 'unnamed'}) {what}")

    def required_attribute(self, name: str) -> Any:
        """Value of an attribute; TraceError if it is missing."""
        if name not in self.attributes:
            raise self.error(f"has no attribute '{name}'; export the trace again")
        return self.attributes[name]


class ForetraceAttributes(msgspec.Struct):
    """Facts about a graph that foretrace writes and that Chakra has no field for."""

    name: str
    streams: list[tuple[int, int, str]]
    facts: dict[str, Any]
    groups: dict[str, list[int]]


def read_foretrace_attributes(metadata: Any, file: Path) -> ForetraceAttributes | None:
    """Read foretrace's own attributes of the graph; None if another program wrote the file.

    Raises
    ------
    TraceError
        The attributes are damaged.
    """
    try:
        text = attribute_values(metadata).get(names.GRAPH)
        return None if text is None else msgspec.json.decode(text, type=ForetraceAttributes)
    except (TraceError, msgspec.DecodeError, TypeError, RecursionError) as e:
        raise TraceError(f"{file}: metadata: {e}; export the trace again") from e


def rank_files(paths: str | Path | Iterable[str | Path]) -> dict[int, Path]:
    """Find the file of each rank; ranks must be 0, 1, 2, … without gaps."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    matches = sorted({Path(p) for one in given for p in (glob(str(one)) or glob(f"{one}.*.et*"))})
    ranked = [(RANK.fullmatch(p.name), p) for p in matches if not p.name.endswith("groups.json")]
    files = {int(m.group(2)): p for m, p in ranked if m}
    if not files:
        raise TraceError(
            f"{', '.join(map(str, given))}: no file named PREFIX.RANK.et; correct the path"
        )
    missing = list(islice((r for r in range(max(files)) if r not in files), 5))
    if missing:
        raise TraceError(
            f"{file_prefix(files[max(files)])}: no file of ranks {missing}; add it: a "
            "Chakra trace needs one file per rank"
        )
    return dict(sorted(files.items()))


def file_prefix(path: Path) -> str:
    """First part of a Chakra file name: ``PREFIX`` of ``PREFIX.RANK.et``.

    >>> file_prefix(Path("runs/step.3.et.gz"))
    'step'
    """
    name = RANK.fullmatch(path.name)
    return name.group(1) if name else path.stem


def parse_node(path: Path, rank: int, node: Any) -> ChakraNode:
    """Build a node from a message and check its type and attributes.

    Raises
    ------
    TraceError
        The node's type is unknown, or an attribute has an invalid value.
    """
    parsed = ChakraNode(
        path, rank, int(node.id), int(node.type), node.name,
        list(dict.fromkeys([*node.data_deps, *node.ctrl_deps])), int(node.duration_micros), {},
    )  # fmt: skip
    if parsed.type not in NodeType.__members__.values():
        raise parsed.error(
            f"is of type {parsed.type}, which this version does not read; export it with a Chakra "
            f"of schema {VERSION}"
        )
    try:
        parsed.attributes = attribute_values(node)
    except TraceError as e:
        raise parsed.error(str(e)) from None
    for name, value in parsed.attributes.items():
        if what := names.value_problem(name, value):
            raise parsed.error(f"{what}; export the trace again")
    _refuse_other_kind(parsed)
    return parsed


def _refuse_other_kind(node: ChakraNode) -> None:
    """Refuse a node whose foretrace attributes contradict its Chakra type."""
    kind = node.attributes.get(names.KIND, "").upper()
    if names.KIND in node.attributes and kind not in Kind.__members__:
        raise node.error(
            f"is of kind '{kind.lower()}', which does not exist; export the trace again"
        )
    own_type = node.type if node.type in HAVE_A_TYPE.values() else None
    wrong = kind and HAVE_A_TYPE.get(Kind[kind]) != own_type
    if wrong or (node.attributes.get(names.IMPLIED) and node.type != NodeType.COMM_RECV):
        raise node.error(
            f"is of type {NodeType(node.type).name}, and its own attributes say otherwise; export "
            "the trace again"
        )


def refuse_same_id(nodes: list[ChakraNode]) -> None:
    """Refuse nodes of one rank that share an id."""
    seen: set[tuple[int, int]] = set()
    for node in nodes:
        if (node.rank, node.id) in seen:
            raise node.error("has the same id as another node; export the trace again")
        seen.add((node.rank, node.id))
