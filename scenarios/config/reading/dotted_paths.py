"""Dotted paths as a user writes them; component names may contain dots."""

from __future__ import annotations

from .tree import Path, TreeNode, find_node

NAMED = (("backends",), ("cluster", "override"))  # mappings whose keys are component names


def existing_path(tree: TreeNode, text: str) -> Path:
    """Split a dotted path by the keys of the tree, since component names may contain dots.

    >>> from .document import parse_yaml
    >>> tree = parse_yaml("{backends: {node*.gpu*: {use: link}}, a: [{b: 1}]}")
    >>> existing_path(tree, "backends.node*.gpu*.latency"), existing_path(tree, "a.0.b")
    (('backends', 'node*.gpu*', 'latency'), ('a', 0, 'b'))
    """
    words = text.split(".")
    path: Path = ()
    while words:
        node = find_node(tree, path)
        taken = _words_of_longest_key(node, words)
        if not taken:
            taken = max(1, len(words) - 1) if path in NAMED else 1
        name = ".".join(words[:taken])
        in_list = node is not None and isinstance(node.value, tuple) and name.isdigit()
        path = (*path, int(name) if in_list else name)
        words = words[taken:]
    return path


def _words_of_longest_key(node: TreeNode | None, words: list[str]) -> int:
    """Number of words of the longest existing key."""
    known = node.mapping if node else {}
    fitting = (n for n in range(len(words), 0, -1) if ".".join(words[:n]) in known)
    return next(fitting, 0)
