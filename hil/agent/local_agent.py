"""Start an agent on this machine with the current Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .bundle import ROOT
from .client import RemoteDriver
from .transport import start_agent_process

# libraries of linear algebra read these once, when they are loaded
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def agent_command() -> list[str]:
    """Command that starts an agent with the code of this process: the package or the bundle."""
    if ROOT.parent.is_file():
        return [sys.executable, str(ROOT.parent)]
    return [sys.executable, "-P", "-m", "foretrace.hil.agent"]


def in_agent_process(driver: str, load: Sequence[Path] = ()) -> RemoteDriver:
    """Start a new agent process on this machine and connect to a driver in it.

    Parameters
    ----------
    load : files of the user's own drivers
    """
    words = [word for file in load for word in ("--load", str(file))]
    command = [*agent_command(), "--stdio", *words]
    return RemoteDriver(start_agent_process(command, ONE_THREAD), driver)
