"""Old names of settings, understood for one release: a class declares them, files are rewritten.

A workload may have ``renamed_settings``, a mapping of old names to the dotted paths that replace
them; an old name may be a path, too.  Scenarios, saved runs, ``--set`` and sweeps all pass here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..problems import FilePosition, InvalidScenarioError, Problem
from ..settings import known_workloads
from .tree import Path, TreeNode, dotted_path_text, find_node, with_merged_at

log = logging.getLogger(__name__)

UNTIL = "0.3"  # the release that no longer understands old names


def with_current_names(tree: TreeNode, whole: TreeNode | None = None) -> TreeNode:
    """A file whose settings have the names of today, also in ``what_if`` and ``sweep``.

    Places stay those of the file, so that messages lead to what is written there.

    Parameters
    ----------
    whole : with all that it extends, which says of what type a workload is; the file itself
        unless given

    Raises
    ------
    InvalidScenarioError
        A setting has both its old name and its new one.
    """
    whole = tree if whole is None else whole
    for path, renames in _renames(whole):
        tree = _with_renamed_keys(tree, path, renames, both=False)
    entries = find_node(tree, ("what_if",))
    sets = (("what_if", i, "set") for i in range(len(entries.items if entries else ())))
    for path in (*sets, ("sweep", "vary")):
        if (node := find_node(tree, path)) is not None and node.mapping:
            now = {renamed_setting(whole, k, n.label): n for k, n in node.mapping.items()}
            tree = _with_node(tree, path, replace(node, value=now))
    return tree


def with_override_renamed(tree: TreeNode) -> TreeNode:
    """A tree whose settings have the names of today; what has its old name replaces the other.

    For what is laid over a tree that has the names of today, and for what a run has kept.
    """
    for path, renames in _renames(tree):
        tree = _with_renamed_keys(tree, path, renames, both=True)
    return tree


def renamed_setting(tree: TreeNode, names: str, spot: FilePosition | None = None) -> str:
    """Dotted paths of settings, several with commas between, with the names of today.

    Parameters
    ----------
    spot : place of the setting, for the message; None for no message
    """
    every = [name.strip() for name in names.split(",")]
    now = [_renamed(tree, name) for name in every]
    for old, new in zip(every, now, strict=True):
        if old != new and spot is not None:
            _tell(spot, old, new)
    return names if now == every else ", ".join(now)


def _renamed(tree: TreeNode, name: str) -> str:
    for path, renames in _renames(tree):
        head = f"{dotted_path_text(path)}."
        if name.startswith(head):
            return f"{head}{current_name(name.removeprefix(head), renames)}"
    return name


def current_name(name: str, renames: Mapping[str, str]) -> str:
    """A setting's name of today, or the name itself where it has no other.

    >>> current_name("scales.block", {"scales": "types.scales"})
    'types.scales.block'
    """
    for old, new in renames.items():
        if f"{name}.".startswith(f"{old}."):
            return f"{new}{name[len(old) :]}"
    return name


def _renames(tree: TreeNode) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """The place of each workload, and the old names of its settings."""
    jobs = find_node(tree, ("jobs",))
    for above in ((), *(("jobs", name) for name in (jobs.mapping if jobs else ()))):
        path: Path = (*above, "workload")
        kind = find_node(tree, (*path, "type"))
        known = known_workloads().get(kind.text_value) if kind else None
        if known is not None and known.renamed_settings:
            yield path, known.renamed_settings


def _with_renamed_keys(
    tree: TreeNode, path: Path, renames: Mapping[str, str], *, both: bool
) -> TreeNode:
    for old, new in renames.items():
        was, target = (*path, *old.split(".")), (*path, *new.split("."))
        value = find_node(tree, was)
        if value is None:
            continue
        if not both and find_node(tree, target) is not None:
            message = f"'{old}' is the old name of '{new}', which is given too; keep '{new}'"
            raise InvalidScenarioError([Problem("renamed", message, value.label)])
        tree = with_merged_at(_without(tree, was, len(path)), target, value)
        if not both:
            _tell(value.label, dotted_path_text(was), dotted_path_text(target))
    return tree


def _without(tree: TreeNode, path: Path, kept: int) -> TreeNode:
    """The tree without a key, nor the mappings above it that held only that, but for the first."""
    above = find_node(tree, path[:-1])
    rest = {k: n for k, n in above.mapping.items() if k != path[-1]} if above else {}
    if above is None or (not rest and len(path) - 1 > kept):
        return _without(tree, path[:-1], kept)
    return _with_node(tree, path[:-1], replace(above, value=rest))


def _with_node(tree: TreeNode, path: Path, node: TreeNode) -> TreeNode:
    """The tree with another node at a path."""
    if not path:
        return node
    head, rest = path[0], path[1:]
    new = _with_node(tree[head], rest, node)
    if isinstance(tree.value, tuple):
        return replace(tree, value=tuple(new if i == head else n for i, n in enumerate(tree.value)))
    return replace(tree, value={**tree.mapping, str(head): new})


def _tell(spot: FilePosition, old: str, new: str) -> None:
    where = spot if spot.file else "resolved"
    log.warning("%s: '%s' is now '%s'; rename it, release %s drops the old name",
                where, old, new, UNTIL)  # fmt: skip
