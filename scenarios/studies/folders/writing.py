"""Writing where the user asks for it: what cannot be written names the option to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....sim.errors import ScenarioError


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Context that writes a file or folder which the user names by an option.

    Raises
    ------
    ScenarioError
        It cannot be written.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        message = f"{path}: cannot be written ({why}); choose another {option}"
        raise ScenarioError(message) from error
