"""Does every folder import one way, and does every name stand for one thing?"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import foretrace
import pytest

ROOT = Path(foretrace.__file__).resolve().parent
FOLDERS = ("sim", "models", "hil", "traces", "scenarios", "reports", "plugins")
TWINS = ("sim/reference/", "sim/core/", "sim/media/")  # one meaning, two engines: names agree
BY_USE = ("scenarios/cli/", "scenarios/config/sections/")  # named as commands and sections are
OF_PYTHON = {"__init__", "__main__"}

Imports = Mapping[str, Iterable[str]]


@cache
def sources() -> dict[str, ast.Module]:
    """Syntax tree of every module of the product, by its path from the root."""
    files = (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))
    return {str(f.relative_to(ROOT)): ast.parse(f.read_text()) for f in files}


def statements(tree: ast.AST, types: bool) -> Iterator[ast.AST]:
    """Statements of a tree, in functions too; those under ``if TYPE_CHECKING`` where ``types``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):  # holds no statement
            continue
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from statements(node, types)


def imported(module: str, tree: ast.Module, known: Iterable[str], types: bool = False) -> set[str]:
    """Modules among ``known`` that one imports relatively, by their paths.

    Parameters
    ----------
    types : whether imports for types alone count
    """
    known, names = set(known), set()
    for node in statements(tree, types):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = Path(module).parents[node.level - 1]
            below = base.joinpath(*(node.module or "").split("."))
            names |= {f"{below}.py", *(f"{below / alias.name}.py" for alias in node.names)}
    return names & known - {module}


def circles(imports: Imports) -> set[frozenset[str]]:
    """Largest sets of modules in which each imports, over others or not, each other."""
    reach: dict[str, set[str]] = {}
    for start in imports:
        seen, todo = set(), list(imports[start])
        while todo:
            if (module := todo.pop()) not in seen:
                seen.add(module)
                todo += imports.get(module, ())
        reach[start] = seen
    inside = (start for start in reach if start in reach[start])
    return {frozenset(m for m in reach[s] if s in reach.get(m, ())) for s in inside}


def class_names() -> dict[str, set[str]]:
    """Modules that define a public class of each name; twins count as one module."""
    places = defaultdict(set)
    for module, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add("twins" if module.startswith(TWINS) else module)
    return places


def module_names() -> dict[tuple[str, str], set[str]]:
    """Places of a module of each name within a top folder; twins count as one place."""
    places = defaultdict(set)
    for module in sources():
        name = Path(module).stem
        if name not in OF_PYTHON and not module.startswith(BY_USE):
            twin = module.startswith(TWINS)
            places[module.split("/")[0], name].add("twins" if twin else module)
    return places


def twice(places: Mapping[object, set[str]]) -> set[object]:
    return {name for name, where in places.items() if len(where) > 1}


def circles_of_sources(types: bool) -> list[list[str]]:
    imports = {m: imported(m, tree, sources(), types) for m, tree in sources().items()}
    return sorted(sorted(c) for c in circles(imports))


def test_there_are_no_import_cycles():
    assert circles_of_sources(types=False) == []


def test_no_type_only_import_cycle_has_more_than_three_files():
    assert [c for c in circles_of_sources(types=True) if len(c) > 3] == []


def test_no_class_name_stands_twice_but_in_twins():
    places = class_names()
    assert {n: sorted(places[n]) for n in twice(places)} == {}


def test_no_module_name_stands_twice_within_a_folder():
    places = module_names()
    assert {n: sorted(places[n]) for n in twice(places)} == {}


def test_an_import_inside_a_function_counts_and_one_for_types_where_asked():
    tree = ast.parse(
        "if TYPE_CHECKING:\n    from .types import T\ndef f():\n    from ..b import c, d\n"
    )
    known = ["x/a/m.py", "x/a/types.py", "x/b.py", "x/b/c.py"]
    assert imported("x/a/m.py", tree, known) == {"x/b.py", "x/b/c.py"}
    assert imported("x/a/m.py", tree, known, types=True) == {*known[1:]}


def test_an_import_cycle_over_three_modules_is_found():
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == {frozenset("abc")}


MOST_FILES = 24


def test_no_code_folder_has_too_many_files():
    tops = (*FOLDERS, "plugins", "calibration", "tests", "docs")
    counts = Counter(f.parent for top in tops for f in (ROOT / top).rglob("*.py"))
    assert {str(d.relative_to(ROOT)): n for d, n in counts.items() if n > MOST_FILES} == {}


def test_no_contract_lists_single_files():
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    single = []
    for contract in config.sections():
        listed = config[contract].get("layers", "").replace("|", " ").split()
        home = config[contract].get("containers", "").strip()
        dotted = (name if name.startswith("foretrace.") else f"{home}.{name}" for name in listed)
        paths = (ROOT.joinpath(*name.split(".")[1:]) for name in dotted)
        single += [f"{contract}: {p}" for p in paths if not p.is_dir() and p.name != "__main__"]
    assert single == []


@cache
def defined(file: Path) -> set[str]:
    """Names that a module has, by its text; those of an ``__all__`` that are loaded late, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found | {*getattr(foretrace, "__all__", ())} if file.parent == ROOT else found


@pytest.mark.parametrize("folder", ["benchmarks", "calibration", "docs/examples/plugins"])
def test_calibration_programs_import_only_names_that_exist(folder):
    """Most of them run for minutes, on machines of their own: a name that moved is seen here."""
    gone = []
    for program in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(program.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "foretrace"
            ):
                continue
            module = ROOT.joinpath(*str(node.module).split(".")[1:])
            file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            known = defined(file) | {f.stem for f in module.glob("*")}
            gone += [f"{program.name}: {node.module}.{a.name}" for a in node.names
                     if a.name not in known]  # fmt: skip
    assert gone == []
