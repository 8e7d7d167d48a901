"""Drivers that only an agent knows: found by reading the files it loads, not by running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ...sim.errors import DriverFault, ScenarioError
from ..driver_registry import known
from .address import Address, addresses, path
from .command import load


def registered(text: str) -> list[str]:
    r"""Names that a file registers with ``@driver("name")``.

    >>> registered("@driver('sort')\nclass S(Driver): pass")
    ['sort']
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []  # whoever runs it says what is wrong with it
    return [n for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for n in _names(node)]


def _names(node: ast.ClassDef) -> Iterator[str]:
    for call in node.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "driver":
            said = [a.value for a in call.args if isinstance(a, ast.Constant)]
            yield from (name for name in said if isinstance(name, str))


def knows(driver: str, agent: str) -> bool | None:
    """Whether an agent has a driver, as far as its files and ours tell; None: opening it tells.

    Raises
    ------
    ScenarioError
        The user's list, or a file that it names, cannot be read.
    """
    if driver in known():
        return True
    address = addresses().get(agent)
    if address is None:
        return None if agent else False
    if driver in _loaded(address):
        return True
    return None if address.ssh or address.socket or address.python else False


def names(agent: str) -> list[str]:
    """Of all drivers that are known for an agent without opening it, ours first."""
    address = addresses().get(agent)
    return [*known(), *(_loaded(address) if address else ())]


def _loaded(address: Address) -> list[str]:
    return [name for file in _files(address) for name in registered(_text(address, file))]


def _files(address: Address) -> list[Path]:
    """Files that it loads, as this side has them; of one elsewhere those with a copy here.

    Where a path does not say, an agent elsewhere starts in its home, so the copy is in ours.
    """
    found = [Path(file).expanduser() for file in address.load]
    return [f for f in (Path.home() / f for f in found) if f.is_file()] if address.ssh else found


def bring(driver: str, agent: str) -> None:
    """Load a driver of a local agent here too, for what a sample of it covers; opens nothing.

    Raises
    ------
    DriverFault
        It is known elsewhere only, or cannot be loaded by this Python.
    """
    address = addresses().get(agent) or Address()
    for file in _files(address):
        if driver in registered(_text(address, file)):
            _run(file)
            return
    raise DriverFault(
        "missing",
        f"no driver '{driver}' on this side, which must know what its samples cover; "
        f"{cure(agent)}, or install the package that brings it",
    )


def cure(agent: str) -> str:
    """How this side comes to know a driver of one's own that an agent has."""
    address = addresses().get(agent)
    listed = f"list its file under load: of '{agent}' in {path()}"
    if address is None or not address.ssh:
        return listed
    return f"{listed} and keep a copy here, at the same path: that agent is on another machine"


def _run(file: Path) -> None:
    try:
        load(file)
    except ImportError as error:
        raise DriverFault(
            "broken",
            f"{file}: {error}; import it inside of the methods that need it: both sides read "
            "this file, and only the agent's Python has to have it",
        ) from error


def _text(address: Address, file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise ScenarioError(
            f"agent {address.name}: load: {file}: {error.strerror}; correct {path()}"
        ) from error
