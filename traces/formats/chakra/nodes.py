"""Files of Chakra as nodes: one file a rank, every attribute what it must be."""

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
from ....sim.ops import Kind
from . import attribute_names
from .messages import VERSION, NodeType, attributes

RANK = re.compile(r"(.*)\.(\d+)\.((?:et|json)(?:\.gz)?)")
APART = {
    Kind.COLLECTIVE: NodeType.COMM_COLL,
    Kind.SEND: NodeType.COMM_SEND,
    Kind.RECV: NodeType.COMM_RECV,
}


@dataclass
class ChakraNode:
    """One node of one rank, and the op it belongs to."""

    file: Path
    rank: int
    id: int
    type: int
    name: str
    waits: list[int]
    micros: int
    said: dict[str, Any]
    row: int = -1

    def refuse(self, what: str) -> TraceError:
        """An error that names the node."""
        return TraceError(f"{self.file}: node {self.id} ({self.name or 'unnamed'}) {what}")

    def wants(self, name: str) -> Any:
        """An attribute that must be there."""
        if name not in self.said:
            raise self.refuse(f"has no attribute '{name}'; export the trace again")
        return self.said[name]


class OurAttributes(msgspec.Struct):
    """What we say of a graph that Chakra has no field for."""

    name: str
    streams: list[tuple[int, int, str]]
    facts: dict[str, Any]
    groups: dict[str, list[int]]


def ours_of(metadata: Any, file: Path) -> OurAttributes | None:
    """What we said of the graph, if it was we who wrote the file.

    Raises
    ------
    TraceError
        What is there is not what we write.
    """
    try:
        said = attributes(metadata).get(attribute_names.GRAPH)
        return None if said is None else msgspec.json.decode(said, type=OurAttributes)
    except (TraceError, msgspec.DecodeError, TypeError, RecursionError) as e:
        raise TraceError(f"{file}: metadata: {e}; export the trace again") from e


def files_of(paths: str | Path | Iterable[str | Path]) -> dict[int, Path]:
    """File by rank, from 0 without a hole."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found = sorted({Path(p) for one in given for p in (glob(str(one)) or glob(f"{one}.*.et*"))})
    ranked = [(RANK.fullmatch(p.name), p) for p in found if not p.name.endswith("groups.json")]
    files = {int(m.group(2)): p for m, p in ranked if m}
    if not files:
        raise TraceError(
            f"{', '.join(map(str, given))}: no file named PREFIX.RANK.et; correct the path"
        )
    missing = list(islice((r for r in range(max(files)) if r not in files), 5))
    if missing:
        raise TraceError(
            f"{prefix(files[max(files)])}: no file of ranks {missing}; a Chakra trace "
            "wants one of every rank"
        )
    return dict(sorted(files.items()))


def prefix(path: Path) -> str:
    """What the files of all ranks begin with.

    >>> prefix(Path("runs/step.3.et.gz"))
    'step'
    """
    found = RANK.fullmatch(path.name)
    return found.group(1) if found else path.stem


def parsed(path: Path, rank: int, node: Any) -> ChakraNode:
    """One message as a node.

    Raises
    ------
    TraceError
        Of an unknown type, or with an attribute that cannot be.
    """
    made = ChakraNode(
        path, rank, int(node.id), int(node.type), node.name,
        list(dict.fromkeys([*node.data_deps, *node.ctrl_deps])), int(node.duration_micros), {},
    )  # fmt: skip
    if made.type not in NodeType.__members__.values():
        raise made.refuse(
            f"is of type {made.type}, which this version does not read; export it with a Chakra of "
            f"schema {VERSION}"
        )
    try:
        made.said = attributes(node)
    except TraceError as e:
        raise made.refuse(str(e)) from None
    for name, value in made.said.items():
        if what := attribute_names.fault(name, value):
            raise made.refuse(f"{what}; export the trace again")
    _refuse_other_kind(made)
    return made


def _refuse_other_kind(node: ChakraNode) -> None:
    """Our own kind, and whether a receive is only implied, must fit the type of the node."""
    said = node.said.get(attribute_names.KIND, "").upper()
    if attribute_names.KIND in node.said and said not in Kind.__members__:
        raise node.refuse(f"is of kind '{said.lower()}', which is none; export the trace again")
    apart = node.type if node.type in APART.values() else None
    wrong = said and APART.get(Kind[said]) != apart
    if wrong or (node.said.get(attribute_names.IMPLIED) and node.type != NodeType.COMM_RECV):
        raise node.refuse(
            f"is of type {NodeType(node.type).name}, and its own attributes say otherwise; export "
            "the trace again"
        )


def refuse_twice(nodes: list[ChakraNode]) -> None:
    """Ids are unique in a file."""
    seen: set[tuple[int, int]] = set()
    for node in nodes:
        if (node.rank, node.id) in seen:
            raise node.refuse("has the id of another one; export the trace again")
        seen.add((node.rank, node.id))
