"""Differences laid over a description: ``--set a.b=v``, ``what_if``, ``extends``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..problems import InvalidScenarioError, Problem, Spot, nearest
from .catalog_values import expanded
from .document import parse
from .tree import Path, TreeNode, dotted, find, from_value, put, to_dict

NAMED = (("backends",), ("cluster", "override"))  # mappings whose keys are component names


def path_of(tree: TreeNode, text: str) -> Path:
    """A dotted path as the tree has it; names of components hold dots themselves.

    >>> tree = parse("{backends: {node*.gpu*: {use: link}}, a: [{b: 1}]}")
    >>> path_of(tree, "backends.node*.gpu*.latency"), path_of(tree, "a.0.b")
    (('backends', 'node*.gpu*', 'latency'), ('a', 0, 'b'))
    """
    words = text.split(".")
    path: Path = ()
    while words:
        node = find(tree, path)
        taken = _longest(node, words)
        if not taken:
            taken = max(1, len(words) - 1) if path in NAMED else 1
        name = ".".join(words[:taken])
        in_list = node is not None and isinstance(node.value, tuple) and name.isdigit()
        path = (*path, int(name) if in_list else name)
        words = words[taken:]
    return path


def _longest(node: TreeNode | None, words: list[str]) -> int:
    """The number of words of the longest key that exists."""
    known = node.mapping if node else {}
    fitting = (n for n in range(len(words), 0, -1) if ".".join(words[:n]) in known)
    return next(fitting, 0)


def apply_settings(tree: TreeNode, settings: Iterable[str]) -> TreeNode:
    """The tree with ``a.b=v`` laid over it, one after another.

    Raises
    ------
    InvalidScenarioError
        No ``=``, no YAML after it, or a path through a value; all of them at once.

    Examples
    --------
    >>> tree = apply_settings(parse("cluster: {nodes: 2}"), ["cluster.nodes=4"])
    >>> to_dict(tree)
    {'cluster': {'nodes': 4}}
    """
    problems: list[Problem] = []
    for number, text in enumerate(settings, 1):
        try:
            tree = expanded(_with_setting(tree, text, number))
        except InvalidScenarioError as error:
            problems += error.problems
    if problems:
        raise InvalidScenarioError(problems)
    return expanded(tree)


def _with_setting(tree: TreeNode, text: str, number: int) -> TreeNode:
    name, equals, value = text.partition("=")
    spot = Spot("--set", number, 1, len(text), text, name.strip())
    if not equals or not name.strip():
        message = f"'{text}' sets nothing; write it like cluster.nodes=4"
        raise InvalidScenarioError([Problem("set", message, spot)])
    try:
        given = parse(f"v: {value.strip()}", "--set")["v"]
    except InvalidScenarioError as error:
        what = error.problems[0].message
        raise InvalidScenarioError([Problem("set", f"'{value}': {what}", spot)]) from error
    inner = replace(spot, column=len(name) + 2, width=max(1, len(value)))
    leaf = from_value(to_dict(given), inner, "--set")
    return apply_override(tree, name.strip(), replace(leaf, key=spot, text=given.text))


def apply_override(tree: TreeNode, name: str, leaf: TreeNode) -> TreeNode:
    """The tree with a value at a dotted path.

    Raises
    ------
    InvalidScenarioError
        The path leads through a value or past a list.
    """
    return _laid(tree, path_of(tree, name), leaf)


def _laid(tree: TreeNode, path: Path, leaf: TreeNode) -> TreeNode:
    try:
        return put(tree, path, leaf)
    except LookupError as error:
        done = path[: len(path) - len(error.args[0])]
        above = find(tree, done)
        what = f"has {len(above.items)} items" if above and above.items else "has no keys below it"
        message = f"'{dotted(path)}' is not a setting; '{dotted(done)}' {what}"
        raise InvalidScenarioError([Problem("unknown-key", message, leaf.label)]) from error


def apply_variant(tree: TreeNode, number: int, seen: tuple[int, ...] = ()) -> TreeNode:
    """The tree with one entry of ``what_if`` laid over it, those that it uses first.

    Raises
    ------
    InvalidScenarioError
        A setting that cannot be; unknown names and circles in ``use`` are left out here, they
        are references.
    """
    entries = tree["what_if"].items
    variant = entries[number]
    layer = f"variant {variant['name'].word}"
    order = {n["name"].word: i for i, n in reversed(list(enumerate(entries))) if n.has("name")}
    for name in variant["use"].items if variant.has("use") else ():
        other = order.get(name.word, number)
        if other not in (*seen, number):
            tree = apply_variant(tree, other, (*seen, number))
    problems: list[Problem] = []
    for key, value in variant["set"].mapping.items() if variant.has("set") else ():
        leaf = _of_variant(value, layer, f"what_if.{number}.set")
        try:
            tree = apply_override(tree, key, leaf)
        except InvalidScenarioError as error:
            problems += error.problems
    if problems:
        raise InvalidScenarioError(problems)
    for key, path in (("override", ("cluster", "override")), ("backends", ("backends",))):
        if variant.has(key):
            below = _of_variant(variant[key], layer, f"what_if.{number}.{key}")
            tree = _laid(tree, path, below)
    return expanded(_with_prices(tree, variant, layer, number))


def _of_variant(node: TreeNode, layer: str, path: str) -> TreeNode:
    """A value of a variant, as its layer, named by where the variant says it."""
    if isinstance(node.value, tuple):
        value = tuple(_of_variant(n, layer, path) for n in node.value)
        return replace(node, value=value, layer=layer)
    if node.mapping:
        inner = {k: _of_variant(n, layer, path) for k, n in node.mapping.items()}
        node = replace(node, value=inner)
    key = replace(node.key, path=path) if node.key else None
    return replace(node, layer=layer, key=key, spot=replace(node.spot, path=path))


def _with_prices(tree: TreeNode, variant: TreeNode, layer: str, number: int) -> TreeNode:
    """New prices in place of those of the same kind."""
    items = find(tree, ("cost", "items"))
    told = enumerate(items.items if items else ())
    kinds = {n["what"].word: i for i, n in told if n.has("what")}
    for what, price in variant["cost"].mapping.items() if variant.has("cost") else ():
        leaf = _of_variant(price, layer, f"what_if.{number}.cost")
        if what not in kinds:
            message = f"nothing in cost.items has the price of '{what}'{nearest(what, kinds)}"
            raise InvalidScenarioError([Problem("unknown-price", message, leaf.label)])
        tree = _laid(tree, ("cost", "items", kinds[what], "each"), leaf)
    return tree
