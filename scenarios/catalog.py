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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as File

from .document import read
from .parts import KINDS
from .problems import Problem, nearest
from .tree import Node, leaves, relabel

OURS = File(__file__).parent.parent / "models" / "catalog"
VARIABLE = "FORETRACE_CATALOG"

Entries = Mapping[str, Mapping[str, Node]]  # by kind and name


@dataclass(frozen=True)
class Catalog:
    """Parts by kind and name.

    Examples
    --------
    >>> Catalog().names("nic")
    ()
    """

    entries: Entries = field(default_factory=dict)

    def names(self, kind: str) -> tuple[str, ...]:
        """All parts of a kind."""
        return tuple(sorted(self.entries.get(kind, {})))

    def entry(self, kind: str, name: str) -> Node | None:
        """What is known of a part; None for an unknown one."""
        return self.entries.get(kind, {}).get(name)

    def beside(self, tree: Node) -> Catalog:
        """Itself and the parts of one more tree, which win."""
        merged = {kind: dict(parts) for kind, parts in self.entries.items()}
        for kind, parts in tree.mapping.items():
            for name, part in parts.mapping.items():
                merged.setdefault(kind, {})[name] = relabel(part, "catalog")
        return Catalog(merged)


def installed(directories: Iterable[str | File] = ()) -> Catalog:
    """Our catalog, then those of ``FORETRACE_CATALOG``, then the given directories.

    Raises
    ------
    InvalidScenarioError
        A file that is no YAML, or a value without a source.
    """
    theirs = [d for d in os.environ.get(VARIABLE, "").split(os.pathsep) if d]
    return _installed(tuple(map(str, (OURS, *theirs, *directories))))


@cache
def _installed(directories: tuple[str, ...]) -> Catalog:
    from .problems import InvalidScenarioError

    catalog, problems = Catalog(), []
    for file in (f for d in directories for f in sorted(File(d).glob("*.yaml"))):
        shown = f"foretrace:catalog/{file.name}" if file.parent == OURS else str(file)
        tree = read(file, shown, "catalog")
        problems += faults(tree)
        catalog = catalog.beside(tree)
    if problems:
        raise InvalidScenarioError(problems)
    return catalog


def faults(tree: Node) -> list[Problem]:
    """Unknown kinds, and values that do not say where they come from."""
    found = []
    for kind, parts in tree.mapping.items():
        if kind not in KINDS:
            message = f"no kind of part is named '{kind}'{nearest(kind, KINDS)}"
            found.append(Problem("unknown-key", message, parts.label))
            continue
        for path, leaf in leaves(parts):
            if len(path) < 2:
                message = "a part is written like {NAME: {bandwidth: {value: …, source: …}}}"
                found.append(Problem("catalog", message, leaf.label))
            elif leaf.source is None:
                message = f"'{path[-1]}' has no source; write {{value: …, source: {{kind: …}}}}"
                found.append(Problem("source", message, leaf.label))
    return found
