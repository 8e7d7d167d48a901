"""Do docstrings and public lists say what the code says?"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import foretrace
import pytest
from by_day import every

ROOT = Path(foretrace.__file__).resolve().parent
NO_CODE = {"tests", "benchmarks", "calibration", "docs", "build", "dist", "runs", "shared"}
MODULES = sorted(
    file
    for file in ROOT.rglob("*.py")
    if not any(p in NO_CODE or p.startswith(".") for p in file.relative_to(ROOT).parts)
)
SECTION = re.compile(r"^Parameters\n-{3,}\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.M | re.S)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def documented(doc: str) -> list[str]:
    """Names that a numpydoc ``Parameters`` section lists."""
    section = SECTION.search(doc)
    heads = re.findall(r"^(\S.*?)(?: :.*)?$", section[1], re.M) if section else []
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def arguments(function: Function) -> list[str]:
    """Names of a signature, in order."""
    a = function.args
    positional = [*a.posonlyargs, *a.args, a.vararg]
    return [x.arg for x in (*positional, *a.kwonlyargs, a.kwarg) if x]


def inherited(node: ast.ClassDef, file: Path) -> list[str]:
    """Names that a class is made with by a constructor that it does not write itself."""
    module = importlib.import_module(".".join(("foretrace", *file.relative_to(ROOT).parts))[:-3])
    return list(inspect.signature(getattr(module, node.name)).parameters)


def settings_of(node: ast.ClassDef, file: Path) -> list[str]:
    """Names that a class is made with: of its ``__init__``, else its annotated fields."""
    for item in node.body:
        if isinstance(item, Function) and item.name == "__init__":
            return arguments(item)
    fields = [
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    return fields or (inherited(node, file) if node.bases else [])


def signatures(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Name, docstring and parameter names of everything that documents parameters."""
    for node in ast.walk(ast.parse(file.read_text())):
        doc = ast.get_docstring(node) if isinstance(node, Function | ast.ClassDef) else None
        if doc and documented(doc):
            known = settings_of(node, file) if isinstance(node, ast.ClassDef) else arguments(node)
            yield node.name, doc, known


def public(tree: ast.Module) -> set[str]:
    """Names without a leading underscore that a module itself defines."""
    found = set()
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")} - {"log"}


def listed(tree: ast.Module) -> list[str] | None:
    """What ``__all__`` says, where there is one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return None


def by_kind(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name (ruff's order)."""
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", every(4, MODULES), ids=name_of)
def test_documented_parameters_are_those_of_the_signature(file):
    for name, doc, known in signatures(file):
        told = documented(doc)
        assert len(set(told)) == len(told), f"{name} documents a parameter twice: {told}"
        assert set(told) <= set(known), f"{name} documents {told}, takes {known}"


@pytest.mark.parametrize("file", every(4, MODULES), ids=name_of)
def test_public_lists_are_sorted_and_complete(file):
    tree = ast.parse(file.read_text())
    names = listed(tree)
    if names is None:
        return
    assert names == sorted(set(names), key=by_kind)
    assert public(tree) - set(names) == set()


def test_a_wrong_parameter_name_is_noticed():
    section = "Parameters\n----------\na, b : int\n    Two.\n*rest\n    More.\n\n"
    doc = "One line.\n\n" + section + "Returns\n-------\nint\n    c : no\n"
    assert documented(doc) == ["a", "b", "rest"]
    (function,) = ast.parse("def f(a, b, *rest, c): ...").body
    assert arguments(function) == ["a", "b", "rest", "c"]
