"""Catalog values: ``model: NAME`` supplies every value that the file leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..catalog import Catalog
from ..part_specs import node_parts
from ..problems import Problem, did_you_mean_text
from .machines import machine_descriptions
from .tree import Path, TreeNode, find_node, merge_layers, with_merged_at

FABRIC: tuple[tuple[Path, str], ...] = tuple(
    (("cluster", "fabric", kind), kind) for kind in ("switch", "library")
)
Used = dict[tuple[str, str], TreeNode]


def with_short_forms_written_out(tree: TreeNode) -> TreeNode:
    """Tree with short forms expanded: a part or backend as a name, a chain as a list."""
    parts = [(*path, key) for path, node in machine_descriptions(tree) for key in node.mapping]
    for path in (*parts, *(path for path, _ in FABRIC)):
        if path[-1] not in ("links", "count", "pools"):
            tree = _name_as_mapping(tree, path, "model")
    backends = find_node(tree, ("backends",))
    for glob in backends.mapping if backends else ():
        tree = _name_as_mapping(tree, ("backends", glob), "use", many=True)
        links = find_node(tree, ("backends", glob, "use"))
        for i in range(len(links.items) if links else 0):
            tree = _name_as_mapping(tree, ("backends", glob, "use", i), "use")
    return tree


def _name_as_mapping(tree: TreeNode, path: Path, key: str, *, many: bool = False) -> TreeNode:
    """Tree in which a name at a path (or a list, if ``many``) becomes a mapping with one key."""
    node = find_node(tree, path)
    if node is None or not isinstance(node.value, str | tuple if many else str):
        return tree
    return with_merged_at(tree, path, replace(node, value={key: node}, text=""))


def with_catalog_values(tree: TreeNode, catalog: Catalog) -> tuple[TreeNode, Used, list[Problem]]:
    """Tree completed with catalog values, the entries used, and problems of unknown names."""
    used: Used = {}
    problems = []
    for path, kind, key in _catalog_references(tree):
        part = find_node(tree, path)
        name = part.mapping.get(key) if part else None
        if part is None or name is None or not isinstance(name.value, str):
            continue
        entry = catalog.entry(kind, name.value)
        if entry is None:
            problems.append(_unknown_entry_problem(kind, name, catalog))
            continue
        used[kind, name.value] = entry
        tree = with_merged_at(tree, path, merge_layers(entry, part))
    links = list(_gpus_backends_were_recorded_on(tree))
    for name in [*_gpus_traces_were_recorded_on(tree), *links]:
        entry = catalog.entry("gpu", name.text_value)
        if entry is not None:
            used["gpu", name.text_value] = entry
            tree = with_merged_at(tree, ("catalog", "gpu", name.text_value), entry)
        elif name in links:
            problems.append(_unknown_entry_problem("gpu", name, catalog))
    return tree, used, problems


def _gpus_traces_were_recorded_on(tree: TreeNode) -> Iterator[TreeNode]:
    """Names of GPUs that recorded a trace and differ from a GPU of the cluster.

    Their catalog entries are needed to transfer recorded times.
    """
    there = {
        find_node(node, ("gpu", "model"))
        for _, node in machine_descriptions(tree)
        if node.has("gpu")
    }
    models = {name.text_value for name in there if name is not None}
    jobs = find_node(tree, ("jobs",))
    works = [
        find_node(job, ("workload",)) for job in (tree, *(jobs.mapping.values() if jobs else ()))
    ]
    told = [find_node(work, ("recorded_on", "device")) for work in works if work is not None]
    for name in told:
        if name is not None and name.text_value and models - {name.text_value}:
            yield name


def _gpus_backends_were_recorded_on(tree: TreeNode) -> Iterator[TreeNode]:
    """Names of GPUs in the ``recorded_on`` settings of backends."""
    backends = find_node(tree, ("backends",))
    for backend in backends.mapping.values() if backends else ():
        for one in (backend, *(backend["use"].items if backend.has("use") else ())):
            name = find_node(one, ("recorded_on",))
            if name is not None and name.text_value:
                yield name


def _catalog_references(tree: TreeNode) -> Iterator[tuple[Path, str, str]]:
    for path, node in machine_descriptions(tree):
        for kind in node_parts():
            yield (*path, kind), kind, "model"
        for i in range(len(node["links"].items) if node.has("links") else 0):
            yield (*path, "links", i), "link", "via"
    for place, kind in FABRIC:
        yield place, kind, "model"


def _unknown_entry_problem(kind: str, name: TreeNode, catalog: Catalog) -> Problem:
    hint = did_you_mean_text(str(name.value), catalog.names(kind))
    message = f"no {kind} model named '{name.value}'{hint}; see: foretrace catalog {kind}"
    return Problem("unknown-model", message, name.spot)
