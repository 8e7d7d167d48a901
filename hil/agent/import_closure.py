"""Import closure: the files of this package that some of its modules need to run.

Imports are read from the source text, so nothing is imported. Only relative imports count. Blocks
under ``if TYPE_CHECKING:`` do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

Module = tuple[str, ...]  # names of folders below the root, then of the module


def import_closure(roots: Iterable[Path], package: Path) -> set[Path]:
    """Files that the given files import, directly or indirectly, and the given files themselves.

    Parameters
    ----------
    roots : files to start from, below ``package``
    package : root folder of the package

    Examples
    --------
    >>> here = Path(__file__)
    >>> sorted(file.name for file in import_closure([here], here.parent))
    ['import_closure.py']
    """
    closure: set[Path] = set()
    unread = set(roots)
    while unread:
        file = unread.pop()
        closure.add(file)
        unread |= set(_imported_files(file, package)) - closure
    return closure


def _imported_files(file: Path, package: Path) -> Iterator[Path]:
    """Yield the files that one file imports, with the ``__init__.py`` of each folder above them."""
    for module in _imported_modules(file, package):
        for depth in range(1, len(module) + 1):
            path = package.joinpath(*module[:depth])
            candidates = (path.with_suffix(".py"), path / "__init__.py")
            yield from filter(Path.is_file, candidates)


def _imported_modules(file: Path, package: Path) -> Iterator[Module]:
    """Yield the modules that a file's relative imports may name; some are names inside a module."""
    folder = file.relative_to(package).parts[:-1]
    for node in _nodes_at_run_time(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = folder[: len(folder) + 1 - node.level]
            module = above + tuple(node.module.split(".") if node.module else ())
            yield from ((*module, alias.name) for alias in node.names)


def _nodes_at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below a syntax tree node, without blocks for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield child
            yield from _nodes_at_run_time(child)
