"""Tree of a scenario in which every value has its file position.

Each layer (catalog, extended scenario, scenario, ``--set``) is a tree; a scenario is their merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..problems import FilePosition

Path = tuple[str | int, ...]
Value = Mapping[str, "TreeNode"] | tuple["TreeNode", ...] | str | int | float | bool | None
Plain = Any  # dict, list or scalar, as YAML has them

SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")
KINDS = ("measured", "fitted", "datasheet", "assumed")


@dataclass(frozen=True)
class NumberSource:
    """Source of a number: a measurement, a fit, a datasheet or an assumption.

    Parameters
    ----------
    kind : ``measured``, ``fitted``, ``datasheet`` or ``assumed``
    where : machine, document or reason that the number comes from
    date : date of the measurement or fit, as written
    error : median prediction error in per cent as written, such as ``4 %``; "" if unknown
    note : remark on the error, such as the data that it was computed from
    program : program and commit that computed it, such as ``calibration/fit/gpus.py@58a5814``
    """

    kind: str
    where: str = ""
    date: str = ""
    error: str = ""
    note: str = ""
    program: str = ""

    @property
    def error_fraction(self) -> float | None:
        """The error as a fraction; None if it was not measured.

        >>> NumberSource("fitted", error="4 %").error_fraction
        0.04
        """
        told = SHARE.fullmatch(self.error)
        return float(told[1]) / 100 if told else None

    def facts(self) -> dict[str, str]:
        """Plain dictionary of the source in the form of the catalog."""
        return {k: v for k, v in vars(self).items() if v}


@dataclass(frozen=True, eq=False)
class TreeNode:
    """A mapping, a list or a scalar, with its file position.

    Parameters
    ----------
    value : mapping, tuple or scalar
    spot : position of the value
    key : position of the key in ``key: value``; None in lists and at the top
    text : text of a scalar as written
    layer : layer that set it: ``catalog``, ``extends``, ``scenario``, ``--set``, ``variant NAME``
    source : source of the number; None if not given
    """

    value: Value
    spot: FilePosition
    key: FilePosition | None = None
    text: str = ""
    layer: str = "scenario"
    source: NumberSource | None = None

    @property
    def mapping(self) -> Mapping[str, TreeNode]:
        """Child nodes by key; empty unless the node is a mapping."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def items(self) -> tuple[TreeNode, ...]:
        """Child nodes of a list; empty unless the node is a list."""
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def text_value(self) -> str:
        """Value of a text scalar; "" for any other node."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def label(self) -> FilePosition:
        """Position of the key, or of the value if there is no key."""
        return self.key or self.spot

    def __getitem__(self, part: str | int) -> TreeNode:
        if isinstance(part, int):
            return self.items[part]
        return self.mapping[part]

    def has(self, part: str | int) -> bool:
        """True if the node has this key or index."""
        return 0 <= part < len(self.items) if isinstance(part, int) else part in self.mapping


def to_dict(node: TreeNode) -> Plain:
    """Plain Python value of a node, without file positions."""
    if isinstance(node.value, Mapping):
        return {k: to_dict(n) for k, n in node.value.items()}
    if isinstance(node.value, tuple):
        return [to_dict(n) for n in node.value]
    return node.value


def find_node(node: TreeNode, path: Path) -> TreeNode | None:
    """Node at a path; None if there is none."""
    for part in path:
        if not node.has(part):
            return None
        node = node[part]
    return node


def deepest_node(node: TreeNode, path: Path) -> tuple[TreeNode, Path]:
    """Deepest existing node on a path, and the rest of the path."""
    for depth, part in enumerate(path):
        if not node.has(part):
            return node, path[depth:]
        node = node[part]
    return node, ()


def leaf_nodes(node: TreeNode, path: Path = ()) -> Iterator[tuple[Path, TreeNode]]:
    """Path and node of every scalar and every empty container."""
    parts = node.mapping.items() or enumerate(node.items)
    empty = True
    for part, below in parts:
        empty = False
        yield from leaf_nodes(below, (*path, part))
    if empty:
        yield path, node


def merge_layers(lower: TreeNode, upper: TreeNode) -> TreeNode:
    """Merge two trees: mappings merge, any other value of the upper tree replaces the lower one.

    A mapping with another ``use`` replaces the lower mapping completely, since settings of one
    backend mean nothing to another.
    """
    if not isinstance(lower.value, Mapping) or not isinstance(upper.value, Mapping):
        return upper
    if _values_differ_at_key(lower.value, upper.value, "use"):
        return upper
    below = lower.value
    merged = {k: merge_layers(below[k], n) if k in below else n for k, n in upper.value.items()}
    return replace(upper, value=merged | {k: n for k, n in below.items() if k not in merged})


def _values_differ_at_key(
    lower: Mapping[str, TreeNode], upper: Mapping[str, TreeNode], key: str
) -> bool:
    return key in lower and key in upper and lower[key].value != upper[key].value


def with_merged_at(root: TreeNode, path: Path, leaf: TreeNode) -> TreeNode:
    """Tree with a node merged in at a path; missing mappings on the way are created.

    Raises
    ------
    LookupError
        The path leads through a scalar or past the end of a list; the argument is the rest of the
        path from there.
    """
    if not path:
        return merge_layers(root, leaf)
    part, rest = path[0], path[1:]
    if isinstance(root.value, tuple):
        if not isinstance(part, int) or not root.has(part):
            raise LookupError(path)
        changed = [
            with_merged_at(n, rest, leaf) if i == part else n for i, n in enumerate(root.value)
        ]
        return replace(root, value=tuple(changed))
    if not isinstance(root.value, Mapping) or not isinstance(part, str):
        raise LookupError(path)
    below = root.value.get(part)
    if below is None or (below.value is None and rest):
        below = replace(leaf, value={}, text="") if rest else None
    new = leaf if below is None else with_merged_at(below, rest, leaf)
    return replace(root, value={**root.value, part: new})


def without_keys(root: TreeNode, keys: tuple[str, ...]) -> TreeNode:
    """A mapping without some of its keys."""
    return replace(root, value={k: n for k, n in root.mapping.items() if k not in keys})


def with_layer(node: TreeNode, layer: str) -> TreeNode:
    """Tree with every value marked as part of another layer."""
    if isinstance(node.value, Mapping):
        value: Value = {k: with_layer(n, layer) for k, n in node.value.items()}
    elif isinstance(node.value, tuple):
        value = tuple(with_layer(n, layer) for n in node.value)
    else:
        value = node.value
    return replace(node, value=value, layer=layer)


def dotted_path_text(path: Path) -> str:
    """Dotted path as a user writes it."""
    return ".".join(map(str, path))


def tree_from_value(value: Plain, spot: FilePosition, layer: str) -> TreeNode:
    """Tree of plain values, all with the same file position."""
    if isinstance(value, Mapping):
        inner: Value = {str(k): tree_from_value(v, spot, layer) for k, v in value.items()}
    elif isinstance(value, list | tuple):
        inner = tuple(tree_from_value(v, spot, layer) for v in value)
    else:
        inner = value
    text = "" if isinstance(inner, Mapping | tuple) else str(value)
    return TreeNode(inner, spot, spot, text, layer)
