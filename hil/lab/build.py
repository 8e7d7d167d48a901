"""Build the machines of the lab: run missing or outdated steps, and test that a machine boots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ...sim.errors import DriverFault, HardwareUnavailable
from ..driver import Missing
from . import disk, initramfs, kernel, qemu, tools
from .booted_agent import boot_driver
from .build_cache import (
    GUEST_DISK,
    GUEST_INITRD,
    GUEST_KERNEL,
    ROOT,
    UML_KERNEL,
    built_recipes,
    lab_folder,
    record_recipe,
)
from .debian import PackageDownloader


@dataclass(frozen=True)
class BuildStep:
    """Step in building a machine, with the files it produces and the inputs they depend on.

    Parameters
    ----------
    title : title for progress messages
    parts : names of the files that the step produces; the first one identifies the step
    run : function that builds the files in ``parts``
    inputs : function that returns the texts that determine the result; if one changes, the step
        runs again
    """

    title: str
    parts: tuple[str, ...]
    run: Callable[[PackageDownloader], object]
    inputs: Callable[[], Sequence[str]]

    @property
    def recipe(self) -> str:
        """Hash of the step's inputs."""
        return sha256("\0".join(self.inputs()).encode()).hexdigest()[:16]

    @property
    def is_built(self) -> bool:
        """True if all files of the step exist and were built from the current inputs.

        Files whose inputs were not recorded count as built.
        """
        there = all((lab_folder() / part).exists() for part in self.parts)
        return there and built_recipes().get(self.parts[0], self.recipe) == self.recipe


IN_UML, IN_QEMU = initramfs.RDMA + initramfs.COLLECTIVES, initramfs.RDMA + initramfs.MEMORY
STEPS: dict[str, tuple[BuildStep, ...]] = {
    "uml": (
        BuildStep("the programs", (ROOT,), lambda p: initramfs.build_root(p, IN_UML),
                  lambda: (*IN_UML, initramfs.APPLETS)),
        BuildStep("the kernel, seven minutes of a core", (UML_KERNEL,),
                  kernel.build_kernel, kernel.recipe_inputs),
    ),
    "qemu": (
        BuildStep("QEMU", (qemu.PROGRAM,), qemu.unpack_qemu, lambda: (qemu.PACKAGE,)),
        BuildStep("kernel and disk", (GUEST_DISK, GUEST_KERNEL, GUEST_INITRD),
             lambda p: disk.build_disk(p, IN_QEMU), lambda: (*IN_QEMU, *disk.FIRST, disk.INIT)),
    ),
}  # fmt: skip
CURES = {
    "uml": "it traces its own processes (ptrace), which a container must allow; where it did boot "
    "before, say lab up uml --again",
    "qemu": "where it did boot before, say lab up qemu --again",
}


def build_machines(
    machines: Sequence[str], again: bool, on_progress: Callable[[str], None]
) -> list[str]:
    """Run the missing or outdated build steps.

    Returns the names of the machines that are now built.

    Raises
    ------
    HardwareUnavailable
        A tool is missing, or a step failed.
    """
    wanted = list(machines) or list(STEPS)
    if unknown := [name for name in wanted if name not in STEPS]:
        raise DriverFault("missing", f"lab: no machine {unknown[0]!r}; one of {', '.join(STEPS)}")
    steps = [(m, step) for m in wanted for step in STEPS[m] if again or not step.is_built]
    tools.require_packages(list(dict.fromkeys(machine for machine, _ in steps)))
    packages = PackageDownloader(lab_folder() / "apt")
    if steps:
        packages.update()
    for machine, step in steps:
        on_progress(f"{machine}: building {step.title}")
        step.run(packages)
        record_recipe(step.parts[0], step.recipe)
    return wanted


def unbuilt_machines() -> list[str]:
    """Names of the machines that have a missing or outdated build step."""
    return [name for name, steps in STEPS.items() if not all(step.is_built for step in steps)]


def boot_test_report(machine: str) -> str:
    """Boot a machine and probe its RDMA driver; returns a report.

    Raises
    ------
    HardwareUnavailable
        The machine does not boot, or its driver does not work.
    """
    try:
        driver = boot_driver(machine, "verbs")
        try:
            state = driver.probe()
        finally:
            driver.close()
    except DriverFault as fault:
        message = f"lab: {machine} does not boot: {fault.message}; {CURES[machine]}"
        raise DriverFault(fault.kind, message) from fault
    if isinstance(state, Missing):
        raise HardwareUnavailable(
            f"lab: {machine} boots, but {state.reason}; run foretrace lab up --again"
        )
    facts = ", ".join(f"{k} {v}" for k, v in state.facts.items())
    return f"boots; {len(state.devices)} RDMA devices: {facts}"
