"""What others add: files that a scenario names, and packages that are installed.

``plugins: [file.py]`` in a scenario runs a file, relative to the scenario, which registers backends
(``@backend``), processes, workloads, kinds of part, topologies, collective algorithms or sections
of reports as our own modules do.  An installed package does the same through entry points.  A
plug-in runs with all the rights of its user: load only those that you trust.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import TracebackType
from typing import Any

from ...models.network import leaf_spine as leaf_spine  # ours first: their names are taken
from ...models.network.algorithms import ALGORITHMS
from ...models.network.steps import Algorithm, check_algorithm
from ...models.network.wiring import TOPOLOGIES, Topology
from ...models.parts import PARTS, NodePart
from ...reports.section import SECTIONS
from ...sim.backend import BACKENDS, Backend
from ...sim.process import PROCESSES
from ...sim.workload import WORKLOADS, Workload
from .problems import InvalidScenarioError, Problem, Spot

PREFIX = "foretrace_plugin_"  # of the modules that files become
GROUPS = tuple(
    f"foretrace.{kind}" for kind in ("backends", "sections", "workloads", "catalogs", "commands")
)


def load_file(file: Path, spot: Spot) -> None:
    """Run a plug-in once in a process.

    Parameters
    ----------
    file : of Python
    spot : where it is named

    Raises
    ------
    InvalidScenarioError
        It is not there, or fails.
    """
    try:
        text = file.read_bytes()
    except OSError as error:
        message = f"plug-in '{file.name}' cannot be read: {error.strerror}; correct the path"
        raise InvalidScenarioError([Problem("plug-in", message, spot)]) from error
    digest = hashlib.sha256(text).hexdigest()[:12]
    name = f"{PREFIX}{file.stem}_{digest}"
    if name in sys.modules:
        return
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        message = f"plug-in '{file.name}' is no Python file; give one that ends in .py"
        raise InvalidScenarioError([Problem("plug-in", message, spot)])
    module = importlib.util.module_from_spec(found)
    _take_back(file)  # it was edited since
    before = _names()
    sys.modules[name] = module  # before it runs: what it defines can then be pickled
    try:
        found.loader.exec_module(module)
        _registered[file] = _names() - before
        _check(file, spot)
    except InvalidScenarioError:
        unload(file)
        raise
    except Exception as error:
        message = _failed(file.name, error)
        _registered[file] = _names() - before
        unload(file)
        raise InvalidScenarioError([Problem("plug-in", message, spot)]) from error
    finally:
        _forget()


def unload(file: Path) -> None:
    """Take away what a file put into the tables, as if it had not been run; for tests, too.

    Sections, types of workload and metrics of its stay.
    """
    _take_back(file)
    for name, module in list(sys.modules.items()):
        if name.startswith(PREFIX) and getattr(module, "__file__", None) == str(file):
            del sys.modules[name]
    _forget()


def _take_back(file: Path) -> None:
    for table, name in _registered.pop(file, ()):
        tables()[table].pop(name, None)


def _check(file: Path, spot: Spot) -> None:
    """Refuse what a scenario could not use: constructors that are no schema, missing methods."""
    from .part_specs import OURS
    from .settings import schema_of

    for table, name in sorted(_registered[file]):
        made = tables()[table][name]
        if table == "section":
            continue
        try:
            if isinstance(made, Algorithm):
                check_algorithm(made)
                continue
            if made in PARTS.values() and name in OURS:
                raise TypeError("there is such a kind of part already; take another name")
            _callable(table, made)
            schema_of(made)
        except (TypeError, NameError, ValueError) as error:
            message = f"plug-in '{file.name}': {table} '{name}': {error}"
            raise InvalidScenarioError([Problem("plug-in", message, spot)]) from error


VERBS = {
    "backend": ("timing(self, ops, now=0.0)",),
    "process": ("__call__(self, sim)",),
    "part": ("components(self, name)",),
    "topology": ("components(self, adapters, switch)", "routes(self, a, b)"),
    "workload": ("start(self, job)",),
}


def _callable(table: str, cls: Any) -> None:
    """Refuse what could not be asked when its turn comes.

    Raises
    ------
    TypeError
        Says what to write.
    """
    for wanted in VERBS[table]:
        _has(table, cls, wanted)


def _has(table: str, cls: Any, wanted: str) -> None:
    """Refuse a class without one of the methods that it is asked by."""
    verb, _, arguments = wanted.partition("(")
    if not isinstance(cls, type):
        raise TypeError(f"{cls.__name__} is no class; write one with 'def {wanted}'")
    found = next((c.__dict__[verb] for c in cls.__mro__ if verb in c.__dict__), None)
    if found is None or found in UNWRITTEN:
        raise TypeError(f"{cls.__name__} has no {verb}(); write 'def {wanted}'")
    told = inspect.signature(found)
    try:
        told.bind(*arguments.rstrip(")").split(", "))
    except TypeError:
        raise TypeError(f"{verb}{told} cannot be asked; write 'def {wanted}'") from None
    if table == "process" and not inspect.isgeneratorfunction(found):
        raise TypeError(f"{verb}{told} never yields; write 'yield sim.wait(seconds)' to wait")


def _yielded(error: BaseException) -> str:
    """Which plug-in yielded what nobody can wait for; SimPy tells the place as text."""
    said = re.search(r'File "(.+)", line (\d+)(?:.|\n)*Invalid yield value "(.*)"', str(error))
    files = {getattr(m, "__file__", "") for n, m in sys.modules.items() if n.startswith(PREFIX)}
    if said is None or said[1] not in files:
        return ""
    return (
        f"plug-in '{Path(said[1]).name}' fails in line {said[2]}: it yields {said[3]!r}; "
        "yield sim.wait(seconds) or another thing to wait for"
    )


def blamed(error: BaseException) -> str:
    """Which plug-in an unexpected error came from, and where in it; "" for none of them."""
    told, step = _yielded(error), error.__traceback__
    if error.__cause__ is not None:  # SimPy raises the error of a process again
        told = told or blamed(error.__cause__)
    while step is not None and not told:
        name = step.tb_frame.f_globals.get("__name__", "")
        if name.startswith(PREFIX):
            file = Path(step.tb_frame.f_code.co_filename).name
            where = f"plug-in '{file}' fails in line {step.tb_lineno}"
            told = f"{where}: {type(error).__name__}: {error}; mend it or take it out"
        step = step.tb_next
    return told


def inside(error: BaseException) -> TracebackType | None:
    """The steps of an error from where it entered a plug-in; None where it did not."""
    step = error.__traceback__
    while step is not None and not step.tb_frame.f_globals.get("__name__", "").startswith(PREFIX):
        step = step.tb_next
    return step or (inside(error.__cause__) if error.__cause__ is not None else None)


UNWRITTEN = (
    Backend.timing,
    NodePart.components,
    Topology.components,
    Topology.routes,
    Workload.start,
)


def tables() -> dict[str, dict[str, Any]]:
    """What files may add to, by what it holds."""
    algorithms = {f"algorithm of {name}": table for name, table in ALGORITHMS.items()}
    return {
        "backend": BACKENDS,
        "process": PROCESSES,
        "workload": WORKLOADS,
        "part": PARTS,
        "topology": TOPOLOGIES,
        "section": SECTIONS,
        **algorithms,
    }


_registered: dict[Path, set[tuple[str, str]]] = {}
"""What files registered: the table, and the name in it."""


def _names() -> set[tuple[str, str]]:
    return {(table, name) for table, names in tables().items() for name in names}


def _failed(name: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):  # nothing of it ran, so that no frame is in it
        return f"plug-in '{name}' fails in line {error.lineno}: {error.msg}; mend it or take it out"
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" in line {last.tb_lineno}" if last is not None else ""
    return f"plug-in '{name}' fails{where}: {type(error).__name__}: {error}; mend it or take it out"


def _forget() -> None:
    """What was derived from the names that were known before."""
    from . import part_specs, schema, settings

    settings.settings_of.cache_clear()
    part_specs.entry_model.cache_clear()
    part_specs.part_model.cache_clear()
    part_specs.join_model.cache_clear()
    schema.root.cache_clear()


def load_installed(group: str) -> list[object]:
    """What installed packages bring for one purpose.

    Raises
    ------
    InvalidScenarioError
        One of them fails; it is named with its package.
    """
    return [_loaded(point) for point in entry_points(group=group)]


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist else "an installed package"
        message = (
            f"plug-in '{point.name}' of {package} fails: {type(error).__name__}: {error}; mend it, "
            f"or pip uninstall {package}"
        )
        raise InvalidScenarioError([Problem("plug-in", message, Spot(point.value))]) from error


def installed(group: str) -> dict[str, str]:
    """Plug-ins of a group by name, each with what is wrong with it; "" for nothing."""
    found = {}
    for point in entry_points(group=group):
        try:
            _loaded(point)
        except InvalidScenarioError as error:
            found[point.name] = error.problems[0].message
        else:
            found[point.name] = ""
    return found
