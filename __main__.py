"""The command line: ``foretrace``, or ``python -m foretrace``."""

from __future__ import annotations

import atexit
import gc
from typing import NoReturn

__all__ = ["main"]

_OBJECTS = 50_000  # made before Python looks for circles among them


def main() -> NoReturn:
    """Run the command line and leave with its exit code.

    Nearly all that a command makes lives until it ends: looking through it at Python's own pace
    takes 0.4 s of ``foretrace run first``, and to look for circles once more when all of it is
    about to end anyway 0.1 to 0.4 s.
    """
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)
    from .scenarios.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
