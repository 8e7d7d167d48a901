"""The third check: values that are legal and probably wrong, with what may have been meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ....sim.units import quantity
from ..draft import Draft, VariantDraft
from ..part_specs import node_parts
from ..problems import Problem, in_order
from .machines import machines
from .overrides import path_of
from .spine import absent
from .tree import TreeNode, find, leaves

SLOW_NIC = 10e9 / 8  # B/s
LONG = 1e-3  # s, of a latency


def lint(draft: Draft) -> Iterator[Problem]:
    """Warnings of a scenario and of its variants, each once, in the order of the file."""
    every = (warning for variant in draft.variants for warning in warnings_of(variant))
    return iter(in_order([*every, *_settings_without_effect(draft.tree)]))


def warnings_of(variant: VariantDraft) -> Iterator[Problem]:
    """Warnings of the base or of one variant; none where the schema is not met."""
    if variant.model is None:
        return
    yield from _value_doubts(variant.tree)
    yield from absent(variant.model.cluster, variant.tree)  # type: ignore[attr-defined]


def _value_doubts(tree: TreeNode) -> Iterator[Problem]:
    """Doubts about values that the user wrote, not those of the catalog."""
    yield from _bit_doubts(tree)
    yield from _unused_prices(tree)
    described = [path for path, _ in machines(tree)]
    for path, leaf in leaves(tree):
        if leaf.layer in ("catalog", "default"):
            continue
        if path[:1] == ("cluster",) and path[-1] == "latency":
            yield from _latency_doubts(leaf)
        if path[-2:] == ("nic", "bandwidth") and path[:-2] in described:
            yield from _nic_doubts(leaf)


def _settings_without_effect(tree: TreeNode) -> Iterator[Problem]:
    """Settings of ``what_if`` that are what the scenario is already."""
    for number, variant in enumerate(_what_if(tree)):
        yield from _no_change(tree, variant, number)


def _value_in_unit(leaf: TreeNode, unit: str) -> float | None:
    try:
        return quantity(leaf.value, unit)
    except ValueError:
        return None


def _latency_doubts(leaf: TreeNode) -> Iterator[Problem]:
    value = _value_in_unit(leaf, "s")
    if value is not None and value >= LONG:
        yield _warning_at(f"a latency of '{leaf.text}' is long; is it microseconds?", leaf)


def _nic_doubts(leaf: TreeNode) -> Iterator[Problem]:
    value = _value_in_unit(leaf, "B/s")
    if value is not None and value < SLOW_NIC:
        larger = re.sub(r"b(?=/|ps)", "B", leaf.text)
        hint = f"; did you mean '{larger}'?" if larger != leaf.text else "; is it right?"
        yield _warning_at(f"'{leaf.text}' is slow for a NIC{hint}", leaf)


def _bit_doubts(tree: TreeNode) -> Iterator[Problem]:
    sizes = (("gpu", "memory"), ("cxl", "size"))
    for leaf in [find(tree, (*path, *size)) for path, _ in machines(tree) for size in sizes]:
        if (
            leaf
            and leaf.layer != "catalog"
            and re.search(r"(?<![A-Za-z])[KMGT]i?b(it)?$", leaf.text)
        ):
            meant = re.sub(r"b(it)?$", "B", leaf.text)
            yield _warning_at(f"'{leaf.text}' is bits; did you mean '{meant}'?", leaf)


def _unused_prices(tree: TreeNode) -> Iterator[Problem]:
    """Prices of parts that no machine has; a variant or a point may still fit them."""
    nodes, items = [node for _, node in machines(tree)], find(tree, ("cost", "items"))
    later = [n.text for part in ("what_if", "sweep") if (n := find(tree, (part,)))]
    if not nodes or items is None:
        return
    for item in items.items:
        what = item.mapping.get("what")
        fitted = what and any(node.has(what.word) for node in nodes)
        if what and what.word in node_parts() and not fitted and not later:
            yield _warning_at(f"no machine has a '{what.word}', so nothing is paid for it", what)


def _what_if(tree: TreeNode) -> tuple[TreeNode, ...]:
    found = find(tree, ("what_if",))
    return found.items if found else ()


def _no_change(tree: TreeNode, variant: TreeNode, number: int) -> Iterator[Problem]:
    """A setting that says what the scenario says already."""
    for name, leaf in variant["set"].mapping.items() if variant.has("set") else ():
        now = find(tree, path_of(tree, name))
        if now and now.text and now.text == leaf.text:
            message = f"'{name}' is '{leaf.text}' already; this changes nothing"
            yield _warning_at(message, leaf, f"what_if.{number}.set")


def _warning_at(message: str, leaf: TreeNode, path: str = "") -> Problem:
    spot = replace(leaf.spot, path=path) if path else leaf.spot
    return Problem("doubt", message, spot, "warning")
