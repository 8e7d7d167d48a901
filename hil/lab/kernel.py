"""User-Mode Linux kernel, built from Debian's kernel source."""

from __future__ import annotations

import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from ...sim.errors import HardwareUnavailable
from .build_cache import UML_KERNEL, add_versions, lab_folder
from .debian import PackageDownloader, package_version, run_build_step

SOURCE = "linux-source-6.12"
XSTATE = "DEFINE_LONGS(HOST_FP_SIZE, 2696)", "DEFINE_LONGS(HOST_FP_SIZE, 12288)"
"""Patch: hosts with AMX save more than 2,696 bytes of FP registers, else init is killed."""
WANTED = ("CONFIG_RDMA_RXE=y", "CONFIG_UML_TIME_TRAVEL_SUPPORT=y", "CONFIG_KERNEL_STACK_ORDER=4")


def recipe_inputs() -> tuple[str, ...]:
    """Texts that determine the kernel build: source package, patch, configuration."""
    return (SOURCE, *XSTATE, (files(__package__) / "uml.config").read_text())


def build_kernel(packages: PackageDownloader) -> Path:
    """Build the User-Mode Linux kernel (about seven minutes on one core); returns its path.

    Raises
    ------
    HardwareUnavailable
        A step failed.
    """
    package = packages.fetch([SOURCE], depends=False)[0]
    work = lab_folder() / "kernel"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run_build_step(["dpkg-deb", "-x", str(package), str(work)], doing="unpacking the kernel source")
    run_build_step(
        ["tar", "xf", str(work / f"usr/src/{SOURCE}.tar.xz"), "-C", str(work)], doing="unpacking"
    )
    tree = work / SOURCE
    _apply_patch(tree / "arch/x86/um/user-offsets.c")
    _configure_kernel(tree)
    run_build_step(["nice", "make", "-s", f"-j{os.cpu_count()}", "ARCH=um", "linux"], cwd=tree,
        doing="building the kernel")  # fmt: skip
    built = lab_folder() / UML_KERNEL
    run_build_step(
        ["strip", "-s", "-o", str(built), str(tree / "linux")], doing="stripping the kernel"
    )
    add_versions({"uml": package_version(package)})
    shutil.rmtree(work)
    return built


def _apply_patch(file: Path) -> None:
    before, after = XSTATE
    text = file.read_text()
    if before not in text:
        raise HardwareUnavailable(
            f"lab: {file.name} of {SOURCE} has changed; adapt XSTATE in lab/kernel.py"
        )
    file.write_text(text.replace(before, after))


def _configure_kernel(tree: Path) -> None:
    arch = {"ARCH": "um"}
    run_build_step(["make", "tinyconfig"], cwd=tree, env=arch, doing="configuring the kernel")
    with as_file(files(__package__) / "uml.config") as fragment:
        merge = ["scripts/kconfig/merge_config.sh", "-m", "-O", ".", ".config", str(fragment)]
        run_build_step(merge, cwd=tree, env=arch, doing="configuring the kernel")
    run_build_step(["make", "olddefconfig"], cwd=tree, env=arch, doing="configuring the kernel")
    configured = (tree / ".config").read_text().splitlines()
    if lost := [line for line in WANTED if line not in configured]:
        raise HardwareUnavailable(
            f"lab: the kernel's configuration lacks {' '.join(lost)}; adapt lab/uml.config"
        )
