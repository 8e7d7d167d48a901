"""Catalog of hardware facts, each value with its source.

A file maps kinds to names to settings::

    nic:
      connectx-7:
        bandwidth: {value: 400 Gb/s, source: {kind: datasheet, where: …, date: …}}

Built-in files are in ``models/catalog/``. Directories in the environment variable
``FORETRACE_CATALOG`` override them, and so does the section ``catalog`` of a scenario.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path as File

from .installed_plugins import load_installed
from .part_specs import KINDS
from .problems import FilePosition, InvalidScenarioError, Problem, did_you_mean_text
from .reading.document import parse_yaml, read_text_file
from .reading.renamed_settings import with_current_names
from .reading.tree import TreeNode, find_node, leaf_nodes, with_layer

OURS = File(__file__).parents[2] / "models" / "catalog"
VARIABLE = "FORETRACE_CATALOG"


@dataclass(frozen=True)
class CatalogFile:
    """A catalog file that is read when an entry is first looked up."""

    file: File
    shown: str

    @cached_property
    def text(self) -> str:
        """Text of the file."""
        return read_text_file(self.file, self.shown)

    @cached_property
    def tree(self) -> TreeNode:
        """Entries of the file as a tree: kind, name, settings.

        Raises
        ------
        InvalidScenarioError
            The file is not YAML, has an unknown kind, or a value without a source.
        """
        tree = parse_yaml(self.text, self.shown, "catalog")
        strange = [(k, n) for k, n in tree.mapping.items() if k not in KINDS]
        problems = [
            Problem(
                "unknown-key",
                f"no kind of part is named '{k}'{did_you_mean_text(k, KINDS)}",
                n.label,
            )
            for k, n in strange
        ]
        if problems := problems + values_without_source(tree):
            raise InvalidScenarioError(problems)
        return with_current_names(tree, path=("catalog",))


@dataclass(frozen=True)
class Catalog:
    """Catalog entries by kind and name, from several files; later files override earlier ones.

    Parameters
    ----------
    files : catalog files
    own : entries that a scenario defines itself: kind, name, settings

    Examples
    --------
    >>> "h100-sxm5-80g" in installed().names("gpu")
    True
    """

    files: tuple[CatalogFile, ...] = ()
    own: TreeNode | None = None

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of all entries of a kind, sorted."""
        trees = [*(s.tree for s in self.files), *((self.own,) if self.own else ())]
        found = {n for t in trees if t.has(kind) for n in t[kind].mapping}
        return tuple(sorted(found))

    def entry(self, kind: str, name: str) -> TreeNode | None:
        """Catalog entry by kind and name; None if unknown."""
        found = find_node(self.own, (kind, name)) if self.own else None
        likely = (s.tree for s in reversed(self.files) if name in s.text)
        return found or next((n for t in likely if (n := find_node(t, (kind, name)))), None)

    def with_own_parts(self, parts: TreeNode) -> Catalog:
        """Copy of the catalog with the entries that a scenario defines itself."""
        return replace(self, own=with_layer(parts, "catalog"))


def installed(directories: Iterable[str] = ()) -> Catalog:
    """Catalog of all files: built-in ones, of packages, of ``FORETRACE_CATALOG``, and given ones.

    Later ones override earlier ones.

    Raises
    ------
    InvalidScenarioError
        A directory does not exist.
    """
    theirs = [d for d in os.environ.get(VARIABLE, "").split(os.pathsep) if d]
    files = [
        s
        for d in (str(OURS), *_packaged_directories(), *theirs, *directories)
        for s in _catalog_files_in(d)
    ]
    return Catalog(tuple(files))


@cache
def _packaged_directories() -> tuple[str, ...]:
    """Catalog directories of installed packages."""
    found = load_installed("foretrace.catalogs")
    return tuple(str(getattr(one, "__path__", [one])[0]) for one in found)


@cache
def _catalog_files_in(directory: str) -> tuple[CatalogFile, ...]:
    folder = File(directory)
    if not folder.is_dir():
        message = (
            f"no catalog directory '{directory}'; create it, or correct --catalog or {VARIABLE}"
        )
        raise InvalidScenarioError([Problem("unreadable", message, FilePosition(directory))])
    prefix = "foretrace:catalog" if folder == OURS else directory
    return tuple(CatalogFile(f, f"{prefix}/{f.name}") for f in sorted(folder.glob("*.yaml")))


def values_without_source(tree: TreeNode) -> list[Problem]:
    """Problems of a catalog tree: values that have no source."""
    found = []
    for parts in tree.mapping.values():
        for path, leaf in leaf_nodes(parts):
            if len(path) < 2:
                message = "not a part; write it like {NAME: {bandwidth: {value: …, source: …}}}"
                found.append(Problem("catalog", message, leaf.label))
            elif leaf.source is None:
                message = f"'{path[-1]}' has no source; write {{value: …, source: {{kind: …}}}}"
                found.append(Problem("source", message, leaf.label))
    return found
