"""Old names of settings, supported for one release and replaced when files are read.

A class whose constructor is a schema may define ``renamed_settings``, a mapping from old names to
new dotted paths. It applies to scenarios, catalog entries, saved runs and ``--set``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ....models.parts import PARTS
from ....sim.setting_groups import UNTIL
from ..part_specs import KINDS, part_backends
from ..problems import FilePosition, InvalidScenarioError, Problem
from ..schema import section_at
from ..settings import known_backends, known_media, known_processes, known_workloads
from ..topology_choice import known_topologies
from .dotted_paths import existing_path
from .tree import Path, TreeNode, dotted_path_text, find_node, with_merged_at

log = logging.getLogger(__name__)

USUAL_WORKLOAD = "trace"
EMPTY = TreeNode({}, FilePosition(""))


def with_current_names(node: TreeNode, tree: TreeNode | None = None, path: Path = ()) -> TreeNode:
    """Replace old setting names in a tree, or in a value of a tree, by current ones.

    File positions stay those of the file.

    Parameters
    ----------
    tree : the complete tree, to look up chosen classes; by default the node itself
    path : path of the value in the complete tree

    Raises
    ------
    InvalidScenarioError
        A setting is given under both its old and its new name.
    """
    tree = node if tree is None else tree
    node = _with_current_keys(node, _renames_at(tree, node, path), path)
    if isinstance(node.value, tuple):
        items = (with_current_names(n, tree, (*path, i)) for i, n in enumerate(node.value))
        return replace(node, value=tuple(items))
    if not node.mapping:
        return node
    below = {k: with_current_names(n, tree, (*path, k)) for k, n in node.mapping.items()}
    if (path[:1] == ("what_if",) and path[2:] == ("set",)) or path == ("sweep", "vary"):
        below = {_current_setting(tree, k, n): n for k, n in below.items()}
    return replace(node, value=below)


def _with_current_keys(node: TreeNode, renames: Mapping[str, str], path: Path) -> TreeNode:
    for old, new in renames.items():
        value = node.mapping.get(old)
        target = new.split(".")
        if value is None or (target[0] == old and not _is_amount(value)):
            continue
        node = replace(node, value={k: n for k, n in node.mapping.items() if k != old})
        if _clash(find_node(node, tuple(target)), value):
            message = f"'{old}' is the old name of '{new}', and both are given; keep '{new}'"
            raise InvalidScenarioError([Problem("renamed", message, value.label)])
        _tell(value.label, dotted_path_text((*path, old)), dotted_path_text((*path, new)))
        node = with_merged_at(node, tuple(target), value)
    return node


def _clash(existing: TreeNode | None, value: TreeNode) -> bool:
    """True if a value cannot be merged with an existing value."""
    if existing is None:
        return False
    return not (existing.mapping and value.mapping) or bool({*existing.mapping} & {*value.mapping})


def renamed_path(tree: TreeNode, path: Path, value: TreeNode, spot: FilePosition) -> Path:
    """Path of a setting with current names.

    Parameters
    ----------
    value : value of the setting; needed since a group may have the old name of one of its settings
    spot : file position, for the warning
    """
    for depth in range(len(path)):
        above = path[:depth]
        new = _renames_at(tree, find_node(tree, above) or EMPTY, above).get(str(path[depth]), "")
        is_group = new.partition(".")[0] == path[depth]
        if new and (not is_group or (path[depth + 1 :] == () and _is_amount(value))):
            now = (*above, *new.split("."), *path[depth + 1 :])
            _tell(spot, dotted_path_text(path), dotted_path_text(now))
            return now
    return path


def current_name(name: str, renames: Mapping[str, str]) -> str:
    """Current name of a setting; the name itself if it was not renamed.

    >>> current_name("scales.block", {"scales": "types.scales"})
    'types.scales.block'
    """
    for old, new in renames.items():
        if f"{name}.".startswith(f"{old}."):
            return f"{new}{name[len(old) :]}"
    return name


def renamed_settings_text(kind: str, names: Iterable[str]) -> str:
    """``; 'x' is now 'y'`` for each old setting name of a kind of part; "" for none.

    >>> renamed_settings_text("gpu", ["launch_fp8", "efficiency"])
    "; 'launch_fp8' is now 'gemm.fp8.launch'"
    """
    renames = {k: v for c in _of_part(kind) for k, v in getattr(c, "renamed_settings", {}).items()}
    return "".join(f"; '{name}' is now '{renames[name]}'" for name in names if name in renames)


def _is_amount(value: TreeNode) -> bool:
    """True if a node is a single value, not a group of settings."""
    return not value.mapping and value.value is not None


def _current_setting(tree: TreeNode, names: str, values: TreeNode) -> str:
    """Dotted paths of one ``vary`` key, separated by commas, with current names.

    Parameters
    ----------
    values : value of the setting, or a list of its values
    """
    several = [name.strip() for name in names.split(",")]
    now = [
        dotted_path_text(renamed_path(tree, existing_path(tree, name), value, values.label))
        for name, value in zip(several, _one_of_each(values, len(several)), strict=True)
    ]
    return names if now == several else ", ".join(now)


def _one_of_each(values: TreeNode, settings: int) -> Iterable[TreeNode]:
    """One sample value for each of the settings that vary together, from their first values."""
    one = values.items[0] if values.items else values.mapping.get("from", values)
    return one.items if len(one.items) == settings else [one] * settings


def _tell(spot: FilePosition, old: str, new: str) -> None:
    where = spot if spot.file else "resolved"
    log.warning("%s: '%s' is now '%s'; rename it, since release %s removes the old name",
                where, old, new, UNTIL)  # fmt: skip


def _renames_at(tree: TreeNode, node: TreeNode, path: Path) -> dict[str, str]:
    """Current paths by old name, for the mapping at a path."""
    found: dict[str, str] = {}
    for cls in _classes_at(tree, node, path):
        found |= getattr(cls, "renamed_settings", {})
    if len(path) > 1:
        above = path[:-1]
        head = f"{path[-1]}."
        for old, new in _renames_at(tree, find_node(tree, above) or EMPTY, above).items():
            if old.startswith(head) and new.startswith(head):
                found[old.removeprefix(head)] = new.removeprefix(head)
    return found


def _classes_at(tree: TreeNode, node: TreeNode, path: Path) -> Iterable[type]:
    """Classes whose constructor arguments are the settings at a path."""
    whole = path
    path = path[2:] if path[:1] in (("jobs",), ("what_if",)) and len(path) > 2 else path
    match path:
        case ("workload",):
            name = _text(node, "type") or _text(find_node(tree, whole) or EMPTY, "type")
            name = name or USUAL_WORKLOAD
            return _named(known_workloads(), name)
        case ("cluster", "fabric", "topology"):
            return _named(known_topologies(), _text(node, "use"))
        case ("cluster", "node" | "fabric", str(kind)) | ("cluster", "kinds", _, str(kind)):
            return _of_part(kind)
        case ("cluster", "node", "links", _) | ("cluster", "kinds", _, "links", _):
            return _of_part("link")
        case ("catalog", str(kind), _):
            return _of_part(kind)
        case ("backends", _) | ("backends", _, "use", _):
            name = _text(node, "use") or _text(find_node(tree, path) or EMPTY, "use")
            return _named(known_backends(), name)
        case ("media", _):
            return _named(known_media(), _text(node, "use"))
        case ("hil", "swap", int()):
            section = section_at(path)
            return [section] if section else []
        case ("processes", _):
            return _named(known_processes(), _text(node, "use"))
    return ()


def _text(node: TreeNode, key: str) -> str:
    return node[key].text_value if node.has(key) else ""


def _named(known: Mapping[str, type], name: str) -> list[type]:
    return [known[name]] if name in known else []


def _of_part(kind: str) -> list[type]:
    return [*_named(PARTS, kind), *(part_backends(kind) if kind in KINDS else ())]
