"""Starting an agent on this machine, under our own Python."""

from __future__ import annotations

import sys

from .bundle import ROOT
from .client import Remote
from .transport import child

# libraries of linear algebra read these once, when they are loaded
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def own() -> list[str]:
    """The command of an agent like us: of this package, or of the one file that we came in."""
    if ROOT.parent.is_file():
        return [sys.executable, str(ROOT.parent)]
    return [sys.executable, "-P", "-m", "foretrace.hil.agent"]


def started(driver: str) -> Remote:
    """A driver in a process of its own."""
    return Remote(child([*own(), "--stdio"], ONE_THREAD), driver)
