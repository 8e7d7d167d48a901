"""Programs, headers and keys needed to build the lab, each with its Debian package."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...sim.errors import HardwareUnavailable
from .debian import KEYRING

EVERY = {"dpkg-deb": "dpkg", KEYRING: "debian-archive-keyring"}
NEEDED: dict[str, Mapping[str, str]] = {  # program or file: the package that brings it
    "uml": {
        "make": "make", "gcc": "gcc", "/usr/include/stdio.h": "libc6-dev", "bc": "bc",
        "flex": "flex", "bison": "bison", "perl": "perl-base", "tar": "tar", "xz": "xz-utils",
    },
    "qemu": {"mke2fs": "e2fsprogs"},
}  # fmt: skip


def missing_packages(machines: Sequence[str]) -> list[str]:
    """Debian packages that are needed to build these machines and not installed.

    >>> set(missing_packages(["qemu"])) <= {"dpkg", "debian-archive-keyring", "e2fsprogs"}
    True
    """
    wanted = {**EVERY} if machines else {}
    for machine in machines:
        wanted |= NEEDED[machine]
    return list(
        dict.fromkeys(package for what, package in wanted.items() if not _is_installed(what))
    )


def require_packages(machines: Sequence[str]) -> None:
    """Check that all packages needed to build these machines are installed.

    Raises
    ------
    HardwareUnavailable
        A package is missing; the message has the command that installs it.
    """
    if machines and shutil.which("apt-get") is None:
        raise HardwareUnavailable(
            "lab: no apt-get here, and it is built from Debian packages; build it on Debian, or "
            "bind what was recorded in it: driver: recorded"
        )
    if missing := missing_packages(machines):
        raise HardwareUnavailable(
            f"lab: building {' and '.join(machines)} needs packages that are not installed; as "
            f"root: apt-get install {' '.join(missing)}"
        )


def _is_installed(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what) is not None
