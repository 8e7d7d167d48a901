"""Findings about all hardware of a machine, and the next command to type."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from . import cxl, gpus, nics
from . import machine as machines
from .finding import Finding
from .machine import Machine

READY = {  # a device that works: what to do with it
    "nic": "foretrace drivers verbs perftest",
    "gpu": "foretrace hil plan gpu --out work",
    "cxl": "foretrace drivers cxl",
}
NOTHING = "foretrace lab up  # the kernel's own RDMA, CXL and switch drivers, in a virtual machine"
PACKAGES = ("torch", "nvidia-ml-py")


def inventory(root: Path = Path("/"), packages: frozenset[str] | None = None) -> list[Finding]:
    """All findings, in the order in which problems should be fixed; ``next`` is the last one.

    Parameters
    ----------
    root : ``/``, or a captured copy of a machine's files
    packages : installed Python packages; None to find out

    Examples
    --------
    >>> [f.name for f in inventory(Path("/nonexistent"), frozenset())]
    ['python', 'rdma', 'gpu', 'cxl', 'next']
    """
    machine = Machine(root)
    has = _installed() if packages is None else packages
    devices = [*nics.findings(machine), *gpus.findings(machine, has), *cxl.findings(machine)]
    return [*(found := [*machines.findings(machine), *devices]), _next(found)]


def _next(found: list[Finding]) -> Finding:
    """Finding with the one command to type now."""
    there = {f.name for f in found if f.state != "off"}
    if not there & set(READY):
        return Finding("next", "ok", "this machine has no such device", NOTHING)
    blocked = next((f for f in found if f.state == "bad"), None)
    if blocked is not None:
        return Finding("next", "bad", f"fix {blocked.name} first", blocked.command)
    name = next(n for n in READY if n in there)
    return Finding("next", "ok", f"{name} is ready", READY[name])


def _installed() -> frozenset[str]:
    found = set()
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            continue
        found.add(name)
    return frozenset(found)
