"""What a scenario leaves to the catalog: ``model: NAME`` brings every value it does not say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..catalog import Catalog
from ..problems import Problem, nearest
from .tree import Path, TreeNode, find, merge

PLACES: tuple[tuple[Path, str], ...] = (
    *((("cluster", "node", kind), kind) for kind in ("gpu", "nic", "cxl", "host", "memory")),
    (("cluster", "fabric", "switch"), "switch"),
    (("cluster", "fabric", "library"), "library"),
)
LINKS: Path = ("cluster", "node", "links")
Used = dict[tuple[str, str], TreeNode]


def expanded(tree: TreeNode) -> TreeNode:
    """Short forms written out: a part that is only a name, a backend that is only a name."""
    for path, _ in PLACES:
        tree = _written_out(tree, path, "model")
    backends = find(tree, ("backends",))
    for glob in backends.mapping if backends else ():
        tree = _written_out(tree, ("backends", glob), "use")
    return tree


def _written_out(tree: TreeNode, path: Path, key: str) -> TreeNode:
    node = find(tree, path)
    if node is None or not isinstance(node.value, str):
        return tree
    return _replaced(tree, path, replace(node, value={key: node}, text=""))


def _replaced(tree: TreeNode, path: Path, node: TreeNode) -> TreeNode:
    if not path:
        return node
    head, rest = path[0], path[1:]
    if isinstance(tree.value, tuple):
        items = [_replaced(n, rest, node) if i == head else n for i, n in enumerate(tree.value)]
        return replace(tree, value=tuple(items))
    return replace(tree, value={**tree.mapping, str(head): _replaced(tree[head], rest, node)})


def filled(tree: TreeNode, catalog: Catalog) -> tuple[TreeNode, Used, list[Problem]]:
    """The tree with all that the catalog knows beneath it, the entries used, and unknown names."""
    used: Used = {}
    problems = []
    for path, kind, key in _places(tree):
        part = find(tree, path)
        name = part.mapping.get(key) if part else None
        if part is None or name is None or not isinstance(name.value, str):
            continue
        entry = catalog.entry(kind, name.value)
        if entry is None:
            problems.append(_unknown(kind, name, catalog))
            continue
        used[kind, name.value] = entry
        tree = _replaced(tree, path, merge(entry, part))
    return tree, used, problems


def _places(tree: TreeNode) -> Iterator[tuple[Path, str, str]]:
    for path, kind in PLACES:
        yield path, kind, "model"
    links = find(tree, LINKS)
    for i in range(len(links.items) if links else 0):
        yield (*LINKS, i), "link", "via"


def _unknown(kind: str, name: TreeNode, catalog: Catalog) -> Problem:
    hint = nearest(str(name.value), catalog.names(kind))
    message = f"no {kind} model named '{name.value}'{hint}; see: foretrace catalog {kind}"
    return Problem("unknown-model", message, name.spot)
