"""The command line: ``foretrace``, or ``python -m foretrace``."""

from __future__ import annotations

import gc
from typing import NoReturn

__all__ = ["main"]

_OBJECTS = 50_000  # made before Python looks for circles among them


def main() -> NoReturn:
    """Run the command line and leave with its exit code.

    Nearly all that a command makes lives until it ends: looking through it at Python's own pace
    takes 0.4 s of ``foretrace run first``. The last look for circles stays: without it (0.5 s)
    DuckDB complains of each object of its own that is left.
    """
    gc.set_threshold(_OBJECTS)
    from .scenarios.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
