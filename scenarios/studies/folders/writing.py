"""Context manager for writing to a user's path; an error names the option to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....sim.errors import ScenarioError


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Context manager that turns a failure to write ``path`` into an error that names the option.

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
