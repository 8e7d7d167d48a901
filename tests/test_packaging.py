"""Did the design drift?  Layers, folders, public names and what an import costs."""

import ast
import builtins
import configparser
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import foretrace
import pytest

ROOT = Path(foretrace.__file__).resolve().parent
NO_CODE = {"tests", "benchmarks", "calibration", "docs", "build", "dist", "runs", "shared"}
SLOW_TO_IMPORT = {"pandas", "matplotlib", "numba", "pint", "duckdb", "torch", "scipy"}


def folders_of_code() -> list[Path]:
    """Every folder of the package that holds a Python file, the root first."""
    found = [ROOT]
    for folder, below, files in os.walk(ROOT):
        here = Path(folder)
        if here == ROOT:
            below[:] = [name for name in below if name not in NO_CODE]
        below[:] = [name for name in below if not name.startswith((".", "__"))]
        if here != ROOT and any(name.endswith(".py") for name in files):
            found.append(here)
    return found


def dotted(folder: Path) -> str:
    return ".".join(("foretrace", *folder.relative_to(ROOT).parts))


def settings() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def imported_by(program: str) -> set[str]:
    """Top-level modules, ours and others', that a fresh interpreter holds after ``program``."""
    listing = (
        "; import json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    command = [sys.executable, "-c", program + listing]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1])) - set(sys.stdlib_module_names)


def test_imports_follow_the_layers():
    lint = Path(sys.executable).with_name("lint-imports")
    command = [str(lint), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_folder_of_code_is_a_package_that_is_shipped():
    folders = folders_of_code()
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []
    shipped = settings()["options"]["packages"].split()
    assert sorted(map(dotted, folders)) == sorted(shipped)


def test_plain_pytest_means_the_default_tests(pytestconfig):
    assert pytestconfig.inipath == ROOT / "setup.cfg"
    assert pytestconfig.getini("testpaths") == ["tests"]
    assert "not nightly and not hardware" in pytestconfig.getini("addopts")


def test_the_folders_of_tests_are_no_packages():
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_every_data_file_is_shipped():
    patterns = settings()["options.package_data"]
    packages, lost = folders_of_code(), []
    for folder in packages[1:]:
        shipped = {
            f
            for p in re.split(r"[\s,]+", patterns.get(dotted(folder), ""))
            if p
            for f in folder.glob(p)
        }
        inside = [folder, *(f for f in folder.rglob("*") if f.is_dir())]
        own = [f for f in inside if max(p for p in packages if f.is_relative_to(p)) == folder]
        files = {f for d in own if d.name != "__pycache__" for f in d.iterdir() if f.is_file()}
        lost += sorted(f for f in files - shipped if f.suffix not in {".py", ".md"})
    assert lost == []


def is_ours(file: Path) -> bool:
    inside = file.relative_to(ROOT).parts if file.is_relative_to(ROOT) else (".",)
    return not any(part.startswith(".") for part in inside)


def test_no_module_is_loaded_twice():
    seen: dict[Path, str] = {}
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/").resolve()
        if name != "__main__" and is_ours(file):
            first = seen.setdefault(file, name)
            assert first == name, f"{file} is loaded as {first} and as {name}"
    assert ROOT / "__init__.py" in seen


def test_importing_foretrace_loads_numpy_and_nothing_heavier():
    extra = imported_by("import foretrace") - imported_by("pass")
    assert extra <= {"foretrace", "numpy"}


def test_the_simulator_is_imported_without_what_compiles_kernels():
    loaded = imported_by("import foretrace.sim.run.simulation")
    assert loaded & SLOW_TO_IMPORT == set()


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_command_line_starts_without_the_heavy_libraries(argument):
    program = f"""
import sys
from foretrace.__main__ import main
sys.argv = ["foretrace", {argument!r}]
try: main()
except SystemExit as done: assert not done.code, done.code
"""
    loaded = imported_by(program.strip() + "\nNone")
    assert "foretrace" in loaded
    assert loaded & SLOW_TO_IMPORT == set()


def test_every_public_name_of_the_package_exists():
    assert foretrace.__all__
    for name in foretrace.__all__:
        assert getattr(foretrace, name).__doc__, name


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Simulatoin"):
        foretrace.Simulatoin  # noqa: B018


def test_importing_a_submodule_does_not_need_the_root_names():
    assert importlib.import_module("foretrace.sim.facts.ops").__name__ == "foretrace.sim.facts.ops"


# Who may know the word: what counts periods for training, workloads, and the form of files.
OF_TRAINING = ("sim/run/periodic.py", "scenarios/workloads/", "scenarios/config/sections/")
PRODUCT = ("sim", "models", "hil", "traces", "scenarios", "reports", "plugins")


def identifiers(text: str) -> Iterator[str]:
    """Every identifier of a program, those inside formatted strings and names of modules too."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Constant):
            for _, value in ast.iter_fields(node):
                values = value if isinstance(value, list) else [value]
                yield from (v for v in values if isinstance(v, str))


def test_identifiers_are_found_wherever_they_stand():
    program = """
from .iteration_a import b as iteration_b
def iteration_c(iteration_d, **more): global iteration_e; f(iteration_f=x.iteration_g)
text = f"iteration {iteration_h}"
"""
    found = {n for name in identifiers(program) for n in name.split(".") if "iteration" in n}
    assert found == {f"iteration_{letter}" for letter in "abcdefgh"}


def test_no_identifier_names_an_iteration_outside_training():
    """What answers is declared by the workload; nothing above it knows what an iteration is."""
    files = [f for top in PRODUCT for f in sorted((ROOT / top).rglob("*.py"))]
    found = {
        (file.relative_to(ROOT).as_posix(), name)
        for file in [ROOT / "__init__.py", ROOT / "__main__.py", *files]
        if "iteration" in (text := file.read_text()).lower()
        for name in identifiers(text)
        if "iteration" in name.lower() and not hasattr(builtins, name)  # StopIteration
    }
    assert sorted(f for f in found if not f[0].startswith(OF_TRAINING)) == []
    assert {allowed for f, _ in found for allowed in OF_TRAINING if f.startswith(allowed)} == {
        *OF_TRAINING
    }
