"""The second check: names that must exist elsewhere in the scenario.

It works on trees, so it also finds problems in scenarios that do not fit the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ....sim.facts.system import SELECTED
from ..catalog import Catalog
from ..draft import Draft, VariantDraft
from ..part_specs import node_parts
from ..problems import FilePosition, Problem, did_you_mean_text
from ..scenario import BASE
from ..schema import SECTIONS
from .catalog_values import with_short_forms_written_out
from .machines import machine_descriptions
from .no_effect import no_effect_warnings
from .tree import TreeNode, find_node


def reference_problems(draft: Draft) -> Iterator[Problem]:
    """Problems of references to parts, variants, prices, metrics and devices that do not exist."""
    for variant in draft.variants:
        yield from _broken_references(variant.tree, draft.catalog)
    yield from _section_problems(draft)


def _section_problems(draft: Draft) -> Iterator[Problem]:
    """Problems found by the sections' own reference checks."""

    def attempt(changed: TreeNode) -> list[Problem]:
        one = VariantDraft.of(BASE, with_short_forms_written_out(changed), draft.catalog)
        broken = _broken_references(changed, draft.catalog)
        return [*one.problems, *broken, *no_effect_warnings(one)]

    for key in draft.tree.mapping:
        if key in SECTIONS:
            yield from SECTIONS[key].broken(draft.tree, attempt)


def _broken_references(tree: TreeNode, catalog: Catalog) -> Iterator[Problem]:
    """Problems of all broken references in one tree."""
    yield from _link_end_problems(tree)
    yield from _variant_problems(tree)
    yield from _price_problems(tree)
    yield from _metric_problems(tree)
    yield from _unknown_recording_device_problems(tree, catalog)
    yield from _unresizable_group_problems(tree)


def _node_at(tree: TreeNode, *path: str | int) -> TreeNode | None:
    return find_node(tree, path)


def _items_at(tree: TreeNode, *path: str | int) -> Iterator[tuple[int, TreeNode]]:
    node = find_node(tree, path)
    yield from enumerate(node.items if node else ())


def _part_kinds(tree: TreeNode) -> list[str]:
    """Kinds of part that at least one machine has, sorted."""
    return sorted({k for _, node in machine_descriptions(tree) for k in _machine_part_kinds(node)})


def _machine_part_kinds(node: TreeNode) -> list[str]:
    return sorted(set(node.mapping) & set(node_parts()))


def _link_end_problems(tree: TreeNode) -> Iterator[Problem]:
    for path, node in machine_descriptions(tree):
        known = _machine_part_kinds(node)
        for _, link in _items_at(tree, *path, "links"):
            for end in ("from", "to"):
                name = link.mapping.get(end)
                if name and isinstance(name.value, str) and name.value not in known:
                    has = ", ".join(known)
                    message = f"no component '{name.value}' in this node; write one of: {has}"
                    yield Problem("unknown-component", message, name.spot)


def _variant_problems(tree: TreeNode) -> Iterator[Problem]:
    yield from _name_problems(tree)
    uses = {n: _uses_of_variant(v) for n, v in _variants_by_name(tree)}
    for name, used in uses.items():
        for other in used:
            if other.text_value not in uses:
                hint = did_you_mean_text(other.text_value, uses)
                yield Problem(
                    "unknown-variant", f"no variant named '{other.text}'{hint}", other.spot
                )
            elif _variant_uses_lead_to(uses, other.text_value, name):
                through = f" through '{other.text_value}'" if other.text_value != name else ""
                message = f"'{name}' uses itself{through}; remove it"
                yield Problem("circular-use", message, other.spot)


def _name_problems(tree: TreeNode) -> Iterator[Problem]:
    """Problems of variant names that are used twice or reserved."""
    first: dict[str, TreeNode] = {}
    for name, variant in _variants_by_name(tree):
        node = variant["name"]
        if name == BASE:
            message = f"'{BASE}' is the name of the scenario itself; choose another name"
            yield Problem("duplicate-name", message, node.spot)
        if name in first:
            line = first[name].spot.line
            message = f"two variants are named '{name}', the first in line {line}; rename one"
            yield Problem("duplicate-name", message, node.spot)
        first.setdefault(name, node)


def _variants_by_name(tree: TreeNode) -> Iterator[tuple[str, TreeNode]]:
    for _, variant in _items_at(tree, "what_if"):
        if variant.has("name") and variant["name"].text_value:
            yield variant["name"].text_value, variant


