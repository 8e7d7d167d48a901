"""Machine descriptions in a tree: ``cluster.node``, or each entry of ``cluster.kinds``."""

from __future__ import annotations

from collections.abc import Iterator

from .tree import Path, TreeNode, find_node


def machine_descriptions(tree: TreeNode) -> Iterator[tuple[Path, TreeNode]]:
    """Path and node of each machine description.

    >>> from .document import parse_yaml
    >>> both = parse_yaml("cluster: {kinds: {trainer: {count: 2}, store: {count: 1}}}")
    >>> [path for path, _ in machine_descriptions(both)]
    [('cluster', 'kinds', 'trainer'), ('cluster', 'kinds', 'store')]
    """
    node = find_node(tree, ("cluster", "node"))
    if node is not None:
        yield ("cluster", "node"), node
    kinds = find_node(tree, ("cluster", "kinds"))
    for name, kind in kinds.mapping.items() if kinds else ():
        yield ("cluster", "kinds", name), kind
