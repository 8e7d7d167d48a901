"""The catalog: the only place where hardware facts live, each with its source.

A file maps kinds to names to settings::

    nic:
      connectx-7:
        bandwidth: {value: 400 Gb/s, source: {kind: datasheet, where: …, date: …}}

Our own files are in ``models/catalog/``; a directory of one's own comes with the environment
variable ``FORETRACE_CATALOG`` and wins, and so does ``catalog:`` in a scenario.
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
    """A catalog file, read when something in it is asked for."""

    file: File
    shown: str

    @cached_property
    def text(self) -> str:
        """Text of the file."""
        return read_text_file(self.file, self.shown)

    @cached_property
    def tree(self) -> TreeNode:
        """Kinds to names to settings.

        Raises
        ------
        InvalidScenarioError
            No YAML, an unknown kind, or a value without a source.
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
    """Hardware parts by kind and name, from several files; later files override earlier ones.

    Parameters
    ----------
    files : files
    own : kinds to names to settings, of a scenario itself

    Examples
    --------
    >>> "h100-sxm5-80g" in installed().names("gpu")
    True
    """

    files: tuple[CatalogFile, ...] = ()
    own: TreeNode | None = None

    def names(self, kind: str) -> tuple[str, ...]:
        """All parts of a kind."""
        trees = [*(s.tree for s in self.files), *((self.own,) if self.own else ())]
        found = {n for t in trees if t.has(kind) for n in t[kind].mapping}
        return tuple(sorted(found))

    def entry(self, kind: str, name: str) -> TreeNode | None:
        """The entry of a part; None for an unknown one."""
        found = find_node(self.own, (kind, name)) if self.own else None
        likely = (s.tree for s in reversed(self.files) if name in s.text)
        return found or next((n for t in likely if (n := find_node(t, (kind, name)))), None)

    def with_own_parts(self, parts: TreeNode) -> Catalog:
        """The catalog with the parts that a scenario defines itself."""
        return replace(self, own=with_layer(parts, "catalog"))


def installed(directories: Iterable[str] = ()) -> Catalog:
    """Catalog of files: bundled, of packages, of ``FORETRACE_CATALOG``, given; later ones win.

    Raises
    ------
    InvalidScenarioError
        A directory that is not there.
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
    """Directories that installed packages bring: of a package, its folder."""
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
    """Problems of a catalog file: values without a source."""
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