def _uses_of_variant(variant: TreeNode) -> tuple[TreeNode, ...]:
    return variant["use"].items if variant.has("use") else ()


def _variant_uses_lead_to(uses: Mapping[str, tuple[TreeNode, ...]], start: str, goal: str) -> bool:
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            todo += [n.text_value for n in uses.get(name, ())]
    return False


def _price_problems(tree: TreeNode) -> Iterator[Problem]:
    known = [*node_parts(), "node", "switch", "cable"]
    for path, node in machine_descriptions(tree):
        pools = [*node.mapping["pools"].mapping] if node.has("pools") else []
        known += pools
        if len(path) > 2:  # of several kinds
            own = (f"{SELECTED}{path[-1]}.{kind}" for kind in (*node_parts(), *pools))
            known += [f"{SELECTED}{path[-1]}", *own]
    for _, item in _items_at(tree, "cost", "items"):
        what = item.mapping.get("what")
        if what and isinstance(what.value, str) and what.value not in known:
            message = f"no kind of component '{what.value}'{did_you_mean_text(what.value, known)}"
            yield Problem("unknown-component", message, what.spot)


def _metric_problems(tree: TreeNode) -> Iterator[Problem]:
    """Problems of conditions on the utilization of a part that no machine has."""
    known = _part_kinds(tree)
    for _, expectation in _items_at(tree, "expect"):
        that = expectation.mapping.get("that")
        found = re.match(r"\s*(\w+)\.utilization\b", that.text) if that and known else None
        if that and found and found[1] in node_parts() and found[1] not in known:
            message = f"no component '{found[1]}' in this node; write one of: {', '.join(known)}"
            yield Problem("unknown-component", message, that.spot)


def _unknown_recording_device_problems(tree: TreeNode, catalog: Catalog) -> Iterator[Problem]:
    for key, kinds in (("device", ("gpu", "host")), ("host", ("host",))):
        device = _node_at(tree, "workload", "recorded_on", key)
        if device is None or not isinstance(device.value, str):
            continue
        if not any(catalog.entry(kind, device.value) for kind in kinds):
            hint = did_you_mean_text(
                device.value, [name for kind in kinds for name in catalog.names(kind)]
            )
            what = " or ".join(kinds)
            message = f"no {what} model named '{device.value}'{hint}; see: foretrace catalog"
            yield Problem("unknown-model", message, device.spot)


MISSING_IN_TRACE = {
    "tensor": "how the GEMMs of a rank were split",
    "pipeline": "the layers and the messages of a stage of another length",
    "expert": "which tokens go to which expert and where experts are placed",
    "context": "the time of a part of a sequence and the data that parts exchange",
}
"""Facts that a recorded trace does not hold, by the parallel group whose size depends on them."""


def _unresizable_group_problems(tree: TreeNode) -> Iterator[Problem]:
    """Problems of parallel groups that a recorded trace cannot be resized to.

    Data-parallel groups can be resized, and tensor-parallel groups if each rank had complete
    layers.
    """
    for path in _trace_paths(tree):
        was = {group: _degree(tree, path, "recorded_on", group) for group in MISSING_IN_TRACE}
        whole = was["tensor"][0] == was["pipeline"][0] == "1"
        for group, (recorded, _) in was.items():
            wanted, spot = _degree(tree, path, "scale_to", group)
            if spot is None or wanted == recorded or (group == "tensor" and whole):
                continue
            message = (
                f"{group} {wanted}, but recorded with {group} {recorded}; a recorded trace does "
                f"not say {MISSING_IN_TRACE[group]}: change data (or tensor, if each rank held "
                "whole layers), or describe the model (workload.type: training)"
            )
            yield Problem("not-resizable", message, spot)


def _degree(
    tree: TreeNode, path: tuple[str, ...], section: str, group: str
) -> tuple[str, FilePosition | None]:
    """Degree of parallelism as text, and its file position (None if the file does not give it)."""
    node = _node_at(tree, *path, section, "parallel", group)
    return ("1", None) if node is None else (str(node.value), node.spot)


def _trace_paths(tree: TreeNode) -> Iterator[tuple[str, ...]]:
    """Path of every workload section, as a tuple of keys."""
    yield ("workload",)
    jobs = find_node(tree, ("jobs",))
    yield from (("jobs", name, "workload") for name in (jobs.mapping if jobs else ()))
