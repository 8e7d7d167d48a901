"""Building the lab: what is not there yet, machine by machine, each booted before it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ...sim.errors import DriverFault, HardwareUnavailable
from ..driver import Missing
from . import disk, initramfs, kernel, qemu, tools
from .booted_agent import booted
from .build_cache import (
    GUEST_DISK,
    GUEST_INITRD,
    GUEST_KERNEL,
    ROOT,
    UML_KERNEL,
    home,
    recipes,
    stamp,
)
from .debian import Packages


@dataclass(frozen=True)
class BuildStep:
    """One step of building a machine.

    Parameters
    ----------
    what : is built
    parts : what it leaves, its own one first
    do : builds it
    of : what we decide that it is made of; where that changes it is built anew
    """

    what: str
    parts: tuple[str, ...]
    do: Callable[[Packages], object]
    of: Callable[[], Sequence[str]]

    @property
    def recipe(self) -> str:
        """What it is made of, in few letters."""
        return sha256("\0".join(self.of()).encode()).hexdigest()[:16]

    @property
    def made(self) -> bool:
        """Whether all of it is there, of what it should be; older ones do not say of what."""
        there = all((home() / part).exists() for part in self.parts)
        return there and recipes().get(self.parts[0], self.recipe) == self.recipe


IN_UML, IN_QEMU = initramfs.RDMA + initramfs.COLLECTIVES, initramfs.RDMA + initramfs.MEMORY
STEPS: dict[str, tuple[BuildStep, ...]] = {
    "uml": (
        BuildStep("the programs", (ROOT,), lambda p: initramfs.build(p, IN_UML),
                  lambda: (*IN_UML, initramfs.APPLETS)),
        BuildStep("the kernel, seven minutes of a core", (UML_KERNEL,),
                  kernel.build, kernel.made_of),
    ),
    "qemu": (
        BuildStep("QEMU", (qemu.PROGRAM,), qemu.build, lambda: (qemu.PACKAGE,)),
        BuildStep("kernel and disk", (GUEST_DISK, GUEST_KERNEL, GUEST_INITRD),
             lambda p: disk.build(p, IN_QEMU), lambda: (*IN_QEMU, *disk.FIRST, disk.INIT)),
    ),
}  # fmt: skip
CURES = {
    "uml": "it traces its own processes (ptrace), which a container must allow; where it did boot "
    "before, say lab up uml --again",
    "qemu": "where it did boot before, say lab up qemu --again",
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
    steps = [(m, step) for m in wanted for step in STEPS[m] if again or not step.made]
    tools.require(list(dict.fromkeys(machine for machine, _ in steps)))
    packages = Packages(home() / "apt")
    if steps:
        packages.update()
    for machine, step in steps:
        tell(f"{machine}: building {step.what}")
        step.do(packages)
        stamp(step.parts[0], step.recipe)
    return wanted


def unbuilt() -> list[str]:
    """Machines of which a part is not built yet."""
    return [name for name, steps in STEPS.items() if not all(step.made for step in steps)]


def check(machine: str) -> str:
    """Boot it and have its RDMA driver do one write; what it said.

    Raises
    ------
    HardwareUnavailable
        It does not boot, or its driver does not work.
    """
    try:
        driver = booted(machine, "verbs")
        try:
            state = driver.probe()
        finally:
            driver.close()
    except DriverFault as fault:
        message = f"lab: {machine} does not boot: {fault.message}; {CURES[machine]}"
        raise DriverFault(fault.kind, message) from fault
    if isinstance(state, Missing):
        raise HardwareUnavailable(f"lab: {machine} boots, but {state.reason}; say lab up --again")
    facts = ", ".join(f"{k} {v}" for k, v in state.facts.items())
    return f"boots; {len(state.devices)} RDMA devices: {facts}"
