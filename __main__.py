"""The command line: ``foretrace``, or ``python -m foretrace``."""

from __future__ import annotations

from .scenarios.commands.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
