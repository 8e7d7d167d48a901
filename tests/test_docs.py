"""Do the examples run?  Those of every module, of the README and of every page."""

import configparser
import doctest
import importlib
import os
import pkgutil
import re
from pathlib import Path

import foretrace
import pytest

ROOT = Path(foretrace.__file__).resolve().parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(foretrace.__path__, "foretrace.")
    if ".build." not in m.name
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def optional() -> set[str]:
    """Modules that only an extra brings."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    names = " ".join(v for k, v in config["options.extras_require"].items() if k != "dev").split()
    return {re.split(r"[<>=]", name)[0] for name in names} | {"pynvml", "pyverbs"}


def load(name: str):
    """The module, or a skip that names the extra it lacks."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in optional():
            pytest.skip(f"{name} needs {error.name}, which an extra brings")
        raise


@pytest.mark.parametrize("name", ["foretrace", *MODULES])
def test_examples_of_module(name, tmp_path, monkeypatch):
    module = load(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # locks of devices are this test's own
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_of_page(page, tmp_path, monkeypatch):
    """Blocks of one page are one program; those with a prompt are compared with what they print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    names: dict[str, object] = {"__name__": "__main__"}
    for found in FENCED.finditer(page.read_text()):
        code, line = found[1], page.read_text()[: found.start(1)].count("\n")
        if ">>> " in code:
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            runner = doctest.DocTestRunner(optionflags=OPTIONS)
            assert runner.run(test, clear_globs=False).failed == 0
            names = test.globs
        else:
            exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_page_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    broken = [t for t in targets if not os.path.exists(page.parent / t)]
    assert broken == []


def test_pages_that_the_code_names_exist():
    named = {
        (page, file)
        for file in ROOT.rglob("*.py")
        if not any(part.startswith(".") for part in file.relative_to(ROOT).parts)
        for page in re.findall(r"``(docs/[\w/.-]+)``", file.read_text())
        if not (ROOT / page).is_file()
    }
    assert named == set()


def test_the_page_of_definitions_is_what_the_metrics_say():
    from foretrace.scenarios.metrics import METRICS

    page = (ROOT / "docs" / "definitions.md").read_text()
    rows = [f"| `{m.name}` | {m.unit or 1} | {m.definition} |" for m in METRICS.values()]
    assert [row for row in rows if row not in page] == []
