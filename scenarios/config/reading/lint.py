"""The third check: values that are legal but probably mistakes, with a suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ....sim.units import quantity
from ..draft import Draft, VariantDraft
from ..part_specs import node_parts
from ..problems import Problem, distinct_in_file_order
from .dotted_paths import existing_path
from .machines import machine_descriptions
from .no_effect import no_effect_warnings
from .tree import TreeNode, find_node, leaf_nodes

SLOW_NIC = 10e9 / 8  # B/s
LONG = 1e-3  # s, of a latency


def lint(draft: Draft) -> Iterator[Problem]:
    """Warnings of a scenario and its variants, each once, in file order."""
    every = (warning for variant in draft.variants for warning in variant_warnings(variant))
    return iter(distinct_in_file_order([*every, *_settings_without_effect(draft.tree)]))


def variant_warnings(variant: VariantDraft) -> Iterator[Problem]:
    """Warnings of the base or of one variant; none if it does not fit the schema."""
    if variant.model is None:
        return
    yield from _written_value_warnings(variant.tree)
    yield from no_effect_warnings(variant)


def _written_value_warnings(tree: TreeNode) -> Iterator[Problem]:
    """Warnings about values that the user wrote, without those of the catalog."""
    yield from _bits_for_bytes_warnings(tree)
    yield from _unused_prices(tree)
    described = [path for path, _ in machine_descriptions(tree)]
    for path, leaf in leaf_nodes(tree):
        if leaf.layer in ("catalog", "default"):
            continue
        if path[:1] == ("cluster",) and path[-1] == "latency":
            yield from _latency_warnings(leaf)
        if path[-2:] == ("nic", "bandwidth") and path[:-2] in described:
            yield from _nic_rate_warnings(leaf)


def _settings_without_effect(tree: TreeNode) -> Iterator[Problem]:
    """Warnings about settings in ``what_if`` that equal those of the scenario."""
    for number, variant in enumerate(_what_if_entries(tree)):
        yield from _settings_that_change_nothing(tree, variant, number)


def _value_in_unit(leaf: TreeNode, unit: str) -> float | None:
    try:
        return quantity(leaf.value, unit)
    except ValueError:
        return None


def _latency_warnings(leaf: TreeNode) -> Iterator[Problem]:
    value = _value_in_unit(leaf, "s")
    if value is not None and value >= LONG:
        yield _warning_at(f"a latency of '{leaf.text}' is long; did you mean microseconds?", leaf)


def _nic_rate_warnings(leaf: TreeNode) -> Iterator[Problem]:
    value = _value_in_unit(leaf, "B/s")
    if value is not None and value < SLOW_NIC:
        larger = re.sub(r"b(?=/|ps)", "B", leaf.text)
        hint = f"; did you mean '{larger}'?" if larger != leaf.text else "; check the value"
        yield _warning_at(f"'{leaf.text}' is slow for a NIC{hint}", leaf)


def _bits_for_bytes_warnings(tree: TreeNode) -> Iterator[Problem]:
    sizes = (("gpu", "memory"), ("cxl", "size"))
    for leaf in [
        find_node(tree, (*path, *size)) for path, _ in machine_descriptions(tree) for size in sizes
    ]:
        if (
            leaf
            and leaf.layer != "catalog"
            and re.search(r"(?<![A-Za-z])[KMGT]i?b(it)?$", leaf.text)
        ):
            meant = re.sub(r"b(it)?$", "B", leaf.text)
            yield _warning_at(f"'{leaf.text}' is in bits; did you mean '{meant}'?", leaf)


def _unused_prices(tree: TreeNode) -> Iterator[Problem]:
    """Warnings about prices of parts that no machine has, unless a variant or sweep adds them."""
    nodes, items = (
        [node for _, node in machine_descriptions(tree)],
        find_node(tree, ("cost", "items")),
    )
    later = [n.text for part in ("what_if", "sweep") if (n := find_node(tree, (part,)))]
    if not nodes or items is None:
        return
    for item in items.items:
        what = item.mapping.get("what")
        fitted = what and any(node.has(what.text_value) for node in nodes)
        if what and what.text_value in node_parts() and not fitted and not later:
            yield _warning_at(
                f"no machine has a '{what.text_value}', so this price has no effect", what
            )


def _what_if_entries(tree: TreeNode) -> tuple[TreeNode, ...]:
    found = find_node(tree, ("what_if",))
    return found.items if found else ()


def _settings_that_change_nothing(
    tree: TreeNode, variant: TreeNode, number: int
) -> Iterator[Problem]:
    """Warnings about settings of one variant that equal those of the scenario."""
    for name, leaf in variant["set"].mapping.items() if variant.has("set") else ():
        now = find_node(tree, existing_path(tree, name))
        if now and now.text and now.text == leaf.text:
            message = f"'{name}' is already '{leaf.text}', so this has no effect"
            yield _warning_at(message, leaf, f"what_if.{number}.set")


def _warning_at(message: str, leaf: TreeNode, path: str = "") -> Problem:
    spot = replace(leaf.spot, path=path) if path else leaf.spot
    return Problem("doubt", message, spot, "warning")
