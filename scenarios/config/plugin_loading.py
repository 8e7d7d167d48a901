"""Plug-ins that a scenario lists as files: loaded once, checked, and unloaded when edited.

``plugins: [file.py]`` in a scenario runs a file, relative to the scenario. The file registers
backends (``@backend``), processes, workloads, media, kinds of part, topologies, collective
algorithms, kinds of op, roles or report sections, as the built-in modules do. An installed
package does the same through entry points. A plug-in runs with all the rights of its user: load
only plug-ins that you trust.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from ...models.network.collective.algorithms import ALGORITHMS
from ...models.network.collective.steps import Algorithm, check_algorithm
from ...models.network.topology import topology as topology  # ours first: their names are taken
from ...models.network.topology.wiring import TOPOLOGIES, Topology
from ...models.parts import PARTS, NodePart
from ...reports.figure_kind import ON_PAGE, ON_PAPER
from ...reports.section import SECTIONS
from ...sim.engine_api.medium_api import MEDIA, Kernels, Medium
from ...sim.facts.backend import BACKENDS, Backend
from ...sim.facts.kind import KINDS, ROLES
from ...sim.run.process import PROCESSES
from ...sim.run.workload import WORKLOADS, Workload
from .part_specs import OURS, entry_model, part_link_model, part_model
from .plugin_errors import PREFIX
from .problems import FilePosition, InvalidScenarioError, Problem
from .schema import scenario_model
from .settings import backend_settings_model, constructor_model


def load_plugin_file(file: Path, spot: FilePosition) -> None:
    """Load a plug-in file, once per process.

    Parameters
    ----------
    file : Python file
    spot : position in the scenario that lists it

    Raises
    ------
    InvalidScenarioError
        The file does not exist, or fails.
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
        message = f"plug-in '{file.name}' is not a Python file; give a file that ends in .py"
        raise InvalidScenarioError([Problem("plug-in", message, spot)])
    module = importlib.util.module_from_spec(found)
    _unregister_plugin_file(file)  # it was edited since
    before = _registered_names()
    sys.modules[name] = module  # before it runs: what it defines can then be pickled
    try:
        found.loader.exec_module(module)
        _registered[file] = _registered_names() - before
        _check_plugin(file, spot)
    except InvalidScenarioError:
        unload_plugin_file(file)
        raise
    except Exception as error:
        message = _failure_message(file.name, error)
        _registered[file] = _registered_names() - before
        unload_plugin_file(file)
        raise InvalidScenarioError([Problem("plug-in", message, spot)]) from error
    finally:
        _clear_cached_models()


def unload_plugin_file(file: Path) -> None:
    """Remove what a plug-in file registered, for an edited file and for tests.

    Its sections, workload types and metrics stay registered.
    """
    _unregister_plugin_file(file)
    for name, module in list(sys.modules.items()):
        if name.startswith(PREFIX) and getattr(module, "__file__", None) == str(file):
            del sys.modules[name]
    _clear_cached_models()


def _unregister_plugin_file(file: Path) -> None:
    for table, name in _registered.pop(file, ()):
        plugin_registries()[table].pop(name, None)


def _check_plugin(file: Path, spot: FilePosition) -> None:
    """Raise an error for a registered class with missing methods or an unusable constructor."""
    for table, name in sorted(_registered[file]):
        made = plugin_registries()[table][name]
        if table not in VERBS and not isinstance(made, Algorithm):
            continue  # no settings
        try:
            if isinstance(made, Algorithm):
                check_algorithm(made)
                continue
            if made in PARTS.values() and name in OURS:
                raise TypeError("a built-in kind of part has this name; choose another name")
            _check_callables(table, made)
            if table == "medium" and not isinstance(getattr(made, "kernels", None), Kernels):
                raise TypeError(f"{made.__name__} has no kernels; write 'kernels = Kernels(…)'")
            constructor_model(made)
        except (TypeError, NameError, ValueError) as error:
            message = f"plug-in '{file.name}': {table} '{name}': {error}"
            raise InvalidScenarioError([Problem("plug-in", message, spot)]) from error


VERBS = {
    "backend": ("timing(self, ops, now=0.0)",),
    "process": ("__call__(self, sim)",),
    "part": ("components(self, name)",),
    "topology": ("components(self, adapters, switch)", "routes(self, a, b)"),
    "workload": ("start(self, job)",),
    "medium": ("plain(self, rates)", "ports(self, rates)"),
}


def _check_callables(table: str, cls: Any) -> None:
    """Raise TypeError if a class lacks a method that its registry requires.

    Raises
    ------
    TypeError
        The message says which method to write.
    """
    for wanted in VERBS[table]:
        _check_methods(table, cls, wanted)


def _check_methods(table: str, cls: Any, method: str) -> None:
    """Raise TypeError if a class lacks one method with the required arguments."""
    verb, _, arguments = method.partition("(")
    if not isinstance(cls, type):
        raise TypeError(f"{cls.__name__} is not a class; write a class with 'def {method}'")
    found = next((c.__dict__[verb] for c in cls.__mro__ if verb in c.__dict__), None)
    if found is None or found in UNWRITTEN:
        raise TypeError(f"{cls.__name__} has no {verb}(); write 'def {method}'")
    told = inspect.signature(found)
    try:
        told.bind(*arguments.rstrip(")").split(", "))
    except TypeError:
        raise TypeError(f"{verb}{told} takes other arguments; write 'def {method}'") from None
    if table == "process" and not inspect.isgeneratorfunction(found):
        raise TypeError(f"{verb}{told} never yields; write 'yield sim.wait(seconds)' to wait")


UNWRITTEN = (
    Backend.timing,
    Medium.plain,
    Medium.ports,
    NodePart.components,
    Topology.components,
    Topology.routes,
    Workload.start,
)


def plugin_registries() -> dict[str, dict[str, Any]]:
    """Registries that plug-ins may add to, by the kind of thing they hold."""
    algorithms = {f"algorithm of {name}": table for name, table in ALGORITHMS.items()}
    return {
        "backend": BACKENDS,
        "process": PROCESSES,
        "medium": MEDIA,
        "workload": WORKLOADS,
        "part": PARTS,
        "topology": TOPOLOGIES,
        "section": SECTIONS,
        "role": ROLES,
        "kind of op": KINDS,
        "drawing for pages": ON_PAGE,
        "drawing for papers": ON_PAPER,
        **algorithms,
    }


_registered: dict[Path, set[tuple[str, str]]] = {}
"""Registrations made by each file: (registry, name)."""


def _registered_names() -> set[tuple[str, str]]:
    return {(table, name) for table, names in plugin_registries().items() for name in names}


def _failure_message(name: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):  # the file did not run: the traceback has no frame of it
        return (
            f"plug-in '{name}' fails in line {error.lineno}: {error.msg}; fix it, or remove it "
            "from 'plugins'"
        )
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" in line {last.tb_lineno}" if last is not None else ""
    return (
        f"plug-in '{name}' fails{where}: {type(error).__name__}: {error}; fix it, or remove it "
        "from 'plugins'"
    )


def _clear_cached_models() -> None:
    """Clear cached models that depend on the registered names."""
    for derived in (
        backend_settings_model,
        entry_model,
        part_model,
        part_link_model,
        scenario_model,
    ):
        derived.cache_clear()
