"""Overrides applied to a tree: ``--set a.b=v``, ``what_if``, ``extends``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..problems import FilePosition, InvalidScenarioError, Problem, did_you_mean_text
from .catalog_values import with_short_forms_written_out
from .document import parse_yaml
from .dotted_paths import existing_path
from .renamed_settings import renamed_path, with_current_names
from .tree import (
    Path,
    TreeNode,
    dotted_path_text,
    find_node,
    to_dict,
    tree_from_value,
    with_merged_at,
)


def apply_settings(tree: TreeNode, settings: Iterable[str]) -> TreeNode:
    """Apply overrides ``a.b=v`` to a tree, in order.

    Raises
    ------
    InvalidScenarioError
        An override has no ``=``, an invalid value, or an invalid path; all are reported at once.

    Examples
    --------
    >>> tree = apply_settings(parse_yaml("cluster: {nodes: 2}"), ["cluster.nodes=4"])
    >>> to_dict(tree)
    {'cluster': {'nodes': 4}}
    """
    problems: list[Problem] = []
    for number, text in enumerate(settings, 1):
        try:
            tree = with_short_forms_written_out(_with_setting(tree, text, number))
        except InvalidScenarioError as error:
            problems += error.problems
    if problems:
        raise InvalidScenarioError(problems)
    return with_short_forms_written_out(tree)


def _with_setting(tree: TreeNode, text: str, number: int) -> TreeNode:
    name, equals, value = text.partition("=")
    spot = FilePosition("--set", number, 1, len(text), text, name.strip())
    if not equals or not name.strip():
        message = f"'{text}' is not a setting; write it like cluster.nodes=4"
        raise InvalidScenarioError([Problem("set", message, spot)])
    try:
        given = parse_yaml(f"v: {value.strip()}", "--set")["v"]
    except InvalidScenarioError as error:
        what = error.problems[0].message
        raise InvalidScenarioError([Problem("set", f"'{value}': {what}", spot)]) from error
    inner = replace(spot, column=len(name) + 2, width=max(1, len(value)))
    leaf = tree_from_value(to_dict(given), inner, "--set")
    return apply_override(tree, name.strip(), replace(leaf, key=spot, text=given.text))


def apply_override(tree: TreeNode, name: str, leaf: TreeNode) -> TreeNode:
    """Set the value at a dotted path of a tree.

    Raises
    ------
    InvalidScenarioError
        The path leads through a scalar or past the end of a list.
    """
    path = renamed_path(tree, existing_path(tree, name), leaf, leaf.label)
    return _merge_at_path(tree, path, with_current_names(leaf, tree, path))


def _merge_at_path(tree: TreeNode, path: Path, leaf: TreeNode) -> TreeNode:
    try:
        return with_merged_at(tree, path, leaf)
    except LookupError as error:
        done = path[: len(path) - len(error.args[0])]
        above = find_node(tree, done)
        what = f"has {len(above.items)} items" if above and above.items else "has no keys below it"
        message = f"'{dotted_path_text(path)}' is not a setting; '{dotted_path_text(done)}' {what}"
        raise InvalidScenarioError([Problem("unknown-key", message, leaf.label)]) from error


def apply_variant(tree: TreeNode, number: int, seen: tuple[int, ...] = ()) -> TreeNode:
    """Apply one entry of ``what_if`` to a tree, after the entries that it uses.

    Raises
    ------
    InvalidScenarioError
        A setting cannot be applied. Unknown names and cycles in ``use`` are ignored here; the check
        of references reports them.
    """
    entries = tree["what_if"].items
    variant = entries[number]
    layer = f"variant {variant['name'].text_value}"
    order = {
        n["name"].text_value: i for i, n in reversed(list(enumerate(entries))) if n.has("name")
    }
    for name in variant["use"].items if variant.has("use") else ():
        other = order.get(name.text_value, number)
        if other not in (*seen, number):
            tree = apply_variant(tree, other, (*seen, number))
    problems: list[Problem] = []
    for key, value in variant["set"].mapping.items() if variant.has("set") else ():
        leaf = _variant_value(value, layer, f"what_if.{number}.set")
        try:
            tree = apply_override(tree, key, leaf)
        except InvalidScenarioError as error:
            problems += error.problems
    if problems:
        raise InvalidScenarioError(problems)
    for key, path in (("override", ("cluster", "override")), ("backends", ("backends",))):
        if variant.has(key):
            below = _variant_value(variant[key], layer, f"what_if.{number}.{key}")
            below = with_current_names(below, tree, path)
            tree = _merge_at_path(tree, path, below)
    if variant.has("ops"):
        more = _variant_value(variant["ops"], layer, f"what_if.{number}.ops")
        had = tree["ops"].items if tree.has("ops") else ()
        tree = _merge_at_path(tree, ("ops",), replace(more, value=(*had, *more.items)))
    return with_short_forms_written_out(_with_prices(tree, variant, layer, number))


def _variant_value(node: TreeNode, layer: str, path: str) -> TreeNode:
    """Copy of a value in ``what_if`` with the variant's layer and path, for error messages."""
    if isinstance(node.value, tuple):
        value = tuple(_variant_value(n, layer, path) for n in node.value)
        return replace(node, value=value, layer=layer)
    if node.mapping:
        inner = {k: _variant_value(n, layer, path) for k, n in node.mapping.items()}
        node = replace(node, value=inner)
    key = replace(node.key, path=path) if node.key else None
    return replace(node, layer=layer, key=key, spot=replace(node.spot, path=path))


def _with_prices(tree: TreeNode, variant: TreeNode, layer: str, number: int) -> TreeNode:
    """Tree in which a variant's prices replace those of the scenario."""
    items = find_node(tree, ("cost", "items"))
    told = enumerate(items.items if items else ())
    kinds = {n["what"].text_value: i for i, n in told if n.has("what")}
    for what, price in variant["cost"].mapping.items() if variant.has("cost") else ():
        leaf = _variant_value(price, layer, f"what_if.{number}.cost")
        if what not in kinds:
            message = f"cost.items has no price of '{what}'{did_you_mean_text(what, kinds)}"
            raise InvalidScenarioError([Problem("unknown-price", message, leaf.label)])
        tree = _merge_at_path(tree, ("cost", "items", kinds[what], "each"), leaf)
    return tree
