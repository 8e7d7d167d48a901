"""Do the examples run?  Those of every module, of the README and of every page."""

import configparser
import doctest
import glob
import importlib
import itertools
import os
import pkgutil
import re
import shlex
import sys
from pathlib import Path

import foretrace
import pytest
import typer
from by_day import every
from foretrace.scenarios.config.schema import scenario_model
from foretrace.sim.facts.backend import BACKENDS
from foretrace.sim.run.process import PROCESSES
from foretrace.sim.run.workload import WORKLOADS
from typer.testing import CliRunner

ROOT = Path(foretrace.__file__).resolve().parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(foretrace.__path__, "foretrace.")
    if ".build." not in m.name
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILE = re.compile(r"^```\w+ ([\w./-]+)\n(.*?)^```$", re.M | re.S)
SHELL = re.compile(r"^```(console|sh)\n(.*?)^```$", re.M | re.S)
RUN = ("README.md", "tutorial.md", "planner.md", "howto.md")  # pages whose commands are run
MAKES = {"make run": "foretrace run first"}  # the command of a target
sys.path.append(str(ROOT / "docs"))  # generated.py
SHOWN = re.compile(r"^```text\n(.*?)^```$", re.M | re.S)  # what the commands print, "…" for more
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


@pytest.mark.parametrize("name", every(4, ["foretrace", *MODULES]))
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


def commands_of(page):
    """Commands of ours in blocks of a shell, each with whether its page runs it."""
    return shown_commands(page.read_text(), runs=page.name in RUN)


def shown_commands(text, runs):
    for kind, block in SHELL.findall(text):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            for part in line.removeprefix("$ ").split(" && "):
                words = shlex.split(part, comments=True)
                words = MAKES.get(" ".join(words), "").split() or words
                if words[:1] == ["foretrace"]:
                    yield words[1:], kind == "console" and runs


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_page_and_their_options_exist(page):
    from foretrace.scenarios.cli.app import app, load_plugin_commands

    load_plugin_commands([])
    top = typer.main.get_command(app)

    for words, _ in commands_of(page):
        command = top
        told = itertools.takewhile(lambda w: w != "--", words)
        for word in told:
            below = getattr(command, "commands", {})
            command = below.get(word, command)
            if word.startswith("-") and not word.lstrip("-").isdigit():
                known = {o for p in command.params for o in p.opts} | {"-h", "--help"}
                completion = {"--install-completion", "--show-completion"}
                assert word.partition("=")[0] in known | completion, f"{page.name}: {words}"
        assert not hasattr(command, "commands") or len(words) == 1, f"{page.name}: {words}"


@pytest.mark.nightly  # half a minute; CI does it where it builds the pages
@pytest.mark.parametrize("name", RUN)
def test_a_page_does_what_it_says(name, tmp_path, monkeypatch, own_names):
    """Files that it shows are written, its commands run in their order, and say what it says."""
    from foretrace.scenarios.cli.app import app, load_plugin_commands

    load_plugin_commands([])

    (page,) = (page for page in PAGES if page.name == name and page.parent.name != "decisions")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")
    printed: list[str] = []
    for file, text in FILE.findall(page.read_text()):
        (tmp_path / file).write_text(text)
    for words, runs in commands_of(page):
        if runs:
            words = [name for word in words for name in sorted(glob.glob(word)) or [word]]
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, f"{words}: {done.output} {done.exception}"
            printed += done.output.split()
    shown = re.split(r"\n|…", "\n".join(SHOWN.findall(page.read_text())))
    assert [part for part in shown if " ".join(part.split()) not in " ".join(printed)] == []


TRAINING = """\
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""  # what the page calls train.py and s.yaml
COUPLED = "foretrace: 1\nname: s\nextends: foretrace:host-check\nhil: {mode: coupled, swap: []}\n"
MISSING_DEVICE = 4


@pytest.mark.nightly  # measures this machine
@pytest.mark.parametrize(("title", "needs"), [
    ("Record a trace of your own", "torch"),
    ("Put a device in the place of a model", None),
    ("Calibrate", None),
])  # fmt: skip
def test_commands_for_devices_run_until_one_is_missing(title, needs, cli, tmp_path, monkeypatch):
    """Those that how-to shows without running them: of one section, in their order."""
    if needs:
        pytest.importorskip(needs)
    monkeypatch.chdir(tmp_path)
    here = [os.path.dirname(sys.executable), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(here))
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "s.yaml").write_text(COUPLED)
    page = (ROOT / "docs/howto.md").read_text()
    section = re.search(rf"^## {title}$.*?(?=^## |\Z)", page, re.M | re.S)[0]
    codes = []
    for words, runs in shown_commands(section, runs=True):
        if not runs and MISSING_DEVICE not in codes:
            words = [name for word in words for name in sorted(glob.glob(word)) or [word]]
            code, out, err = cli(*words)
            codes.append(code)
            assert code in (0, MISSING_DEVICE), f"{words}: {out} {err}"
    assert 0 in codes


@pytest.fixture
def own_names():
    """What plug-ins of a page register is forgotten after it."""
    from foretrace.scenarios.config.settings import known_backends, known_workloads

    known_backends(), known_workloads()  # ours are imported when they are first asked for
    tables = (BACKENDS, PROCESSES, WORKLOADS)
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        for name in set(table) - names:
            del table[name]
    scenario_model.cache_clear()


def test_the_reference_has_everything():
    generated = pytest.importorskip("generated", reason="the pages' own extension needs Sphinx")
    from foretrace.scenarios.config.metrics import known_metrics
    from foretrace.scenarios.config.settings import known_backends, known_processes

    told = {part: "\n".join(make()) for part, make in generated.PARTS.items()}
    page = (ROOT / "docs" / "reference.md").read_text()
    assert all(f"```{{generated}} {part}\n" in page for part in told)
    assert all(f"| `{m.name}` |" in told["metrics"] for m in known_metrics().values())
    assert all(m.definition in told["metrics"] for m in known_metrics().values())
    assert all(f"**`{name}`**" in told["backends"] for name in known_backends())
    assert all(f"**`{name}`**" in told["processes"] for name in known_processes())
    assert "| `cluster.node.nic.bandwidth` | " in told["settings"]
    assert "**`foretrace run " in told["commands"]
    assert "| 130 |" in told["exit_codes"]
    assert "datasheet" in told["catalog"]
