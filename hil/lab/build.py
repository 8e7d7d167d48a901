"""Building the lab: what is not there yet, machine by machine, each booted before it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...sim.errors import DriverFault, HardwareUnavailable
from ..driver import Missing
from . import disk, kernel, qemu, root
from .boot import booted
from .debian import Packages
from .store import GUEST_DISK, GUEST_INITRD, GUEST_KERNEL, ROOT, UML_KERNEL, home

Step = Callable[[Packages], object]
STEPS: dict[str, tuple[tuple[str, tuple[str, ...], Step], ...]] = {
    "uml": (
        ("the programs", (ROOT,), lambda p: root.build(p, root.RDMA + root.COLLECTIVES)),
        ("the kernel, about five minutes of a core", (UML_KERNEL,), kernel.build),
    ),
    "qemu": (
        ("QEMU", (qemu.PROGRAM,), qemu.build),
        ("kernel and disk", (GUEST_KERNEL, GUEST_INITRD, GUEST_DISK), disk.build),
    ),
}


def build(machines: Sequence[str], again: bool, tell: Callable[[str], None]) -> list[str]:
    """Build what is not there; returns the machines that are there now.

    Raises
    ------
    HardwareUnavailable
        A tool is missing, or a step failed.
    """
    wanted = list(machines) or list(STEPS)
    if unknown := [name for name in wanted if name not in STEPS]:
        raise DriverFault("missing", f"lab: no machine {unknown[0]!r}; one of {', '.join(STEPS)}")
    packages = Packages(home() / "apt")
    fresh = False
    for machine in wanted:
        for what, parts, step in STEPS[machine]:
            if again or not all((home() / part).exists() for part in parts):
                if not fresh:
                    packages.update()
                    fresh = True
                tell(f"{machine}: building {what}")
                step(packages)
    return wanted


def check(machine: str) -> str:
    """Boot it and have its RDMA driver do one write; what it said.

    Raises
    ------
    HardwareUnavailable
        It does not boot, or its driver does not work.
    """
    driver = booted(machine, "verbs")
    try:
        state = driver.probe()
    finally:
        driver.close()
    if isinstance(state, Missing):
        raise HardwareUnavailable(f"lab: {machine} boots, but {state.reason}; say lab up --again")
    facts = ", ".join(f"{k} {v}" for k, v in state.facts.items())
    return f"boots; {len(state.devices)} RDMA devices: {facts}"
