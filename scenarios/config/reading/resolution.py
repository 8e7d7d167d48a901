"""Resolved scenarios: plain values for run folders, and the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from pydantic import BaseModel

from ..problems import FilePosition
from ..scenario import Origin
from ..settings import default_as_written
from .catalog_values import Used
from .files import BUNDLED, named_files
from .tree import (
    Plain,
    TreeNode,
    dotted_path_text,
    find_node,
    leaf_nodes,
    merge_layers,
    to_dict,
    tree_from_value,
    with_merged_at,
)

NOWHERE = FilePosition("")


def with_absolute_paths(tree: TreeNode) -> TreeNode:
    """Tree with absolute file paths; relative ones start at the file that names them."""
    for path, name in named_files(to_dict(tree)):
        node = find_node(tree, path)
        if node and not name.startswith(BUNDLED):
            absolute = os.path.abspath(File(node.spot.file).parent / name)
            tree = with_merged_at(tree, path, tree_from_value(absolute, node.spot, node.layer))
    return tree


def with_defaults(tree: TreeNode, model: BaseModel) -> TreeNode:
    """Tree completed with the defaults of the scenario's sections."""
    return merge_layers(tree_from_value(dict(_defaults_of(model)), NOWHERE, "default"), tree)


def _defaults_of(model: BaseModel) -> Iterator[tuple[str, Plain]]:
    """Defaults of the keys that a file leaves out, in the form of a file."""
    for name, field in type(model).model_fields.items():
        value, key = getattr(model, name), field.alias or name
        inner = dict(_defaults_of(value)) if isinstance(value, BaseModel) else {}
        if inner:
            yield key, inner
        elif name not in model.model_fields_set:
            text = default_as_written(field, value)
            yield from [(key, text)] if text is not None else []


def to_dict_with_sources(node: TreeNode) -> Plain:
    """Plain values of a tree; a value with a source becomes ``{value, source}``."""
    if isinstance(node.value, Mapping):
        value: Plain = {k: to_dict_with_sources(n) for k, n in node.value.items()}
    elif isinstance(node.value, tuple):
        value = [to_dict_with_sources(n) for n in node.value]
    else:
        value = node.value
    return {"value": value, "source": node.source.facts()} if node.source else value


def resolved_to_dict(tree: TreeNode, used: Used) -> Plain:
    """Resolved scenario as plain values, with the catalog entries that it uses."""
    told = to_dict_with_sources(tree)
    told.pop("extends", None)
    told.pop("catalog", None)
    for (kind, name), entry in sorted(used.items()):
        told.setdefault("catalog", {}).setdefault(kind, {})[name] = to_dict_with_sources(entry)
    return told


def value_origins(tree: TreeNode) -> dict[str, Origin]:
    """Origin of each value (text, layer, position) by dotted path, without catalog entries."""
    return {
        dotted_path_text(path): _origin_of(node)
        for path, node in leaf_nodes(tree)
        if path[0] != "catalog"
    }


def _origin_of(node: TreeNode) -> Origin:
    text = node.text or str(node.value)
    return Origin(text, node.layer, str(node.spot) if node.spot.file else "", node.source)


def resolved_yaml(plain: Plain, decided: Mapping[str, Origin]) -> str:
    """Resolved scenario as YAML, with the origin of each value as a comment."""
    from io import StringIO

    from ruamel.yaml import YAML

    stream = StringIO()
    yaml = YAML()
    yaml.width = 10_000
    yaml.dump(_with_comments(plain, decided, ""), stream)
    return stream.getvalue()


def _with_comments(value: Plain, decided: Mapping[str, Origin], path: str) -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, list):
        found = CommentedSeq()
        found.extend(_with_comments(v, decided, f"{path}.{i}") for i, v in enumerate(value))
        return found
    if not isinstance(value, dict):
        return value
    mapping = CommentedMap()
    for key, below in value.items():
        full = f"{path}.{key}".lstrip(".")
        mapping[key] = _with_comments(below, decided, full)
        who = decided.get(full)
        if who and not isinstance(below, list | dict):
            mapping.yaml_add_eol_comment(f"{who.layer} {who.where}".strip(), key)
    return mapping
