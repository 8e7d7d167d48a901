"""Drivers that only an agent has, found by parsing the files it loads without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ...sim.errors import DriverFault, ScenarioError
from ..driver_registry import known_drivers
from .address import Address, agents_file_path, listed_agents
from .command import load_driver_file


def registered_driver_names(text: str) -> list[str]:
    r"""Names that a file registers with ``@driver("name")``.

    >>> registered_driver_names("@driver('sort')\nclass S(Driver): pass")
    ['sort']
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []  # running the file reports what is wrong with it
    return [
        n for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for n in _driver_names(node)
    ]


def _driver_names(node: ast.ClassDef) -> Iterator[str]:
    for call in node.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "driver":
            arguments = [a.value for a in call.args if isinstance(a, ast.Constant)]
            yield from (name for name in arguments if isinstance(name, str))


def agent_has_driver(driver: str, agent: str) -> bool | None:
    """True if an agent has a driver; None if only connecting to the agent could tell.

    Raises
    ------
    ScenarioError
        The user's list of agents, or a file that it names, cannot be read.
    """
    if driver in known_drivers():
        return True
    address = listed_agents().get(agent)
    if address is None:
        return None if agent else False
    if driver in _loaded_files(address):
        return True
    return None if address.ssh or address.socket or address.python else False


def agent_driver_names(agent: str) -> list[str]:
    """Names of the drivers known for an agent without connecting to it.

    Built-in drivers come first.
    """
    address = listed_agents().get(agent)
    return [*known_drivers(), *(_loaded_files(address) if address else ())]


def _loaded_files(address: Address) -> list[str]:
    return [
        name
        for file in _driver_files(address)
        for name in registered_driver_names(_read_text(address, file))
    ]


def _driver_files(address: Address) -> list[Path]:
    """Files of an agent's own drivers; for a remote agent, only those with a copy on this machine.

    A remote agent resolves relative paths from its home folder, so copies are searched in ours.
    """
    paths = [Path(file).expanduser() for file in address.load]
    return [f for f in (Path.home() / f for f in paths) if f.is_file()] if address.ssh else paths


def import_agent_driver(driver: str, agent: str) -> None:
    """Import the file of an agent's driver on this side too, because ``covers`` is called here.

    Raises
    ------
    DriverFault
        No file on this machine registers the driver, or this Python cannot import the file.
    """
    for file in files_with_driver(driver, agent):
        _load_file(file)
        return
    raise DriverFault(
        "missing",
        f"no driver '{driver}' on this machine, which must know what its samples cover; "
        f"{unknown_driver_cure(agent)}, or install the package that brings it",
    )


def files_with_driver(driver: str, agent: str) -> list[Path]:
    """Files of an agent that register the given driver; empty for a built-in driver."""
    address = listed_agents().get(agent) or Address()
    return [
        file
        for file in _driver_files(address)
        if driver in registered_driver_names(_read_text(address, file))
    ]


def unknown_driver_cure(agent: str) -> str:
    """Advice for an error message: how to make an agent's driver known on this machine."""
    address = listed_agents().get(agent)
    listed = f"list its file under load: of '{agent}' in {agents_file_path()}"
    if address is None or not address.ssh:
        return listed
    return f"{listed} and keep a copy here, at the same path: that agent is on another machine"


def _load_file(file: Path) -> None:
    try:
        load_driver_file(file)
    except ImportError as error:
        raise DriverFault(
            "broken",
            f"{file}: {error}; import it inside the methods that need it: both machines read "
            "this file, but only the agent's Python needs that module",
        ) from error


def _read_text(address: Address, file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise ScenarioError(
            f"agent {address.name}: load: {file}: {error.strerror}; correct {agents_file_path()}"
        ) from error
